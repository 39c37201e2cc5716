// Command redislock lets workers take turns to claim, by a lock in Redis; the
// rows are in SQLite unless it is given another database:
//
//	go run -C examples ./redislock -redis redis://127.0.0.1:6379/0
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/lock/redislock"
)

func main() {
	address := flag.String("redis", "redis://127.0.0.1:6379/0", "where Redis is")
	demo.Main("redislock", func(ctx context.Context, f demo.Flags) error { return run(ctx, f, *address) })
}

func run(ctx context.Context, f demo.Flags, address string) error {
	client, err := connect(ctx, address)
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

func connect(ctx context.Context, address string) (*redis.Client, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		// The whole URL may hold a password.
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return nil, fmt.Errorf("-redis is not understood: %w: give it as in redis://user:password@host:6379/0", err)
	}
	redis.SetLogger(quiet{})
	client := redis.NewClient(options)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("cannot reach Redis: %w: start the server, or correct -redis, as in redis://user:password@host:6379/0", err)
	}
	return client, nil
}

// quiet drops what the client logs: it also returns it.
type quiet struct{}

// Printf drops its arguments.
func (quiet) Printf(context.Context, string, ...any) {}
