package rediswake_test

import (
	"context"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/claim/rediswake"
)

func ExampleListen() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	ctx := context.Background()
	l, err := rediswake.Listen(ctx, rdb, "receivers", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	deliver := sendonce.SenderFunc[string](func(context.Context, sendonce.Item[string]) error { return nil })
	d, err := sendonce.New(memclaim.New[string](nil), deliver, sendonce.Config{Wake: l.C, PollInterval: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		log.Print(err)
	}
}
