// Command skiplocked claims rows by SELECT ... FOR UPDATE SKIP LOCKED, on PostgreSQL,
// MySQL 8 or MariaDB 10.6:
//
//	go run -C examples ./skiplocked -driver postgres -dsn postgres://...
package main

import (
	"context"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demo"
)

func main() { demo.Exit(run(context.Background(), demo.ParseFlags())) }

func run(ctx context.Context, f demo.Flags) error {
	db, dialect, done, err := demo.Open(ctx, f)
	if err != nil {
		return err
	}
	defer done()
	return demo.Work(ctx, f, func(ctx context.Context) (sendonce.Claimer[demo.Mail], error) {
		return claim.NewSkipLocked[demo.Mail](ctx, db, dialect, demo.Table, nil)
	})
}
