// Command redislock lets workers take turns to claim, by a lock in Redis; the
// rows are in SQLite unless it is given another database:
//
//	go run -C examples ./redislock -redis redis://127.0.0.1:6379/0
package main

import (
	"context"
	"flag"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/cli"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/lock/redislock"
)

func main() {
	address := flag.String("redis", "redis://127.0.0.1:6379/0", "where Redis is")
	demo.Main("redislock", func(ctx context.Context, f demo.Flags) error { return run(ctx, f, *address) })
}

func run(ctx context.Context, f demo.Flags, address string) error {
	client, err := cli.ConnectRedis(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	locker, err := redislock.New(client, nil)
	if err != nil {
		return err
	}
	db, dialect, done, err := demo.Open(ctx, &f)
	if err != nil {
		return err
	}
	defer done()
	return demo.Work(ctx, f, func(ctx context.Context) (sendonce.Claimer[demo.Mail], error) {
		return claim.NewLocked[demo.Mail](ctx, db, dialect, demo.Table, locker, nil)
	})
}
