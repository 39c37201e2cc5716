package sendonce_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

func TestTwoStuckSendsOfOneClaim(t *testing.T) {
	for _, n := range []int{1, 2} {
		inFakeTime(t, n, func(w *world) {
			release := make(chan struct{})
			bad := w.start(w.dispatcher(w.store(), func(context.Context, sendonce.Item[string]) error { <-release; return nil }, sendonce.Config{Concurrency: 4}))
			after(time.Second)
			other := w.start(w.dispatcher(w.store(), sent, sendonce.Config{}))
			after(time.Hour)
			assert.Equal(t, map[string]int{memclaim.Done: n}, w.states(), "rows of %d stuck sends", n)
			close(release)
			after(time.Second)
			assert.NoError(t, bad.stop())
			assert.NoError(t, other.stop())
		})
	}
}

func TestSlowBeginIsNoStuckSend(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		on(&s.onBegin, delayed(4*time.Second))
		var c tally
		r := w.start(w.dispatcher(s, slow(9900*time.Millisecond), sendonce.Config{Delivery: sendonce.AtMostOnce, Hooks: sendonce.Hooks{
			Stuck: func(sendonce.Key, time.Duration) { c.add("stuck") },
		}}))
		after(time.Minute)
		assert.Zero(t, c.of("stuck"))
		assert.NoError(t, r.stop())
		w.sentOnce(1)
	})
}

func TestLostIsToldOnce(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		release := make(chan struct{})
		s := w.store()
		var c tally
		bad := w.start(w.dispatcher(s, func(context.Context, sendonce.Item[string]) error { <-release; return nil }, sendonce.Config{Hooks: sendonce.Hooks{
			Lost: func(int64, int) { c.add("lost") },
		}}))
		after(time.Second)
		on(&s.onExtend, fails(errGone))
		other := w.start(w.dispatcher(w.store(), sent, sendonce.Config{}))
		after(80 * time.Second)
		s.onExtend.Store(nil)
		after(time.Minute)
		assert.Equal(t, 1, c.of("lost"))
		assert.EqualValues(t, 1, bad.Stats().Lost)
		close(release)
		after(time.Second)
		assert.NoError(t, bad.stop())
		assert.NoError(t, other.stop())
	})
}

func TestStopInAFlappingOutage(t *testing.T) {
	inFakeTime(t, 100, func(w *world) {
		s := w.store()
		var n atomic.Int64
		on(&s.onSettle, func(ctx context.Context, act func(context.Context) error) error {
			switch i := n.Add(1); {
			case i <= 3:
				return errGone
			case i == 4:
				return act(ctx)
			}
			return hangs(ctx, act)
		})
		r := w.start(w.dispatcher(s, sent, sendonce.Config{Concurrency: 100}))
		after(5 * time.Second)
		began := time.Now()
		err := r.stop()
		assert.Error(t, err)
		assert.Less(t, time.Since(began), 2*time.Minute)
	})
}

func TestHookGoexit(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		r := w.start(w.dispatcher(w.store(), sent, sendonce.Config{Concurrency: 2, Hooks: sendonce.Hooks{
			Sent: func(sendonce.Key, sendonce.Outcome, int, time.Duration, error) { runtime.Goexit() },
		}}))
		after(time.Minute)
		assert.Equal(t, map[string]int{memclaim.Done: 3}, w.states())
		assert.Equal(t, 3, w.log.Count())
		assert.NoError(t, r.stop())
	})
}

// What ends its goroutine when the answer is made, and again when it is made once
// more, keeps neither a slot nor a row.
func TestBackoffGoexit(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		r := w.start(w.dispatcher(w.store(), func(_ context.Context, item sendonce.Item[string]) error {
			if item.Attempt == 1 {
				return errFlaky
			}
			return nil
		}, sendonce.Config{Concurrency: 1, Backoff: func(int) time.Duration { runtime.Goexit(); return 0 }}))
		after(time.Hour)
		assert.Equal(t, map[string]int{memclaim.Done: 3}, w.states())
		assert.Equal(t, 6, w.log.Count())
		assert.Zero(t, r.Health().InFlight)
		assert.NoError(t, r.stop())
	})
}

func TestBackoffPanics(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		r := w.start(w.dispatcher(w.store(), func(context.Context, sendonce.Item[string]) error { return errFlaky }, sendonce.Config{
			MaxAttempts: 2, Backoff: func(int) time.Duration { panic("no") },
		}))
		after(time.Minute)
		assert.NoError(t, r.stop())
	})
}

