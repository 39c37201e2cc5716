package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// MinTTL is the shortest lease that can be kept: within it there must be room for
// a renewal and a margin.
const MinTTL = 300 * time.Millisecond

// maxCleanup bounds the release at the end, when the store does not answer.
const maxCleanup = 5 * time.Second

// Hold runs f while it holds the lock. It doesn't wait for the lock: if somebody
// else has it, Hold returns an error that is ErrHeld, and f is not called.
//
// The lease is renewed every third of ttl for as long as f runs, also after ctx
// has ended. If that fails, f's context ends before anybody else can have the
// lock, by the process's own clocks and not by an answer that may never come: at
// a tenth of ttl, and at least 100 ms, before the lease may end. Its cause
// (context.Cause) is then a *LostError. f has to return then; the fence is for
// what f can't stop in time.
//
// When f has returned, and never before, the lock is released; also if f panics
// or ends its goroutine. Hold returns f's error. If the lock was lost, also at
// the release, it returns a *LostError as well (joined, so that errors.Is finds
// both). A store that can't be reached at the release is no error: the lease ends
// by itself.
//
// ttl is how long others wait after this process died. It is at least MinTTL; 30
// seconds are a good choice.
func Hold(ctx context.Context, l Locker, key string, ttl time.Duration, f func(ctx context.Context, fence int64) error) error {
	lease, err := Acquire(ctx, l, key, ttl)
	if err != nil {
		return err
	}
	return Keep(ctx, l, lease, ttl, f)
}

// Keep is Hold for a lease that was already acquired, by Acquire or Wait: it runs
// f while renewing the lease, and releases it.
func Keep(ctx context.Context, l Locker, lease Lease, ttl time.Duration, f func(ctx context.Context, fence int64) error) (err error) {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	work, cancel := context.WithCancelCause(ctx)
	k := &keeper{locker: l, ttl: ttl, margin: max(ttl/10, 100*time.Millisecond), lease: lease, cancel: cancel, now: time.Now}
	// f may have to clean up after ctx has ended, and is to be alone in that too.
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var goroutines sync.WaitGroup
	returned := false
	defer func() { // a panic, or Goexit, passes through
		k.finish()
		stop()
		cancel(nil)
		goroutines.Wait()
		released := k.release(ctx)
		if returned {
			err = k.verdict(err, released)
		}
	}()
	if k.left() <= 0 {
		k.lose(Expired, nil)
		returned = true
		return nil
	}
	goroutines.Go(func() { k.watch(keeping) })
	goroutines.Go(func() { k.renew(keeping) })
	err = f(work, lease.Fence)
	returned = true
	return err
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL {
		return fmt.Errorf("sendonce: a lock for %v can't be kept: ttl must be at least %v", ttl, MinTTL)
	}
	return nil
}

// keeper is one Keep.
type keeper struct {
	locker Locker
	ttl    time.Duration
	margin time.Duration
	cancel context.CancelCauseFunc
	now    func() time.Time // for tests

	mu       sync.Mutex
	lease    Lease
	pending  bool  // a renewal has been sent and not been answered
	failed   error // of the last renewal
	finished bool  // f has returned
	lost     *LostError
}

// left is the time until the watchman must act.
func (k *keeper) left() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return left(k.lease.Until, k.now()) - k.margin
}

// watch ends f's context when the lease has not been confirmed in time. Whatever
// renewals do, it waits for none.
func (k *keeper) watch(ctx context.Context) {
	for {
		left := k.left()
		if left <= 0 {
			k.lose(0, nil)
			return
		}
		// Timers run on the monotonic clock: look at the other one too.
		if !sleep(ctx, min(left, k.margin/2)) {
			return
		}
	}
}

func (k *keeper) renew(ctx context.Context) {
	pause := k.ttl / 3
	for sleep(ctx, pause) {
		start := k.now()
		if k.renewOnce(ctx) {
			pause = k.ttl/3 - k.now().Sub(start)
		} else {
			pause = k.ttl / 15 // there is little time left
		}
	}
}

func (k *keeper) renewOnce(ctx context.Context) (confirmed bool) {
	left := k.left()
	k.mu.Lock()
	lease, over := k.lease, k.lost != nil || left <= 0
	k.pending = !over
	k.mu.Unlock()
	if over {
		return false
	}
	call, cancel := context.WithTimeout(ctx, min(k.ttl/3, left))
	defer cancel()
	lease, err := k.locker.Extend(call, lease, k.ttl)
	if errors.Is(err, ErrLost) {
		reason := Expired
		var lost *LostError
		if errors.As(err, &lost) {
			reason, err = lost.Reason, lost.Err
		}
		k.lose(reason, err)
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending, k.failed = false, err
	if err == nil {
		k.lease = lease
	}
	return err == nil
}

// lose ends f's context. Reason 0 is that of the watchman.
func (k *keeper) lose(reason Reason, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.finished || k.lost != nil {
		return
	}
	if reason == 0 {
		reason, err = Expired, k.failed // a clock jumped: no renewal was due, or it was not asked for
		if k.pending || k.failed != nil {
			reason = Unreachable
		}
	}
	k.lost = &LostError{
		Key: k.lease.Key, Fence: k.lease.Fence, Reason: reason,
		LastConfirmed: k.lease.Until.Add(-k.ttl), Err: err,
	}
	k.cancel(k.lost)
}

// finish says that f has returned: what happens to the lock now is of no
// consequence to it.
func (k *keeper) finish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finished = true
}

func (k *keeper) release(ctx context.Context) error {
	if k.lost != nil && k.lost.Reason == Taken {
		return nil
	}
	return release(ctx, k.locker, k.lease, k.ttl)
}

// verdict makes Keep's result of f's error and what became of the lock.
func (k *keeper) verdict(f, released error) error {
	lost := k.lost
	if lost == nil && errors.Is(released, ErrLost) {
		lost = &LostError{Key: k.lease.Key, Fence: k.lease.Fence, Reason: Expired, LastConfirmed: k.lease.Until.Add(-k.ttl)}
		var known *LostError
		if errors.As(released, &known) {
			lost.Reason, lost.Err = known.Reason, known.Err
		}
	}
	switch {
	case lost == nil, errors.Is(f, ErrLost):
		return f
	case f == nil:
		return lost
	}
	return errors.Join(f, lost)
}

// release ends a lease, or what may be one, on a context of its own.
func release(ctx context.Context, l Locker, lease Lease, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(ttl/3, maxCleanup))
	defer cancel()
	return l.Release(ctx, lease)
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
