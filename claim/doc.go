// Package claim has the claim strategies for tables of PostgreSQL,
// MySQL/MariaDB and SQLite.
package claim
