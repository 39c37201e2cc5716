package memclaim_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// A worker by hand. A Dispatcher does the same, and all that can go wrong.
func Example() {
	ctx := context.Background()
	rows := memclaim.New[string](nil)
	if err := rows.Add(
		memclaim.Row[string]{Key: 1, Value: "ann@example.com"},
		memclaim.Row[string]{Key: 2, Value: "bob@example.com"},
	); err != nil {
		fmt.Println(err)
		return
	}

	batch, err := rows.Claim(ctx, sendonce.ClaimRequest{Limit: 10, Lease: time.Minute, MaxAttempts: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	var results []sendonce.Result
	for _, item := range batch.Items {
		fmt.Println("send to", item.Value, "attempt", item.Attempt)
		results = append(results, sendonce.Result{Key: item.Key, Token: batch.Token, Outcome: sendonce.Done})
	}
	if _, err := rows.Settle(ctx, results); err != nil {
		fmt.Println(err)
		return
	}
	_ = rows.End(ctx, []int64{batch.Token})

	counts, _ := rows.Counts(ctx)
	fmt.Println(counts.Done, "done,", counts.Left(), "left")
	// Output:
	// send to ann@example.com attempt 1
	// send to bob@example.com attempt 1
	// 2 done, 0 left
}
