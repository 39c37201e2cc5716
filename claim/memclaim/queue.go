package memclaim

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"
)

// queue has pending rows in the order of their due time and arrival. An entry is
// void once its row has changed: the next look throws it away.
type queue[T any] []entry[T]

type entry[T any] struct {
	due     time.Time
	row     *row[T]
	version int64
}

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q queue[T]) Less(i, j int) bool { return q[i].before(q[j]) }
func (q *queue[T]) Push(x any)        { *q = append(*q, x.(entry[T])) }

func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = entry[T]{}
	*q = (*q)[:last]
	return e
}

func (e entry[T]) before(o entry[T]) bool {
	if c := e.due.Compare(o.due); c != 0 {
		return c < 0
	}
	return e.row.arrival < o.row.arrival
}

// peek returns the first row that is due, or nil.
func (q *queue[T]) peek(now time.Time) *row[T] {
	for len(*q) > 0 {
		e := (*q)[0]
		switch {
		case e.row.version != e.version:
			heap.Pop(q)
		case e.due.After(now):
			return nil
		default:
			return e.row
		}
	}
	return nil
}

// enqueue puts a pending row where its kind is looked for: rows that came back
// from a vanished worker apart from others, and rows that were never tried apart
// from those that come back or are scheduled.
func (t *table[T]) enqueue(r *row[T]) {
	e := entry[T]{due: r.NextAttempt, row: r, version: r.version}
	q := &t.back
	if r.NextAttempt.IsZero() {
		// Due since it was added, whatever the clock does.
		e.due, q = time.Time{}, &t.fresh
	}
	if r.Token != 0 {
		q = &t.suspects
	}
	heap.Push(q, e)
}

// heldInOrder returns the rows that are claimed or sending.
func (t *table[T]) heldInOrder() []*row[T] {
	return slices.SortedFunc(maps.Values(t.held), func(a, b *row[T]) int { return cmp.Compare(a.arrival, b.arrival) })
}

// inOrder returns all rows in the order in which they were added.
func (t *table[T]) inOrder() []*row[T] {
	return slices.SortedFunc(maps.Values(t.rows), func(a, b *row[T]) int { return cmp.Compare(a.arrival, b.arrival) })
}

// claimsInOrder returns the claims, the oldest first.
func (t *table[T]) claimsInOrder() []*liveClaim {
	return slices.SortedFunc(maps.Values(t.claims), func(a, b *liveClaim) int {
		if c := a.since.Compare(b.since); c != 0 {
			return c
		}
		return cmp.Compare(a.Token, b.Token)
	})
}
