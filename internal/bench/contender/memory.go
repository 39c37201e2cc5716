package contender

import (
	"context"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/internal/bench/child"
)

// runMemory measures the loop itself: its store is in memory.
func runMemory(ctx context.Context, job child.Job) error {
	rows := memclaim.New[receiver](&memclaim.Options{ForgetDone: true})
	for i := range job.Rows {
		if err := rows.Add(memclaim.Row[receiver]{Key: i}); err != nil {
			return err
		}
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
