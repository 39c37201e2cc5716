package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/lock/redislock"
	"github.com/sendonce/sendonce/partition"
)

const (
	finalists  = 6 // how many settings are measured to the end
	layoutPart = 5 // one in so many parts of the time is for the layouts
)

// strategy makes Claimers. Those before it in a list are simpler.
type strategy struct {
	name     string // of the constructor
	open     func(ctx context.Context, worker, workers int) (sendonce.Claimer[row], error)
	unmarked bool
	needs    string // what it asks of whoever uses it
}

type setting struct {
	strategy       *strategy
	rank           int // of the strategy: 0 is the simplest
	batch, workers int
	fillfactor     int       // 0: not a choice of layouts
	rates          []float64 // of its last round
	rounds         int
}

func (s *setting) String() string {
	text := fmt.Sprintf("%s B=%d W=%d", s.strategy.name, s.batch, s.workers)
	if s.fillfactor > 0 {
		text += fmt.Sprintf(" fillfactor=%d", s.fillfactor)
	}
	return text
}

// quantile is of the rates: 0.5 is the median.
func (s *setting) quantile(q float64) float64 {
	if len(s.rates) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.rates))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

func (s *setting) median() float64 { return s.quantile(0.5) }

// asGood reports whether the middle halves of the rates overlap.
func (s *setting) asGood(best *setting) bool { return s.quantile(0.75) >= best.quantile(0.25) }

func (c *scratch) strategies(locks *redislock.Locker) []*strategy {
	type claimer = sendonce.Claimer[row]
	divided := func(worker, workers int) partition.Partitioner {
		p, _ := partition.Static(worker, workers) // worker is less than workers
		return p
	}
	all := []*strategy{{name: "NewSkipLocked", open: func(ctx context.Context, _, _ int) (claimer, error) {
		return claim.NewSkipLocked[row](ctx, c.db, c.dialect, c.table, &c.options)
	}}, {name: "NewAtomic", open: func(ctx context.Context, _, _ int) (claimer, error) {
		return claim.NewAtomic[row](ctx, c.db, c.dialect, c.table, &c.options)
	}}}
	if locks != nil {
		all = append(all, &strategy{name: "NewLocked", open: func(ctx context.Context, _, _ int) (claimer, error) {
			return claim.NewLocked[row](ctx, c.db, c.dialect, c.table, locks, &c.options)
		}, needs: "It needs Redis; while that is down, each claim waits for Options.LockWait."})
	}
	return append(all, &strategy{name: "NewPartitioned", open: func(ctx context.Context, i, n int) (claimer, error) {
		return claim.NewPartitioned[row](ctx, c.db, c.dialect, c.table, divided(i, n), &c.options)
	}, needs: "Each dispatcher must have a number of its own (package partition); rows of a number that nobody has wait."}, &strategy{
		name: "NewUnmarked", open: func(ctx context.Context, i, n int) (claimer, error) {
			return claim.NewUnmarked[row](ctx, c.db, c.dialect, c.table, divided(i, n), &c.options)
		}, unmarked: true, needs: "It promises less: only under AtLeastOnce; a send whose worker was taken for dead meanwhile is repeated; " +
			"a row that kills its worker is not put aside; a lost partition waits for up to two leases; " +
			"no other strategy may work on the table; and dispatchers need numbers, as for NewPartitioned.",
	})
}

// result is what was measured.
type result struct {
	settings []*setting // the best first
	layouts  []*setting
	left     []string // strategies that this table can't have, and why
	load     string   // on the machine, before
}

func measure(ctx context.Context, c *scratch, locks *redislock.Locker, o options) (result, error) {
	r := result{load: load()}
	if err := c.refill(ctx, c.fillfactor); err != nil {
		return r, err
	}
	for rank, s := range c.strategies(locks) {
		if _, err := s.open(ctx, 0, 1); err != nil {
			if ctx.Err() != nil {
				return r, err
			}
			r.left = append(r.left, fmt.Sprintf("claim.%s: %v", s.name, err))
			continue
		}
		for _, batch := range o.batches {
			for _, workers := range o.workers {
				r.settings = append(r.settings, &setting{strategy: s, rank: rank, batch: batch, workers: workers})
			}
		}
	}
	if len(r.settings) == 0 {
		return r, fmt.Errorf("no strategy works on this table: %v", r.left)
	}
	span := o.span
	if c.fillfactor > 0 {
		span -= o.span / layoutPart
	}
	if err := c.halve(ctx, r.settings, o, span); err != nil {
		return r, err
	}
	if c.fillfactor == 0 {
		return r, nil
	}
	best := r.pick()
	for i, f := range []int{c.fillfactor, 100, 50, 33} {
		if i > 0 && f == c.fillfactor {
			continue
		}
		r.layouts = append(r.layouts, &setting{strategy: best.strategy, batch: best.batch, workers: best.workers, fillfactor: f})
	}
	return r, c.round(ctx, r.layouts, o, time.Now().Add(o.span/layoutPart), o.span/layoutPart/6)
}

