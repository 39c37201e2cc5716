// Command river measures River at its documented best: rows inserted by COPY, a
// short fetch cooldown, many workers, and its batch completer.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/sendonce/sendonce/internal/bench/child"
)

type args struct {
	Address string `json:"address"`
}

func (args) Kind() string { return "send" }

type worker struct {
	river.WorkerDefaults[args]
	send time.Duration
}

func (w *worker) Work(ctx context.Context, _ *river.Job[args]) error {
	if w.send == 0 {
		return nil
	}
	t := time.NewTimer(w.send)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
	pool, err := pgxpool.New(ctx, job.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{send: job.Send})
	client, err := river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Workers: workers, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	if err := child.Connect(ctx, int(pool.Config().MaxConns), pool.Acquire); err != nil {
		return err
	}
	var gate child.Gate
	if gate.Insert, err = insert(ctx, client, job.Rows); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return err
	}
	done, cancel := client.Subscribe(river.EventKindJobCompleted)
	defer cancel()
	if err := gate.Start(); err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	if err := wait(ctx, pool, done, job.Rows); err != nil {
		return err
	}
	gate.Done()
	if err := client.Stop(ctx); err != nil {
		return err
	}
	return gate.Finish(job.Rows, nil)
}

func insert(ctx context.Context, client *river.Client[pgx.Tx], rows int) (time.Duration, error) {
	began := time.Now()
	for from := 0; from < rows; from += 10000 {
		var batch []river.InsertManyParams
		for i := from; i < min(from+10000, rows); i++ {
			batch = append(batch, river.InsertManyParams{Args: args{fmt.Sprintf("user%d@example.org", i)}})
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// wait counts completions as they are told, and asks the table when they should
// be all: the subscription drops what comes too fast.
func wait(ctx context.Context, pool *pgxpool.Pool, done <-chan *river.Event, rows int) error {
	var told atomic.Int64
	go func() {
		for range done {
			told.Add(1)
		}
	}()
	for quiet, last := 0, int64(-1); ; {
		n := told.Load()
		if n == last {
			quiet++
		} else {
			quiet, last = 0, n
		}
		if n >= int64(rows) || quiet >= 20 {
			var left int
			if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state <> 'completed'").Scan(&left); err != nil {
				return err
			}
			if left == 0 {
				return nil
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}
