// Package memlock has locks in the memory of one process: for tests, and for
// goroutines that share one.
package memlock

import (
	"context"
	"sync"
	"time"

	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/internal/lockkit"
)

// Locker is a lock.Locker in memory. The zero value works; it must not be copied.
// Locks live as long as it does. It remembers each key that was ever locked.
type Locker struct {
	// Now is the clock that leases end by, as a server has one; tests may step
	// it. It is called with a mutex held. Set it before the first use. Default:
	// time.Now.
	Now func() time.Time

	mu     sync.Mutex
	leases map[string]*lease
}

var _ lock.Locker = (*Locker)(nil)

// lease is the last tenure of a key. It stays after its end, for its fence and to
// know a repeated Release again.
type lease struct {
	token    lock.Token
	fence    int64
	until    time.Time
	released bool
}

// New returns a Locker without locks.
func New() *Locker { return &Locker{} }

// Acquire implements lock.Locker.
func (l *Locker) Acquire(ctx context.Context, key string, token lock.Token, ttl time.Duration) (lock.Lease, error) {
	start := time.Now()
	ttl, err := check(ctx, key, token, ttl)
	if err != nil {
		return lock.Lease{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	last := l.leases[key]
	if last == nil {
		last = &lease{released: true}
	}
	again := last.token == token && !last.released
	if !again && !last.released && now.Before(last.until) {
		return lock.Lease{}, &lock.HeldError{Key: key, For: last.until.Sub(now)}
	}
	fence := last.fence
	if !again {
		fence = lockkit.NextFence(last.fence, now)
	}
	if l.leases == nil {
		l.leases = map[string]*lease{}
	}
	l.leases[key] = &lease{token: token, fence: fence, until: now.Add(ttl)}
	return lock.Lease{Key: key, Token: token, Fence: fence, Until: start.Add(ttl)}, nil
}

// Extend implements lock.Locker.
func (l *Locker) Extend(ctx context.Context, le lock.Lease, ttl time.Duration) (lock.Lease, error) {
	start := time.Now()
	ttl, err := check(ctx, le.Key, le.Token, ttl)
	if err != nil {
		return le, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.leases[le.Key]
	if last == nil || last.token != le.Token || last.fence != le.Fence || last.released {
		return le, l.lost(le, last)
	}
	last.until = l.now().Add(ttl)
	le.Until = start.Add(ttl)
	return le, nil
}

// Release implements lock.Locker.
func (l *Locker) Release(ctx context.Context, le lock.Lease) error {
	if _, err := check(ctx, le.Key, le.Token, time.Millisecond); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.leases[le.Key]
	if last == nil || last.token != le.Token {
		return l.lost(le, last)
	}
	last.released = true
	return nil
}

// Forget makes the Locker lose its memory of a key, as a server does that lost
// its data.
func (l *Locker) Forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, key)
}

func (l *Locker) lost(le lock.Lease, last *lease) error {
	reason := lock.Expired
	if last != nil && (last.token != le.Token || last.fence != le.Fence) {
		reason = lock.Taken
	}
	return &lock.LostError{Key: le.Key, Fence: le.Fence, Reason: reason}
}

func (l *Locker) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

func check(ctx context.Context, key string, token lock.Token, ttl time.Duration) (time.Duration, error) {
	if err := lockkit.CheckName(key, token); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return lockkit.CheckTTL(ttl, 1)
}
