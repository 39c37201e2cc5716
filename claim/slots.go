package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/sqllock"
)

// slot is a partition that this process works on, or waits for: who works on it
// holds its lease. The lease of a vanished owner is taken on two witnesses, like
// a claim (docs/semantics.md, section 4): it is over by the database's clock, and
// this process has itself seen it unchanged for a whole lease, without a gap.
type slot struct {
	partition int
	key       string

	lease  lock.Lease // Token is empty while it is not ours
	asked  time.Time  // before the call that took or renewed it last
	leased time.Duration

	looked time.Time     // when it was looked at last
	sight  sqllock.Sight // what was seen then
	since  time.Time     // when that was seen first; zero: there is a gap
}

func (s *slot) held() bool { return s.lease.Token != "" }

// tenure is a slot as it was held when a claim was made: taken again after a loss
// it is another one.
type tenure struct {
	slot  *slot
	lease lock.Lease
}

// lasts reports whether the tenure goes on, as far as is known.
func (t tenure) lasts() bool { return t.slot != nil && t.slot.lease.Token == t.lease.Token }

// slots are those of a process. Whoever reads or changes them is in the gate.
type slots struct {
	gate
	locker *sqllock.Locker
	prefix string
	count  int
	byID   map[int]*slot
}

// slotLooks are how often, in a lease, a slot is looked at that is not ours.
const slotLooks = 12

// keep renews the slots that are ours and tries to take those that are not. It
// returns the first error of the store's: what is ours stays so until its lease
// ends.
func (s *slots) keep(ctx context.Context, ttl time.Duration) (failed error) {
	for _, sl := range s.byID {
		var err error
		if sl.held() {
			err = s.renew(ctx, sl, ttl, false)
		} else {
			err = s.tryTake(ctx, sl, ttl)
		}
		if err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// renew asks for another lease if a third of the last one is over, or at once.
func (s *slots) renew(ctx context.Context, sl *slot, ttl time.Duration, now bool) error {
	if !now && elapsed(sl.asked, time.Now()) < min(ttl, sl.leased)/3 {
		return nil
	}
	asked := time.Now()
	lease, err := s.locker.Extend(ctx, sl.lease, ttl)
	switch {
	case err == nil:
		sl.lease, sl.asked, sl.leased = lease, asked, ttl
	case errors.Is(err, lock.ErrLost):
		sl.lease, sl.since = lock.Lease{}, time.Time{}
		return nil
	}
	return err
}

func (s *slots) tryTake(ctx context.Context, sl *slot, ttl time.Duration) error {
	began := time.Now()
	if elapsed(sl.looked, began) < ttl/slotLooks {
		return nil
	}
	seen, err := s.locker.Look(ctx, sl.key)
	ended := time.Now()
	if err != nil {
		sl.since = time.Time{}
		return err
	}
	gap := sl.since.IsZero() || elapsed(sl.looked, began) > ttl/3 || elapsed(began, ended) > ttl/6
	if gap || seen.Fence != sl.sight.Fence || seen.Until != sl.sight.Until {
		sl.since = ended
	}
	sl.looked, sl.sight = ended, seen
	if !seen.Free && (!seen.Over || elapsed(sl.since, began) < ttl) {
		return nil
	}
	asked := time.Now()
	lease, err := s.locker.Acquire(ctx, sl.key, lock.NewToken(), ttl)
	if errors.Is(err, lock.ErrHeld) {
		return nil
	}
	if err == nil {
		sl.lease, sl.asked, sl.leased = lease, asked, ttl
	}
	return err
}

// why says who is waited for.
func (s *slots) why(source string) error {
	for _, sl := range s.byID {
		if sl.held() {
			continue
		}
		what := "another process works on it"
		if sl.sight.Over {
			what = "the process that works on it has not renewed its lease, and will be given up when it has been silent for a whole lease"
		}
		return fmt.Errorf("sendonce: partition %d of %d of table %s is waited for: %s (lock %q)", sl.partition, s.count, source, what, sl.key)
	}
	return errors.New("sendonce: no partition is this process's own")
}
