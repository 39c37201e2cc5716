package locktest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce/lock"
)

func basicCases() []testCase {
	return []testCase{
		{name: "Grant", contract: "Acquire takes the lock for ttl, if nobody holds it", run: grant},
		{name: "Held", contract: "Acquire returns ErrHeld while somebody else holds the lock, and changes nothing", run: held},
		{name: "OneWinner", contract: "of many who ask at once, one is granted the lock", run: oneWinner},
		{name: "AcquireAgain", contract: "Acquire, repeated with the same token, returns the same tenure with the same fence, and the lease lasts for ttl again", run: acquireAgain},
		{name: "AcquireLostReply", contract: "Acquire, repeated with the same token after its reply was lost, returns the tenure that the first call began", run: acquireLostReply},
		{name: "Extend", contract: "Extend makes the lease last for ttl again, and does not change the fence", run: extends},
		{name: "Release", contract: "Release ends the lease at once", run: releases},
		{name: "ReleaseAgain", contract: "Release, repeated after its reply was lost, succeeds unless somebody else has held the lock meanwhile", run: releaseAgain},
		{name: "Keys", contract: "keys that differ in any byte are different locks", run: keys},
		{name: "Arguments", contract: "keys, tokens and ttls out of range are refused with an error that is neither ErrHeld nor ErrLost, and nothing is done", run: arguments},
		{name: "Context", contract: "methods return when ctx ends, and do nothing if it has ended before", run: contexts},
	}
}

func grant(e *env) {
	l, token := e.New(), lock.NewToken()
	start := time.Now()
	lease, err := l.Acquire(e.ctx, key, token, e.ttl)
	if err != nil {
		e.Fatalf("Acquire of a lock that was never held: %v", err)
	}
	if lease.Key != key || lease.Token != token {
		e.Errorf("the lease is for key %q, token %q: not what was asked for", lease.Key, lease.Token)
	}
	if lease.Fence < 1 {
		e.Errorf("the fence is %d: it must be at least 1", lease.Fence)
	}
	if end := time.Now().Add(e.ttl); lease.Until.After(end) {
		e.Errorf("Until is %v after the end of the lease", lease.Until.Sub(end))
	}
	if lease.Until.Before(start.Add(e.ttl * 9 / 10)) {
		e.Errorf("Until is %v after the call was begun, with a ttl of %v", lease.Until.Sub(start), e.ttl)
	}
}

func held(e *env) {
	a, b := e.New(), e.New()
	lease := e.acquire(a)
	_, err := b.Acquire(e.ctx, key, lock.NewToken(), e.ttl)
	if !errors.Is(err, lock.ErrHeld) {
		e.Fatalf("Acquire of a held lock: %v, which is not ErrHeld", err)
	}
	var known *lock.HeldError
	if errors.As(err, &known) {
		if known.Key != key {
			e.Errorf("HeldError.Key is %q, not %q", known.Key, key)
		}
		if known.For < 0 || known.For > e.ttl+time.Second {
			e.Errorf("HeldError.For is %v, with a ttl of %v", known.For, e.ttl)
		}
	}
	e.refused(a) // another token of the same process is somebody else
	e.extend(a, lease)
	e.release(a, lease)
}

func oneWinner(e *env) {
	const askers = 16
	var wins, others atomic.Int32
	var all sync.WaitGroup
	for range askers {
		l := e.New()
		all.Go(func() {
			_, err := l.Acquire(e.ctx, key, lock.NewToken(), time.Minute)
			switch {
			case err == nil:
				wins.Add(1)
			case !errors.Is(err, lock.ErrHeld):
				others.Add(1)
				e.Errorf("Acquire: %v, which is not ErrHeld", err)
			}
		})
	}
	all.Wait()
	if wins.Load() != 1 && others.Load() == 0 {
		e.Errorf("%d of %d were granted the lock at once", wins.Load(), askers)
	}
}