type slowCount struct{ *store }

func (s slowCount) Counts(ctx context.Context) (sendonce.Counts, error) {
	<-ctx.Done()
	return sendonce.Counts{}, ctx.Err()
}

func TestStopDuringCount(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		d := w.dispatcher(slowCount{w.store()}, sent, sendonce.Config{Lease: 20 * time.Minute})
		ctx, cancel := context.WithCancel(w.Context())
		time.AfterFunc(5*time.Second, cancel)
		began := time.Now()
		_, err := d.Drain(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Less(t, time.Since(began), time.Minute)
	})
}

func TestStopDuringReap(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		on(&s.onReap, hangs)
		r := w.start(w.dispatcher(s, sent, sendonce.Config{Lease: time.Hour}))
		after(time.Second)
		began := time.Now()
		assert.NoError(t, r.stop())
		assert.Less(t, time.Since(began), time.Minute)
	})
}

func TestWakeInAnOutage(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		on(&s.onClaim, fails(errGone))
		wake := make(chan struct{})
		quit := make(chan struct{})
		go func() {
			for {
				select {
				case wake <- struct{}{}:
				case <-quit:
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		r := w.start(w.dispatcher(s, sent, sendonce.Config{Wake: wake}))
		after(time.Minute)
		assert.Less(t, s.claims.Load(), int64(200))
		close(quit)
		assert.NoError(t, r.stop())
	})
}

func TestStuckAlone(t *testing.T) {
	inFakeTime(t, 0, func(w *world) {
		release := make(chan struct{})
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 1, Token: 5, Attempts: 4}))
		r := w.start(w.dispatcher(w.store(), func(_ context.Context, m sendonce.Item[string]) error {
			if m.Key == int64(1) {
				<-release
			}
			return nil
		}, sendonce.Config{Concurrency: 4}))
		after(time.Second)
		for i := 2; i < 10; i++ {
			require.NoError(t, w.table.Add(memclaim.Row[string]{Key: i}))
		}
		after(time.Hour)
		assert.Equal(t, 8, w.states()[memclaim.Done])
		close(release)
		after(time.Second)
		assert.NoError(t, r.stop())
	})
}

// hangStore hangs on results of some rows, and on End.
type hangStore struct {
	*store
	key atomic.Int64
	end atomic.Bool
}

func (s *hangStore) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	for _, r := range rs {
		if r.Key == s.key.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	return s.store.Settle(ctx, rs)
}

func (s *hangStore) End(ctx context.Context, tokens []int64) error {
	if s.end.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.store.End(ctx, tokens)
}

func slowestMark(w *world) (most time.Duration) {
	for _, s := range w.log.All() {
		r := w.row(int(s.Key.(int64)))
		if !r.DoneAt.IsZero() {
			most = max(most, r.DoneAt.Sub(s.End))
		}
	}
	return most
}

func TestLockedRowDelaysTheMarksOfOthers(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := &hangStore{store: w.store()}
		s.key.Store(1)
		r := w.start(w.dispatcher(s, sent, sendonce.Config{}))
		after(5 * time.Minute)
		for i := 2; i < 100; i++ {
			require.NoError(t, w.table.Add(memclaim.Row[string]{Key: i}))
			after(time.Second)
		}
		after(time.Minute)
		assert.Less(t, slowestMark(w), 2*time.Second)
		s.key.Store(0)
		after(time.Minute)
		assert.NoError(t, r.stop())
	})
}

func TestSlowEndDelaysMarks(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := &hangStore{store: w.store()}
		s.end.Store(true)
		r := w.start(w.dispatcher(s, sent, sendonce.Config{}))
		for i := 2; i < 100; i++ {
			require.NoError(t, w.table.Add(memclaim.Row[string]{Key: i}))
			after(time.Second)
		}
		after(time.Minute)
		assert.Less(t, slowestMark(w), 2*time.Second)
		s.end.Store(false)
		after(time.Minute)
		assert.NoError(t, r.stop())
	})
}

func TestTransientForEver(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		on(&s.onClaim, fails(transient{errors.New("lock wait")}))
		r := w.start(w.dispatcher(s, sent, sendonce.Config{}))
		after(time.Hour)
		assert.False(t, r.Health().OK)
		assert.NoError(t, r.stop())
	})
}

