package contender

import (
	"context"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/bench/child"
	"github.com/sendonce/sendonce/internal/bench/table"
)

func request(job child.Job) sendonce.ClaimRequest {
	return sendonce.ClaimRequest{Limit: job.Batch, Lease: time.Minute, MaxAttempts: 5, Owner: "bench"}
}

// runFirst measures what a new process does until it has its first rows.
func runFirst(ctx context.Context, job child.Job) error {
	db, err := table.Open(ctx, job.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	var gate child.Gate
	if err := gate.Start(); err != nil {
		return err
	}
	c, err := newClaimer(ctx, db, job, 0)
	if err != nil {
		return err
	}
	for n := 0; n == 0; {
		b, err := c.Claim(ctx, request(job))
		if err != nil {
			return err
		}
		n = len(b.Items)
	}
	return gate.Finish(1, nil)
}

// renewals is how often runRenew renews: enough to be seen on a clock of 10 ms.
const renewals = 200

// runRenew measures the renewal of all rows, in flight at once. A renewal counts
// as a row.
func runRenew(ctx context.Context, job child.Job) error {
	db, err := table.Open(ctx, job.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := newClaimer(ctx, db, job, 0)
	if err != nil {
		return err
	}
	var tokens []int64
	for n := 0; n < job.Rows; {
		b, err := c.Claim(ctx, request(job))
		if err != nil {
			return err
		}
		if n += len(b.Items); len(b.Items) > 0 {
			tokens = append(tokens, b.Token)
		}
	}
	var gate child.Gate
	if err := gate.Start(); err != nil {
		return err
	}
	for range renewals {
		if _, err := c.Extend(ctx, tokens); err != nil {
			return err
		}
	}
	return gate.Finish(renewals, nil)
}
