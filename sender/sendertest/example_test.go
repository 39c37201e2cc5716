package sendertest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/sender/sendertest"
)

// The Recorder stands where your Sender would, or around it.
func ExampleRecorder() {
	flaky := sendonce.SenderFunc[string](func(_ context.Context, item sendonce.Item[string]) error {
		if item.Attempt == 1 {
			return errors.New("try later")
		}
		return nil
	})
	rec := sendertest.New[string](flaky)

	// A Dispatcher makes these calls.
	for attempt := range 2 {
		_ = rec.Send(context.Background(), []sendonce.Item[string]{{Key: int64(7), Attempt: attempt + 1}})
	}

	for _, s := range rec.Sends(7) {
		fmt.Println("attempt", s.Attempt, "answer:", s.Err)
	}
	fmt.Println("more than once:", len(rec.MoreThanOnce()), "missing:", rec.Missing([]sendonce.Key{7, 8}))
	// Output:
	// attempt 1 answer: try later
	// attempt 2 answer: <nil>
	// more than once: 0 missing: [8]
}
