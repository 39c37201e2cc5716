package sendonce_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// The store of a simulated worker: memclaim, with faults that a seed decides.
// Each call is held against the model.

// dice are the decisions about one event. They depend on the seed and on what
// the event is, so that a schedule that goes another way elsewhere changes
// little here.
func (m *sim) dice(kind string, what ...int64) *rand.Rand {
	h := uint64(14695981039346656037)
	for i := range len(kind) {
		h = (h ^ uint64(kind[i])) * 1099511628211
	}
	for _, n := range what {
		h = (h ^ uint64(n)) * 1099511628211
		h ^= h >> 29
	}
	return rand.New(rand.NewPCG(m.seed, h))
}

// simWorker is a process: a Dispatcher and its line to the table.
type simWorker struct {
	*sim
	name         string
	n            int64
	table        *memclaim.Claimer[string]
	cfg          sendonce.Config
	d            *sendonce.Dispatcher[string]
	run          *running
	kill         chan struct{}
	calls, gates atomic.Int64
	until        atomic.Int64 // it stands still until then, Unix nanoseconds
	cut          atomic.Int64 // until then no call gets through
	mute         atomic.Bool  // such calls get no answer, else an error
	only         atomic.Value // the kind of such calls; "": all

	// under sim.mu:
	killed   time.Time // or stopped without having recorded everything
	stopping bool
	holds    map[int64]*simClaim
	mine     []*simClaim // known to it, with rows that are not answered
	faults   []time.Time // of renewals
	pauses   [][2]time.Time
	active   []*simEntry // the first of each call at work
	stubborn []*simEntry // sends that ignore their context

	unmarked map[sendonce.Ref]bool // finished, and the worker doesn't know of a mark
	settling time.Time             // since when it tries to record
	failed   time.Time             // when that failed, if it did
	odd      bool                  // there are results that can't be recorded

	lease    time.Duration // of its claims, and what it has seen of others
	lastScan time.Time
	seen     map[sight]sighting
}

func (p *simWorker) dead() bool {
	select {
	case <-p.kill:
		return true
	default:
		return false
	}
}

// gate is where a process stands still. It does not look at a context.
func (p *simWorker) gate() {
	for {
		d := p.until.Load() - time.Now().UnixNano()
		if d <= 0 || p.dead() {
			return
		}
		time.Sleep(time.Duration(d + p.gates.Add(1))) // no two at one instant: their order would not be the seed's
	}
}

// lost waits for the end of the schedule: calls of a dead process never end, as
// far as anybody can see.
func (p *simWorker) lost() error {
	<-p.over
	return errGone
}

// call is one call to the table, with what may happen to it. act is run at most
// once, with sim.mu held.
func call[R any](p *simWorker, ctx context.Context, kind string, act func(ctx context.Context) (R, error)) (R, error) {
	var none R
	p.gate()
	r := p.dice(kind, p.n, p.calls.Add(1))
	locked := func(ctx context.Context) (R, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return act(ctx)
	}
	f := p.fault(r, kind)
	if f.any() {
		p.faulty(kind, f)
	}
	if f.before != nil {
		if err := f.before(ctx); err != nil {
			return none, err
		}
	}
	if p.dead() {
		return none, p.lost()
	}
	if f.commit > 0 { // it is done when nobody waits for it any more
		p.lateCommits.Go(func() {
			time.Sleep(f.commit)
			_, _ = locked(context.WithoutCancel(ctx))
		})
		if f.after == nil {
			return none, errGone
		}
		return none, f.after(ctx)
	}
	out, err := locked(ctx)
	if err == nil && f.after != nil {
		err = f.after(ctx)
	}
	p.gate()
	if p.dead() {
		return none, p.lost()
	}
	if err != nil {
		return none, err
	}
	return out, nil
}

// simFault is what comes before and after a call.
type simFault struct {
	before, after func(context.Context) error
	commit        time.Duration // how much later it is done
}

func (f simFault) any() bool { return f.before != nil || f.after != nil || f.commit > 0 }

