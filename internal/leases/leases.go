// Package leases is how the table of package sqllock is read, in statements of that
// package and of others.
package leases

import (
	"github.com/sendonce/sendonce/internal/dialect"
	"github.com/sendonce/sendonce/internal/kit"
	"github.com/sendonce/sendonce/lock"
)

// Verify is a query that finds a row if a lease is the last one of its lock, and
// keeps others from taking the lock until the transaction ends. The table's name
// is quoted. Its arguments are those of Args.
func Verify(d dialect.Dialect, table string) string {
	return "SELECT 1 FROM " + table + " WHERE name = " + d.Str(":name") + " AND token = " + d.Str(":token") +
		" AND fence = " + d.Int(":fence") + d.ForShare()
}

// Args are the arguments of Verify.
func Args(le lock.Lease) dialect.Args {
	return dialect.Args{"name": kit.Escape(le.Key, ""), "token": string(le.Token), "fence": le.Fence}
}
