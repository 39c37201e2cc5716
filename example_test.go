package sendonce_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// A campaign: every row once, then the end. In a service the rows are in a table
// of yours, and package claim makes the Claimer.
func ExampleDispatcher_Drain() {
	rows := memclaim.New[string](nil)
	for i, address := range []string{"ann@example.org", "bob@example.org", "no mailbox"} {
		if err := rows.Add(memclaim.Row[string]{Key: i + 1, Value: address}); err != nil {
			log.Fatal(err)
		}
	}
	deliver := func(_ context.Context, m sendonce.Item[string]) error {
		if m.Value == "no mailbox" {
			return sendonce.Permanent(errors.New("not an address"))
		}
		return nil
	}
	d, err := sendonce.New(rows, sendonce.SenderFunc[string](deliver), sendonce.Config{})
	if err != nil {
		log.Fatal(err)
	}
	stats, err := d.Drain(context.Background())
	fmt.Println(stats.Sent, "sent,", stats.Dead, "put aside,", err)
	// Output: 2 sent, 1 put aside, <nil>
}

// A service: until its context ends.
func ExampleDispatcher_Run() {
	rows := memclaim.New[string](nil)
	wake := make(chan struct{}, 1)
	sent := make(chan string)
	deliver := func(_ context.Context, m sendonce.Item[string]) error {
		sent <- m.Value
		return nil
	}
	d, err := sendonce.New(rows, sendonce.SenderFunc[string](deliver), sendonce.Config{Wake: wake})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()

	if err := rows.Add(memclaim.Row[string]{Key: "order-1", Value: "a late order"}); err != nil {
		log.Fatal(err)
	}
	wake <- struct{}{}
	fmt.Println(<-sent)
	stop() // SIGTERM, in a service: signal.NotifyContext
	fmt.Println(<-ended)
	// Output:
	// a late order
	// <nil>
}

// A provider that takes many messages in one call, and answers each.
func ExampleBatchSenderFunc() {
	rows := memclaim.New[string](nil)
	for i := range 10 {
		if err := rows.Add(memclaim.Row[string]{Key: i, Value: fmt.Sprint("message ", i)}); err != nil {
			log.Fatal(err)
		}
	}
	bulk := func(_ context.Context, items []sendonce.Item[string]) error {
		answers := make(sendonce.ItemErrors, len(items))
		for i, m := range items {
			if m.Key == int64(3) && m.Attempt == 1 {
				answers[i] = sendonce.NotSent(errors.New("try again"))
			}
		}
		return answers
	}
	d, err := sendonce.New(rows, sendonce.BatchSenderFunc[string](bulk), sendonce.Config{
		GroupSize: 5,
		Backoff:   func(int) time.Duration { return 10 * time.Millisecond },
	})
	if err != nil {
		log.Fatal(err)
	}
	stats, err := d.Drain(context.Background())
	fmt.Println(stats.Sent, "sent,", stats.Retried, "after a retry,", err)
	// Output: 10 sent, 1 after a retry, <nil>
}
