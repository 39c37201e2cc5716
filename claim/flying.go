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
	mu     sync.Mutex
	rows   map[sendonce.Key]*flight // those that have landed stay until their claim ends, for a repeat
	claims map[int64][]flight       // by token
	up     int                      // of them still in the air
}

type flight struct {
	key      sendonce.Key
	token    int64
	attempts int64
	landed   bool
}

func newFlying() *flying {
	return &flying{rows: map[sendonce.Key]*flight{}, claims: map[int64][]flight{}}
}

// has is false of nil: there is nothing that the table doesn't say.
func (f *flying) has(key sendonce.Key) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.rows[key]
	return fl != nil && !fl.landed
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

// take puts the rows of a claim into the air: what was read, and not marked.
func take[T any](f *flying, token int64, items []sendonce.Item[T]) {
	flights := make([]flight, len(items))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range items {
		flights[i] = flight{key: m.Key, token: token, attempts: int64(m.Attempt) - 1}
		f.rows[m.Key] = &flights[i]
	}
	f.claims[token] = flights
	f.up += len(items)
}

// aloft returns for each result the attempts that its row was read with, or -1 if
// the row is not in the air: then the result is a repeat, or comes too late.
func (f *flying) aloft(rs []sendonce.Result) dialect.Tokens {
	f.mu.Lock()
	defer f.mu.Unlock()
	attempts := make(dialect.Tokens, len(rs))
	for i, r := range rs {
		attempts[i] = -1
		if fl := f.rows[r.Key]; fl != nil && fl.token == r.Token && !fl.landed {
			attempts[i] = fl.attempts
		}
	}
	return attempts
}

// seen returns the attempts that a row was read with under that token, -1 if it
// was not.
func (f *flying) seen(r sendonce.Result) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.rows[r.Key]; fl != nil && fl.token == r.Token {
		return fl.attempts
	}
	return -1
}

// land says that results are recorded: the rows may be claimed again.
func (f *flying) land(rs []sendonce.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rs {
		if fl := f.rows[r.Key]; fl != nil && fl.token == r.Token && !fl.landed {
			fl.landed = true
			f.up--
		}
	}
}

// forget forgets all rows of a claim.
func (f *flying) forget(token int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	flights := f.claims[token]
	delete(f.claims, token)
	for i := range flights {
		fl := &flights[i]
		if !fl.landed {
			f.up--
		}
		if f.rows[fl.key] == fl { // not of a later claim
			delete(f.rows, fl.key)
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
