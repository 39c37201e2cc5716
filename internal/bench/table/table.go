// Package table makes the tables that are worked on: the user's table, what
// claim.Schema adds to it, and the rows.
package table

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/bench/child"
	"github.com/sendonce/sendonce/lock/sqllock"
)

// Name of the table.
const Name = "receivers"

// Mapping is how claim sees it.
var Mapping = claim.Table{Name: Name}

// Receiver is what of a row is sent.
type Receiver struct {
	Address string `db:"address"`
}

// Kind is the database that a DSN, or the name of a driver, is of.
func Kind(dsn string) claim.Dialect {
	switch {
	case strings.HasPrefix(dsn, "postgres"), dsn == "pgx":
		return claim.Postgres
	case strings.HasPrefix(dsn, "file:"), dsn == "sqlite":
		return claim.SQLite
	}
	return claim.MySQL
}

// Driver is the database/sql driver of a DSN.
func Driver(dsn string) string {
	return map[claim.Dialect]string{claim.Postgres: "pgx", claim.MySQL: "mysql", claim.SQLite: "sqlite"}[Kind(dsn)]
}

// SQLiteDSN is that of a file. WAL and FULL: each commit is on the disk.
func SQLiteDSN(path string) string {
	return "file:" + path + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
}

// Open connects. The connections of idle moments are kept.
func Open(ctx context.Context, dsn string) (*sqlx.DB, error) {
	db, err := sqlx.ConnectContext(ctx, Driver(dsn), dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(64)
	if Kind(dsn) == claim.SQLite {
		db.SetMaxOpenConns(1) // as the documentation advises
	}
	return db, nil
}

// Connect is child.Connect for a pool of database/sql.
func Connect(ctx context.Context, db *sqlx.DB, n int) error {
	if Kind(db.DriverName()) == claim.SQLite {
		return nil // it has one
	}
	return child.Connect(ctx, n, func(ctx context.Context) (conn, error) {
		c, err := db.Conn(ctx)
		return conn{c}, err
	})
}

type conn struct{ *sql.Conn }

func (c conn) Release() { _ = c.Close() }

// Insert adds the rows from one number to another.
func Insert(ctx context.Context, db *sqlx.DB, from, to int) error {
	_, err := db.ExecContext(ctx, rows(Kind(db.DriverName()), from, to))
	return err
}

// Create makes the table anew, with some rows that are done and n that are not,
// analysed and flushed.
func Create(ctx context.Context, dsn, layout string, done, n int) error {
	db, err := Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	d := Kind(dsn)
	ddl, err := statements(d, layout)
	if err != nil {
		return err
	}
	for _, s := range append(ddl, finish(d, done, n)...) {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return sqllock.Migrate(ctx, db.DB, map[claim.Dialect]sqllock.Dialect{
		claim.Postgres: sqllock.Postgres, claim.MySQL: sqllock.MySQL, claim.SQLite: sqllock.SQLite,
	}[d], nil)
}

func statements(d claim.Dialect, layout string) ([]string, error) {
	create := "CREATE TABLE receivers (id bigint PRIMARY KEY, address varchar(100) NOT NULL)"
	if d == claim.SQLite {
		create = "CREATE TABLE receivers (id INTEGER PRIMARY KEY, address TEXT NOT NULL)"
	}
	schema, err := claim.Schema(d, Mapping, nil)
	if err != nil {
		return nil, err
	}
	switch layout {
	case "", "schema":
	case "ff100", "ff33":
		schema = append(schema, "ALTER TABLE receivers SET (fillfactor = "+layout[2:]+")")
	case "lease": // for the loop that keeps a lease in each row
		schema = append(schema, "ALTER TABLE receivers ADD COLUMN lease_until timestamptz",
			"CREATE INDEX receivers_pending ON receivers (id) WHERE status = 0", "CREATE INDEX receivers_leased ON receivers (lease_until) WHERE status = 1")
	case "partial": // as a table that was there before may be
		schema = append(schema, "CREATE INDEX receivers_pending ON receivers (id) WHERE status = 0", "ALTER TABLE receivers SET (fillfactor = 100)")
	default:
		return nil, fmt.Errorf("there is no layout %q", layout)
	}
	stmts := []string{"DROP TABLE IF EXISTS receivers", "DROP TABLE IF EXISTS sendonce_claims", "DROP TABLE IF EXISTS sendonce_locks", create}
	return append(stmts, schema...), nil
}

// finish loads the rows and brings the table to rest.
func finish(d claim.Dialect, done, n int) []string {
	stmts := []string{rows(d, 1, done+n)}
	if done > 0 {
		stmts = []string{rows(d, 1, done), "UPDATE receivers SET status = 3, attempts = 1", rows(d, done+1, done+n)}
	}
	return append(stmts, map[claim.Dialect][]string{
		claim.Postgres: {"VACUUM ANALYZE receivers", "CHECKPOINT"}, claim.MySQL: {"ANALYZE TABLE receivers"},
		claim.SQLite: {"ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"},
	}[d]...)
}

// rows inserts rows by their numbers.
func rows(d claim.Dialect, from, to int) string {
	switch d {
	case claim.Postgres:
		return fmt.Sprintf("INSERT INTO receivers (id, address) SELECT i, 'user' || i || '@example.org' FROM generate_series(%d, %d) i", from, to)
	case claim.MySQL:
		return fmt.Sprintf("INSERT INTO receivers (id, address) SELECT seq, CONCAT('user', seq, '@example.org') FROM seq_%d_to_%d", from, to)
	}
	return fmt.Sprintf("WITH RECURSIVE s(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM s WHERE i < %d) "+
		"INSERT INTO receivers (id, address) SELECT i, 'user' || i || '@example.org' FROM s", from, to)
}

// CheckDone says what is wrong if not all n rows are done, each with so many
// attempts at most.
func CheckDone(ctx context.Context, dsn string, n, attempts int) error {
	db, err := Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	var got struct {
		Done, Most int
	}
	err = db.GetContext(ctx, &got, "SELECT COUNT(*) AS done, COALESCE(MAX(attempts), 0) AS most FROM receivers WHERE status = 3")
	if err == nil && (got.Done != n || got.Most > attempts) {
		err = fmt.Errorf("%d of %d rows are done, with up to %d attempts", got.Done, n, got.Most)
	}
	return err
}

// Quiet keeps the MySQL driver from writing about connections that a server of
// ours ends.
func Quiet() { _ = mysql.SetLogger(quiet{}) }

type quiet struct{}

// Print drops it.
func (quiet) Print(...any) {}
