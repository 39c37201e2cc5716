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

// docs/semantics.md, section 7: intake ends at once, what was not begun is
// pending again at once and uncharged, sends may finish and are recorded.
func TestFault07_Stop(t *testing.T) {
	inFakeTime(t, 40, func(w *world) {
		r := w.start(w.dispatcher(w.store(), slow(4*time.Second), sendonce.Config{Concurrency: 4, BatchSize: 20}))
		after(time.Second)
		r.cancel()
		after(0)
		began := time.Now()
		assert.Equal(t, map[string]int{memclaim.Claimed: 4, memclaim.Pending: 36}, w.states(), "at once")
		other := w.start(w.dispatcher(w.store(), sent, sendonce.Config{}))
		after(time.Second)
		assert.Equal(t, map[string]int{memclaim.Claimed: 4, memclaim.Done: 36}, w.states(), "another worker has them within one poll")
		<-r.end
		assert.NoError(t, r.err)
		assert.Less(t, time.Since(began), 4*time.Second)
		assert.NoError(t, other.stop())
		w.sentOnce(40)
		for _, row := range w.table.Rows() {
			assert.Equal(t, 1, row.Attempts)
		}
	})
}

// After StopTimeout sends end with ErrStopping, and those that obey are recorded.
func TestStopTimeout(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		var cause atomic.Pointer[error]
		r := w.start(w.dispatcher(w.store(), func(ctx context.Context, m sendonce.Item[string]) error {
			err := pause(ctx, time.Hour)
			cause.Store(&err)
			return sendonce.NotSent(err)
		}, sendonce.Config{StopTimeout: 2 * time.Second}))
		after(time.Second)
		began := time.Now()
		assert.NoError(t, r.stop())
		assert.ErrorIs(t, *cause.Load(), sendonce.ErrStopping)
		assert.InDelta(t, 2, time.Since(began).Seconds(), 0.1)
		assert.Equal(t, map[string]int{memclaim.Pending: 2}, w.states())
		assert.Empty(t, w.table.Holders())
	})
}

// A Send that ignores its context is named, and Run returns all the same.
func TestFault07_TheStubbornAreNamed(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		release := make(chan struct{})
		r := w.start(w.dispatcher(w.store(), func(_ context.Context, m sendonce.Item[string]) error {
			if m.Key == int64(2) {
				<-release
			}
			return nil
		}, sendonce.Config{StopTimeout: 2 * time.Second}))
		after(time.Second)
		began := time.Now()
		err := r.stop()
		var stopped *sendonce.StoppedError
		require.ErrorAs(t, err, &stopped)
		assert.Equal(t, []sendonce.Key{int64(2)}, stopped.Stuck)
		assert.Empty(t, stopped.Unrecorded)
		assert.Contains(t, err.Error(), "would not end: [2]")
		assert.Less(t, time.Since(began), 6*time.Second)
		close(release)
		after(time.Second)
		assert.Equal(t, map[string]int{memclaim.Done: 2, memclaim.Claimed: 1}, w.states())
	})
}

// What a claim took while Run was being stopped is given back.
func TestStopDuringAClaim(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		s := w.store()
		on(&s.onClaim, delayed(3*time.Second))
		r := w.start(w.dispatcher(s, sent, sendonce.Config{}))
		after(time.Second)
		assert.NoError(t, r.stop())
		assert.Equal(t, map[string]int{memclaim.Pending: 3}, w.states())
		assert.Zero(t, w.log.Count())
		assert.Empty(t, w.table.Holders())
		for _, row := range w.table.Rows() {
			assert.Zero(t, row.Attempts)
		}
	})
}

// The store is gone while Run stops: it waits for a while, then says which rows
// are sent and not recorded. They come back when their lease is over.
func TestStopDuringAnOutage(t *testing.T) {
	for name, how := range map[string]step{"errors": fails(errors.New("connection refused")), "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 2, func(w *world) {
				s := w.store()
				on(&s.onSettle, how)
				r := w.start(w.dispatcher(s, sent, sendonce.Config{}))
				after(time.Minute)
				assert.Equal(t, 2, r.Health().Unrecorded)
				began := time.Now()
				err := r.stop()
				var stopped *sendonce.StoppedError
				require.ErrorAs(t, err, &stopped)
				assert.ElementsMatch(t, []sendonce.Key{int64(1), int64(2)}, stopped.Unrecorded)
				assert.Less(t, time.Since(began), 45*time.Second)
				assert.Error(t, stopped.Unwrap())
				assert.Contains(t, err.Error(), "could not be recorded")
				w.drain(w.dispatcher(w.store(), sent, sendonce.Config{}))
				assert.Equal(t, map[string]int{memclaim.Done: 2}, w.states())
			})
		})
	}
}

// A stop in the middle of an outage that ends in time loses nothing.
func TestStopWaitsForTheLastResults(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		s := w.store()
		on(&s.onSettle, fails(errors.New("connection refused")))
		r := w.start(w.dispatcher(s, sent, sendonce.Config{}))
		after(time.Second)
		r.cancel()
		after(2 * time.Second)
		s.onSettle.Store(nil)
		<-r.end
		assert.NoError(t, r.err)
		w.sentOnce(2)
	})
}

func TestContextThatHasEnded(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		d := w.dispatcher(w.store(), sent, sendonce.Config{})
		assert.NoError(t, d.Run(ctx))
		_, err := d.Drain(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, map[string]int{memclaim.Pending: 2}, w.states())
	})
}
