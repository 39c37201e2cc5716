package memclaim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim/memclaim"
)

// executing runs an Executor in fake time while f uses it.
func executing[V, R any](t *testing.T, do func(context.Context, V) (R, error), o *memclaim.ExecutorOptions, f func(t *testing.T, e *memclaim.Executor[V, R], stop func() error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o == nil {
			o = &memclaim.ExecutorOptions{}
		}
		o.Logger = slog.New(slog.DiscardHandler)
		e, err := memclaim.NewExecutor(do, o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- e.Run(ctx) }()
		stopped := sync.OnceValue(func() error { cancel(); return <-end })
		f(t, e, stopped)
		synctest.Wait()
		keys, _ := e.Keys()
		assert.Zero(t, keys, "a key that is idle costs nothing")
		_ = stopped()
	})
}

// trace is what was done, in order, by key.
type trace struct {
	mu   sync.Mutex
	done map[string][]int
	busy map[string]int
	most map[string]int
	all  int // most at one time
	now  int
}

func newTrace() *trace {
	return &trace{done: map[string][]int{}, busy: map[string]int{}, most: map[string]int{}}
}

func (r *trace) enter(key string, n int) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[key] = append(r.done[key], n)
	r.busy[key]++
	r.now++
	r.most[key] = max(r.most[key], r.busy[key])
	r.all = max(r.all, r.now)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy[key]--
		r.now--
	}
}

type call struct {
	key string
	n   int
}

// Strictly by time stamp and order of arrival, one at a time for each key, and
// keys side by side.
func TestExecutorKeepsOrder(t *testing.T) {
	r := newTrace()
	do := func(ctx context.Context, c call) (int, error) {
		defer r.enter(c.key, c.n)()
		time.Sleep(10 * time.Millisecond)
		return 2 * c.n, nil
	}
	executing(t, do, &memclaim.ExecutorOptions{Concurrency: 5}, func(t *testing.T, e *memclaim.Executor[call, int], _ func() error) {
		var wg sync.WaitGroup
		stamp := time.Now()
		for k := range 5 {
			key := fmt.Sprint("key ", k)
			// The first one is at work while the others are added in reverse.
			wg.Go(func() { _, _ = e.DoAt(t.Context(), stamp, key, call{key, 0}) })
			synctest.Wait()
			for n := 20; n >= 1; n-- {
				wg.Go(func() {
					got, err := e.DoAt(t.Context(), stamp.Add(time.Duration(n/2)*time.Second), key, call{key, n})
					assert.NoError(t, err)
					assert.Equal(t, 2*n, got)
				})
				synctest.Wait()
			}
		}
		wg.Wait()
		for key, order := range r.done {
			// Two share a time stamp: the larger number came first.
			assert.Equal(t, []int{0, 1, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14, 17, 16, 19, 18, 20}, order, key)
			assert.Equal(t, 1, r.most[key], key)
		}
		assert.Equal(t, 5, r.all, "keys go side by side")
	})
}

// docs/faults.md, 12 and 20: what a task does to itself is its own affair.
func TestFault12_TasksThatPanicHoldUpNobody(t *testing.T) {
	tasks := map[string]func() error{
		"nil dereference": func() error { var p *int; *p = 1; return nil },
		"panic(nil)":      func() error { panic(nil) },
		"Goexit":          func() error { runtime.Goexit(); return nil },
		"nasty error":     func() error { return nasty{} },
		"an error":        func() error { return errors.New("no") },
	}
	do := func(_ context.Context, f func() error) (string, error) { return "done", f() }
	executing(t, do, &memclaim.ExecutorOptions{Concurrency: 2}, func(t *testing.T, e *memclaim.Executor[func() error, string], stop func() error) {
		for range 3 {
			for name, f := range tasks {
				_, err := e.Do(t.Context(), "one", f)
				require.Error(t, err, name)
				var panicked *memclaim.PanicError
				assert.Equal(t, name != "nasty error" && name != "an error", errors.As(err, &panicked), name)
			}
			got, err := e.Do(t.Context(), "one", func() error { return nil })
			require.NoError(t, err)
			assert.Equal(t, "done", got)
		}
		time.Sleep(time.Hour) // turns whose goroutine ended come again, and find nothing
		began := time.Now()
		require.NoError(t, stop())
		assert.Less(t, time.Since(began), 2*time.Second)
	})
}

type nasty struct{}

func (nasty) Error() string { panic("no text") }

// Goexit ends the goroutine of a turn, which then comes again: never beside
// another one.
func TestExecutorNeverOverlapsAfterGoexit(t *testing.T) {
	r := newTrace()
	do := func(_ context.Context, n int) (int, error) {
		defer r.enter("one", n)()
		if n == 0 {
			runtime.Goexit()
		}
		time.Sleep(700 * time.Millisecond)
		return n, nil
	}
	executing(t, do, nil, func(t *testing.T, e *memclaim.Executor[int, int], _ func() error) {
		var wg sync.WaitGroup
		for n := range 30 {
			wg.Go(func() { _, _ = e.Do(t.Context(), "one", n%3) })
		}
		wg.Wait()
		assert.Equal(t, 1, r.most["one"])
		assert.Len(t, r.done["one"], 30)
	})
}

