package contender

import (
	"context"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/internal/bench/child"
)

func inMemory(job child.Job) (*memclaim.Claimer[receiver], error) {
	rows := memclaim.New[receiver](&memclaim.Options{ForgetDone: true})
	for i := range job.Rows {
		if err := rows.Add(memclaim.Row[receiver]{Key: i}); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// runMemory measures the loop and a store in memory.
func runMemory(ctx context.Context, job child.Job) error {
	rows, err := inMemory(job)
	if err != nil {
		return err
	}
	var gate child.Gate
	r, err := newRun(job, []sendonce.Claimer[receiver]{rows}, &gate)
	if err != nil {
		return err
	}
	if err := gate.Start(); err != nil {
		return err
	}
	defer profile(job.Profile)()
	if err := r.work(ctx); err != nil {
		return err
	}
	return gate.Finish(job.Rows, nil)
}

// runBare measures what of that is the store's.
func runBare(ctx context.Context, job child.Job) error {
	rows, err := inMemory(job)
	if err != nil {
		return err
	}
	var gate child.Gate
	if err := gate.Start(); err != nil {
		return err
	}
	req := sendonce.ClaimRequest{Limit: job.Batch, Lease: time.Minute, MaxAttempts: 4}
	for {
		b, err := rows.Claim(ctx, req)
		if err != nil {
			return err
		}
		if len(b.Items) == 0 {
			return gate.Finish(job.Rows, nil)
		}
		results := make([]sendonce.Result, len(b.Items))
		for i, m := range b.Items {
			results[i] = sendonce.Result{Key: m.Key, Token: b.Token, Outcome: sendonce.Done}
		}
		if _, err := rows.Settle(ctx, results); err != nil {
			return err
		}
		if err := rows.End(ctx, []int64{b.Token}); err != nil {
			return err
		}
	}
}
