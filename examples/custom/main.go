// Command custom dispatches by a strategy of its own: a slice in memory, in
// queue.go. It shows what a strategy for a store of yours is made of.
//
//	go run -C examples ./custom
//
// # How to write a strategy
//
// Implement [sendonce.Claimer]. Its comments are the contract, and the reasons
// are in docs/semantics.md. What matters:
//
//   - Claim marks a row with the claim's token and counts the attempt in one
//     transaction, and only rows that are pending at that moment. Nothing is held
//     open afterwards.
//   - Settle goes by the token. That a row was sent is a fact, written as long as
//     the token stands; everything else is an opinion, written only while the row
//     is claimed by it. A repeated Settle changes nothing and reports nothing:
//     the reply to the first may be lost.
//   - Extend names the claims that are gone.
//   - Nothing retries, sleeps, logs or guesses: an error says that the outcome is
//     not known, and the Dispatcher calls again.
//
// Then implement what your store can do besides:
//
//   - [sendonce.Counter], if you want Drain.
//   - [sendonce.Reaper], if rows outlive their workers: a row whose worker died
//     comes back in no other way. A claim then needs a record with its lease, and
//     Reap must see with its own eyes that nobody extends it (section 4). Here
//     the rows are gone when the process is, so there is none; but a send that
//     never returns keeps its row for good.
//   - [sendonce.Ender], if claims have a record of their own that must go.
//   - [sendonce.Beginner], if you want AtMostOnce.
//
// And run the suite of package claimtest over it: queue_test.go is all that it
// takes. What your store doesn't promise is said in claimtest.Caps, where whoever
// chooses it can read it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "custom:", err)
		os.Exit(1)
	}
}

// run has three dispatchers share a queue.
func run(ctx context.Context, out io.Writer) error {
	const rows, workers = 300, 3
	var q Queue
	for i := range rows {
		q.Add(Mail{Address: fmt.Sprintf("a%d@example.org", i)})
	}
	var sent [rows]atomic.Int64
	deliver := func(_ context.Context, m sendonce.Item[Mail]) error {
		key := m.Key.(int64)
		if m.Attempt == 1 && key%20 == 0 {
			return errors.New("the provider is busy")
		}
		sent[key].Add(1)
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		wg.Go(func() {
			d, err := sendonce.New[Mail](&q, sendonce.SenderFunc[Mail](deliver), sendonce.Config{
				BatchSize: 20,
				Backoff:   func(int) time.Duration { return 20 * time.Millisecond },
			})
			if err == nil {
				_, err = d.Drain(ctx)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	var once int
	for i := range sent {
		if sent[i].Load() == 1 {
			once++
		}
	}
	fmt.Fprintf(out, "%d rows of %d sent once\n", once, rows)
	if once != rows {
		errs = append(errs, fmt.Errorf("%d rows were not sent once", rows-once))
	}
	return errors.Join(errs...)
}
