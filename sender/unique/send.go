package unique

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/lock"
)

const (
	// marking bounds how long an accepted send waits for the mark of its key: its
	// own row is not marked meanwhile.
	marking = 3 * time.Second
	// finishers is how many keys of one group are freed or marked at once.
	finishers = 8
)

// group is one Send.
type group[T any] struct {
	*Sender[T]
	answers sendonce.ItemErrors
	items   []sendonce.Item[T] // those to send
	at      []int              // where each of them stands
	keys    []string           // of each; empty: not unique
	owners  []Owner
	until   time.Time // the keys are surely held until then; zero: none is
}

// Send implements sendonce.Sender.
func (s *Sender[T]) Send(ctx context.Context, items []sendonce.Item[T]) error {
	if s.o.Scope == UntilBegin {
		s.begin(ctx, items)
		return s.inner.Send(ctx, items)
	}
	g := &group[T]{Sender: s, answers: make(sendonce.ItemErrors, len(items))}
	for i, item := range items {
		g.add(ctx, i, item)
	}
	if len(g.items) > 0 {
		g.send(ctx)
	}
	if len(items) == 1 {
		return g.answers[0]
	}
	return g.answers
}

// begin ends the rows' reservations. One that can't be ended ends with its row:
// nobody is held up by that for longer.
func (s *Sender[T]) begin(ctx context.Context, items []sendonce.Item[T]) {
	for _, item := range items {
		key := s.o.Key(item)
		if key == "" {
			continue
		}
		call, cancel := context.WithTimeout(ctx, marking)
		err := s.store.Release(call, key, nameRow(s.o.Table, item.Key))
		cancel()
		if err != nil {
			s.o.Logger.Warn("sendonce: a unique key stays reserved until its row is sent", "key", short(key), "row", item.Key, "err", err)
		}
	}
}

// add takes the key of an item, or answers it.
func (g *group[T]) add(ctx context.Context, i int, item sendonce.Item[T]) {
	key, o := g.o.Key(item), g.owner(item)
	if key != "" {
		start := time.Now()
		st, err := g.hold(ctx, key, o)
		switch {
		case err != nil:
			g.answers[i] = g.unheld(key, err)
			return
		case st != nil && g.own(st, o):
			return // accepted before, and only the row's own mark was lost
		case st != nil:
			g.answers[i] = g.conflict(key, st)
			return
		}
		if g.until.IsZero() {
			g.until = start.Add(g.o.Lease)
		}
	}
	g.items, g.at = append(g.items, item), append(g.at, i)
	g.keys, g.owners = append(g.keys, key), append(g.owners, o)
}

// hold takes a key, also from a row that reserved it and is not alive any more.
func (s *Sender[T]) hold(ctx context.Context, key string, o Owner) (*Standing, error) {
	return s.insist(ctx, s.o.Alive, func(over string) (*Standing, error) {
		return s.store.Hold(ctx, key, o, s.o.Lease, over)
	})
}

// insist takes a key, and takes it over if the row that reserved it is gone. Others
// may do the same at once, so that another row may be in the way each time.
func (s *Sender[T]) insist(ctx context.Context, alive aliveFunc, take func(over string) (*Standing, error)) (st *Standing, err error) {
	over := ""
	for range 5 {
		st, err = take(over)
		if st == nil || err != nil || st.How != Reserved || alive == nil || st.Age < s.o.Grace {
			return st, err
		}
		row, known := rowKey(s.o.Table, st.Row)
		if !known {
			return st, nil
		}
		lives, err := alive(ctx, row)
		if err != nil {
			return nil, fmt.Errorf("whether row %s is alive: %w", st.Row, err)
		}
		if lives {
			return st, nil
		}
		over = st.Version
	}
	return st, nil
}

// unheld answers an item whose key can't be had, in time or at all: it is not sent,
// and not charged for that.
func (g *group[T]) unheld(key string, err error) error {
	return sendonce.RetryAfter(g.o.WaitFor, fmt.Errorf("sendonce: unique key %s can't be had: %w", short(key), err))
}

// conflict answers an item whose key another row has.
func (g *group[T]) conflict(key string, st *Standing) error {
	reason := fmt.Sprintf("unique key %s is taken by row %s, %s (since %v, for %v at the most)",
		short(key), st.Row, st.How, st.Age.Round(time.Second), st.Left.Round(time.Second))
	switch {
	case g.o.Conflict == Skip, g.o.Conflict == SkipSent && st.How == Marked:
		return sendonce.Skip(reason)
	case st.How == Marked:
		return sendonce.RetryAfter(max(st.Left, g.o.WaitFor), errors.New(reason))
	}
	return sendonce.RetryAfter(g.o.WaitFor, errors.New(reason))
}

