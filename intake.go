package sendonce

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	pollFirst   = 5 * time.Millisecond
	errorFirst  = 50 * time.Millisecond
	errorMax    = 5 * time.Second
	quietTries  = 8  // transient errors before anybody is told
	countsShare = 20 // Drain counts for 1/20 of the time at most
	searches    = 200
	shortSends  = 100 // so many batches can be begun in half a lease
	parkedMost  = 16  // results that can't be written: with more something is wrong
)

// intake claims while there is too little to send.
func (l *loop[T]) intake(ctx context.Context) {
	wake := l.cfg.Wake
	var pause time.Duration
	var errs, claims, empties int
	var count nextCount
	for l.waitHungry() {
		if d := max(l.paused(), l.left(&l.yield)); d > 0 {
			l.rest(d, nil, nil)
			continue
		}
		b, began, err := l.claim(errs)
		claims++
		switch {
		case err != nil && claims == 1 && IsFatal(err):
			l.mu.Lock()
			l.fatal = err
			l.mu.Unlock()
			return
		case err != nil:
			errs++
			l.rest(errorPause(err, errs), nil, nil)
			continue
		}
		errs = 0
		l.add(b, began)
		if len(b.Items) > 0 {
			pause, empties = 0, 0
			continue
		}
		// One that never comes to an end of its searching gets a pause, too.
		// What it searches again and again, and finds nothing, is no reason to poll
		// more often.
		if empties++; b.More && empties%searches != 0 {
			continue
		}
		if l.drain && l.drained(ctx, &count) {
			return
		}
		pause = min(max(2*pause, pollFirst), l.cfg.PollInterval)
		wake = l.rest(jitter(pause), wake, l.freed)
	}
}

func errorPause(err error, n int) time.Duration {
	if IsTransient(err) && n <= quietTries {
		return jitter(time.Duration(n) * 2 * time.Millisecond)
	}
	return jitter(min(errorFirst<<min(n, 10), errorMax))
}

// waitHungry waits until there is room for more. It returns false when nothing
// more may be claimed.
func (l *loop[T]) waitHungry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.stopping {
		enough := max(l.ahead(), l.cfg.Concurrency*l.cfg.GroupSize)
		free := l.alones == 0 && l.stuck < l.cfg.Concurrency && len(l.parked) < max(l.cfg.Concurrency, parkedMost)
		if l.waiting < enough && free && l.failing.IsZero() {
			return true
		}
		l.hungry.Wait()
	}
	return false
}

// fitting is how many rows can be begun in half a lease at the pace observed.
func (l *loop[T]) fitting() float64 {
	perSlot := float64(l.cfg.Lease/2) / float64(max(l.pace, time.Microsecond))
	return perSlot * float64(l.cfg.Concurrency*l.cfg.GroupSize)
}

// claimSize is a batch, or as much of it as can be begun in half a lease.
func (l *loop[T]) claimSize() int {
	return max(1, int(min(l.fitting(), float64(l.cfg.BatchSize))))
}

// ahead is how many rows may wait when the next batch is claimed: half a batch, and
// a whole one where sends are so short that they wait for claims.
func (l *loop[T]) ahead() int {
	if l.fitting() >= shortSends*float64(l.cfg.BatchSize) {
		return l.cfg.BatchSize
	}
	return l.claimSize() / 2
}

// limit leaves out what waits already, where sends are slow.
func (l *loop[T]) limit() int {
	n := l.claimSize()
	if n < l.cfg.BatchSize {
		n = max(1, n-l.waiting)
	}
	return n
}

func (l *loop[T]) claim(errs int) (Batch[T], time.Time, error) {
	l.mu.Lock()
	req := ClaimRequest{
		Limit: l.limit(), Suspects: l.cfg.Concurrency, Lease: l.cfg.Lease, MaxAttempts: l.cfg.MaxAttempts,
		Delivery: l.cfg.Delivery, Owner: l.cfg.Owner,
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.ctx, min(l.cfg.Lease/2, bookkeeping))
	defer cancel()
	began := time.Now()
	b, err := l.claimer.Claim(ctx, req)
	took := time.Since(began)
	l.hooks.Claimed(len(b.Items), took, err)
	if IsTransient(err) && errs < quietTries {
		return b, began, err
	}
	l.mu.Lock()
	tell := err != nil && l.storeDown == nil
	l.storeDown = err
	l.mu.Unlock()
	if tell {
		l.cfg.Logger.Warn("sendonce: no rows can be claimed; trying again", "err", err)
	}
	return b, began, err
}

// add puts a batch before the senders.
func (l *loop[T]) add(b Batch[T], began time.Time) {
	if len(b.Items) == 0 {
		return
	}
	l.count.claims.Add(1)
	l.count.claimed.Add(int64(len(b.Items)))
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &held{token: b.Token, claimed: began, since: began, until: b.Until, open: len(b.Items), alone: b.Alone}
	h.ctx, h.end = context.WithCancelCause(l.work)
	l.batches[b.Token] = h
	if h.alone {
		l.alones++
	}
	good := l.readable(h, b.Items)
	rows := make([]attempt, len(good))
	for i := range good {
		rows[i] = attempt{good[i].Key, good[i].Attempt}
	}
	for items := range slices.Chunk(good, l.cfg.GroupSize) {
		n := len(items)
		j := job[T]{h, items, rows[:n:n]}
		rows = rows[n:]
		if l.stopping {
			l.giveBack(j, Released, 0)
			continue
		}
		l.ready.add(j)
		l.waiting += len(j.items)
	}
	l.startable.Signal()
}

// readable puts aside what can't be read. l.mu is held.
func (l *loop[T]) readable(h *held, items []Item[T]) []Item[T] {
	return slices.DeleteFunc(items, func(item Item[T]) bool {
		if item.Err != nil {
			l.marks = append(l.marks, Result{Key: item.Key, Token: h.token, Outcome: Dead, Reason: reasonOf(item.Err)})
			l.marked.Broadcast()
		}
		return item.Err != nil
	})
}

// rest waits, at most until something wakes the loop.
func (l *loop[T]) rest(d time.Duration, wake, freed <-chan struct{}) <-chan struct{} {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return wake
		case <-l.going.Done():
			return wake
		case <-freed:
			return wake
		case _, ok := <-wake:
			if ok {
				return wake
			}
			wake = nil // closed: no hint, now or later
		}
	}
}

// nextCount spaces the counts out: they may read the whole table.
type nextCount struct{ at time.Time }

// drained reports whether nothing is left, here or anywhere.
func (l *loop[T]) drained(ctx context.Context, next *nextCount) bool {
	l.mu.Lock()
	busy := len(l.batches) > 0 || len(l.marks) > 0
	l.mu.Unlock()
	if busy || time.Now().Before(next.at) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, max(bookkeeping, l.cfg.Lease))
	defer cancel()
	began := time.Now()
	c, err := l.counter.Counts(ctx)
	took := time.Since(began)
	next.at = time.Now().Add(took * countsShare)
	if err != nil {
		next.at = time.Now().Add(min(took, errorMax)) // it may have waited for an answer, and read nothing
		if !errors.Is(err, context.Canceled) {
			l.cfg.Logger.Warn("sendonce: can't count what is left; trying again", "err", err)
		}
		return false
	}
	if c.Left() == 0 && c.Other > 0 && c.Done == 0 && l.count.claimed.Load() == 0 {
		l.cfg.Logger.Warn("sendonce: nothing was ever pending, and there are rows in states that are not mapped: is the state of a new row the mapped one?", "rows", c.Other)
	}
	return c.Left() == 0
}
