// Package locktest is the suite that every lock.Locker must pass.
//
//	func TestMyLocker(t *testing.T) {
//		locktest.Run(t, locktest.Harness{
//			Open: func(t testing.TB) locktest.Store {
//				server := startServer(t)
//				return locktest.Store{New: func() lock.Locker { return mylock.New(server.Addr) }}
//			},
//			Caps: locktest.Caps{Fenced: true},
//		})
//	}
//
// Each case checks one sentence of the contract, and prints it when it fails. All
// that a case asks of time is one-sided: a slow machine makes it prove less, and
// does not make it fail. What a store can't promise, by its Caps, is skipped
// aloud.
package locktest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sendonce/sendonce/lock"
)

// Caps is what a store promises beyond the contract of lock.Locker.
type Caps struct {
	// Fenced: fences grow also after the store has lost all that it knew of a
	// key. Needs Store.Forget.
	Fenced bool
	// Durable: a lease outlives a restart of the store. Needs Store.Restart.
	Durable bool
	// PoolerSafe: it works behind a pooler that gives the session to somebody
	// else after each statement. Needs Store.Pooled.
	PoolerSafe bool
}

// Harness is how the suite gets at what it tests.
type Harness struct {
	// Open returns a new store without locks. It is called for each case, and
	// may register clean-up with t.
	Open func(t testing.TB) Store

	Caps Caps

	// TTL is the lease that cases use. It must be at least lock.MinTTL; cases
	// last for a few of it. Default: a second.
	TTL time.Duration

	// Synctest runs each case in a bubble of testing/synctest, in virtual time:
	// for stores in memory. Default: false.
	Synctest bool

	// Interleavings is the number of random schedules that are run, at a few
	// tenths of TTL each, 50 at once. Default: 1,000, under -short 200.
	Interleavings int
}

// Store is one store, and what can be done to it. Only New is needed.
type Store struct {
	// New returns the Locker of one more process on this store.
	New func() lock.Locker

	// Line returns the Locker of one more process, and the line to the store
	// that it alone uses. nil: NewLine in front of New.
	Line func() (lock.Locker, Line)

	// Pausing returns the Locker of one more process, which calls pause before
	// every command that it sends to the store. nil: New, with pause called
	// before each method.
	Pausing func(pause func()) lock.Locker

	// Forget makes the store lose all that it knows of a key.
	Forget func(key string)

	// Restart stops the store, in good order, and starts it again.
	Restart func()

	// Pooled returns the Locker of one more process behind a pooler.
	Pooled func() lock.Locker
}

// testCase is one sentence of the contract.
type testCase struct {
	name     string
	contract string
	needs    func(Caps) bool
	run      func(c *env)
}

// env is what a case works with.
type env struct {
	testing.TB
	Store
	ctx context.Context
	h   Harness
	ttl time.Duration
}

// Run runs the suite, each case as a subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.TTL == 0 {
		h.TTL = time.Second
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if c.needs != nil && !c.needs(h.Caps) {
				t.Skipf("SKIPPED, not promised by this store: %s", c.contract)
			}
			if h.Synctest {
				synctest.Test(t, func(t *testing.T) { runCase(t, h, c) })
			} else {
				runCase(t, h, c)
			}
		})
	}
}

func runCase(t testing.TB, h Harness, c testCase) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the contract says: %s", c.contract)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	store := h.Open(t)
	if store.Line == nil {
		store.Line = func() (lock.Locker, Line) {
			l := NewLine(store.New())
			return l, l
		}
	}
	if store.Pausing == nil {
		store.Pausing = func(pause func()) lock.Locker { return pausing{store.New(), pause} }
	}
	c.run(&env{TB: t, Store: store, ctx: ctx, h: h, ttl: h.TTL})
}

// key is the lock that most cases use.
const key = "locktest"

func cases() []testCase {
	return append(append(basicCases(), lossCases()...), timeCases()...)
}

func (e *env) acquire(l lock.Locker) lock.Lease {
	e.Helper()
	lease, err := l.Acquire(e.ctx, key, lock.NewToken(), e.ttl)
	if err != nil {
		e.Fatalf("Acquire of a free lock: %v", err)
	}
	return lease
}

// refused checks that the lock is held.
func (e *env) refused(l lock.Locker) {
	e.Helper()
	lease, err := l.Acquire(e.ctx, key, lock.NewToken(), e.ttl)
	if err == nil {
		e.Fatalf("somebody else was granted the lock, with fence %d, while it is held", lease.Fence)
	}
	if !errors.Is(err, lock.ErrHeld) {
		e.Fatalf("Acquire of a held lock: %v, which is not ErrHeld", err)
	}
}

func (e *env) extend(l lock.Locker, lease lock.Lease) lock.Lease {
	e.Helper()
	next, err := l.Extend(e.ctx, lease, e.ttl)
	if err != nil {
		e.Fatalf("Extend by the holder: %v", err)
	}
	return next
}

func (e *env) release(l lock.Locker, lease lock.Lease) {
	e.Helper()
	if err := l.Release(e.ctx, lease); err != nil {
		e.Fatalf("Release by the holder: %v", err)
	}
}

// lost checks that the answer is ErrLost.
func (e *env) lost(what string, err error) {
	e.Helper()
	if !errors.Is(err, lock.ErrLost) {
		e.Fatalf("%s: %v, which is not ErrLost", what, err)
	}
}

// take acquires the lock as soon as it can be had.
func (e *env) take(l lock.Locker) lock.Lease {
	e.Helper()
	token := lock.NewToken()
	for {
		lease, err := l.Acquire(e.ctx, key, token, e.ttl)
		if err == nil {
			return lease
		}
		if !errors.Is(err, lock.ErrHeld) {
			e.Fatalf("Acquire: %v, which is not ErrHeld", err)
		}
		if e.ctx.Err() != nil {
			e.Fatalf("the lock can't be had: %v", err)
		}
		time.Sleep(e.ttl / 100)
	}
}
