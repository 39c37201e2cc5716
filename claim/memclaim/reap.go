package memclaim

import (
	"context"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
)

// defaultLease is what orphans wait by in a process that has claimed nothing.
const defaultLease = 30 * time.Second

// sinceNobodyKnows is for rows whose claim is gone: longer than any provider
// remembers.
const sinceNobodyKnows = 365 * 24 * time.Hour

// Reap implements sendonce.Reaper (transitions 9 and 11).
func (c *Claimer[T]) Reap(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
	var out sendonce.Reaped
	if ctx.Err() != nil {
		c.eyes.forget() // a gap in the view
		return out, context.Cause(ctx)
	}
	c.eyes.mu.Lock()
	defer c.eyes.mu.Unlock()
	t := c.table
	began := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	c.eyes.look(began, time.Now())
	for _, lc := range t.claimsInOrder() {
		if r := lc.Lease / 6; out.Next == 0 || r < out.Next {
			out.Next = r
		}
		over := !lc.Until.After(now)
		seen := c.eyes.watched(sight{token: lc.Token}, lc.Until, lc.Lease)
		// The way round the clock heals one that was stepped back.
		if over && (req.ClockOnly || seen >= 2*(lc.Lease/3)) || seen > 2*lc.Lease+time.Second {
			delete(t.claims, lc.Token)
			for _, key := range lc.keys {
				t.giveBack(t.held[key], lc, req, now, &out)
			}
		}
	}
	for _, r := range t.heldInOrder() {
		if t.claims[r.Token] == nil {
			lease := c.eyes.lease
			if c.eyes.watched(sight{token: r.Token, key: r.Key}, time.Time{}, lease) >= 2*(lease/3) {
				gone := &liveClaim{since: now.Add(-sinceNobodyKnows), Holder: Holder{Token: r.Token, Owner: "its claim is gone"}}
				t.giveBack(r, gone, req, now, &out)
			}
		}
	}
	return out, nil
}

// giveBack returns a row that has no owner any more. The token stays, so that a
// late fact is still taken, and the row is known for a suspect.
func (t *table[T]) giveBack(r *row[T], lc *liveClaim, req sendonce.ReapRequest, now time.Time, out *sendonce.Reaped) {
	if r == nil || r.Token != lc.Token {
		return
	}
	last := lastBefore(req.MaxAttempts)
	r.Reason = "the worker vanished: " + lc.Owner
	switch {
	case r.Status == Sending:
		r.doubt(lc.since)
		out.Unknown++
		t.move(r, Unknown)
		return
	case lc.Delivery == sendonce.AtMostOnce:
		r.Attempts-- // claimed and not sending: it was never begun
	case lc.Alone && r.Attempts > last:
		r.doubt(lc.since)
		out.Dead++
		t.move(r, Dead)
		return
	default:
		r.doubt(lc.since)
	}
	out.Returned++
	r.Attempts, r.NextAttempt = max(min(r.Attempts, last), 0), now
	t.move(r, Pending)
}

// witness is what one process has itself seen of the claims in the table: the
// second witness (docs/semantics.md, section 4).
type witness struct {
	mu           sync.Mutex
	began, ended time.Time // of the scan that runs
	gap          time.Duration
	lease        time.Duration // of this process's own claims
	old, seen    map[sight]sighting
}

// sight is a claim, or, if there is a key, a row without a claim.
type sight struct {
	token int64
	key   sendonce.Key
}

type sighting struct {
	until time.Time
	since time.Time
}

// look begins a scan: what the last one has seen is what counts, unless too much
// time lies between them.
func (w *witness) look(began, ended time.Time) {
	if w.lease == 0 {
		w.lease = defaultLease
	}
	w.gap = 0
	if w.seen != nil {
		w.gap = elapsed(w.ended, began)
	}
	w.began, w.ended = began, ended
	w.old, w.seen = w.seen, map[sight]sighting{}
}

// watched notes what the scan has seen, and returns for how long it has been
// seen unchanged and without a gap.
func (w *witness) watched(what sight, until time.Time, lease time.Duration) time.Duration {
	s, known := w.old[what]
	renewal := lease / 3
	if !known || !s.until.Equal(until) || w.gap > renewal || elapsed(w.began, w.ended) > renewal/2 {
		s = sighting{until: until, since: w.ended}
	}
	w.seen[what] = s
	return elapsed(s.since, w.began)
}

func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.old, w.seen = nil, nil
}

func (w *witness) ownLease(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease = d
}

// elapsed is the time between two moments on the monotonic or the wall clock,
// whichever advanced more: a suspended machine stops the first of them.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
