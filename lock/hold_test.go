package lock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/locktest"
	"github.com/sendonce/sendonce/lock/memlock"
)

const ttl = 3 * time.Second

// scripted is a Locker whose Extend and Release can be replaced, and which keeps
// count.
type scripted struct {
	lock.Locker
	acquire           func(n int) error
	extend            func(ctx context.Context, n int) error // nil: as usual
	release           func() error
	acquires, extends atomic.Int32
	extendedAt        []time.Duration
	start             time.Time
	releases          atomic.Int32
}

func newScripted() *scripted { return &scripted{Locker: memlock.New(), start: time.Now()} }

func (s *scripted) Acquire(ctx context.Context, key string, token lock.Token, ttl time.Duration) (lock.Lease, error) {
	n := int(s.acquires.Add(1))
	lease, err := s.Locker.Acquire(ctx, key, token, ttl)
	if s.acquire != nil {
		if err := s.acquire(n); err != nil {
			return lock.Lease{}, err
		}
	}
	return lease, err
}

func (s *scripted) Extend(ctx context.Context, l lock.Lease, ttl time.Duration) (lock.Lease, error) {
	s.extendedAt = append(s.extendedAt, time.Since(s.start))
	n := int(s.extends.Add(1))
	if s.extend != nil {
		if err := s.extend(ctx, n); err != nil {
			return l, err
		}
	}
	return s.Locker.Extend(ctx, l, ttl)
}

func (s *scripted) Release(ctx context.Context, l lock.Lease) error {
	s.releases.Add(1)
	if s.release != nil {
		return s.release()
	}
	return s.Locker.Release(ctx, l)
}

func isFree(t *testing.T, l lock.Locker) {
	t.Helper()
	token := lock.NewToken()
	lease, err := l.Acquire(t.Context(), "k", token, time.Second)
	require.NoError(t, err, "the lock is free")
	require.NoError(t, l.Release(t.Context(), lease))
}

func TestHoldRenewsEveryThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		err := lock.Hold(t.Context(), s, "k", ttl, func(ctx context.Context, fence int64) error {
			assert.Positive(t, fence)
			time.Sleep(4*time.Second + time.Millisecond)
			return ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}, s.extendedAt)
		isFree(t, s.Locker)
	})
}

func TestHoldReturnsWhatFReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := errors.New("of f")
		s := newScripted()
		err := lock.Hold(t.Context(), s, "k", ttl, func(context.Context, int64) error { return want })
		require.Same(t, want, err)
	})
}

func TestHoldDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		_, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
		require.NoError(t, err)
		start := time.Now()
		err = lock.Hold(t.Context(), l, "k", ttl, func(context.Context, int64) error { t.Error("called"); return nil })
		require.ErrorIs(t, err, lock.ErrHeld)
		require.Zero(t, time.Since(start))
	})
}

// One failed renewal, and one that hangs, cost nothing if another comes through.
func TestHoldSurvivesAFailedRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.extend = func(ctx context.Context, n int) error {
			switch n {
			case 1, 2:
				return errors.New("connection refused")
			case 4:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		err := lock.Hold(t.Context(), s, "k", ttl, func(ctx context.Context, _ int64) error {
			time.Sleep(3 * ttl)
			return context.Cause(ctx)
		})
		require.NoError(t, err)
	})
}

// The call that hangs ends by itself, before the watchman's time.
func TestRenewalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		var lasted []time.Duration
		s.extend = func(ctx context.Context, n int) error {
			start := time.Now()
			<-ctx.Done()
			lasted = append(lasted, time.Since(start))
			return ctx.Err()
		}
		start := time.Now()
		var ended time.Duration
		err := lock.Hold(t.Context(), s, "k", ttl, func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			ended = time.Since(start)
			return nil
		})
		var lost *lock.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, lock.Unreachable, lost.Reason)
		require.Equal(t, start, lost.LastConfirmed.Round(0))
		require.ErrorIs(t, lost, context.DeadlineExceeded, "what the last try said")
		require.Equal(t, ttl*9/10, ended, "a tenth before the end")
		require.Equal(t, []time.Duration{time.Second, 500 * time.Millisecond}, lasted)
	})
}

