package lock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// suspended returns an instant whose wall clock is d further on than its
// monotonic one: what time.Now returns after a machine was suspended. It writes
// into the time as package time has it; the checks fail if that changes.
func suspended(t *testing.T, now time.Time, d time.Duration) time.Time {
	t.Helper()
	later := now
	wall := (*uint64)(unsafe.Pointer(&later))
	*wall += uint64(d/time.Second) << 30
	require.Zero(t, later.Sub(now), "by the monotonic clock")
	require.Equal(t, d, later.Round(0).Sub(now.Round(0)), "by the wall clock")
	return later
}

func TestLeftGoesByThePessimisticClock(t *testing.T) {
	now := time.Now()
	until := now.Add(time.Minute)
	require.Equal(t, time.Minute, left(until, now))
	require.Equal(t, 20*time.Second, left(until, suspended(t, now, 40*time.Second)), "the wall clock went on alone")
	require.Equal(t, time.Minute, left(until, suspended(t, now, -time.Hour)), "the wall clock was set back")
	require.Equal(t, -time.Minute, left(until, suspended(t, now, 2*time.Minute)))
	require.InDelta(t, time.Minute, Lease{Until: time.Now().Add(time.Minute)}.Left(), float64(time.Second))
	require.Negative(t, Lease{}.Left())
}

// stubborn never confirms anything.
type stubborn struct{ Locker }

func (stubborn) Extend(ctx context.Context, l Lease, _ time.Duration) (Lease, error) {
	return l, errors.New("no")
}

// After a suspension the timers of the process have most of the lease still to
// wait. The watchman looks at the wall clock too.
func TestWatchmanSeesASuspendedMachine(t *testing.T) {
	now := time.Now()
	var asleep atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		// In a bubble times have no monotonic reading, so this clock is made of both.
		clock := func() time.Time { return suspended(t, now.Add(time.Since(start)), time.Duration(asleep.Load())) }
		k := &keeper{
			locker: stubborn{}, ttl: time.Minute, margin: 6 * time.Second, cancel: cancel, now: clock,
			lease: Lease{Key: "k", Fence: 7, Until: now.Add(time.Minute)},
		}
		watching, stop := context.WithCancel(t.Context())
		defer stop()
		go k.watch(watching)
		time.Sleep(10 * time.Second)
		require.NoError(t, ctx.Err())
		asleep.Store(int64(time.Hour))
		<-ctx.Done()
		require.LessOrEqual(t, time.Since(start), 13*time.Second, "within half of the margin")
		var lost *LostError
		require.ErrorAs(t, context.Cause(ctx), &lost)
		require.Equal(t, Expired, lost.Reason)
	})
}
