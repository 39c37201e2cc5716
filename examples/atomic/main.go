// Command atomic claims rows by a conditional UPDATE, on SQLite unless it is given
// another database:
//
//	go run -C examples ./atomic
//	go run -C examples ./atomic -driver postgres -dsn postgres://...
package main

import (
	"context"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demo"
)

func main() { demo.Main("atomic", run) }

func run(ctx context.Context, f demo.Flags) error {
	db, dialect, done, err := demo.Open(ctx, &f)
	if err != nil {
		return err
	}
	defer done()
	return demo.Work(ctx, f, func(ctx context.Context) (sendonce.Claimer[demo.Mail], error) {
		return claim.NewAtomic[demo.Mail](ctx, db, dialect, demo.Table, nil)
	})
}
