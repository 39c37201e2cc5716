package memclaim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sendonce/sendonce"
)

// KeepsDoubt implements sendonce.DoubtKeeper.
func (t *table[T]) KeepsDoubt() error { return nil }

// Unknowns implements sendonce.Examiner.
func (t *table[T]) Unknowns(ctx context.Context, after sendonce.Key, limit int) ([]sendonce.UnknownRow[T], error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	var out []sendonce.UnknownRow[T]
	for _, r := range t.rows {
		if r.Status == Unknown && (after == nil || compareKeys(r.Key, normal(after)) > 0) {
			out = append(out, sendonce.UnknownRow[T]{Item: t.item(r, now), Token: r.Token})
		}
	}
	slices.SortFunc(out, func(a, b sendonce.UnknownRow[T]) int { return compareKeys(a.Item.Key, b.Item.Key) })
	return out[:min(len(out), max(limit, 0))], nil
}

// Resume implements sendonce.Examiner (transition 14).
func (t *table[T]) Resume(ctx context.Context, refs []sendonce.Ref) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, ref := range refs {
		r := t.rows[normal(ref.Key)]
		if r == nil || r.Status != Unknown || r.Token != ref.Token {
			continue
		}
		n++
		r.Token, r.NextAttempt, r.DoubtSince = 0, t.now(), time.Time{}
		t.move(r, Pending)
	}
	return n, nil
}

// compareKeys orders keys: those of one type by value, and the types by name.
func compareKeys(a, b sendonce.Key) int {
	switch a := a.(type) {
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	case uint64:
		if b, ok := b.(uint64); ok {
			return cmp.Compare(a, b)
		}
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b)
		}
	}
	return cmp.Compare(fmt.Sprintf("%T", a), fmt.Sprintf("%T", b))
}
