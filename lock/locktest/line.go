package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/sendonce/sendonce/lock"
)

// Line is the line between a Locker and its store, which can be broken. What is
// said of a call holds for calls that are under way too.
type Line interface {
	// BlackHole swallows everything in both directions, and breaks nothing off.
	BlackHole()
	// LoseReplies lets calls through, and loses what the store answers.
	LoseReplies()
	// Delay makes each answer late.
	Delay(by time.Duration)
	// Heal ends all that.
	Heal()
}

// MemLine is a Locker in front of another, with a line between them: for stores
// that have none of their own.
type MemLine struct {
	locker lock.Locker

	mu           sync.Mutex
	hole, losing bool
	delay        time.Duration
}

var (
	_ lock.Locker = (*MemLine)(nil)
	_ Line        = (*MemLine)(nil)
)

// NewLine returns a healthy line to l.
func NewLine(l lock.Locker) *MemLine { return &MemLine{locker: l} }

// BlackHole implements Line.
func (l *MemLine) BlackHole() { l.set(true, false, 0) }

// LoseReplies implements Line.
func (l *MemLine) LoseReplies() { l.set(false, true, 0) }

// Delay implements Line.
func (l *MemLine) Delay(by time.Duration) { l.set(false, false, by) }

// Heal implements Line.
func (l *MemLine) Heal() { l.set(false, false, 0) }

func (l *MemLine) set(hole, losing bool, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hole, l.losing, l.delay = hole, losing, delay
}

func (l *MemLine) state() (hole, losing bool, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hole, l.losing, l.delay
}

// Acquire implements lock.Locker.
func (l *MemLine) Acquire(ctx context.Context, key string, token lock.Token, ttl time.Duration) (lease lock.Lease, err error) {
	err = l.through(ctx, func() error {
		lease, err = l.locker.Acquire(ctx, key, token, ttl)
		return err
	})
	return lease, err
}

// Extend implements lock.Locker.
func (l *MemLine) Extend(ctx context.Context, le lock.Lease, ttl time.Duration) (lease lock.Lease, err error) {
	err = l.through(ctx, func() error {
		lease, err = l.locker.Extend(ctx, le, ttl)
		return err
	})
	return lease, err
}

// Release implements lock.Locker.
func (l *MemLine) Release(ctx context.Context, le lock.Lease) error {
	return l.through(ctx, func() error { return l.locker.Release(ctx, le) })
}

func (l *MemLine) through(ctx context.Context, call func() error) error {
	if hole, _, _ := l.state(); hole {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	err := call()
	hole, losing, delay := l.state()
	if hole || losing {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	select {
	case <-time.After(delay):
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pausing is a Locker that pauses before each call.
type pausing struct {
	lock.Locker
	pause func()
}

func (p pausing) Acquire(ctx context.Context, key string, token lock.Token, ttl time.Duration) (lock.Lease, error) {
	p.pause()
	return p.Locker.Acquire(ctx, key, token, ttl)
}

func (p pausing) Extend(ctx context.Context, l lock.Lease, ttl time.Duration) (lock.Lease, error) {
	p.pause()
	return p.Locker.Extend(ctx, l, ttl)
}

func (p pausing) Release(ctx context.Context, l lock.Lease) error {
	p.pause()
	return p.Locker.Release(ctx, l)
}
