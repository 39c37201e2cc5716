package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/sendonce/sendonce/lock"
)

func timeCases() []testCase {
	return []testCase{
		{name: "SlowReply", contract: "the lease is surely the caller's before Until: it is counted from before the call, however late the reply", run: slowReply},
		{name: "SlowExtension", contract: "the lease is surely the caller's before Until, also as Extend returned it late", run: slowExtension},
		{name: "BlackHole", contract: "with the holder's line cut in both directions, Hold's context ends before somebody else can have the lock", run: blackHole},
		{name: "HoldForgotten", contract: "when the store has forgotten the lock, Hold's context ends at the next renewal, with a cause that says so", run: holdForgotten},
		{name: "HoldAndRelease", contract: "Hold releases the lock when its function has returned, and not before", run: holdAndRelease},
		{name: "Interleavings", contract: "in any order of acquire, extend, release and expiry, with a pause anywhere: one holder at a time, larger fences for later grants, and nothing that an old holder does changes the lock", run: interleavings},
	}
}

func slowReply(e *env) {
	a, line := e.Line()
	e.release(a, e.acquire(a))
	line.Delay(e.ttl / 2)
	lease, err := a.Acquire(e.ctx, key, lock.NewToken(), e.ttl)
	line.Heal()
	if err != nil {
		e.Fatalf("Acquire with a late reply: %v", err)
	}
	e.takenAfter(lease)
}

func slowExtension(e *env) {
	a, line := e.Line()
	lease := e.acquire(a)
	lease = e.extend(a, lease)
	line.Delay(e.ttl / 2)
	next, err := a.Extend(e.ctx, lease, e.ttl)
	line.Heal()
	if err != nil {
		e.fatalIfSure(lease, "Extend with a late reply: %v", err)
		return
	}
	e.takenAfter(next)
}

// takenAfter checks that nobody else is granted the lock before the lease says.
func (e *env) takenAfter(l lock.Lease) {
	e.Helper()
	e.take(e.New())
	if left := l.Left(); left > 0 {
		e.Fatalf("somebody else was granted the lock %v before Until", left)
	}
}

// rival is granted the lock as soon as it can be had, and returns a moment
// before its tenure began.
func (e *env) rival(granted chan<- time.Time) {
	l, token := e.New(), lock.NewToken()
	for {
		start := time.Now()
		_, err := l.Acquire(e.ctx, key, token, time.Hour)
		if err == nil {
			granted <- start
			return
		}
		if e.ctx.Err() != nil {
			close(granted)
			return
		}
		time.Sleep(e.ttl / 200)
	}
}

func blackHole(e *env) {
	a, line := e.Line()
	granted := make(chan time.Time, 1)
	var ended time.Time
	err := lock.Hold(e.ctx, a, key, e.ttl, func(ctx context.Context, _ int64) error {
		time.Sleep(e.ttl / 2) // one renewal has come and gone
		go e.rival(granted)
		line.BlackHole()
		<-ctx.Done()
		ended = time.Now()
		if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrLost) {
			e.Errorf("the cause of the context's end is %v, which is not ErrLost", cause)
		}
		return nil
	})
	line.Heal()
	if ended.IsZero() {
		e.Fatalf("Hold did not get the lock: %v", err)
	}
	var lost *lock.LostError
	if !errors.As(err, &lost) || lost.Reason != lock.Unreachable {
		e.Errorf("Hold returned %v, and not a LostError that says unreachable", err)
	}
	begun, ok := <-granted
	if !ok {
		e.Fatalf("the rival could not have the lock")
	}
	if !ended.Before(begun) {
		e.Fatalf("the holder's context ended %v after its rival was granted the lock", ended.Sub(begun))
	}
}

func holdForgotten(e *env) {
	if e.Forget == nil {
		e.Skip("SKIPPED, not tested: the harness has no Forget")
	}
	a, b := e.New(), e.New()
	ttl := 3 * e.ttl
	var next lock.Lease
	err := lock.Hold(e.ctx, a, key, ttl, func(ctx context.Context, fence int64) error {
		time.Sleep(time.Millisecond) // fences grow with time at the least
		e.Forget(key)
		next = e.acquire(b)
		if next.Fence <= fence && e.h.Caps.Fenced {
			e.Errorf("the fence was %d, and %d for the next holder", fence, next.Fence)
		}
		start := time.Now()
		<-ctx.Done()
		if after := time.Since(start); after > ttl*8/10 { // the watchman's time is nine tenths
			e.Errorf("the context ended %v after the lock was lost, with a ttl of %v", after, ttl)
		}
		return context.Cause(ctx)
	})
	var lost *lock.LostError
	// Expired, if the renewal came just before the next holder.
	if !errors.As(err, &lost) || lost.Reason == lock.Unreachable || lost.Fence >= next.Fence && e.h.Caps.Fenced {
		e.Errorf("Hold returned %v, and not a LostError that says taken", err)
	}
	if next.Left() > 0 {
		e.extend(b, next)
	}
}

func holdAndRelease(e *env) {
	a, b := e.New(), e.New()
	want := errors.New("what the function returned")
	err := lock.Hold(e.ctx, a, key, e.ttl, func(ctx context.Context, fence int64) error {
		for end := time.Now().Add(2 * e.ttl); time.Now().Before(end); time.Sleep(e.ttl / 10) {
			_, err := b.Acquire(e.ctx, key, lock.NewToken(), e.ttl)
			if err == nil && ctx.Err() == nil {
				e.Errorf("somebody else was granted the lock while it is held")
			}
		}
		return want
	})
	if errors.Is(err, lock.ErrLost) {
		e.Logf("not judged: the lock was lost to a slow machine: %v", err)
		return
	}
	if err != want { // the very error
		e.Errorf("Hold returned %v", err)
	}
	e.acquire(b)
}
