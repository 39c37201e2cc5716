// Command asynq measures asynq on a Redis that is flushed to the disk each
// second.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/sendonce/sendonce/internal/bench/child"
)

const concurrency = 64

func main() {
	job, err := child.ParseJob(os.Args[1])
	if err == nil {
		err = run(job)
	}
	if err != nil {
		child.Fail(err)
	}
}

func run(job child.Job) error {
	redis := asynq.RedisClientOpt{Addr: job.Redis, PoolSize: concurrency + 16}
	var gate child.Gate
	var err error
	if gate.Insert, err = insert(redis, job.Rows); err != nil {
		return err
	}
	server := asynq.NewServer(redis, asynq.Config{Concurrency: concurrency, LogLevel: asynq.FatalLevel})
	var done atomic.Int64
	over := make(chan struct{})
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if job.Send > 0 {
			time.Sleep(job.Send)
		}
		if done.Add(1) == int64(job.Rows) {
			close(over)
		}
		return nil
	})
	if err := gate.Start(); err != nil {
		return err
	}
	if err := server.Start(handler); err != nil {
		return err
	}
	<-over
	gate.Done()
	server.Shutdown()
	return gate.Finish(job.Rows, nil)
}

// insert has one call per task, for want of another, so it uses many goroutines.
func insert(redis asynq.RedisClientOpt, rows int) (time.Duration, error) {
	began := time.Now()
	client := asynq.NewClient(redis)
	defer client.Close()
	var next atomic.Int64
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() {
			for {
				i := next.Add(1)
				if i > int64(rows) {
					errs <- nil
					return
				}
				task := asynq.NewTask("send", fmt.Appendf(nil, `"user%d@example.org"`, i))
				if _, err := client.Enqueue(task, asynq.MaxRetry(5)); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
