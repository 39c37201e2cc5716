// Package lock has leased locks with fences, for goroutines, processes and
// machines: who holds one holds it until its lease ends, renews it while working,
// and knows in time when it can't.
//
// Hold does all of that:
//
//	err := lock.Hold(ctx, locker, "nightly-report", 30*time.Second, func(ctx context.Context, fence int64) error {
//		return report(ctx, fence) // ctx ends, in time, when the lock is lost
//	})
//	if errors.Is(err, lock.ErrHeld) {
//		return nil // somebody else is at it
//	}
//
// A Locker keeps the leases: sqllock in a table of the database (the one to use by
// default), redislock in Redis, memlock in the memory of one process. locktest is
// the suite that every Locker must pass.
//
// # What a lock can't do
//
// A lease is an agreement about time, and a process can be stopped between any two
// of its instructions, for longer than its lease. So a lock saves work, and never
// carries correctness: what must not happen twice has to be refused where it
// happens. That is what the fence is for. It grows with every grant of a key, so
// a store that remembers the largest fence it has seen can refuse whoever comes
// with a smaller one. The claims of sendonce don't depend on locks at all
// (docs/semantics.md, section 10).
//
// The end of a lease is judged by the store's clock alone: a clock that is stepped
// forward ends leases early. Their holders are told by their next renewal.
package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// Token names one tenure of a lock, and is what proves it. Draw a new one for each
// tenure, with NewToken: whoever presents a token is taken for its owner, so two
// that share one would both hold the lock.
type Token string

// NewToken returns a random token, which nobody else will draw.
func NewToken() Token { return Token(rand.Text()) }

// Lease is one tenure of a lock. It is a value: what Extend does is in the Lease
// that it returns.
type Lease struct {
	Key   string
	Token Token

	// Fence is larger than that of any earlier grant of the key, by this store,
	// and at least 1. Extending a lease doesn't change it.
	Fence int64

	// Until is when the lease may end: it is surely ours before. It was counted
	// from a moment before the call was sent. Ask Left how much of that is left;
	// comparing Until with time.Now misses the time that a machine was suspended.
	Until time.Time
}

// Left is how long the lease surely lasts, by the clock that leaves less: the
// monotonic one stands still while a machine is suspended, the wall clock may be
// set. Negative when it may be over.
func (l Lease) Left() time.Duration { return left(l.Until, time.Now()) }

// left compares the two clocks' readings apart.
func left(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// Locker keeps the leases of locks. Implementations speak one script, one
// statement or a little transaction per call and return: they never wait for a
// lock, retry, log or start goroutines. Methods are called by several goroutines
// at once, and return when ctx ends. An error that is neither ErrHeld nor ErrLost
// says that the outcome is not known: the call may have acted, and may be
// repeated.
//
// A key is any string of 1 to 255 bytes; keys that differ in any byte are
// different locks. A token has 1 to 64 printable ASCII characters. A ttl is at
// least a millisecond, of which a store may ignore fractions. Other values are
// refused with an error, and nothing is done.
type Locker interface {
	// Acquire takes the lock for ttl, if nobody holds it, else it returns an
	// error that is ErrHeld, and may be a *HeldError that knows more. It is
	// idempotent: repeated with the same token, after its reply was lost, it
	// returns the same tenure with the same fence, and the lease lasts for ttl
	// again. A token whose lease was released takes the lock anew, with a new
	// fence.
	Acquire(ctx context.Context, key string, token Token, ttl time.Duration) (Lease, error)

	// Extend makes the lease last for ttl again, counted from a moment not
	// before the call. If the lease is over and somebody else has taken the
	// lock, or the store has forgotten it, it returns an error that is ErrLost,
	// changes nothing, and never makes the lease anew. A store that still knows
	// of a lease that is over, and that nobody has taken, may extend it.
	Extend(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)

	// Release ends the lease at once, found by its key and token: it needs no
	// Fence. If the lease is not there any more it returns an error that is
	// ErrLost, and changes nothing. Repeated after its reply was lost, it
	// succeeds unless somebody else has held the lock meanwhile.
	Release(ctx context.Context, l Lease) error
}

var (
	// ErrHeld says that somebody else holds the lock.
	ErrHeld = errors.New("sendonce: the lock is held by somebody else")

	// ErrLost says that a lease is over, or may be: see LostError.
	ErrLost = errors.New("sendonce: the lock is lost")
)

// HeldError is an ErrHeld that knows more.
type HeldError struct {
	Key string
	// For is how long the lock stays held at most, unless it is extended. Zero
	// if that is not known.
	For time.Duration
}

func (e *HeldError) Error() string {
	if e.For <= 0 {
		return fmt.Sprintf("sendonce: lock %q is held by somebody else", e.Key)
	}
	return fmt.Sprintf("sendonce: lock %q is held by somebody else, for %v unless that is extended", e.Key, e.For.Round(time.Millisecond))
}

// Is makes it an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Reason is how a lock was lost.
type Reason uint8

// The reasons.
const (
	// Taken: somebody else holds the lock, or has held it since.
	Taken Reason = iota + 1
	// Expired: the lease is over, or the store has forgotten it. Nobody else is
	// known to hold the lock.
	Expired
	// Unreachable: the lease could not be confirmed in time. It may still last,
	// but not surely.
	Unreachable
)

func (r Reason) String() string {
	switch r {
	case Taken:
		return "taken by somebody else"
	case Expired:
		return "expired"
	case Unreachable:
		return "not confirmed in time"
	}
	return "Reason(?)"
}

// LostError is an ErrLost that says what happened.
type LostError struct {
	Key    string
	Fence  int64 // of the lost lease
	Reason Reason

	// LastConfirmed is when the last call was sent that confirmed the lease. Only
	// Hold and Keep know it; zero elsewhere.
	LastConfirmed time.Time

	// Err is what the last try to confirm the lease returned, or nil.
	Err error
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("sendonce: lock %q (fence %d) is lost: %v", e.Key, e.Fence, e.Reason)
	if !e.LastConfirmed.IsZero() {
		s += ", last confirmed at " + e.LastConfirmed.UTC().Format(time.RFC3339Nano)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes it an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

func (e *LostError) Unwrap() error { return e.Err }
