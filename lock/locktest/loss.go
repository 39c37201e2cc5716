package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/sendonce/sendonce/lock"
)

func lossCases() []testCase {
	return []testCase{
		{name: "Expiry", contract: "a lease that is not extended ends after ttl, and somebody else can have the lock, with a larger fence", run: expiry},
		{name: "StaleExtend", contract: "if somebody else has taken the lock, Extend returns ErrLost and changes nothing", run: staleExtend},
		{name: "StaleRelease", contract: "if somebody else has taken the lock, Release returns ErrLost and changes nothing", run: staleRelease},
		{name: "ForeignToken", contract: "a lease with another token than the holder's is refused with ErrLost, and changes nothing", run: foreignToken},
		{name: "StaleFence", contract: "a lease of an earlier tenure is refused by Extend, also if the token was used again", run: staleFence},
		{name: "ExtendReleased", contract: "Extend never makes a lease anew that was released", run: extendReleased},
		{name: "ExtendExpired", contract: "Extend of a lease that is over, and that nobody has taken, extends it or returns ErrLost; what it says holds", run: extendExpired},
		{name: "ExtendForgotten", contract: "Extend returns ErrLost for a lease that the store has forgotten, and never makes it anew", run: extendForgotten},
		{name: "Fences", contract: "the fence grows with every grant of a key", run: fences},
		{
			name: "FencesForgotten", contract: "the fence grows also after the store has lost all that it knew of the key",
			needs: func(c Caps) bool { return c.Fenced }, run: fencesForgotten,
		},
		{
			name: "Restart", contract: "a lease outlives a restart of the store",
			needs: func(c Caps) bool { return c.Durable }, run: restart,
		},
		{
			name: "Pooler", contract: "a lock works behind a pooler that gives the session to somebody else after each statement",
			needs: func(c Caps) bool { return c.PoolerSafe }, run: pooler,
		},
	}
}

func expiry(e *env) {
	a, b := e.New(), e.New()
	lease := e.acquire(a)
	next := e.take(b)
	if left := lease.Left(); left > 0 {
		e.Fatalf("somebody else was granted the lock %v before Until", left)
	}
	if next.Fence <= lease.Fence {
		e.Errorf("the fence was %d, and %d for the next holder", lease.Fence, next.Fence)
	}
}

// overtaken is a lease that is over, and that of somebody else who has the lock.
func (e *env) overtaken() (stale, current lock.Lease) {
	e.Helper()
	stale = e.acquire(e.New())
	time.Sleep(time.Until(stale.Until))
	b, token := e.New(), lock.NewToken()
	for {
		lease, err := b.Acquire(e.ctx, key, token, time.Hour)
		if err == nil {
			return stale, lease
		}
		if !errors.Is(err, lock.ErrHeld) || e.ctx.Err() != nil {
			e.Fatalf("Acquire of a lock whose lease is over: %v", err)
		}
		time.Sleep(e.ttl / 20)
	}
}

// unharmed checks that the holder of a lease for an hour still is that.
func (e *env) unharmed(l lock.Lease) {
	e.Helper()
	e.refused(e.New())
	if _, err := e.New().Extend(e.ctx, l, time.Hour); err != nil {
		e.Errorf("the holder's Extend: %v", err)
	}
	e.release(e.New(), l)
}

func staleExtend(e *env) {
	stale, current := e.overtaken()
	_, err := e.New().Extend(e.ctx, stale, e.ttl)
	e.lost("Extend of a lease that was taken", err)
	var known *lock.LostError
	if errors.As(err, &known) && (known.Reason != lock.Taken || known.Key != key || known.Fence != stale.Fence) {
		e.Errorf("Extend of a lease that was taken: %+v", known)
	}
	time.Sleep(e.ttl * 11 / 10) // had it been given that ttl, the lock would be free now
	e.unharmed(current)
}

func staleRelease(e *env) {
	stale, current := e.overtaken()
	e.lost("Release of a lease that was taken", e.New().Release(e.ctx, stale))
	e.unharmed(current)
}

func foreignToken(e *env) {
	l := e.New()
	lease, err := l.Acquire(e.ctx, key, lock.NewToken(), time.Hour)
	if err != nil {
		e.Fatalf("Acquire: %v", err)
	}
	foreign := lease
	foreign.Token = lock.NewToken()
	_, err = l.Extend(e.ctx, foreign, e.ttl)
	e.lost("Extend with another token", err)
	e.lost("Release with another token", l.Release(e.ctx, foreign))
	foreign.Key = "never locked"
	_, err = l.Extend(e.ctx, foreign, e.ttl)
	e.lost("Extend of a lock that nobody has held", err)
	e.lost("Release of a lock that nobody has held", l.Release(e.ctx, foreign))
	e.unharmed(lease)
}

func staleFence(e *env) {
	l := e.New()
	first := e.acquire(l)
	e.release(l, first)
	e.release(l, e.acquire(l))
	again, err := l.Acquire(e.ctx, key, first.Token, time.Hour)
	if err != nil {
		e.Fatalf("Acquire: %v", err)
	}
	_, err = l.Extend(e.ctx, first, e.ttl)
	e.lost("Extend with the fence of an earlier tenure", err)
	e.unharmed(again)
}

