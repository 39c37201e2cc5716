package sendonce_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// The arithmetic of docs/semantics.md, section 2, with the lease and the send
// limit of these tests.
const (
	lease     = 30 * time.Second
	sendLimit = 10 * time.Second
	margin    = 3 * time.Second
)

// Rows that are sent, and rows that wait, stay ours over many leases.
func TestLeasesAreRenewed(t *testing.T) {
	inFakeTime(t, 60, func(w *world) {
		var lost tally
		cfg := sendonce.Config{Concurrency: 1, BatchSize: 10, Hooks: sendonce.Hooks{Lost: func(int64, int) { lost.add("claims") }}}
		first := w.start(w.dispatcher(w.store(), slow(9*time.Second), cfg))
		after(time.Second)
		rival := w.start(w.dispatcher(w.store(), slow(9*time.Second), cfg))
		after(20 * time.Minute)
		assert.NoError(t, first.stop())
		assert.NoError(t, rival.stop())
		w.sentOnce(60)
		assert.Zero(t, lost.of("claims"))
	})
}

// docs/faults.md, 4: a renewal that hangs gives no answer, and the send is over
// before anybody else can have the row.
func TestFault04_RenewalsHang(t *testing.T) {
	inFakeTime(t, 5, func(w *world) {
		cut := w.store()
		var lost tally
		var ended atomic.Int64
		var cause error
		began := time.Now()
		first := w.start(w.dispatcher(cut, func(ctx context.Context, m sendonce.Item[string]) error {
			if m.Attempt > 1 {
				return nil
			}
			err := pause(ctx, time.Hour)
			ended.Store(int64(time.Since(began)))
			cause = err
			return err
		}, sendonce.Config{Concurrency: 1, Hooks: sendonce.Hooks{Lost: func(int64, int) { lost.add("claims") }}}))
		after(time.Second)
		for _, p := range []*atomic.Pointer[step]{&cut.onClaim, &cut.onExtend, &cut.onSettle, &cut.onReap} {
			on(p, hangs)
		}
		rival := w.start(w.dispatcher(w.store(), sent, sendonce.Config{}))
		after(3 * time.Minute)
		assert.Equal(t, 7, w.log.Count(), "the five rows by the rival, and two of them before: the second began in time")
		assert.LessOrEqual(t, time.Duration(ended.Load()), lease-margin)
		assert.ErrorIs(t, cause, context.DeadlineExceeded)
		assert.Empty(t, w.log.Overlaps())
		assert.Equal(t, 1, lost.of("claims"))
		for key := 1; key <= 5; key++ {
			assert.Equal(t, memclaim.Done, w.row(key).Status)
		}
		assert.False(t, first.Health().OK)
		for _, p := range []*atomic.Pointer[step]{&cut.onClaim, &cut.onExtend, &cut.onSettle, &cut.onReap} {
			p.Store(nil)
		}
		after(10 * time.Second)
		assert.True(t, first.Health().OK, first.Health().Problem)
		assert.NoError(t, first.stop())
		assert.NoError(t, rival.stop())
	})
}

// Once the store says that a claim is gone, what is sent under it ends with
// ErrLost and what waits is not begun.
func TestFault04_ClaimIsTakenAway(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		var cause atomic.Pointer[error]
		var c tally
		r := w.start(w.dispatcher(w.store(), func(ctx context.Context, m sendonce.Item[string]) error {
			if m.Attempt > 1 {
				return nil
			}
			err := pause(ctx, 9*time.Second)
			if err != nil {
				cause.Store(&err)
			}
			return err
		}, sendonce.Config{Concurrency: 1, BatchSize: 4, Hooks: sendonce.Hooks{
			Lost:     func(_ int64, rows int) { c.add("lost") },
			Excepted: func(e sendonce.Exception) { c.add(e.Cause.String()) },
		}}))
		after(time.Second)
		holders := w.table.Holders()
		require.NotEmpty(t, holders)
		for _, h := range holders {
			require.NoError(t, w.table.End(w.Context(), []int64{h.Token})) // as if it had been reaped
		}
		after(10 * time.Second)
		require.NotNil(t, cause.Load())
		assert.ErrorIs(t, *cause.Load(), sendonce.ErrLost)
		assert.Equal(t, len(holders), c.of("lost"))
		assert.EqualValues(t, 2, r.Stats().Lost, "three were claimed, and one was sent before the renewal told")
		assert.NoError(t, r.stop())
	})
}

// docs/semantics.md, section 2: a send starts only if it would end before the
// lease does, whatever keeps renewals from being confirmed.
func TestFault04_NothingStartsLate(t *testing.T) {
	inFakeTime(t, 100, func(w *world) {
		cut := w.store()
		on(&cut.onExtend, fails(errors.New("no route to host")))
		r := w.start(w.dispatcher(cut, func(ctx context.Context, _ sendonce.Item[string]) error {
			if w.log.Count() < 30 {
				return nil // so fast that many are claimed
			}
			return pause(ctx, 4*time.Second)
		}, sendonce.Config{Concurrency: 1, BatchSize: 100}))
		began := time.Now()
		after(10 * time.Minute)
		assert.NoError(t, r.stop())
		starts := map[any]int{}
		for _, s := range w.log.All() {
			starts[s.Key]++
			assert.Equal(t, 1, starts[s.Key], "released rows come back with their attempt")
			assert.NoError(t, s.Err)
		}
		assert.Positive(t, r.Stats().Released)
		assert.Greater(t, len(starts), 60, "others go on being claimed: %v", time.Since(began))
	})
}

