package redisclaim_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/redisclaim"
)

// Event is what a shop tells others about an order.
type Event struct {
	Order string
	What  string
}

// Events of one order are sent one after the other, in the order in which they were
// added, by any number of processes that run this.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	events, err := redisclaim.New[Event](ctx, rdb, "events", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, what := range []string{"paid", "packed", "sent"} {
		if _, err := events.Add(ctx, redisclaim.Item[Event]{Key: "4711", Value: Event{"4711", what}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	sender := sendonce.SenderFunc[Event](func(_ context.Context, it sendonce.Item[Event]) error {
		// A receiver that keeps the largest Fence of each order refuses smaller ones.
		fmt.Println(it.Value.Order, it.Value.What, it.Fence, it.IdempotencyKey)
		return nil
	})
	d, err := sendonce.New(events, sender, sendonce.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
}