func acquireAgain(e *env) {
	a, b := e.New(), e.New()
	first := e.acquire(a)
	time.Sleep(e.ttl * 2 / 3)
	again, err := b.Acquire(e.ctx, key, first.Token, e.ttl)
	if err != nil {
		e.fatalIfSure(first, "Acquire repeated with the same token: %v", err)
		return
	}
	if again.Fence != first.Fence {
		e.fatalIfSure(first, "the fence was %d, and is %d when Acquire is repeated", first.Fence, again.Fence)
	}
	if !again.Until.After(first.Until) {
		e.Errorf("the repeated Acquire did not move Until: %v, then %v", first.Until, again.Until)
	}
	time.Sleep(time.Until(first.Until) + e.ttl/10)
	if again.Left() > e.ttl/10 {
		_, err := b.Acquire(e.ctx, key, lock.NewToken(), e.ttl)
		if err == nil && again.Left() > 0 {
			e.Errorf("somebody else was granted the lock after the first call's end, and %v before the end that the repeated Acquire told", again.Left())
		}
	}
}

// fatalIfSure is Fatalf, unless the machine was so slow that the lease may be
// over.
func (e *env) fatalIfSure(l lock.Lease, format string, args ...any) {
	e.Helper()
	if l.Left() > 0 {
		e.Fatalf(format, args...)
	}
	e.Logf("not judged, as the lease may be over: "+format, args...)
}

func acquireLostReply(e *env) {
	a, line := e.Line()
	e.release(a, e.acquire(a)) // so that the line is warm, and the reply that is lost is that of the call
	line.LoseReplies()
	token := lock.NewToken()
	call, cancel := context.WithTimeout(e.ctx, e.ttl/4)
	_, err := a.Acquire(call, key, token, 10*e.ttl)
	cancel()
	line.Heal()
	if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrLost) {
		e.Fatalf("Acquire without an answer: %v; it has to be an error that is neither ErrHeld nor ErrLost", err)
	}
	e.refused(e.New())
	first, err := a.Acquire(e.ctx, key, token, 10*e.ttl)
	if err != nil {
		e.Fatalf("Acquire repeated after its reply was lost: %v", err)
	}
	again, err := e.New().Acquire(e.ctx, key, token, 10*e.ttl)
	if err != nil || again.Fence != first.Fence {
		e.Fatalf("Acquire repeated once more: fence %d, %v; the fence was %d", again.Fence, err, first.Fence)
	}
	e.release(a, first)
	e.acquire(e.New())
}

func extends(e *env) {
	a, b := e.New(), e.New()
	lease := e.acquire(a)
	first := lease
	for end := time.Now().Add(2 * e.ttl); time.Now().Before(end); {
		time.Sleep(e.ttl / 4)
		before := lease
		next, err := a.Extend(e.ctx, lease, e.ttl)
		if err != nil {
			e.fatalIfSure(before, "Extend by the holder: %v", err)
			return
		}
		lease = next
		if lease.Fence != first.Fence || lease.Token != first.Token || lease.Key != first.Key {
			e.Fatalf("Extend turned %+v into %+v", first, lease)
		}
		if !lease.Until.After(before.Until) {
			e.Fatalf("Extend did not move Until: %v, then %v", before.Until, lease.Until)
		}
		_, err = b.Acquire(e.ctx, key, lock.NewToken(), e.ttl)
		if err == nil {
			e.fatalIfSure(lease, "somebody else was granted the lock while it is extended")
			return
		}
	}
}

func releases(e *env) {
	a, b := e.New(), e.New()
	lease, err := a.Acquire(e.ctx, key, lock.NewToken(), time.Hour)
	if err != nil {
		e.Fatalf("Acquire: %v", err)
	}
	e.refused(b)
	e.release(a, lock.Lease{Key: key, Token: lease.Token}) // the fence is not needed
	next := e.acquire(b)
	if next.Fence <= lease.Fence {
		e.Errorf("the fence was %d, and %d for the next holder", lease.Fence, next.Fence)
	}
}

func releaseAgain(e *env) {
	a, b := e.New(), e.New()
	lease, err := a.Acquire(e.ctx, key, lock.NewToken(), time.Hour)
	if err != nil {
		e.Fatalf("Acquire: %v", err)
	}
	e.release(a, lease)
	if err := a.Release(e.ctx, lease); err != nil {
		e.Fatalf("Release repeated: %v", err)
	}
	next, err := b.Acquire(e.ctx, key, lock.NewToken(), time.Hour)
	if err != nil {
		e.Fatalf("Acquire after Release: %v", err)
	}
	e.lost("Release repeated while somebody else holds the lock", a.Release(e.ctx, lease))
	e.refused(e.New())
	e.release(b, next)
	e.lost("Release repeated after somebody else has held the lock", a.Release(e.ctx, lease))
	again, err := a.Acquire(e.ctx, key, lease.Token, time.Hour)
	if err != nil || again.Fence <= next.Fence {
		e.Errorf("Acquire with a token that was released: fence %d, %v; the last fence was %d", again.Fence, err, next.Fence)
	}
}