// docs/semantics.md, section 7: a send that ignores its context is told, its claim
// is kept while that may help, and its row is never begun here a second time.
func TestStuckSend(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		var c tally
		var running atomic.Int64
		release := make(chan struct{})
		s := w.store()
		r := w.start(w.dispatcher(s, func(_ context.Context, m sendonce.Item[string]) error {
			if m.Key != int64(1) {
				return nil
			}
			if running.Add(1) > 1 {
				c.add("twice at once")
			}
			defer running.Add(-1)
			<-release // ignores its context
			return nil
		}, sendonce.Config{Concurrency: 2, Hooks: sendonce.Hooks{Stuck: func(key sendonce.Key, _ time.Duration) { c.add("stuck") }}}))
		after(20 * time.Second)
		assert.Equal(t, 1, c.of("stuck"))
		assert.Equal(t, 1, r.Health().Stuck)
		assert.False(t, r.Health().OK)
		assert.Contains(t, r.Health().Problem, "ignore")
		extends := s.extends.Load()
		after(time.Minute)
		assert.Greater(t, s.extends.Load(), extends, "still renewed: nobody else may send it")
		after(2 * time.Hour)
		assert.Zero(t, c.of("twice at once"), "not handed out while it may still be sending here")
		close(release)
		after(2 * time.Hour)
		assert.True(t, r.Health().OK, r.Health().Problem)
		assert.Equal(t, map[string]int{memclaim.Done: 3}, w.states())
		assert.NoError(t, r.stop())
	})
}

// A claim with a stuck send begins no more rows: they go to others.
func TestStuckClaimReleasesItsRows(t *testing.T) {
	inFakeTime(t, 10, func(w *world) {
		release := make(chan struct{})
		stuck := w.start(w.dispatcher(w.store(), func(context.Context, sendonce.Item[string]) error { <-release; return nil },
			sendonce.Config{Concurrency: 1, BatchSize: 10, Owner: "stuck"}))
		after(20 * time.Second)
		assert.Equal(t, map[string]int{memclaim.Claimed: 1, memclaim.Pending: 9}, w.states())
		other := w.start(w.dispatcher(w.store(), sent, sendonce.Config{}))
		after(2 * time.Second)
		assert.Equal(t, map[string]int{memclaim.Claimed: 1, memclaim.Done: 9}, w.states())
		close(release)
		after(time.Second)
		assert.Equal(t, map[string]int{memclaim.Done: 10}, w.states())
		assert.NoError(t, other.stop())
		assert.NoError(t, stuck.stop())
	})
}

// Rows that wait for a slot for a whole lease are given back: others may have
// one free.
func TestRowsDoNotWaitForever(t *testing.T) {
	inFakeTime(t, 200, func(w *world) {
		busy := w.start(w.dispatcher(w.store(), func(ctx context.Context, _ sendonce.Item[string]) error {
			if w.log.Count() < 100 {
				return nil // so fast that many are claimed
			}
			return pause(ctx, 9900*time.Millisecond)
		}, sendonce.Config{Concurrency: 1, BatchSize: 50}))
		after(time.Second)
		assert.Greater(t, w.held(), 20)
		after(45 * time.Second)
		assert.LessOrEqual(t, w.held(), 10)
		for _, row := range w.table.Rows() {
			if row.Status == memclaim.Pending {
				assert.Zero(t, row.Attempts, "given back uncharged")
			}
		}
		assert.NoError(t, busy.stop())
	})
}

// held is how many rows are in somebody's hands.
func (w *world) held() int {
	n := 0
	for _, h := range w.table.Holders() {
		n += h.Unmarked
	}
	return n
}

// A lease is counted from before the claim, or the renewal, was asked for: the
// reply may have been slow.
func TestLeaseCountsFromBeforeTheCall(t *testing.T) {
	slowReply := func(by time.Duration) step {
		return func(ctx context.Context, act func(context.Context) error) error {
			err := act(ctx)
			time.Sleep(by)
			return err
		}
	}
	begun := func(w *world) (at []time.Duration) {
		began := w.log.All()[0].Start
		for _, s := range w.log.All() {
			at = append(at, s.Start.Sub(began)+9*time.Second)
		}
		return at
	}
	send := slow(9500 * time.Millisecond)
	t.Run("claim", func(t *testing.T) {
		inFakeTime(t, 3, func(w *world) {
			s := w.store()
			on(&s.onClaim, slowReply(9*time.Second))
			on(&s.onExtend, hangs)
			r := w.start(w.dispatcher(s, send, sendonce.Config{Concurrency: 1}))
			after(29 * time.Second)
			assert.Equal(t, []time.Duration{9 * time.Second}, begun(w), "at 18.5 s a send of 10 s might outlast 30 s - 3 s")
			assert.NoError(t, r.stop())
		})
	})
	t.Run("renewal", func(t *testing.T) {
		inFakeTime(t, 3, func(w *world) {
			s := w.store()
			on(&s.onClaim, slowReply(9*time.Second))
			var n atomic.Int64
			on(&s.onExtend, func(ctx context.Context, act func(context.Context) error) error {
				if n.Add(1) > 1 {
					return hangs(ctx, act)
				}
				return slowReply(4900*time.Millisecond)(ctx, act)
			})
			r := w.start(w.dispatcher(s, send, sendonce.Config{Concurrency: 1}))
			after(39 * time.Second)
			assert.Equal(t, []time.Duration{9 * time.Second, 18500 * time.Millisecond}, begun(w), "renewed at 10 s: at 28 s it is too late")
			assert.NoError(t, r.stop())
		})
	})
}
