// Command redislock lets workers take turns to claim, by a lock in Redis; the
// rows are in SQLite unless it is given another database:
//
//	go run -C examples ./redislock -redis redis://127.0.0.1:6379/0
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/lock/redislock"
)

func main() {
	url := flag.String("redis", "redis://127.0.0.1:6379/0", "where Redis is")
	demo.Exit(run(context.Background(), demo.ParseFlags(), *url))
}

func run(ctx context.Context, f demo.Flags, url string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("no Redis at %s: %w", url, err)
	}
	locker, err := redislock.New(client, nil)
	if err != nil {
		return err
	}
	db, dialect, done, err := demo.Open(ctx, f)
	if err != nil {
		return err
	}
	defer done()
	return demo.Work(ctx, f, func(ctx context.Context) (sendonce.Claimer[demo.Mail], error) {
		return claim.NewLocked[demo.Mail](ctx, db, dialect, demo.Table, locker, nil)
	})
}
