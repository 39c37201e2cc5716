package memclaim

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sendonce/sendonce"
)

// Claim implements sendonce.Claimer. Fresh rows and rows that come back share a
// claim; rows that came back from a vanished worker are claimed apart from them
// (docs/semantics.md, section 7).
func (c *Claimer[T]) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	var b sendonce.Batch[T]
	if ctx.Err() != nil {
		return b, context.Cause(ctx)
	}
	if req.Limit < 1 || req.Lease <= 0 {
		return b, fmt.Errorf("sendonce: a claim of %d rows for %v: both must be positive", req.Limit, req.Lease)
	}
	c.eyes.ownLease(req.Lease)
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if err := t.checkDelivery(req, now); err != nil {
		return b, err
	}
	rows, alone := t.pick(req, now)
	if len(rows) == 0 {
		return b, nil
	}
	b.Token, b.Alone = t.newToken(), alone
	t.take(rows, b, req, now)
	b.Items = make([]sendonce.Item[T], 0, len(rows))
	for _, r := range rows {
		b.Items = append(b.Items, t.item(r, now))
	}
	b.More = len(b.Items) < req.Limit && (t.fresh.peek(now) != nil || t.back.peek(now) != nil || t.suspects.peek(now) != nil)
	return b, nil
}

func (t *table[T]) item(r *row[T], now time.Time) sendonce.Item[T] {
	item := sendonce.Item[T]{Key: r.Key, Attempt: r.Attempts, IdempotencyKey: t.idempotencyKey(r.Key), Err: r.Err}
	if r.Err == nil {
		item.Value = r.Value
	}
	if !r.DoubtSince.IsZero() {
		item.InDoubt, item.DoubtAge = true, max(now.Sub(r.DoubtSince), 1)
	}
	return item
}

// take is transition 1: the rows and the claim change together.
func (t *table[T]) take(rows []*row[T], b sendonce.Batch[T], req sendonce.ClaimRequest, now time.Time) {
	lc := &liveClaim{since: now, Holder: Holder{
		Owner: req.Owner, Token: b.Token, Rows: len(rows), Delivery: req.Delivery, Alone: b.Alone, Lease: req.Lease, Until: now.Add(req.Lease),
	}}
	lc.keys = make([]sendonce.Key, 0, len(rows))
	for _, r := range rows {
		r.Token = b.Token
		r.Attempts++
		r.NextAttempt = time.Time{}
		t.move(r, Claimed)
		lc.keys = append(lc.keys, r.Key)
	}
	t.claims[b.Token] = lc
}

// checkDelivery refuses to send a table under two promises at a time.
func (t *table[T]) checkDelivery(req sendonce.ClaimRequest, now time.Time) error {
	for _, lc := range t.claims {
		if lc.Delivery != req.Delivery && lc.Until.After(now) {
			return fmt.Errorf("%w: %s holds rows under %q, and this is %q; stop it, or use one Delivery everywhere",
				sendonce.ErrDelivery, lc.Owner, lc.Delivery, req.Delivery)
		}
	}
	return nil
}

// pick chooses rows of one kind; the kinds take turns.
func (t *table[T]) pick(req sendonce.ClaimRequest, now time.Time) (rows []*row[T], alone bool) {
	for range 3 {
		kind := t.turn
		t.turn = (t.turn + 1) % 3
		switch kind {
		case 0:
			rows = t.pickCommon(req.Limit, now)
		case 1:
			limit := req.Limit
			if req.Suspects > 0 {
				limit = min(limit, req.Suspects)
			}
			rows = t.pickSuspects(limit, false, req.MaxAttempts, now)
		case 2:
			rows = t.pickSuspects(1, true, req.MaxAttempts, now)
			alone = len(rows) > 0
		}
		if len(rows) > 0 {
			break
		}
	}
	return rows, alone
}

// pickCommon takes fresh rows and rows that come back: half of each while there
// are both, and a claim of one row takes them in turn.
func (t *table[T]) pickCommon(limit int, now time.Time) []*row[T] {
	var rows []*row[T]
	for len(rows) < limit {
		fresh, back := t.fresh.peek(now), t.back.peek(now)
		if fresh == nil && back == nil {
			break
		}
		if back == nil || fresh != nil && !t.backFirst {
			heap.Pop(&t.fresh)
			rows = append(rows, fresh)
		} else {
			heap.Pop(&t.back)
			rows = append(rows, back)
		}
		t.backFirst = !t.backFirst
	}
	slices.SortFunc(rows, func(a, b *row[T]) int {
		if c := a.dueSince().Compare(b.dueSince()); c != 0 {
			return c
		}
		return cmp.Compare(a.arrival, b.arrival)
	})
	return rows
}

// pickSuspects takes rows that came back from a vanished worker and are, or are
// not, before their last attempt.
func (t *table[T]) pickSuspects(limit int, last bool, maxAttempts int, now time.Time) []*row[T] {
	var rows, others []*row[T]
	for len(rows) < limit {
		r := t.suspects.peek(now)
		if r == nil {
			break
		}
		heap.Pop(&t.suspects)
		if (r.Attempts >= lastBefore(maxAttempts)) == last {
			rows = append(rows, r)
		} else {
			others = append(others, r)
		}
	}
	for _, r := range others {
		t.enqueue(r)
	}
	return rows
}

func (r *row[T]) dueSince() time.Time {
	if r.NextAttempt.IsZero() {
		return r.Added
	}
	return r.NextAttempt
}

// lastBefore is how many attempts a row has had before its last one.
func lastBefore(maxAttempts int) int {
	if maxAttempts <= 0 {
		return math.MaxInt
	}
	return maxAttempts - 1
}

// newToken draws the name of a claim: random, so that tokens of other stores
// and of earlier lives can't be taken for it.
func (t *table[T]) newToken() int64 {
	for {
		if token := rand.Int64(); token != 0 && t.claims[token] == nil {
			return token
		}
	}
}

// Extend implements sendonce.Claimer (transition 2). A claim whose lease is over
// and that nobody has taken is extended all the same.
func (t *table[T]) Extend(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
	var ext sendonce.Extension
	if ctx.Err() != nil {
		return ext, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, token := range tokens {
		if lc := t.claims[token]; lc != nil {
			lc.Until = now.Add(lc.Lease)
		} else {
			ext.Lost = append(ext.Lost, token)
		}
	}
	return ext, nil
}

// End implements sendonce.Ender (transition 10).
func (t *table[T]) End(ctx context.Context, tokens []int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, token := range tokens {
		delete(t.claims, token)
	}
	return nil
}

// Begin implements sendonce.Beginner (transition 3). A row that was begun by the
// same claim already may be sent: the reply to that call was lost.
func (t *table[T]) Begin(ctx context.Context, refs []sendonce.Ref) (lost []sendonce.Ref, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, ref := range refs {
		r, lc := t.held[normal(ref.Key)], t.claims[ref.Token]
		if r == nil || r.Token != ref.Token || lc == nil || !lc.Until.After(now) {
			lost = append(lost, ref)
			continue
		}
		t.move(r, Sending)
	}
	return lost, nil
}
