package sendonce_test

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// The store of a simulated worker: memclaim, with faults that a seed decides,
// and an account of what was really done, which the dispatchers can't see.

const (
	simSend   = 1400 * time.Millisecond
	simLease  = 6 * time.Second
	simMargin = 600 * time.Millisecond // docs/semantics.md, section 2
)

// dice are the decisions about one event. They depend on the seed and on what
// the event is, so that a schedule that goes another way elsewhere changes
// little here: goroutines and jitter are not the seed's.
func (m *sim) dice(what ...string) *rand.Rand {
	h := fnv.New64a()
	for _, s := range what {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(m.seed, h.Sum64()))
}

// simWorker is a process: a Dispatcher and its line to the table.
type simWorker struct {
	*sim
	name  string
	table *memclaim.Claimer[string]
	run   *running
	kill  chan struct{}
	calls atomic.Int64
	cut   atomic.Int64 // until then no call gets through, Unix nanoseconds
	mute  atomic.Bool  // such calls get no answer, else an error
	only  atomic.Value // the kind of such calls; "": all

	// under sim.mu:
	killed   time.Time // or stopped without having recorded everything
	held     map[sendonce.Key]*simClaim
	faults   []time.Time // of renewals
	flight   int         // sends at work, those apart that ignored their context
	byItself int         // of them those of a row that is to be alone
}

// simClaim is what the table knows of a claim.
type simClaim struct {
	until time.Time
	alone bool
	known bool                       // to its owner: the reply was not lost
	marks map[sendonce.Key]time.Time // answered by a result that was written
}

func (p *simWorker) dead() bool {
	select {
	case <-p.kill:
		return true
	default:
		return false
	}
}

// call is one call to the table, with what may happen to it. act is run at most
// once. Calls of a dead worker never end, as far as anybody can see.
func (p *simWorker) call(ctx context.Context, kind string, act func(ctx context.Context) error) error {
	r := p.dice(p.name, kind, string(rune(p.calls.Add(1))))
	before, after := p.fault(r, kind)
	if before != nil {
		p.faulty(kind)
		if err := before(ctx); err != nil {
			return err
		}
	}
	if p.dead() {
		<-p.over
		return errGone
	}
	err := act(ctx)
	if err == nil && after != nil {
		p.faulty(kind)
		err = after(ctx)
	}
	if p.dead() {
		<-p.over
		return errGone
	}
	return err
}

// fault chooses what comes before and after a call.
func (p *simWorker) fault(r *rand.Rand, kind string) (before, after func(context.Context) error) {
	fail := func(context.Context) error { return errGone }
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	late := func(ctx context.Context) error { return pause(ctx, time.Duration(r.Int64N(int64(3*time.Second)))) }
	if only, _ := p.only.Load().(string); time.Now().UnixNano() < p.cut.Load() && (only == "" || only == kind) {
		if p.mute.Load() {
			return silent, nil
		}
		return fail, nil
	}
	if !time.Now().Before(p.calm) || r.Float64() >= p.rate {
		return nil, nil
	}
	switch r.IntN(8) {
	case 0:
		return fail, nil
	case 1:
		return func(context.Context) error { return transient{errors.New("deadlock found")} }, nil
	case 2:
		return silent, nil
	case 3, 4:
		return late, nil
	case 5:
		return nil, silent
	case 6:
		return nil, late
	default:
		return nil, fail
	}
}

// faulty notes what may end a lease.
func (p *simWorker) faulty(kind string) {
	if kind != "extend" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, time.Now())
}

func (p *simWorker) Claim(ctx context.Context, req sendonce.ClaimRequest) (out sendonce.Batch[string], err error) {
	err = p.call(ctx, "claim", func(ctx context.Context) error {
		b, err := p.table.Claim(ctx, req)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(b.Items) > req.Limit {
			p.wrong("a claim of %d rows gave %d", req.Limit, len(b.Items))
		}
		c := &simClaim{until: time.Now().Add(req.Lease), alone: b.Alone, marks: map[sendonce.Key]time.Time{}}
		if len(b.Items) > 0 {
			p.claims[b.Token] = c
		}
		for _, item := range b.Items {
			p.held[item.Key] = c
			p.tokens[item.Key] = append(p.tokens[item.Key], c)
		}
		out = b
		return err
	})
	if err != nil {
		return sendonce.Batch[string]{}, err
	}
	p.note(func() {
		if c := p.claims[out.Token]; c != nil {
			c.known = true
		}
	})
	return out, nil
}

func (p *simWorker) Extend(ctx context.Context, tokens []int64) (out sendonce.Extension, err error) {
	err = p.call(ctx, "extend", func(ctx context.Context) error {
		ext, err := p.table.Extend(ctx, tokens)
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, t := range tokens {
			p.claims[t].until = time.Now().Add(simLease)
		}
		for _, t := range ext.Lost {
			p.claims[t].until = time.Time{}
		}
		out = ext
		return nil
	})
	return out, err
}

func (p *simWorker) Settle(ctx context.Context, rs []sendonce.Result) (out []sendonce.Exception, err error) {
	err = p.call(ctx, "settle", func(ctx context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		mine := map[sendonce.Key]bool{} // else there is nothing to write, or it is refused
		for _, r := range rs {
			row, _ := p.table.Row(r.Key)
			mine[r.Key] = row.Token == r.Token
		}
		es, err := p.table.Settle(ctx, rs)
		if err != nil {
			return err
		}
		refused := map[sendonce.Key]bool{}
		for _, e := range es {
			if e.Cause == sendonce.Late {
				p.power.late++
				continue
			}
			refused[e.Result.Key] = true
			if e.Result.Outcome != sendonce.Done {
				p.power.refused++
			}
		}
		seen := map[sendonce.Key]bool{}
		for _, r := range rs {
			if seen[r.Key] {
				p.wrong("row %v stands twice in one Settle", r.Key)
			}
			seen[r.Key] = true
			if c := p.claims[r.Token]; mine[r.Key] && !refused[r.Key] && c.marks[r.Key].IsZero() {
				c.marks[r.Key] = time.Now()
			}
		}
		out = es
		return nil
	})
	return out, err
}

func (p *simWorker) Begin(ctx context.Context, refs []sendonce.Ref) (out []sendonce.Ref, err error) {
	err = p.call(ctx, "begin", func(ctx context.Context) error {
		lost, err := p.table.Begin(ctx, refs)
		out = lost
		return err
	})
	return out, err
}

func (p *simWorker) End(ctx context.Context, tokens []int64) error {
	return p.call(ctx, "end", func(ctx context.Context) error { return p.table.End(ctx, tokens) })
}

func (p *simWorker) Reap(ctx context.Context, req sendonce.ReapRequest) (out sendonce.Reaped, err error) {
	err = p.call(ctx, "reap", func(ctx context.Context) error {
		r, err := p.table.Reap(ctx, req)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.power.reclaimed += r.Returned + r.Dead + r.Unknown
		out = r
		return err
	})
	return out, err
}

func (p *simWorker) Counts(ctx context.Context) (out sendonce.Counts, err error) {
	err = p.call(ctx, "counts", func(ctx context.Context) error {
		out, err = p.table.Counts(ctx)
		return err
	})
	return out, err
}
