package claim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/lock"
)

const (
	lockTTL     = 10 * time.Second // of a claim that dies with the lock held
	lockWait    = time.Second
	lockPoll    = time.Millisecond
	lockPollMax = 20 * time.Millisecond
)

// Locked claims by the same conditional UPDATE as Atomic, with a lock around it,
// so that workers take turns instead of colliding. It implements the same
// interfaces.
//
// The lock saves work and carries no correctness: each row is still marked only
// where it is pending. So a lock that is lost, expired, granted twice or
// forgotten by its server never causes a second send; and a claim that can't
// have the lock goes on without it after Options.LockWait: that is the longest
// that any worker waits for one claim, whatever the others do, and what a claim
// costs while the lock's server is down.
type Locked[T any] struct {
	*claimer[T]
	locker lock.Locker
	key    string
	wait   time.Duration
}

var _ interface {
	sendonce.Claimer[struct{}]
	sendonce.Ender
	sendonce.Beginner
	sendonce.Reaper
	sendonce.Counter
} = &Locked[struct{}]{}

// NewLocked checks the table as Check does and makes the strategy; compare
// NewAtomic. All processes of a table need lockers of one store: redislock is
// the common case. The lock's key is "sendonce claim " and the table's name.
func NewLocked[T any](ctx context.Context, db *sqlx.DB, d Dialect, t Table, l lock.Locker, o *Options) (*Locked[T], error) {
	if l == nil {
		return nil, errors.New("sendonce: NewLocked needs a lock.Locker: use redislock.New, say")
	}
	wait := lockWait
	if o != nil && o.LockWait < 0 {
		return nil, fmt.Errorf("sendonce: Options.LockWait is %v: it must not be negative", o.LockWait)
	}
	if o != nil && o.LockWait > 0 {
		wait = o.LockWait
	}
	c, err := open[T](ctx, db, d, t, o, "")
	if err != nil {
		return nil, err
	}
	c.takesTurns = true
	return &Locked[T]{claimer: c, locker: l, key: cut("sendonce claim "+c.source, 60), wait: wait}, nil
}

// Claim implements sendonce.Claimer.
func (c *Locked[T]) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	lease, held := c.acquire(ctx)
	if held {
		defer c.release(ctx, lease)
	}
	return c.claimer.Claim(ctx, req)
}

// acquire waits for the lock as long as that is worth it.
func (c *Locked[T]) acquire(ctx context.Context) (lock.Lease, bool) {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	token := lock.NewToken()
	for pause := lockPoll; ; pause = min(2*pause, lockPollMax) {
		lease, err := c.locker.Acquire(ctx, c.key, token, lockTTL)
		if err == nil {
			return lease, true
		}
		select {
		case <-ctx.Done():
			// An Acquire whose reply was lost may have taken it.
			if !errors.Is(err, lock.ErrHeld) {
				c.release(ctx, lock.Lease{Key: c.key, Token: token})
			}
			return lock.Lease{}, false
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// release gives the lock back. If that fails, it ends by itself.
func (c *Locked[T]) release(ctx context.Context, lease lock.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.wait)
	defer cancel()
	_ = c.locker.Release(ctx, lease)
}