func extendReleased(e *env) {
	l := e.New()
	lease := e.acquire(l)
	e.release(l, lease)
	_, err := l.Extend(e.ctx, lease, time.Hour)
	e.lost("Extend after Release", err)
	e.acquire(e.New())
}

func extendExpired(e *env) {
	a, b := e.New(), e.New()
	lease := e.acquire(a)
	time.Sleep(time.Until(lease.Until) + e.ttl/10)
	next, err := a.Extend(e.ctx, lease, time.Hour)
	switch {
	case err == nil:
		if next.Fence != lease.Fence {
			e.Errorf("Extend changed the fence from %d to %d", lease.Fence, next.Fence)
		}
		e.refused(b)
	case errors.Is(err, lock.ErrLost):
		var known *lock.LostError
		if errors.As(err, &known) && known.Reason != lock.Expired {
			e.Errorf("Extend of a lease that is over and was not taken: %v", err)
		}
		e.take(b)
	default:
		e.Fatalf("Extend of a lease that is over: %v", err)
	}
}

func extendForgotten(e *env) {
	if e.Forget == nil {
		e.Skip("SKIPPED, not tested: the harness has no Forget")
	}
	l := e.New()
	lease, err := l.Acquire(e.ctx, key, lock.NewToken(), time.Hour)
	if err != nil {
		e.Fatalf("Acquire: %v", err)
	}
	e.Forget(key)
	_, err = l.Extend(e.ctx, lease, time.Hour)
	e.lost("Extend of a lease that the store has forgotten", err)
	var known *lock.LostError
	if errors.As(err, &known) && known.Reason != lock.Expired {
		e.Errorf("Extend of a lease that the store has forgotten: %v", err)
	}
	next, err := e.New().Acquire(e.ctx, key, lock.NewToken(), time.Hour)
	if err != nil {
		e.Fatalf("Acquire of a lock that the store has forgotten, after somebody tried to extend it: %v", err)
	}
	_, err = l.Extend(e.ctx, lease, time.Hour)
	e.lost("Extend of a lease that the store has forgotten, and that was taken", err)
	e.unharmed(next)
}

func fences(e *env) {
	l := e.New()
	last := int64(0)
	for i := range 20 {
		lease, err := l.Acquire(e.ctx, key, lock.NewToken(), time.Hour)
		if err != nil {
			e.Fatalf("Acquire: %v", err)
		}
		if lease.Fence <= last {
			e.Fatalf("grant %d has fence %d, after %d", i+1, lease.Fence, last)
		}
		last = lease.Fence
		e.release(l, lease)
	}
}

func fencesForgotten(e *env) {
	if e.Forget == nil {
		e.Fatalf("Caps.Fenced needs Store.Forget")
	}
	l := e.New()
	last := int64(0)
	for range 5 {
		lease := e.acquire(l)
		if lease.Fence <= last {
			e.Fatalf("the fence was %d, and %d after the store had lost its memory", last, lease.Fence)
		}
		e.release(l, lease)
		last = e.acquire(l).Fence // also while it is held
		time.Sleep(time.Millisecond)
		e.Forget(key)
	}
}

func restart(e *env) {
	if e.Restart == nil {
		e.Fatalf("Caps.Durable needs Store.Restart")
	}
	lease, err := e.New().Acquire(e.ctx, key, lock.NewToken(), time.Hour)
	if err != nil {
		e.Fatalf("Acquire: %v", err)
	}
	e.Restart()
	e.unharmed(lease)
	if next := e.acquire(e.New()); next.Fence <= lease.Fence {
		e.Errorf("the fence was %d, and is %d after a restart", lease.Fence, next.Fence)
	}
}

func pooler(e *env) {
	if e.Pooled == nil {
		e.Fatalf("Caps.PoolerSafe needs Store.Pooled")
	}
	const workers, turns = 6, 10
	inside := make(chan struct{}, 1)
	errs := make(chan error, workers)
	for range workers {
		l := e.Pooled()
		go func() { errs <- takeTurns(e.ctx, l, e.ttl, turns, inside) }()
	}
	for range workers {
		if err := <-errs; err != nil {
			e.Errorf("behind a pooler: %v", err)
		}
	}
}

// takeTurns holds the lock a number of times. Nobody else may be inside then.
func takeTurns(ctx context.Context, l lock.Locker, ttl time.Duration, turns int, inside chan struct{}) error {
	for range turns {
		lease, err := lock.Wait(ctx, l, key, max(10*ttl, 10*time.Second), &lock.Waiting{Poll: 20 * time.Millisecond, Yield: true})
		if err != nil {
			return err
		}
		select {
		case inside <- struct{}{}:
		default:
			return errors.New("two hold the lock at once")
		}
		lease, err = l.Extend(ctx, lease, max(10*ttl, 10*time.Second))
		<-inside
		if err != nil {
			return err
		}
		if err := l.Release(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}