// halve measures in rounds, and drops the slower half after each, so that the time is
// spent on the good ones. It sorts the settings: the best first.
func (c *scratch) halve(ctx context.Context, all []*setting, o options, span time.Duration) error {
	rounds := 1
	for k := len(all); k > finalists; k = (k + 1) / 2 {
		rounds++
	}
	end := time.Now().Add(span)
	for in := all; rounds > 0; rounds-- {
		left := max(0, time.Until(end)) / time.Duration(rounds)
		if err := c.round(ctx, in, o, time.Now().Add(left), left/time.Duration(len(in))); err != nil {
			return err
		}
		in = append(faster(in, false), faster(in, true)...)
	}
	slices.SortFunc(all, func(a, b *setting) int {
		return cmp.Or(b.rounds-a.rounds, cmp.Compare(b.median(), a.median()))
	})
	return nil
}

// faster is the faster half of those that ask for a condition, or that do not: there
// must be a choice among each.
func faster(in []*setting, unmarked bool) []*setting {
	of := slices.DeleteFunc(slices.Clone(in), func(s *setting) bool { return s.strategy.unmarked != unmarked })
	slices.SortFunc(of, func(a, b *setting) int { return cmp.Compare(b.median(), a.median()) })
	return of[:(len(of)+1)/2]
}

// round measures the settings again and again, in turn and each time in another
// order, until the time is over; once at least.
func (c *scratch) round(ctx context.Context, in []*setting, o options, end time.Time, slice time.Duration) error {
	for _, s := range in {
		s.rates = nil // short runs show less
		s.rounds++
	}
	for first := true; first || time.Now().Before(end); first = false {
		for _, i := range rand.Perm(len(in)) {
			s := in[i]
			fillfactor := s.fillfactor
			if fillfactor == 0 {
				fillfactor = c.fillfactor
			}
			if err := c.refill(ctx, fillfactor); err != nil {
				return err
			}
			rate, err := c.once(ctx, s, o, min(time.Second, max(100*time.Millisecond, slice)))
			if err != nil {
				return fmt.Errorf("%v: %w", s, err)
			}
			s.rates = append(s.rates, rate)
		}
	}
	return nil
}

// gauge counts what is recorded in a run: until the last row, or the first record
// after that time.
type gauge struct {
	rows   int
	atMost time.Duration
	stop   context.CancelFunc

	mu          sync.Mutex
	began, last time.Time
	done        int
	over        bool
}

func (g *gauge) settled(n int, _ time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil || g.over {
		return
	}
	g.last, g.done = time.Now(), g.done+n
	if g.over = g.done >= g.rows || g.last.Sub(g.began) >= g.atMost; g.over {
		g.stop()
	}
}

// once gives the rows per second of one run.
func (c *scratch) once(ctx context.Context, s *setting, o options, atMost time.Duration) (float64, error) {
	// Nobody waits forever for a first result.
	running, stop := context.WithTimeout(ctx, atMost+o.send+10*time.Second)
	defer stop()
	g := &gauge{rows: o.rows, atMost: atMost, stop: stop}
	send := sendonce.SenderFunc[row](func(context.Context, sendonce.Item[row]) error {
		time.Sleep(o.send)
		return nil
	})
	var dispatchers []*sendonce.Dispatcher[row]
	for i := range s.workers {
		claimer, err := s.strategy.open(ctx, i, s.workers)
		if err != nil {
			return 0, err
		}
		d, err := sendonce.New[row](claimer, send, sendonce.Config{
			Owner: fmt.Sprintf("advisor-%d", i), BatchSize: s.batch, Hooks: sendonce.Hooks{Settled: g.settled},
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return 0, err
		}
		dispatchers = append(dispatchers, d)
	}
	g.began = time.Now()
	errs := make([]error, s.workers)
	var wg sync.WaitGroup
	for i, d := range dispatchers {
		wg.Go(func() { errs[i] = d.Run(running) })
	}
	wg.Wait()
	if err := errors.Join(append(errs, context.Cause(ctx))...); err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done == 0 {
		return 0, errors.New("no results were recorded in 10 s: see that no other session holds locks")
	}
	return float64(g.done) / g.last.Sub(g.began).Seconds(), nil
}