func keys(e *env) {
	l := e.New()
	long := strings.Repeat("k", 254)
	all := []string{
		"a", "A", "a ", " a", "a\x00", "a\x00b", "ä", "a\u0308", "\xff", "\xff\xfe", "a\n", "a\u00a0", "%", "%25", "a%20b", "a b",
		"{", "}", "{}", "{a}", "}a{", "{a", "a}", "{{a}}", "a:b", "a{b}c{d}", "{b}", "'", `"`, `\`, "`", "a*", "a?", "a_", "_a", "日本", "日",
		long + "1", long + "2", strings.Repeat("\xff", 255), strings.Repeat("\xff", 254), strings.Repeat("日", 85),
	}
	leases := make([]lock.Lease, len(all))
	for i, k := range all {
		var err error
		if leases[i], err = l.Acquire(e.ctx, k, lock.NewToken(), time.Minute); err != nil {
			e.Fatalf("Acquire of key %q, after %q: %v", k, all[:i], err)
		}
	}
	for i, k := range all {
		if _, err := l.Acquire(e.ctx, k, lock.NewToken(), time.Minute); !errors.Is(err, lock.ErrHeld) {
			e.Errorf("Acquire of key %q, which is held: %v", k, err)
		}
		if _, err := l.Extend(e.ctx, leases[i], time.Minute); err != nil {
			e.Errorf("Extend of key %q: %v", k, err)
		}
	}
	for i, k := range all {
		if err := l.Release(e.ctx, leases[i]); err != nil {
			e.Errorf("Release of key %q: %v", k, err)
		}
	}
}

func arguments(e *env) {
	l, good := e.New(), lock.NewToken()
	bad := func(what string, key string, token lock.Token, ttl time.Duration) {
		e.Helper()
		_, err := l.Acquire(e.ctx, key, token, ttl)
		if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrLost) {
			e.Errorf("Acquire with %s: %v", what, err)
		}
		_, err = l.Extend(e.ctx, lock.Lease{Key: key, Token: token, Fence: 1}, ttl)
		if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrLost) {
			e.Errorf("Extend with %s: %v", what, err)
		}
	}
	bad("an empty key", "", good, e.ttl)
	bad("a key of 256 bytes", strings.Repeat("k", 256), good, e.ttl)
	bad("an empty token", key, "", e.ttl)
	bad("a token of 65 characters", key, lock.Token(strings.Repeat("t", 65)), e.ttl)
	bad("a token that is not printable", key, "a\x00b", e.ttl)
	bad("a token that is not ASCII", key, "ä", e.ttl)
	bad("no ttl", key, good, 0)
	bad("a negative ttl", key, good, -e.ttl)
	bad("a ttl below a millisecond", key, good, time.Millisecond-1)
	if err := l.Release(e.ctx, lock.Lease{}); err == nil || errors.Is(err, lock.ErrLost) {
		e.Errorf("Release of no lease: %v", err)
	}
	e.acquire(l)
}

func contexts(e *env) {
	a, line := e.Line()
	lease := e.acquire(a)
	e.release(a, lease)
	ended, end := context.WithCancel(e.ctx)
	end()
	if _, err := a.Acquire(ended, key, lock.NewToken(), time.Minute); err == nil {
		e.Fatalf("Acquire was granted the lock on a context that had ended")
	}
	lease, err := a.Acquire(e.ctx, key, lock.NewToken(), time.Minute)
	if err != nil {
		e.Fatalf("Acquire after one that did nothing: %v", err)
	}
	line.BlackHole()
	defer line.Heal()
	calls := map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error {
			_, err := a.Acquire(ctx, key, lock.NewToken(), time.Minute)
			return err
		},
		"Extend":  func(ctx context.Context) error { _, err := a.Extend(ctx, lease, time.Minute); return err },
		"Release": func(ctx context.Context) error { return a.Release(ctx, lease) },
	}
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(e.ctx, e.ttl/4)
		start := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(start); took > e.ttl/4+2*time.Second {
			e.Errorf("%s, with an answer that never came, returned after %v; its context lasted for %v", name, took, e.ttl/4)
		}
		if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrLost) {
			e.Errorf("%s, with an answer that never came: %v", name, err)
		}
	}
}
