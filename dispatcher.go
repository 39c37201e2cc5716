package sendonce

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Dispatcher hands claimed rows to a Sender and records what became of them. One
// Dispatcher runs once at a time; start as many as you like, in any number of
// processes. Its methods may be called from several goroutines.
type Dispatcher[T any] struct {
	claimer Claimer[T]
	sender  Sender[T]
	cfg     Config
	hooks   Hooks

	beginner Beginner // nil where the Claimer is none, like those below
	reaper   Reaper
	ender    Ender
	counter  Counter
	pauser   Pauser

	reconciler Reconciler[T]
	examiner   Examiner[T]

	running atomic.Bool
	count   counters
	now     atomic.Pointer[loop[T]] // the run at hand, for Health
}

// ErrRunning is returned by Run and Drain while the Dispatcher is running.
var ErrRunning = errors.New("sendonce: this dispatcher is running already")

// New checks cfg and makes a Dispatcher. The error names the field that is wrong
// and what would be accepted.
func New[T any](c Claimer[T], s Sender[T], cfg Config) (*Dispatcher[T], error) {
	if c == nil {
		return nil, errors.New("sendonce: New needs a Claimer: make one with package claim")
	}
	if s == nil {
		return nil, errors.New("sendonce: New needs a Sender: wrap your function with sendonce.SenderFunc")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Dispatcher[T]{claimer: c, sender: s, cfg: cfg, hooks: cfg.Hooks.recovered(cfg.Logger)}
	d.beginner, _ = c.(Beginner)
	d.reaper, _ = c.(Reaper)
	d.ender, _ = c.(Ender)
	d.counter, _ = c.(Counter)
	d.pauser, _ = cfg.Limiter.(Pauser)
	d.reconciler, _ = s.(Reconciler[T])
	d.examiner, _ = c.(Examiner[T])
	if cfg.IdempotencyWindow > 0 {
		keeper, ok := c.(DoubtKeeper)
		if !ok {
			return nil, fmt.Errorf("sendonce: Config.IdempotencyWindow needs to know since when rows are in doubt, and %T keeps no account of that (it is no DoubtKeeper)", c)
		}
		if err := keeper.KeepsDoubt(); err != nil {
			return nil, fmt.Errorf("sendonce: Config.IdempotencyWindow can't be kept: %w", err)
		}
		if least := cfg.SendTimeout; cfg.IdempotencyWindow <= least {
			return nil, fmt.Errorf("sendonce: Config.IdempotencyWindow is %v, no longer than one send (Config.SendTimeout, %v): nothing could ever be sent again", cfg.IdempotencyWindow, least)
		}
	}
	if cfg.Delivery == AtMostOnce && d.beginner == nil {
		return nil, fmt.Errorf("sendonce: Config.Delivery is AtMostOnce, and %T cannot record that a send begins (it is no Beginner): use another strategy, or AtLeastOnce", c)
	}
	return d, nil
}

// Run dispatches until ctx ends. Then nothing new is claimed, rows never begun
// are released at once, and sends get Config.StopTimeout. Run returns nil if
// every row it had claimed was recorded or released; else a *StoppedError names
// the rows. It returns an error at once if the first claim is answered with one
// that no repeat can help (IsFatal); later on it keeps trying.
func (d *Dispatcher[T]) Run(ctx context.Context) error { return d.run(ctx, false) }

// Drain dispatches until nothing is left: nothing is pending, due or not, and
// nothing is held by anybody. It waits for rows that are due later and for those
// of vanished workers. It needs a Claimer that is a Counter. When ctx ends before
// that, it stops like Run, and returns the context's cause.
func (d *Dispatcher[T]) Drain(ctx context.Context) (Stats, error) {
	if d.counter == nil {
		return d.Stats(), fmt.Errorf("sendonce: Drain needs to know what is left, and %T cannot count its rows (it is no Counter): use Run", d.claimer)
	}
	err := d.run(ctx, true)
	return d.Stats(), err
}

func (d *Dispatcher[T]) run(ctx context.Context, drain bool) error {
	if !d.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer d.running.Store(false)
	l := newLoop(d, drain)
	d.now.Store(l)
	return l.run(ctx)
}

// Stats returns what the Dispatcher has done since it was made.
func (d *Dispatcher[T]) Stats() Stats { return d.count.stats() }

// Health returns how the Dispatcher is doing at this moment. One that is not
// running is healthy.
func (d *Dispatcher[T]) Health() Health {
	l := d.now.Load()
	if l == nil || !d.running.Load() {
		return Health{OK: true}
	}
	return l.health()
}