func TestStoppedNamesARowThatWasRecorded(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		r := w.start(w.dispatcher(s, func(context.Context, sendonce.Item[string]) error { time.Sleep(9 * time.Second); return nil }, sendonce.Config{StopTimeout: time.Second}))
		after(time.Second)
		on(&s.onClaim, hangs)
		after(3 * time.Second)
		err := r.stop()
		if w.row(1).Status == memclaim.Done {
			assert.NoError(t, err)
		}
		after(time.Minute)
	})
}

func TestOneBadRowAndOneSlot(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := &badStore{store: w.store()}
		r := w.start(w.dispatcher(s, sent, sendonce.Config{Concurrency: 1}))
		after(time.Minute)
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 2}))
		after(10 * time.Minute)
		assert.Equal(t, memclaim.Done, w.row(2).Status)
		s.good.Store(true)
		after(time.Minute)
		assert.NoError(t, r.stop())
	})
}

type badStore struct {
	*store
	good atomic.Bool
}

func (s *badStore) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	for _, r := range rs {
		if r.Key == int64(1) && !s.good.Load() {
			return nil, errors.New("a trigger says no")
		}
	}
	return s.store.Settle(ctx, rs)
}

func TestNothingIsSentAfterTheStop(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		on(&s.onBegin, delayed(4*time.Second))
		var calls atomic.Int64
		r := w.start(w.dispatcher(s, func(ctx context.Context, _ sendonce.Item[string]) error {
			calls.Add(1)
			return pause(ctx, time.Second)
		}, sendonce.Config{Delivery: sendonce.AtMostOnce, StopTimeout: 2 * time.Second}))
		after(time.Second)
		err := r.stop()
		assert.NoError(t, err)
		after(time.Minute)
		assert.Zero(t, calls.Load())
		assert.Equal(t, map[string]int{memclaim.Pending: 1}, w.states())
	})
}

type loud struct {
	slog.Handler
	f func()
}

func (l loud) Enabled(context.Context, slog.Level) bool        { return true }
func (l loud) Handle(ctx context.Context, r slog.Record) error { l.f(); return nil }

func TestLoggerAsksForHealth(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		on(&s.onClaim, fails(errGone))
		var d *sendonce.Dispatcher[string]
		d = w.dispatcher(s, sent, sendonce.Config{Logger: slog.New(loud{slog.DiscardHandler, func() { d.Health() }})})
		r := w.start(d)
		after(time.Minute)
		assert.NoError(t, r.stop())
	})
}

func TestOtherHooksGoexit(t *testing.T) {
	for _, name := range []string{"claimed", "settled"} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 5, func(w *world) {
				var n atomic.Int64
				f := func(int, time.Duration, error) {
					if n.Add(1) == 1 {
						runtime.Goexit()
					}
				}
				h := sendonce.Hooks{}
				if name == "claimed" {
					h.Claimed = f
				} else {
					h.Settled = f
				}
				r := w.start(w.dispatcher(w.store(), sent, sendonce.Config{Concurrency: 1, Hooks: h}))
				after(time.Minute)
				require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 6}))
				after(time.Minute)
				assert.Equal(t, map[string]int{memclaim.Done: 6}, w.states())
				select {
				case <-r.end:
					t.Error("Run has returned unasked", r.err)
				default:
				}
				assert.NoError(t, r.stop())
			})
		})
	}
}

type endless struct {
	*store
	most int
}

func (s *endless) End(_ context.Context, tokens []int64) error {
	s.most = max(s.most, len(tokens))
	return errGone
}

func TestUnendedGrows(t *testing.T) {
	inFakeTime(t, 5000, func(w *world) {
		s := &endless{store: w.store()}
		r := w.start(w.dispatcher(s, slow(100*time.Millisecond), sendonce.Config{Concurrency: 1, BatchSize: 1}))
		after(20 * time.Minute)
		assert.LessOrEqual(t, s.most, 2000)
		assert.NoError(t, r.stop())
	})
}

func TestTypedNilError(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		d, err := sendonce.New[string](w.table, sendonce.SenderFunc[string](func(context.Context, sendonce.Item[string]) error {
			var e *url.Error
			return e
		}), sendonce.Config{MaxAttempts: 1})
		require.NoError(t, err)
		r := w.start(d)
		after(time.Minute)
		assert.Equal(t, map[string]int{memclaim.Dead: 1}, w.states())
		assert.NoError(t, r.stop())
	})
}
