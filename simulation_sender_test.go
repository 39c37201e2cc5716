package sendonce_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

var errBusy = errors.New("come back later")

// simEntry is one row in one call of a Sender.
type simEntry struct {
	key                  int64
	by                   *simWorker
	claim                *simClaim
	claims               int // of this row until now
	began, ended         time.Time
	accepted             time.Time // by the provider; zero: it was not
	said                 bool      // and the Sender has said so
	free                 bool      // the answer was RetryAfter: not charged
	permanent, ignorance bool      // no retry helps; the context is ignored
}

// send is what all Senders do: each item by itself, in order.
func (p *simWorker) send(ctx context.Context, items []sendonce.Item[string]) error {
	entries := p.begin(items)
	if entries == nil {
		return p.lost()
	}
	defer p.end(entries)
	errs := make(sendonce.ItemErrors, len(items))
	for i, e := range entries {
		r := p.dice("send", p.n, e.key, int64(items[i].Attempt), int64(e.claims))
		d := simSend / time.Duration(len(items))
		if r.IntN(p.ignoring) == 0 && time.Now().Before(p.calm) {
			p.ignore(entries)
			ctx, d = context.WithoutCancel(ctx), time.Duration(r.Int64N(int64(4*p.sim.lease)))
		}
		errs[i] = p.one(ctx, r, e, d)
	}
	p.note(func() {
		for i, e := range entries {
			e.said = errs[i] == nil
			e.free = errors.Is(errs[i], errBusy)
		}
	})
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

// ignore notes that a call ignores the end of its context from now on.
func (p *simWorker) ignore(entries []*simEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		if !e.ignorance {
			e.ignorance = true
			p.stubborn = append(p.stubborn, e)
		}
	}
}

// one sends one item within about d.
func (p *simWorker) one(ctx context.Context, r *rand.Rand, e *simEntry, d time.Duration) error {
	part := d/3 + time.Duration(r.Int64N(int64(d)/8+1))
	if p.quick() {
		part /= 200
	}
	if e.ignorance {
		part = d
	}
	if err := p.pause(ctx, part); err != nil {
		return err
	}
	p.note(func() {
		if c := e.claim; c.lostBefore(time.Now()) && !e.ignorance && ctx.Err() == nil {
			p.wrong("worker %s goes on with row %d although it knows that the claim is lost", p.name, e.key)
		}
	})
	if err := p.failing(ctx, r, e); err != nil {
		return err
	}
	p.gate() // between the last check and the first byte
	if p.dead() {
		return p.lost()
	}
	p.note(func() { e.accepted = time.Now(); p.power.Accepted++ })
	switch r.IntN(12) {
	case 0:
		return sendonce.Ambiguous(errors.New("no answer came"))
	case 1:
		panic("after the send")
	case 2:
		if !e.ignorance {
			return p.pause(ctx, time.Hour)
		}
	}
	err := p.pause(ctx, part)
	p.gate()
	return err
}

// failing is a send that fails before anything is accepted.
func (p *simWorker) failing(ctx context.Context, r *rand.Rand, e *simEntry) error {
	switch r.IntN(24) {
	case 0, 1:
		return errFlaky
	case 2:
		panic("the Sender is broken")
	case 3:
		runtime.Goexit()
	case 4:
		return sendonce.NotSent(errFlaky)
	case 5:
		return sendonce.RetryAfter(time.Second, errBusy)
	case 6:
		p.note(func() { e.permanent = true })
		return sendonce.Permanent(errFlaky)
	case 7:
		return sendonce.Skip("a duplicate")
	case 8:
		if e.ignorance {
			return errFlaky
		}
		return p.pause(ctx, time.Hour)
	}
	return nil
}

// quick: sends are quick and slow by turns, so that claims that were made while
// they were quick have to wait.
func (p *simWorker) quick() bool {
	return p.dice("quick", p.n, time.Since(p.born).Nanoseconds()/p.sim.lease.Nanoseconds()).IntN(2) == 0
}

// pause is one in a process that may be killed meanwhile.
func (p *simWorker) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.kill:
		return p.lost()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin checks what must hold when a send begins.
