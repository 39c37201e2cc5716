// Command skiplocked claims rows by SELECT ... FOR UPDATE SKIP LOCKED, on PostgreSQL,
// MySQL 8 or MariaDB 10.6:
//
//	go run -C examples ./skiplocked -driver postgres -dsn postgres://...
package main

import (
	"context"
	"errors"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demo"
)

func main() { demo.Main("skiplocked", run) }

func run(ctx context.Context, f demo.Flags) error {
	// NewSkipLocked would refuse it too, but the table would be made by then.
	if f.Driver == "sqlite" {
		return errors.New("SQLite has no SKIP LOCKED: give -driver postgres or mysql, with -dsn, or run ./atomic")
	}
	db, dialect, done, err := demo.Open(ctx, &f)
	if err != nil {
		return err
	}
	defer done()
	return demo.Work(ctx, f, func(ctx context.Context) (sendonce.Claimer[demo.Mail], error) {
		return claim.NewSkipLocked[demo.Mail](ctx, db, dialect, demo.Table, nil)
	})
}
