// Package limit has hand-written loops: the least that a strategy's statements
// cost on a database, with nothing around them. They know nothing of retries,
// time-outs, lost replies or workers that die.
package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce/internal/bench/child"
)

const window = 50000 // keys that one claim looks at

// worker does one batch after the other until it finds nothing.
type worker interface {
	// batch claims up to n rows, sends them and records them, and returns how
	// many they were.
	batch(ctx context.Context, n int) (int, error)
}

// Run is the main function of the child process.
func Run(ctx context.Context, job child.Job) error {
	var gate child.Gate
	l := &loop{job: job, gate: &gate}
	workers, closeAll, err := l.workers(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	if err := gate.Start(); err != nil {
		return err
	}
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for _, w := range workers {
		all.Go(func() {
			if err := l.drain(ctx, w); err != nil {
				failed.Store(&err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	if n := int(l.done.Load()); n != job.Rows {
		return fmt.Errorf("%d of %d rows were recorded", n, job.Rows)
	}
	return gate.Finish(job.Rows, nil)
}

type loop struct {
	job  child.Job
	gate *child.Gate
	done atomic.Int64
}

// drain ends when all rows are done: a claim may come back empty because another
// worker has just locked what is left of its window.
func (l *loop) drain(ctx context.Context, w worker) error {
	for l.done.Load() < int64(l.job.Rows) {
		n, err := w.batch(ctx, l.job.Batch)
		if err != nil {
			return err
		}
		l.done.Add(int64(n))
	}
	return nil
}

func (l *loop) workers(ctx context.Context) ([]worker, func(), error) {
	switch l.job.Contender {
	case "limit-skiplocked", "limit-row":
		return l.postgres(ctx)
	case "limit-unmarked":
		return l.modulo(ctx)
	case "limit-sql-postgres", "limit-sql-mariadb", "limit-sql-sqlite":
		return l.sql(ctx)
	}
	return nil, nil, fmt.Errorf("there is no contender %q", l.job.Contender)
}

func newToken() int64 { return rand.Int64N(1<<62) + 1 }

// keyList writes keys as a list for a statement, between the given ends.
func keyList(buf []byte, keys []int64, before, after byte) []byte {
	buf = append(buf[:0], before)
	for i, k := range keys {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = strconv.AppendInt(buf, k, 10)
	}
	return append(buf, after)
}

// timed takes note of a claim that found something.
func (l *loop) timed(began time.Time, n int) {
	if n > 0 {
		l.gate.Claimed(time.Since(began))
	}
}

// cursor walks over the keys and starts again at the end.
type cursor struct {
	at, end int64
}

// moved follows a claim: to its last key, or, when it found nothing, to the end
// of its window.
func (c *cursor) moved(keys []int64) {
	switch {
	case len(keys) > 0:
		c.at = slices.Max(keys)
	case c.at+window >= c.end:
		c.at = 0
	default:
		c.at += window
	}
}
