package sendonce_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// Faults of docs/faults.md that are the loop's, in fake time. Others have their
// number in the files of what they are about; internal/integration/loop has them
// with real servers.

// A send that ignores its context for longer than several leases is sent once: its
// claim is renewed by a goroutine of its own.
func TestFault03_OneSendOutlivesItsLease(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		const lease = 5 * time.Second
		cfg := sendonce.Config{SendTimeout: time.Second, Lease: lease, PollInterval: 200 * time.Millisecond}
		var stores []*store
		var runs []*running
		for range 2 {
			s := w.store()
			stores = append(stores, s)
			runs = append(runs, w.start(w.dispatcher(s, func(context.Context, sendonce.Item[string]) error {
				time.Sleep(9 * time.Second)
				return nil
			}, cfg)))
		}
		after(9 * time.Second)
		assert.GreaterOrEqual(w, stores[0].extends.Load()+stores[1].extends.Load(), int64(9*time.Second/(lease/3)), "a renewal each third of the lease")
		after(time.Minute)
		for _, r := range runs {
			require.NoError(w, r.stop())
		}
		w.sentOnce(1)
		assert.Equal(w, 1, w.row(1).Attempts)
	})
}

// Every second renewal fails, and the one after it succeeds in time: nothing is
// cancelled.
func TestFault04_SomeRenewalsFail(t *testing.T) {
	inFakeTime(t, 30, func(w *world) {
		s := w.store()
		var calls atomic.Int64
		on(&s.onExtend, func(ctx context.Context, act func(context.Context) error) error {
			if calls.Add(1)%2 == 1 {
				return errGone
			}
			return act(ctx)
		})
		w.drain(w.dispatcher(s, slow(2900*time.Millisecond), sendonce.Config{SendTimeout: 3 * time.Second, Lease: 13 * time.Second, Concurrency: 2}))
		assert.Greater(w, calls.Load(), int64(6))
		w.sentOnce(30)
		for _, send := range w.log.All() {
			assert.NoError(w, send.Err)
		}
	})
}

// The send works and the mark does not, for longer than the lease, MaxAttempts is
// 3: the worker goes on trying to record it, claims nothing, and never sends the
// row itself again.
func TestFault06_OneSendThoughTheMarkFailsForAMinute(t *testing.T) {
	for name, how := range map[string]step{"error": fails(errGone), "hang": hangs} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 1, func(w *world) {
				s := w.store()
				var told tally
				r := w.start(w.dispatcher(s, func(context.Context, sendonce.Item[string]) error {
					s.all(how)
					return nil
				}, sendonce.Config{MaxAttempts: 3, Hooks: sendonce.Hooks{Unrecorded: func(int, time.Duration, error) { told.add("unrecorded") }}}))
				after(time.Minute)
				assert.Equal(w, 1, w.log.Count())
				assert.Positive(w, told.of("unrecorded"), "the application is told")
				assert.False(w, r.Health().OK)
				s.all(nil)
				after(time.Minute)
				w.sentOnce(1)
				assert.Equal(w, 1, w.row(1).Attempts)
				require.NoError(w, r.stop())
			})
		})
	}
}

// Panics that are no errors, while the store hangs: all slots come back, and a
// stop ends within its limit while it hangs again.
func TestFault12_NoSlotIsLost(t *testing.T) {
	inFakeTime(t, 6, func(w *world) {
		s := w.store()
		var hung atomic.Bool
		on(&s.onSettle, func(ctx context.Context, act func(context.Context) error) error {
			if hung.CompareAndSwap(false, true) {
				if err := pause(ctx, 3*time.Second); err != nil {
					return err
				}
			}
			return act(ctx)
		})
		d := w.dispatcher(s, func(_ context.Context, m sendonce.Item[string]) error {
			switch m.Key {
			case int64(1):
				var p *int
				*p = 1
			case int64(2):
				panic(nil)
			case int64(3):
				runtime.Goexit()
			case int64(4):
				return nastyError{}
			}
			return nil
		}, sendonce.Config{Concurrency: 2, MaxAttempts: 1, StopTimeout: 2 * time.Second})
		r := w.start(d)
		after(20 * time.Second)
		assert.Equal(w, map[string]int{memclaim.Done: 2, memclaim.Dead: 4}, w.states())
		assert.Zero(w, r.Health().InFlight)
		require.NoError(w, w.table.Add(memclaim.Row[string]{Key: 7}))
		on(&s.onSettle, hangs)
		after(2 * time.Second)
		began := time.Now()
		err := r.stop()
		assert.LessOrEqual(w, time.Since(began), 2*time.Second+25*time.Second, "StopTimeout, and the last words that Run waits for")
		var stopped *sendonce.StoppedError
		require.ErrorAs(w, err, &stopped)
		assert.Equal(w, []sendonce.Key{int64(7)}, stopped.Unrecorded)
	})
}

