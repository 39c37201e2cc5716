package claim

import (
	"context"
	"slices"
	"sync"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// flying are the rows that a process has in its hands without a mark in the
// table, each with the attempts that stood there when it was read: a result is
// written where they still do, so that a repeat writes nothing.
type flying struct {
	mu   sync.Mutex
	rows map[sendonce.Key]flight // those that have landed stay until their claim ends, for a repeat
	up   int                     // of them still in the air
}

type flight struct {
	token    int64
	attempts int64
	landed   bool
}

func newFlying() *flying { return &flying{rows: map[sendonce.Key]flight{}} }

// has is false of nil: there is nothing that the table doesn't say.
func (f *flying) has(key sendonce.Key) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fl, ok := f.rows[key]
	return ok && !fl.landed
}

// beyond is how many rows to read for n that are not in the air.
func (f *flying) beyond(n int) int {
	if f == nil {
		return n
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return roundUp(n + f.up)
}

// roundUp to one or a half at the first digit, so that there are few statements.
func roundUp(n int) int {
	for unit := 1; ; unit *= 10 {
		for _, step := range []int{1, 2, 5} {
			if n <= step*unit {
				return step * unit
			}
		}
	}
}

func (f *flying) take(key sendonce.Key, fl flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[key] = fl
	f.up++
}

// of returns the flight of a row under that token, or one of a row that stands
// nowhere and has landed.
func (f *flying) of(key sendonce.Key, token int64) flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.rows[key]; ok && fl.token == token {
		return fl
	}
	return flight{token: token, attempts: -1, landed: true}
}

// land says that a result is recorded: the row may be claimed again.
func (f *flying) land(key sendonce.Key, token int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.rows[key]; ok && fl.token == token && !fl.landed {
		fl.landed = true
		f.rows[key] = fl
		f.up--
	}
}

// forget forgets all rows of a claim.
func (f *flying) forget(token int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, fl := range f.rows {
		if fl.token == token {
			if !fl.landed {
				f.up--
			}
			delete(f.rows, key)
		}
	}
}

// read takes the rows of a pick without marking them.
func (c *claimer[T]) read(ctx context.Context, p pick, a dialect.Args) ([]sendonce.Item[T], error) {
	limit := p.limit
	items, all, err := c.readOnce(ctx, p, a)
	// A cursor that went back to the start meets rows in the air first.
	if err == nil && p.kind == freshRows && len(items) < limit && !all {
		p.limit = c.flying.beyond(limit)
		items, _, err = c.readOnce(ctx, p, a)
	}
	if err != nil {
		return nil, err
	}
	if p.kind == freshRows && len(items) > limit {
		items = items[:limit]
	}
	for i := range items {
		items[i].Attempt++ // as a mark would have done
	}
	return items, nil
}

// readOnce reads rows that are not in the air, and says whether these are all.
func (c *claimer[T]) readOnce(ctx context.Context, p pick, a dialect.Args) (items []sendonce.Item[T], all bool, err error) {
	items, err = c.scanItems(ctx, c.db, c.due.compile(c.selectRows(c.shape.list(), p)), c.bind(a))
	all = len(items) < p.limit
	items = slices.DeleteFunc(items, func(m sendonce.Item[T]) bool { return c.flying.has(m.Key) })
	return items, all, err
}