func (p *simWorker) begin(items []sendonce.Item[string]) (entries []*simEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead() {
		return nil
	}
	now := time.Now()
	p.watched(now)
	p.power.Sends += len(items)
	for _, item := range items {
		key := item.Key.(int64)
		c := p.holds[key]
		if left := p.left(c, now); left < simSend+p.margin() {
			p.wrong("the start rule: worker %s begins row %v with %v left", p.name, key, left)
		}
		if c.lostBefore(now) {
			p.wrong("worker %s begins row %d although it knows that the claim is lost", p.name, key)
		}
		if item.Attempt > p.attempts {
			p.wrong("worker %s begins attempt %d of row %d", p.name, item.Attempt, key)
		}
		if r := p.rows[key]; p.delivery == sendonce.AtMostOnce && r.status == memclaim.Claimed && r.token == c.token {
			p.wrong("no intent: worker %s begins row %v, which is %s", p.name, key, r.status)
		}
		e := &simEntry{key: key, by: p, claim: c, claims: len(p.claimsOf[key]), began: now}
		entries = append(entries, e)
		p.log[key] = append(p.log[key], e)
	}
	p.mayBegin(entries[0], now)
	return entries
}

// mayBegin checks a send against the others of its worker.
func (p *simWorker) mayBegin(e *simEntry, now time.Time) {
	for _, o := range p.active {
		// What doesn't end in time is not waited for.
		if !o.ignorance && now.Sub(o.began) <= simSend+p.margin() && (e.claim.alone || o.claim.alone) {
			p.wrong("worker %s begins row %v beside row %d (alone: %v)", p.name, e.key, o.key, e.claim.alone)
		}
	}
	p.active = append(p.active, e)
	if e.claim.alone {
		p.power.Alone++
	}
	for _, s := range p.stubborn {
		if s.claim == e.claim && now.Sub(s.began) > simSend+p.margin()*2 {
			p.wrong("worker %s begins row %v under a claim whose row %v ignores its context", p.name, e.key, s.key)
		}
	}
	many := 2 * p.cfg.Concurrency * p.cfg.GroupSize
	if p.delivery == sendonce.AtLeastOnce && !p.odd && len(p.unmarked) > many && !p.settling.IsZero() && now.Sub(p.settling) > sendonce.SlowMark+time.Millisecond {
		p.wrong("worker %s begins row %v while %d rows wait for %v to be recorded", p.name, e.key, len(p.unmarked), now.Sub(p.settling))
	}
}

func (p *simWorker) end(entries []*simEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = slices.DeleteFunc(p.active, func(s *simEntry) bool { return s == entries[0] })
	for _, e := range entries {
		e.ended = time.Now()
		if p.dead() {
			e.ended = p.killed
		}
		if e.ignorance {
			p.stubborn = slices.DeleteFunc(p.stubborn, func(s *simEntry) bool { return s == e })
		}
		p.unmarked[sendonce.Ref{Key: sendonce.Key(e.key), Token: e.claim.token}] = true
	}
}

// lostBefore: the owner has known for longer than an instant.
func (c *simClaim) lostBefore(now time.Time) bool { return !c.told.IsZero() && c.told.Before(now) }

// left is what is left of a claim, as far as its owner may believe.
func (p *simWorker) left(c *simClaim, now time.Time) time.Duration {
	return c.lease - max(now.Sub(c.since), p.wall(now).Sub(p.wall(c.since)))
}

func (m *sim) margin() time.Duration { return m.lease / 10 }

// watched checks that a worker notices when a claim may be over, by its own
// clock: docs/semantics.md, section 2. p.mu is held.
func (p *simWorker) watched(now time.Time) {
	p.mine = slices.DeleteFunc(p.mine, func(c *simClaim) bool { return !c.told.IsZero() || c.answered >= len(c.rows) })
	if p.stopping || p.dead() {
		return
	}
	then := now.Add(-p.margin()/2 - time.Millisecond) // it has looked since
	for _, c := range p.mine {
		if c.heard.Before(then) && p.left(c, then) <= p.margin() {
			p.wrong("worker %s has not noticed that it may have lost a claim: %v left", p.name, p.left(c, now))
			c.told = now
		}
	}
}