func refuses(context.Context) error    { return errGone }
func silent(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// fault chooses them.
func (p *simWorker) fault(r *rand.Rand, kind string) simFault {
	late := func(ctx context.Context) error { return pause(ctx, time.Duration(r.Int64N(int64(p.sim.lease/2)))) }
	if only, _ := p.only.Load().(string); time.Now().UnixNano() < p.cut.Load() && (only == "" || only == kind) {
		if p.mute.Load() {
			return simFault{before: silent}
		}
		return simFault{before: refuses}
	}
	rate := p.rate
	if kind == "extend" && p.rare == rareRenewals { // now and then, and then for most of a lease
		rate = 0.1
		if time.Since(p.born)%(p.sim.lease*3/2) < p.sim.lease*9/10 {
			rate = 0.95
		}
	}
	if !time.Now().Before(p.calm) || r.Float64() >= rate {
		return simFault{}
	}
	switch r.IntN(10) {
	case 0:
		return simFault{before: refuses}
	case 1:
		return simFault{before: func(context.Context) error { return transient{errors.New("deadlock found")} }}
	case 2:
		return simFault{before: silent}
	case 3, 4:
		return simFault{before: late}
	case 5:
		return simFault{after: silent}
	case 6:
		return simFault{after: late}
	case 7:
		return simFault{commit: time.Duration(1 + r.Int64N(int64(p.sim.lease)))}
	case 8:
		return simFault{commit: time.Duration(1 + r.Int64N(int64(p.sim.lease))), after: silent}
	default:
		return simFault{after: refuses}
	}
}

// faulty notes what may end a lease.
func (p *simWorker) faulty(kind string, f simFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.power.Faults++
	if f.commit > 0 {
		p.power.LateCommits++
	} else if f.after != nil {
		p.power.LostReplies++
	}
	if kind == "extend" {
		p.faults = append(p.faults, time.Now())
	}
}

func (p *simWorker) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[string], error) {
	began := time.Now()
	p.mayClaim(began)
	b, err := call(p, ctx, "claim", func(ctx context.Context) (sendonce.Batch[string], error) {
		b, err := p.table.Claim(ctx, req)
		if err == nil {
			p.claimed(p, req, b, began)
		}
		return b, err
	})
	if err == nil && len(b.Items) > 0 {
		p.note(func() {
			c := p.claims[b.Token]
			c.known, c.heard = time.Now(), time.Now()
			p.mine = append(p.mine, c)
		})
	}
	return b, err
}

// mayClaim checks what must hold when a claim begins: nothing is claimed while
// results can't be recorded.
func (p *simWorker) mayClaim(now time.Time) {
	p.mu.Lock()
	failed := !p.failed.IsZero() && p.failed.Before(now)
	p.watched(now)
	p.mu.Unlock()
	if failed && strings.HasPrefix(p.d.Health().Problem, "results could not be recorded") {
		p.note(func() { p.wrong("worker %s claims while results can't be recorded", p.name) })
	}
}

func (p *simWorker) Extend(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
	began := time.Now()
	p.note(func() { p.watched(began) })
	ext, err := call(p, ctx, "extend", func(ctx context.Context) (sendonce.Extension, error) {
		ext, err := p.table.Extend(ctx, tokens)
		if err == nil {
			p.extended(tokens, ext)
		}
		return ext, err
	})
	if err == nil {
		p.note(func() {
			for _, t := range tokens {
				if c := p.claims[t]; began.After(c.since) {
					c.since, c.heard = began, time.Now()
				}
			}
		})
	}
	return ext, err
}

func (p *simWorker) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	p.note(func() {
		p.watched(time.Now())
		if p.settling.IsZero() {
			p.settling = time.Now()
		}
	})
	es, err := call(p, ctx, "settle", func(ctx context.Context) ([]sendonce.Exception, error) {
		for _, r := range rs {
			if r.Key == p.refused && time.Now().Before(p.calm) {
				return nil, errors.New("value too long for this column")
			}
		}
		es, err := p.table.Settle(ctx, rs)
		if err == nil {
			p.settled(rs, es)
		}
		return es, err
	})
	p.note(func() {
		if err != nil {
			p.failed, p.odd = time.Now(), p.odd || len(rs) == 1
			return
		}
		p.failed, p.settling = time.Time{}, time.Time{}
		for _, r := range rs {
			p.claims[r.Token].answered++
			delete(p.unmarked, sendonce.Ref{Key: r.Key, Token: r.Token})
		}
	})
	return es, err
}

func (p *simWorker) Begin(ctx context.Context, refs []sendonce.Ref) ([]sendonce.Ref, error) {
	return call(p, ctx, "begin", func(ctx context.Context) ([]sendonce.Ref, error) {
		lost, err := p.table.Begin(ctx, refs)
		if err == nil {
			p.intended(refs, lost)
		}
		return lost, err
	})
}

func (p *simWorker) End(ctx context.Context, tokens []int64) error {
	_, err := call(p, ctx, "end", func(ctx context.Context) (struct{}, error) {
		err := p.table.End(ctx, tokens)
		if err == nil {
			p.ended(tokens)
		}
		return struct{}{}, err
	})
	return err
}

func (p *simWorker) Reap(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
	return call(p, ctx, "reap", func(ctx context.Context) (sendonce.Reaped, error) {
		r, err := p.table.Reap(ctx, req)
		if err == nil {
			p.looked(p, req, r)
		} else {
			p.seen = nil
		}
		return r, err
	})
}

func (p *simWorker) Counts(ctx context.Context) (sendonce.Counts, error) {
	return call(p, ctx, "counts", p.table.Counts)
}

func (p *simWorker) note(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}
