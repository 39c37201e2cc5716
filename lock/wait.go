package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sendonce/sendonce"
)

// tries is how often Acquire asks before it gives up on an answer.
const tries = 3

// Acquire takes the lock with a new token, and doesn't wait for it. A call whose
// outcome is not known is repeated with the same token, three times at most, each
// for at most a third of ttl; and when it gives up, it releases what it may have
// been granted. ttl is at least MinTTL. The error is ErrHeld if somebody else has
// the lock.
func Acquire(ctx context.Context, l Locker, key string, ttl time.Duration) (Lease, error) {
	if err := checkTTL(ttl); err != nil {
		return Lease{}, err
	}
	return acquire(ctx, l, key, NewToken(), ttl)
}

func acquire(ctx context.Context, l Locker, key string, token Token, ttl time.Duration) (Lease, error) {
	for try := 1; ; try++ {
		call, cancel := context.WithTimeout(ctx, ttl/3)
		lease, err := l.Acquire(call, key, token, ttl)
		cancel()
		if err == nil || errors.Is(err, ErrHeld) {
			return lease, err
		}
		if try < tries && !sendonce.IsFatal(err) && sleep(ctx, between(ttl/60, ttl/30)) {
			continue
		}
		if !sendonce.IsFatal(err) {
			_ = release(ctx, l, Lease{Key: key, Token: token}, ttl) // if it fails, the lease ends by itself
		}
		return Lease{}, err
	}
}

// Waiting is how Wait waits. The zero value works, and so does nil.
type Waiting struct {
	// Max is the longest wait. Default: as long as ctx lives.
	Max time.Duration

	// Poll is the longest pause between two tries; each is between half and the
	// whole of it, at random. Who has waited for more than 8 times Poll tries up
	// to four times as often, so that nobody is left behind. Default: a
	// twentieth of ttl, between 20 ms and a second.
	Poll time.Duration

	// Yield begins with a pause of Poll. Set it where the lock was just released
	// here, and others may be waiting for it: else who releases it is the first
	// to have it again. Default: false.
	Yield bool
}

// Wait is Acquire that waits while somebody else has the lock, and returns the
// last ErrHeld when it has waited for Waiting.Max. When ctx ends it returns its
// cause. Other errors end it at once.
//
// Waiting is polling, with jitter. There is no queue, but turns are fair by
// chance: of n waiters each has the lock next with the same probability, and
// those who have waited for long with a higher one.
func Wait(ctx context.Context, l Locker, key string, ttl time.Duration, w *Waiting) (Lease, error) {
	if err := checkTTL(ttl); err != nil {
		return Lease{}, err
	}
	if w == nil {
		w = &Waiting{}
	}
	poll := w.Poll
	if poll <= 0 {
		poll = min(max(ttl/20, 20*time.Millisecond), time.Second)
	}
	token, start := NewToken(), time.Now()
	pause := time.Duration(0)
	if w.Yield {
		pause = poll
	}
	for {
		if !sleep(ctx, pause) {
			return Lease{}, context.Cause(ctx)
		}
		lease, err := acquire(ctx, l, key, token, ttl)
		if err == nil || !errors.Is(err, ErrHeld) {
			return lease, err
		}
		waited := time.Since(start)
		pause = nextPause(poll, waited, err)
		if w.Max > 0 {
			if waited >= w.Max {
				return Lease{}, err
			}
			pause = min(pause, w.Max-waited)
		}
	}
}

// nextPause shrinks with the time waited, to a quarter of poll, and does not last
// longer than the lease that is in the way.
func nextPause(poll, waited time.Duration, err error) time.Duration {
	if patience := 8 * poll; waited > patience {
		poll = max(poll/4, time.Duration(float64(poll)*float64(patience)/float64(waited)))
	}
	pause := between(poll/2, poll)
	var held *HeldError
	if errors.As(err, &held) && held.For > 0 {
		pause = min(pause, held.For+time.Millisecond)
	}
	return pause
}

func between(low, high time.Duration) time.Duration {
	return low + rand.N(high-low+1)
}