// send sends what is left, while the keys are held.
func (g *group[T]) send(ctx context.Context) {
	for _, i := range g.at {
		g.answers[i] = sendonce.RetryAfter(g.o.WaitFor, lock.ErrLost) // until there is another answer
	}
	defer g.finish(ctx)() // also after a panic, which passes through
	send := func(ctx context.Context, _ int64) error {
		for _, i := range g.at {
			g.answers[i] = sendonce.Ambiguous(errors.New("sendonce: the Sender did not return"))
		}
		err := g.inner.Send(ctx, append([]sendonce.Item[T](nil), g.items...))
		var lost *lock.LostError
		errors.As(context.Cause(ctx), &lost)
		for i, at := range g.at {
			answer := answerFor(err, i)
			if lost != nil && answer != nil {
				// The Dispatcher takes the first verdict that it finds: the Sender's own,
				// and if there is none, that nobody knows.
				answer = fmt.Errorf("%w (%w)", answer, sendonce.Ambiguous(lost))
			}
			g.answers[at] = answer
		}
		return nil
	}
	if g.until.IsZero() {
		_ = send(ctx, 0)
		return
	}
	lease := lock.Lease{Key: g.keys[0], Token: lock.NewToken(), Until: g.until}
	_ = lock.Keep(ctx, &leases[T]{g}, lease, g.o.Lease, send)
}

// finish says afterwards what became of the keys, on a context of its own.
func (g *group[T]) finish(ctx context.Context) func() {
	return func() {
		var goroutines sync.WaitGroup
		slots := make(chan struct{}, finishers)
		for i, key := range g.keys {
			if key == "" {
				continue
			}
			answer, o := g.answers[g.at[i]], g.owners[i]
			slots <- struct{}{}
			goroutines.Go(func() {
				defer func() { <-slots }()
				if answer == nil {
					g.mark(ctx, key, o)
				} else {
					g.free(ctx, key, o, false)
				}
			})
		}
		goroutines.Wait()
	}
}

// mark says that a row was sent. It tries for a while, and no longer: its caller
// has something more important to record.
func (s *Sender[T]) mark(ctx context.Context, key string, o Owner) {
	if key == "" {
		return
	}
	if s.o.Scope != Window {
		s.free(ctx, key, o, true)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), marking)
	defer cancel()
	var st *Standing
	err := s.persist(ctx, func(ctx context.Context) (err error) {
		st, err = s.store.Mark(ctx, key, o, s.o.For)
		return err
	})
	switch {
	case err != nil:
		s.o.Logger.Error("sendonce: a row was sent, and its unique key could not be marked: another row with the key may be sent",
			"key", short(key), "row", o.Row, "err", err)
	case st != nil:
		s.o.Logger.Error("sendonce: a row was sent whose unique key another row has taken meanwhile", "key", short(key), "row", o.Row, "other", st.Row)
	}
}

// free ends a lease, or leaves it to its end.
func (s *Sender[T]) free(ctx context.Context, key string, o Owner, all bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), marking)
	defer cancel()
	err := s.persist(ctx, func(ctx context.Context) error { return s.store.Free(ctx, key, o.Token, all) })
	if err != nil {
		s.o.Logger.Warn("sendonce: a unique key could not be freed: it is free when its lease is over", "key", short(key), "row", o.Row, "err", err)
	}
}

// persist repeats a call a few times until ctx ends.
func (s *Sender[T]) persist(ctx context.Context, call func(context.Context) error) error {
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		try, cancel := context.WithTimeout(ctx, time.Second)
		err := call(try)
		cancel()
		if err == nil || sendonce.IsFatal(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// leases keeps the keys of a group as if they were one lock.
type leases[T any] struct{ *group[T] }

// Acquire implements lock.Locker. Nobody calls it: the keys are held already.
func (l *leases[T]) Acquire(context.Context, string, lock.Token, time.Duration) (lock.Lease, error) {
	return lock.Lease{}, lock.ErrHeld
}

// Extend implements lock.Locker.
func (l *leases[T]) Extend(ctx context.Context, le lock.Lease, ttl time.Duration) (lock.Lease, error) {
	start := time.Now()
	for i, key := range l.keys {
		if key == "" {
			continue
		}
		if err := l.store.Extend(ctx, key, l.owners[i].Token, ttl); err != nil {
			return le, err
		}
	}
	le.Until = start.Add(ttl)
	return le, nil
}

// Release implements lock.Locker. What becomes of each key is said by finish.
func (l *leases[T]) Release(context.Context, lock.Lease) error { return nil }