// A task whose caller gives up is not begun, or its context ends; those behind it
// go on.
func TestExecutorCancelled(t *testing.T) {
	var begun atomic.Int64
	gone := errors.New("the caller is gone")
	do := func(ctx context.Context, d time.Duration) (int64, error) {
		n := begun.Add(1)
		select {
		case <-time.After(d):
			return n, nil
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
	executing(t, do, &memclaim.ExecutorOptions{Timeout: time.Minute}, func(t *testing.T, e *memclaim.Executor[time.Duration, int64], _ func() error) {
		var wg sync.WaitGroup
		give := func(patience, d time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeoutCause(t.Context(), patience, gone)
				defer cancel()
				_, err := e.Do(ctx, "one", d)
				assert.ErrorIs(t, err, want)
			})
			synctest.Wait()
		}
		began := time.Now()
		give(time.Hour, 10*time.Second, nil)
		give(5*time.Second, time.Second, gone)               // it is never begun
		give(15*time.Second, time.Hour, gone)                // begun after 10 s, and ended after 15
		give(time.Hour, time.Hour, context.DeadlineExceeded) // ended by Timeout
		give(time.Hour, time.Second, nil)
		wg.Wait()
		assert.EqualValues(t, 4, begun.Load())
		assert.InDelta(t, 76, time.Since(began).Seconds(), 0.5)
	})
}

type valueKey string

// A task has the values of its caller's context, a trace say, and the end of both.
func TestExecutorHandsValuesOn(t *testing.T) {
	gone := errors.New("the caller is gone")
	do := func(ctx context.Context, wait time.Duration) (any, error) {
		_, bounded := ctx.Deadline()
		assert.True(t, bounded, "by Timeout")
		select {
		case <-time.After(wait):
			return ctx.Value(valueKey("trace")), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	executing(t, do, nil, func(t *testing.T, e *memclaim.Executor[time.Duration, any], stop func() error) {
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), valueKey("trace"), 7))
		got, err := e.Do(ctx, "one", time.Second)
		require.NoError(t, err)
		assert.Equal(t, 7, got)
		got, err = e.Do(t.Context(), "one", time.Second)
		require.NoError(t, err)
		assert.Nil(t, got, "another caller")
		_, err = e.Do(ctx, "one", time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded, "Timeout")
		time.AfterFunc(time.Second, func() { cancel(gone) })
		_, err = e.Do(ctx, "one", time.Hour)
		require.ErrorIs(t, err, gone)
		time.AfterFunc(time.Second, func() { assert.NoError(t, stop()) })
		_, err = e.Do(context.WithValue(t.Context(), valueKey("trace"), 8), "one", time.Hour)
		require.Error(t, err, "it stops")
	})
}

// When Run ends, what was not begun is told so, and what is at work may finish.
func TestExecutorStops(t *testing.T) {
	do := func(ctx context.Context, n int) (int, error) { time.Sleep(3 * time.Second); return n, nil }
	executing(t, do, nil, func(t *testing.T, e *memclaim.Executor[int, int], stop func() error) {
		var wg sync.WaitGroup
		var stopped atomic.Int64
		for n := range 4 {
			wg.Go(func() {
				_, err := e.Do(t.Context(), "one", n)
				if n == 0 {
					assert.NoError(t, err)
					return
				}
				assert.ErrorIs(t, err, memclaim.ErrStopped)
				stopped.Add(1)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.NoError(t, stop())
		wg.Wait()
		assert.EqualValues(t, 3, stopped.Load())
		_, err := e.Do(t.Context(), "two", 1)
		assert.ErrorIs(t, err, memclaim.ErrStopped)
	})
}

// docs/faults.md, 20: 200 tasks within one tick of the clock, two of them equal,
// come out in the order in which they were added.
func TestFault20_ManyTasksInOneTick(t *testing.T) {
	r := newTrace()
	var hold chan struct{} // the first one is at work until all have come
	do := func(_ context.Context, n int) (int, error) {
		defer r.enter("one", n)()
		<-hold
		return n, nil
	}
	executing(t, do, nil, func(t *testing.T, e *memclaim.Executor[int, int], _ func() error) {
		stamp := time.Now()
		hold = make(chan struct{})
		var wg sync.WaitGroup
		var want []int
		for n := range 200 {
			if n == 199 {
				n = 42
			}
			want = append(want, n)
			wg.Go(func() { _, _ = e.DoAt(t.Context(), stamp, "one", n) })
			synctest.Wait()
		}
		close(hold)
		wg.Wait()
		assert.Equal(t, want, r.done["one"])
	})
}

func BenchmarkExecutor(b *testing.B) {
	e, err := memclaim.NewExecutor(func(_ context.Context, n int) (int, error) { return n, nil }, nil)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	end := make(chan error, 1)
	go func() { end <- e.Run(ctx) }()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if _, err := e.Do(ctx, fmt.Sprint(n%64), n); err != nil {
				b.Error(err)
			}
		}
	})
	cancel()
	require.NoError(b, <-end)
}
