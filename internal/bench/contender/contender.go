// Package contender runs the library's strategies through its public API, as a
// user would, and measures itself.
package contender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/bench/child"
	"github.com/sendonce/sendonce/internal/bench/limit"
	"github.com/sendonce/sendonce/internal/bench/table"
	"github.com/sendonce/sendonce/lock/redislock"
	"github.com/sendonce/sendonce/partition"
)

type receiver = table.Receiver

// Run is the main function of the child process.
func Run(ctx context.Context, job child.Job) error {
	table.Quiet()
	if strings.HasPrefix(job.Contender, "limit-") {
		return limit.Run(ctx, job)
	}
	switch job.Contender {
	case "memory":
		return runMemory(ctx, job)
	case "bare":
		return runBare(ctx, job)
	case "first":
		return runFirst(ctx, job)
	case "renew":
		return runRenew(ctx, job)
	}
	db, err := table.Open(ctx, job.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	claimers := make([]sendonce.Claimer[receiver], job.Workers)
	for k := range claimers {
		if claimers[k], err = newClaimer(ctx, db, job, k); err != nil {
			return err
		}
	}
	// As many statements does a Dispatcher have at once.
	if err := table.Connect(ctx, db, 6*job.Workers); err != nil {
		return err
	}
	var gate child.Gate
	run, err := newRun(job, claimers, &gate)
	if err != nil {
		return err
	}
	if err := gate.Start(); err != nil {
		return err
	}
	defer profile(job.Profile)()
	if job.Insert {
		defer run.insertBeside(ctx, db)()
	}
	if err := run.work(ctx); err != nil {
		return err
	}
	return gate.Finish(job.Rows, run.tenths)
}

// newClaimer makes worker k's. Each has its own, as in a process of its own.
func newClaimer(ctx context.Context, db *sqlx.DB, job child.Job, k int) (sendonce.Claimer[receiver], error) {
	d, t := table.Kind(job.DSN), table.Mapping
	switch job.Contender {
	case "skiplocked", "first", "renew":
		if d == claim.SQLite {
			return claim.NewAtomic[receiver](ctx, db, d, t, nil)
		}
		return claim.NewSkipLocked[receiver](ctx, db, d, t, nil)
	case "atomic":
		return claim.NewAtomic[receiver](ctx, db, d, t, nil)
	case "locked":
		l, err := redislock.New(redis.NewClient(&redis.Options{Addr: job.Redis}), nil)
		if err != nil {
			return nil, err
		}
		return claim.NewLocked[receiver](ctx, db, d, t, l, nil)
	case "partitioned", "unmarked":
		p, err := partition.Static(k, job.Workers)
		if err != nil {
			return nil, err
		}
		if job.Contender == "unmarked" {
			return claim.NewUnmarked[receiver](ctx, db, d, t, p, nil)
		}
		return claim.NewPartitioned[receiver](ctx, db, d, t, p, nil)
	}
	return nil, fmt.Errorf("there is no contender %q", job.Contender)
}

// run is all dispatchers of a child process.
type run struct {
	job         child.Job
	gate        *child.Gate
	dispatchers []*sendonce.Dispatcher[receiver]
	settled     atomic.Int64
	all         int           // results until the end
	insert      chan struct{} // has room for all portions
	stop        context.CancelFunc

	mu       sync.Mutex
	tenths   []float64
	since    time.Duration
	portions int
}

func newRun(job child.Job, claimers []sendonce.Claimer[receiver], gate *child.Gate) (*run, error) {
	r := &run{job: job, gate: gate, all: job.Results()}
	if job.Insert {
		r.insert = make(chan struct{}, 45)
	}
	for k, c := range claimers {
		d, err := sendonce.New(c, sendonce.SenderFunc[receiver](sender(job)), r.config(k))
		if err != nil {
			return nil, err
		}
		r.dispatchers = append(r.dispatchers, d)
	}
	return r, nil
}

// config has more senders where sends take time: enough that the sends don't
// limit the rate.
func (r *run) config(k int) sendonce.Config {
	cfg := sendonce.Config{
		BatchSize: r.job.Batch, Owner: fmt.Sprint("bench ", k), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Hooks: sendonce.Hooks{Claimed: r.claimed, Settled: r.recorded},
	}
	if r.job.Retry {
		cfg.Backoff = func(int) time.Duration { return 100 * time.Millisecond }
	}
	if r.job.Send > 0 {
		cfg.Concurrency = min(128, max(16, r.job.Batch))
	}
	return cfg
}

var errOnPurpose = errors.New("fails once, on purpose")

func sender(job child.Job) func(context.Context, sendonce.Item[receiver]) error {
	switch {
	case job.Retry:
		return func(_ context.Context, item sendonce.Item[receiver]) error {
			if item.Attempt == 1 && item.Key.(int64)%20 == 0 {
				return errOnPurpose
			}
			return nil
		}
	case job.Send == 0:
		return func(context.Context, sendonce.Item[receiver]) error { return nil }
	}
	takes := job.Send
	return func(ctx context.Context, _ sendonce.Item[receiver]) error {
		t := time.NewTimer(takes)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *run) claimed(n int, took time.Duration, err error) {
	if n > 0 && err == nil {
		r.gate.Claimed(took)
	}
}

func (r *run) recorded(n int, _ time.Duration, err error) {
	if err != nil {
		return
	}
	total := int(r.settled.Add(int64(n)))
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.tenths) < 10 && total >= r.all*(len(r.tenths)+1)/10 {
		now := r.gate.Since()
		r.tenths = append(r.tenths, (now - r.since).Seconds())
		r.since = now
	}
	for r.portions < cap(r.insert) && total >= r.job.Rows*(r.portions+1)/50 {
		r.portions++
		r.insert <- struct{}{}
	}
	if total == r.all {
		r.gate.Done()
		r.stop()
	}
}

func (r *run) work(ctx context.Context) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	errs := make(chan error, len(r.dispatchers))
	for _, d := range r.dispatchers {
		go func() { errs <- d.Run(ctx) }()
	}
	for range r.dispatchers {
		if err := <-errs; err != nil {
			return err
		}
	}
	if n := int(r.settled.Load()); n != r.all {
		return fmt.Errorf("%d of %d results were recorded", n, r.all)
	}
	return nil
}

// insertBeside inserts rows while the workers go on, at their pace: a portion for
// each fiftieth of the rows that was recorded.
func (r *run) insertBeside(ctx context.Context, db *sqlx.DB) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go func() {
		for next := r.job.Rows; ; next += r.job.Portion() {
			select {
			case <-r.insert:
			case <-ctx.Done():
				return
			}
			if err := table.Insert(ctx, db, next+1, next+r.job.Portion()); err != nil {
				fmt.Fprintln(os.Stderr, "insert:", err) // the run then never ends, and is ended
				return
			}
		}
	}()
	return stop
}

// profile writes a CPU profile until its answer is called, and then one of what
// was allocated.
func profile(path string) (stop func()) {
	if path == "" {
		return func() {}
	}
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no profile:", err)
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
		if f, err := os.Create(path + ".allocs"); err == nil {
			_ = pprof.Lookup("allocs").WriteTo(f, 0)
			_ = f.Close()
		}
	}
}
