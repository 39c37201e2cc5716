package unique_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/sender/unique"
)

// deliver stands for the code that sends.
func deliver(_ context.Context, m sendonce.Item[string]) error {
	fmt.Println("sent to", m.Value)
	return nil
}

func receiver(m sendonce.Item[string]) string { return m.Value }

// drain sends all rows of a table, and prints what became of the others.
func drain(rows *memclaim.Claimer[string], s sendonce.Sender[string]) {
	d, err := sendonce.New[string](rows, s, sendonce.Config{Concurrency: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := d.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	for _, r := range rows.Rows() {
		if r.Status == memclaim.Skipped {
			fmt.Printf("row %v was skipped: %.47s\n", r.Key, r.Reason)
		}
	}
}

// No receiver gets a second message within the hour.
func ExampleNew() {
	rows := memclaim.New[string](nil)
	_ = rows.Add(
		memclaim.Row[string]{Key: 1, Value: "ann@example.com"},
		memclaim.Row[string]{Key: 2, Value: "bob@example.com"},
		memclaim.Row[string]{Key: 3, Value: "ann@example.com"},
	)
	once, err := unique.New[string](sendonce.SenderFunc[string](deliver), unique.NewMemory(), unique.Options[string]{
		Key: receiver, For: time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	drain(rows, once)
	// Output:
	// sent to ann@example.com
	// sent to bob@example.com
	// row 3 was skipped: unique key "ann@example.com" is taken by row 1,
}

// What ShouldBeUnique does: a second row is refused before its INSERT, until the
// first one is done, dead or gone.
func ExampleSender_Reserve() {
	ctx := context.Background()
	rows := memclaim.New[string](nil)
	once, err := unique.New[string](sendonce.SenderFunc[string](deliver), unique.NewMemory(), unique.Options[string]{
		Key: receiver, For: time.Hour, Scope: unique.UntilDone, Alive: rows.Alive,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	enqueue := func(key int, address string) {
		var taken *unique.TakenError
		if err := once.Reserve(ctx, address, key); errors.As(err, &taken) {
			fmt.Println("row", key, "is refused: row", taken.Row, "has the key,", taken.How)
			return
		}
		_ = rows.Add(memclaim.Row[string]{Key: key, Value: address})
	}
	enqueue(1, "ann@example.com")
	enqueue(2, "ann@example.com")
	drain(rows, once)
	enqueue(3, "ann@example.com")
	drain(rows, once)
	// Output:
	// row 2 is refused: row 1 has the key, reserved
	// sent to ann@example.com
	// sent to ann@example.com
}

// What ShouldBeUniqueUntilProcessing does: a second row is taken as soon as the first
// one's send begins.
func ExampleSender_Reserve_untilBegin() {
	ctx := context.Background()
	rows := memclaim.New[string](nil)
	var once *unique.Sender[string]
	send := func(ctx context.Context, m sendonce.Item[string]) error {
		fmt.Println("row", m.Key, "is sent; row 2:", once.Reserve(ctx, m.Value, 2))
		return nil
	}
	var err error
	once, err = unique.New[string](sendonce.SenderFunc[string](send), unique.NewMemory(), unique.Options[string]{
		Key: receiver, For: time.Hour, Scope: unique.UntilBegin, Alive: rows.Alive,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("row 1:", once.Reserve(ctx, "ann@example.com", 1))
	_ = rows.Add(memclaim.Row[string]{Key: 1, Value: "ann@example.com"})
	fmt.Println("row 2 is refused:", errors.Is(once.Reserve(ctx, "ann@example.com", 2), unique.ErrTaken))
	drain(rows, once)
	// Output:
	// row 1: <nil>
	// row 2 is refused: true
	// row 1 is sent; row 2: <nil>
}

// What WithoutOverlapping does: rows with one key are sent one after the other, and
// wait without being charged.
func ExampleOptions_withoutOverlapping() {
	rows := memclaim.New[string](nil)
	for key := range 3 {
		_ = rows.Add(memclaim.Row[string]{Key: key, Value: "ann@example.com"})
	}
	busy := false
	send := func(context.Context, sendonce.Item[string]) error {
		fmt.Println("alone:", !busy)
		busy = true
		time.Sleep(5 * time.Millisecond)
		busy = false
		return nil
	}
	apart, err := unique.New[string](sendonce.SenderFunc[string](send), unique.NewMemory(), unique.Options[string]{
		Key: receiver, Scope: unique.UntilDone,
		Conflict: unique.Wait, WaitFor: 10 * time.Millisecond, // releaseAfter; Skip is dontRelease
		Lease: 5 * time.Second, // and no expireAfter: it is renewed while the send runs
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := sendonce.New[string](rows, apart, sendonce.Config{Concurrency: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = d.Drain(context.Background())
	fmt.Println(err)
	for _, r := range rows.Rows() {
		fmt.Println(r.Status, r.Attempts)
	}
	// Output:
	// alone: true
	// alone: true
	// alone: true
	// <nil>
	// done 1
	// done 1
	// done 1
}