// A renewal whose call ignores its context does not keep the watchman from acting.
func TestWatchmanWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.extend = func(context.Context, int) error { time.Sleep(time.Hour); return nil }
		start := time.Now()
		var ended time.Duration
		err := lock.Hold(t.Context(), s, "k", ttl, func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			ended = time.Since(start)
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, lock.ErrLost)
		require.Equal(t, ttl*9/10, ended)
	})
}

func TestHoldIsToldOfALoss(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*memlock.Locker, lock.Lease)
		want lock.Reason
	}{
		"taken": {want: lock.Taken, lose: func(l *memlock.Locker, le lock.Lease) {
			l.Forget("k")
			time.Sleep(time.Microsecond)
			_, err := l.Acquire(context.Background(), "k", lock.NewToken(), time.Hour)
			assert.NoError(t, err)
		}},
		"forgotten": {want: lock.Expired, lose: func(l *memlock.Locker, le lock.Lease) { l.Forget("k") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memlock.New()
				lease, err := lock.Acquire(t.Context(), l, "k", ttl)
				require.NoError(t, err)
				start := time.Now()
				mine := errors.New("of f")
				err = lock.Keep(t.Context(), l, lease, ttl, func(ctx context.Context, fence int64) error {
					assert.Equal(t, lease.Fence, fence)
					c.lose(l, lease)
					<-ctx.Done()
					assert.Equal(t, ttl/3, time.Since(start), "at the renewal's answer")
					var cause *lock.LostError
					if assert.ErrorAs(t, context.Cause(ctx), &cause) {
						assert.Equal(t, c.want, cause.Reason)
						assert.Equal(t, fence, cause.Fence)
						assert.Equal(t, "k", cause.Key)
					}
					assert.ErrorIs(t, ctx.Err(), context.Canceled)
					return mine
				})
				require.ErrorIs(t, err, lock.ErrLost)
				require.ErrorIs(t, err, mine, "f's error is not hidden by the loss")
			})
		})
	}
}

// A loss that f did not see is not hidden either.
func TestLossIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		err := lock.Hold(t.Context(), l, "k", ttl, func(context.Context, int64) error {
			l.Forget("k") // before any renewal
			return nil
		})
		var lost *lock.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, lock.Expired, lost.Reason)
		require.False(t, lost.LastConfirmed.IsZero())
	})
}

// A release that gets no answer is no failure of f's work.
func TestReleaseIsBoundedAndForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locktest.NewLine(memlock.New())
		start := time.Now()
		err := lock.Hold(t.Context(), l, "k", ttl, func(context.Context, int64) error {
			l.BlackHole()
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, ttl/3, time.Since(start))
	})
}

// While f cleans up after its context has ended, it still holds the lock.
func TestHoldOutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("stop")
		err := lock.Hold(ctx, l, "k", ttl, func(ctx context.Context, _ int64) error {
			cancel(why)
			<-ctx.Done()
			time.Sleep(5 * ttl)
			_, err := l.Acquire(t.Context(), "k", lock.NewToken(), ttl)
			assert.ErrorIs(t, err, lock.ErrHeld)
			return context.Cause(ctx)
		})
		require.Same(t, why, err)
		isFree(t, l)
	})
}

func TestPanicReleasesAndPropagates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		func() {
			defer func() { assert.Equal(t, "of f", recover()) }()
			_ = lock.Hold(t.Context(), l, "k", ttl, func(context.Context, int64) error { panic("of f") })
			t.Error("Hold returned from a panic")
		}()
		isFree(t, l)
	})
}

func TestGoexitReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		var done sync.WaitGroup
		done.Go(func() {
			_ = lock.Hold(t.Context(), l, "k", ttl, func(context.Context, int64) error { runtime.Goexit(); return nil })
			t.Error("Hold returned from Goexit")
		})
		done.Wait()
		isFree(t, l)
	})
}

func TestKeepRefuses(t *testing.T) {
	l := memlock.New()
	never := func(context.Context, int64) error { t.Error("called"); return nil }
	require.ErrorContains(t, lock.Hold(t.Context(), l, "k", lock.MinTTL-1, never), lock.MinTTL.String())
	lease, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
	require.NoError(t, err)
	require.ErrorContains(t, lock.Keep(t.Context(), l, lease, 0, never), lock.MinTTL.String())
	lease.Until = time.Now().Add(time.Millisecond)
	require.ErrorIs(t, lock.Keep(t.Context(), l, lease, time.Second, never), lock.ErrLost, "there is no time left")
}