// Deadlocks and serialization errors at every kind of call: a mark is repeated and
// never the send, no attempt is charged, nobody returns.
func TestFault13_EveryThirdCallIsADeadlock(t *testing.T) {
	inFakeTime(t, 300, func(w *world) {
		var runs []*running
		for range 3 {
			s := w.store()
			var calls atomic.Int64
			s.all(func(ctx context.Context, act func(context.Context) error) error {
				if calls.Add(1)%3 == 0 {
					return transient{errors.New("deadlock found when trying to get lock")}
				}
				return act(ctx)
			})
			runs = append(runs, w.start(w.dispatcher(s, slow(10*time.Millisecond), sendonce.Config{BatchSize: 5, Concurrency: 3})))
		}
		after(time.Minute)
		w.sentOnce(300)
		for _, row := range w.table.Rows() {
			assert.Equal(w, 1, row.Attempts)
		}
		for _, r := range runs {
			require.NoError(w, r.stop())
		}
	})
}

// Rows that always fail, at the head of the table, don't hold up those behind.
func TestFault21_FailingRowsDoNotStarveNewOnes(t *testing.T) {
	took := func(bad int, backoff time.Duration) (d time.Duration) {
		inFakeTime(t, 508, func(w *world) {
			began := time.Now()
			var good atomic.Int64
			all := make(chan struct{})
			r := w.start(w.dispatcher(w.store(), func(ctx context.Context, m sendonce.Item[string]) error {
				if err := pause(ctx, 5*time.Millisecond); err != nil {
					return err
				}
				switch {
				case m.Key.(int64) <= int64(bad):
					return errFlaky
				case m.Key.(int64) > 8 && good.Add(1) == 500:
					close(all)
				}
				return nil
			}, sendonce.Config{BatchSize: 8, Concurrency: 8, MaxAttempts: 1000, Backoff: func(int) time.Duration { return backoff }}))
			<-all
			d = time.Since(began)
			require.NoError(w, r.stop())
		})
		return d
	}
	without := took(0, 0)
	for _, backoff := range []time.Duration{0, 100 * time.Millisecond} {
		assert.LessOrEqual(t, took(8, backoff), 2*without, "backoff %v", backoff)
	}
}

// Twice as many new rows as can be sent don't hold up a row that comes back.
func TestFault21_NewRowsDoNotStarveARetry(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		const poll = 200 * time.Millisecond
		var retried atomic.Int64
		due := time.Now().Add(20 * time.Second)
		require.True(w, w.table.Schedule(1, due))
		r := w.start(w.dispatcher(w.store(), func(ctx context.Context, m sendonce.Item[string]) error {
			if m.Key == int64(1) {
				retried.Store(int64(time.Since(due)))
			}
			return pause(ctx, 20*time.Millisecond) // 50 a second
		}, sendonce.Config{Concurrency: 1, BatchSize: 4, PollInterval: poll}))
		for i := range 300 {
			for j := range 10 { // 100 a second
				require.NoError(w, w.table.Add(memclaim.Row[string]{Key: 1000 + 10*i + j, Value: fmt.Sprint(i)}))
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(w, r.stop())
		assert.NotZero(w, retried.Load(), "it was sent")
		assert.LessOrEqual(w, time.Duration(retried.Load()), 10*poll)
	})
}
