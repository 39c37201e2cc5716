package sender_test

import (
	"context"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/sender"
)

// Ten sends in a second, however many processes there are.
func ExampleNewRateLimit() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	limit, err := sender.NewRateLimit(rdb, "mail:limit", sender.RateLimitOptions{Events: 10, Per: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	deliver := sendonce.SenderFunc[string](func(context.Context, sendonce.Item[string]) error { return nil })
	d, err := sendonce.New(memclaim.New[string](nil), deliver, sendonce.Config{Limiter: limit})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(context.Background()); err != nil {
		log.Print(err)
	}
}
