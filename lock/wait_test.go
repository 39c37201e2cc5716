package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/locktest"
	"github.com/sendonce/sendonce/lock/memlock"
)

// A lost reply is asked for again with the same token, and found.
func TestAcquireRepeatsALostCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.acquire = func(n int) error { // it has acted each time
			if n < 3 {
				return errors.New("connection reset")
			}
			return nil
		}
		lease, err := lock.Acquire(t.Context(), s, "k", ttl)
		require.NoError(t, err)
		require.EqualValues(t, 3, s.acquires.Load())
		require.Zero(t, s.releases.Load())
		_, err = s.Extend(t.Context(), lease, ttl)
		require.NoError(t, err)
	})
}

// What may have been granted is given back.
func TestAcquireGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		broken := errors.New("connection reset")
		s.acquire = func(int) error { return broken }
		_, err := lock.Acquire(t.Context(), s, "k", ttl)
		require.ErrorIs(t, err, broken)
		require.EqualValues(t, 3, s.acquires.Load())
		isFree(t, s.Locker)
	})
}

type fatal struct{ error }

func (fatal) Fatal() bool { return true }

func TestAcquireDoesNotRepeatTheHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.acquire = func(int) error { return fatal{errors.New("no such table")} }
		_, err := lock.Acquire(t.Context(), s, "k", ttl)
		require.ErrorContains(t, err, "no such table")
		require.EqualValues(t, 1, s.acquires.Load())
		_, err = lock.Acquire(t.Context(), memlock.New(), "", ttl)
		require.Error(t, err)
	})
}

func TestAcquireIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locktest.NewLine(memlock.New())
		l.BlackHole()
		start := time.Now()
		_, err := lock.Acquire(t.Context(), l, "k", ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(start), 2*ttl, "three calls of a third, and one to give back")
	})
}

func TestWaitGetsTheLockWhenItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		held, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
		require.NoError(t, err)
		start := time.Now()
		go func() {
			time.Sleep(10 * time.Second)
			assert.NoError(t, l.Release(t.Context(), held))
		}()
		lease, err := lock.Wait(t.Context(), l, "k", ttl, &lock.Waiting{Poll: time.Second})
		require.NoError(t, err)
		require.Greater(t, lease.Fence, held.Fence)
		require.InDelta(t, 10*time.Second, time.Since(start), float64(time.Second))
	})
}

// A lease that ends is not slept through.
func TestWaitWakesAtTheEndOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		_, err := l.Acquire(t.Context(), "k", lock.NewToken(), 5*time.Second)
		require.NoError(t, err)
		start := time.Now()
		_, err = lock.Wait(t.Context(), l, "k", ttl, &lock.Waiting{Poll: time.Hour})
		require.NoError(t, err)
		require.Equal(t, 5*time.Second+time.Millisecond, time.Since(start))
	})
}

func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		_, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
		require.NoError(t, err)

		start := time.Now()
		_, err = lock.Wait(t.Context(), l, "k", ttl, &lock.Waiting{Max: 7 * time.Second})
		require.ErrorIs(t, err, lock.ErrHeld)
		require.Equal(t, 7*time.Second, time.Since(start))

		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer cancel()
		_, err = lock.Wait(ctx, l, "k", ttl, nil)
		require.Same(t, why, err)
	})
}

// With as many turns as there can be, nobody has much less than his share, and
// nobody waits for long.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, turn, poll = 8, 20 * time.Millisecond, 10 * time.Millisecond
		l := memlock.New()
		turns := make([]int, workers)
		waits := make([]time.Duration, workers)
		var all sync.WaitGroup
		end := time.Now().Add(time.Minute)
		for i := range workers {
			all.Go(func() {
				w := lock.Waiting{Poll: poll}
				for time.Now().Before(end) {
					start := time.Now()
					lease, err := lock.Wait(t.Context(), l, "k", ttl, &w)
					if !assert.NoError(t, err) {
						return
					}
					waits[i] = max(waits[i], time.Since(start))
					time.Sleep(turn)
					assert.NoError(t, l.Release(t.Context(), lease))
					turns[i]++
					w.Yield = true
				}
			})
		}
		all.Wait()
		total := 0
		for _, n := range turns {
			total += n
		}
		t.Logf("turns %v, longest waits %v", turns, waits)
		require.Greater(t, total, int(time.Minute/turn)*3/4, "the lock is in use most of the time")
		require.Greater(t, slices.Min(turns), total/workers*3/4)
		require.Less(t, slices.Max(waits), 8*workers*turn)
	})
}
