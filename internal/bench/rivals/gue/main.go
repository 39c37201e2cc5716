// Command gue measures gue through pgx, at its documented best: the strategy that
// takes jobs by the time when they are to run, and several workers.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"

	"github.com/sendonce/sendonce/internal/bench/child"
)

const workers = 16

// schema is gue's own, of its migrations folder.
const schema = `CREATE TABLE gue_jobs (job_id TEXT NOT NULL PRIMARY KEY, priority SMALLINT NOT NULL, run_at TIMESTAMPTZ NOT NULL,
job_type TEXT NOT NULL, args BYTEA NOT NULL, error_count INTEGER NOT NULL DEFAULT 0, last_error TEXT, queue TEXT NOT NULL,
created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL);
CREATE INDEX idx_gue_jobs_selector ON gue_jobs (queue, run_at, priority)`

func main() {
	job, err := child.ParseJob(os.Args[1])
	if err == nil {
		err = run(context.Background(), job)
	}
	if err != nil {
		child.Fail(err)
	}
}

func run(ctx context.Context, job child.Job) error {
	cfg, err := pgxpool.ParseConfig(job.DSN)
	if err != nil {
		return err
	}
	cfg.MaxConns = workers + 4
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schema); err != nil {
		return err
	}
	client, err := gue.NewClient(pgxv5.NewConnPool(pool))
	if err != nil {
		return err
	}
	if err := child.Connect(ctx, workers+4, pool.Acquire); err != nil {
		return err
	}
	var gate child.Gate
	if gate.Insert, err = insert(ctx, client, job.Rows); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE gue_jobs"); err != nil {
		return err
	}
	going, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	work := gue.WorkMap{"send": func(ctx context.Context, _ *gue.Job) error {
		if job.Send > 0 {
			time.Sleep(job.Send)
		}
		if done.Add(1) == int64(job.Rows) {
			stop()
		}
		return nil
	}}
	ws, err := gue.NewWorkerPool(client, work, workers, gue.WithPoolPollStrategy(gue.RunAtPollStrategy), gue.WithPoolPollInterval(20*time.Millisecond))
	if err != nil {
		return err
	}
	if err := gate.Start(); err != nil {
		return err
	}
	if err := ws.Run(going); err != nil { // it ends when the last job has been worked, and deletes it first
		return err
	}
	return gate.Finish(job.Rows, nil)
}

func insert(ctx context.Context, client *gue.Client, rows int) (time.Duration, error) {
	began := time.Now()
	for from := 0; from < rows; from += 1000 {
		var batch []*gue.Job
		for i := from; i < min(from+1000, rows); i++ {
			batch = append(batch, &gue.Job{Type: "send", Args: fmt.Appendf(nil, `"user%d@example.org"`, i)})
		}
		if err := client.EnqueueBatch(ctx, batch); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
