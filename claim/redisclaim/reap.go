package redisclaim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
)

// stride is how many items a Reap looks at on its walk.
const stride = 100

// Reap implements sendonce.Reaper (transitions 9 and 11). On the way it walks over
// the items, a few at each call, and puts right what somebody has deleted by hand.
func (q *Queue[T]) Reap(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
	q.eyes.mu.Lock()
	defer q.eyes.mu.Unlock()
	out, err := q.reap(ctx, req)
	if err != nil {
		q.eyes.forget() // a gap in the view
	}
	return out, err
}

func (q *Queue[T]) reap(ctx context.Context, req sendonce.ReapRequest) (out sendonce.Reaped, err error) {
	began := time.Now()
	reply, err := q.run(ctx, "look for vanished workers", watchScript, []any{fmt.Sprint(q.walk.Load()), stride})
	if err != nil {
		return out, err
	}
	if len(reply) != 3 {
		return out, fmt.Errorf("sendonce: look for vanished workers in queue %s: its answer is %v", q.base, reply)
	}
	q.walk.Store(uint64(number(reply[0])))
	q.eyes.look(began, time.Now())

	attempts := req.MaxAttempts
	if attempts <= 0 {
		attempts = unlimited
	}
	ripe := q.ripeClaims(reply[1], req.ClockOnly, &out)
	args := append([]any{attempts, len(ripe) / 2}, ripe...)
	args = append(args, q.ripeItems(reply[2])...)
	if len(args) == 2 {
		return out, nil
	}
	reply, err = q.run(ctx, "give back what vanished workers held", reapScript, args)
	if err == nil && len(reply) == 3 {
		out.Returned, out.Dead, out.Unknown = int(number(reply[0])), int(number(reply[1])), int(number(reply[2]))
	}
	return out, err
}

// ripeClaims returns token and end of the claims that may be taken from their owners.
func (q *Queue[T]) ripeClaims(list any, clockOnly bool, out *sendonce.Reaped) (ripe []any) {
	fields, _ := list.([]any)
	for ; len(fields) >= 5; fields = fields[5:] {
		token, until, over := str(fields[0]), str(fields[1]), fields[2] == "1"
		lease := time.Duration(number(fields[3])) * time.Microsecond
		if r := lease / 6; out.Next == 0 || r < out.Next {
			out.Next = r
		}
		seen := q.eyes.watched(sight{token: token}, until, lease)
		// The way round the clock heals one that was stepped back.
		if over && (clockOnly || seen >= 2*(lease/3)) || seen > 2*lease+time.Second {
			ripe = append(ripe, token, until)
		}
	}
	return ripe
}

// ripeItems returns lane, id and token of the items that are at work under a claim
// that is gone, and were seen so for long enough.
func (q *Queue[T]) ripeItems(list any) (ripe []any) {
	fields, _ := list.([]any)
	for ; len(fields) >= 3; fields = fields[3:] {
		if q.eyes.watched(sight{token: str(fields[2]), id: str(fields[1])}, "", q.eyes.lease) >= 2*(q.eyes.lease/3) {
			ripe = append(ripe, fields[0], fields[1], fields[2])
		}
	}
	return ripe
}

// defaultLease is what items without a claim wait by in a process that has claimed
// nothing.
const defaultLease = 30 * time.Second

// witness is what this process has itself seen of the claims of all: the second
// witness. The first is the server's clock, which can be stepped; and while the
// server is out of reach nobody can renew (docs/semantics.md, section 4).
type witness struct {
	mu           sync.Mutex    // for one Reap at a time
	began, ended time.Time     // of the look that goes on
	gap          time.Duration // between it and the one before
	before, seen map[sight]sighting
	lease        time.Duration // of this process's own claims

	leaseMu sync.Mutex // for own
	own     time.Duration
}

// sight is a claim, or, if there is an id, an item that no claim holds.
type sight struct{ token, id string }

type sighting struct {
	until string
	since time.Time
}

// look begins to take down what was seen between two moments.
func (w *witness) look(began, ended time.Time) {
	w.gap = 0
	if w.seen != nil {
		w.gap = elapsed(w.ended, began)
	}
	w.began, w.ended = began, ended
	w.before, w.seen = w.seen, map[sight]sighting{}
	w.leaseMu.Lock()
	defer w.leaseMu.Unlock()
	if w.lease = w.own; w.lease == 0 {
		w.lease = defaultLease
	}
}

// watched takes down one claim, and returns for how long it was seen unchanged and
// without a gap.
func (w *witness) watched(what sight, until string, lease time.Duration) time.Duration {
	s, known := w.before[what]
	renewal := lease / 3
	if !known || s.until != until || w.gap > renewal || elapsed(w.began, w.ended) > renewal/2 {
		// What a slow look saw may be old by now, so it counts from its end.
		s = sighting{until: until, since: w.ended}
	}
	w.seen[what] = s
	return elapsed(s.since, w.began)
}

func (w *witness) forget() { w.before, w.seen = nil, nil }

func (w *witness) ownLease(d time.Duration) {
	w.leaseMu.Lock()
	defer w.leaseMu.Unlock()
	w.own = d
}

// elapsed is the time between two moments on the monotonic or the wall clock,
// whichever advanced more: a suspended machine stops the first of them.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
