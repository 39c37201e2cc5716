package redisclaim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sendonce/sendonce"
)

// Letter is a dead letter: an item that is dead, and stays until Requeue or Delete.
type Letter[T any] struct {
	ID       string
	Key      string // the ordering key
	Unique   string // the unique key, which is free again
	Value    T
	Err      error // set if the value can't be read
	Attempts int
	Reason   string
	Added    time.Time
	Died     time.Time
}

// Dead returns up to limit dead letters in the order of their ids, from the first
// one after the given id; "": from the first one.
func (q *Queue[T]) Dead(ctx context.Context, after string, limit int) ([]Letter[T], error) {
	var out []Letter[T]
	_, err := q.list(ctx, "dead", after, limit, func(id string, r row, value any) {
		l := Letter[T]{
			ID: id, Key: r.orderingKey(), Unique: unescape(r.Unique), Attempts: r.Attempts, Reason: r.Reason, Added: at(r.Added), Died: at(r.Ended),
		}
		l.Value, l.Err = q.decode(id, value)
		out = append(out, l)
	})
	return out, err
}

// list calls f for items that are put aside, and returns the server's time.
func (q *Queue[T]) list(ctx context.Context, state, after string, limit int, f func(id string, r row, value any)) (now int64, err error) {
	if limit < 1 {
		return 0, nil
	}
	if n, err := strconv.ParseUint(after, 10, 64); err != nil && after != "" {
		return 0, fmt.Errorf("sendonce: %q is no id of queue %s", after, q.base)
	} else if after = "-inf"; n > 0 {
		after = strconv.FormatUint(n, 10)
	}
	reply, err := q.run(ctx, "list items", showScript, []any{"list", state, after, limit})
	if err != nil || len(reply) == 0 {
		return 0, err
	}
	for list := reply[1:]; len(list) >= 3; list = list[3:] {
		var r row
		if err := json.Unmarshal([]byte(str(list[1])), &r); err != nil {
			return 0, fmt.Errorf("sendonce: item %v of queue %s: %w", list[0], q.base, err)
		}
		f(str(list[0]), r, list[2])
	}
	return number(reply[0]), nil
}

// Requeue puts items that are dead, unknown or skipped back, due at once, with no
// attempts charged. They stand in the order by their time stamps, as before. Their
// token is cleared, so that a late result of an old attempt can't swallow the new
// order; the idempotency key stays. Others are left alone. It returns the number of
// items put back, and a *TakenError for each one whose unique key another item has
// taken meanwhile (joined).
func (q *Queue[T]) Requeue(ctx context.Context, ids ...string) (int, error) {
	refs := make([]sendonce.Ref, len(ids))
	for i, id := range ids {
		refs[i].Key = id
	}
	return q.operate(ctx, "requeue", refs)
}

// Delete deletes items. One that is at work is left alone: the next one of its key
// must not begin beside it. It returns the number of items deleted.
func (q *Queue[T]) Delete(ctx context.Context, ids ...string) (int, error) {
	refs := make([]sendonce.Ref, len(ids))
	for i, id := range ids {
		refs[i].Key = id
	}
	return q.operate(ctx, "delete", refs)
}

// Resume implements sendonce.Examiner (transition 14). An item whose unique key
// another one has taken meanwhile stays unknown.
func (q *Queue[T]) Resume(ctx context.Context, refs []sendonce.Ref) (int, error) {
	n, err := q.operate(ctx, "resume", refs)
	if errors.Is(err, ErrTaken) {
		err = nil
	}
	return n, err
}

func (q *Queue[T]) operate(ctx context.Context, what string, refs []sendonce.Ref) (int, error) {
	if len(refs) == 0 {
		return 0, nil
	}
	reply, err := q.run(ctx, what+" items", operateScript, refArgs([]any{what}, refs))
	if err != nil || len(reply) != 2 {
		return 0, err
	}
	list, _ := reply[1].([]any)
	var refused []error
	for ; len(list) >= 5; list = list[5:] {
		taken := &TakenError{Unique: unescape(str(list[1])), ID: str(list[2]), State: str(list[3]), Since: at(list[4])}
		refused = append(refused, fmt.Errorf("%s item %v: %w", what, list[0], taken))
	}
	return int(number(reply[0])), errors.Join(refused...)
}

// KeepsDoubt implements sendonce.DoubtKeeper.
func (q *Queue[T]) KeepsDoubt() error { return nil }

// Unknowns implements sendonce.Examiner.
func (q *Queue[T]) Unknowns(ctx context.Context, after sendonce.Key, limit int) ([]sendonce.UnknownRow[T], error) {
	type found struct {
		id    string
		row   row
		value any
	}
	var all []found
	now, err := q.list(ctx, "unknown", str(after), limit, func(id string, r row, value any) { all = append(all, found{id, r, value}) })
	var out []sendonce.UnknownRow[T]
	for _, f := range all {
		it := q.item(f.id, f.row.Attempts, f.row.Doubt, f.row.Fence, f.value, now)
		out = append(out, sendonce.UnknownRow[T]{Item: it, Token: number(f.row.Token)})
	}
	return out, err
}

// Alive reports whether the item may still be sent by itself: it is there, and is
// pending, claimed or sending. It is what unique.Options.Alive asks for.
func (q *Queue[T]) Alive(ctx context.Context, key sendonce.Key) (bool, error) {
	reply, err := q.run(ctx, "look up an item", showScript, []any{"row", str(key)})
	if err != nil || len(reply) < 3 {
		return false, err
	}
	var r row
	if err := json.Unmarshal([]byte(str(reply[2])), &r); err != nil {
		return false, fmt.Errorf("sendonce: item %v of queue %s: %w", key, q.base, err)
	}
	return r.Status == "pending" || r.Status == "claimed" || r.Status == "sending", nil
}

// Counts implements sendonce.Counter. It reads the items that are at work, and of
// the others their number only.
func (q *Queue[T]) Counts(ctx context.Context) (sendonce.Counts, error) {
	var c sendonce.Counts
	reply, err := q.run(ctx, "count items", showScript, []any{"counts"})
	if err != nil {
		return c, err
	}
	into := []*int64{&c.Pending, &c.Claimed, &c.Sending, &c.Done, &c.Dead, &c.Skipped, &c.Unknown, &c.Other}
	if len(reply) != len(into) {
		return c, fmt.Errorf("sendonce: count items in queue %s: its answer is %v", q.base, reply)
	}
	for i, n := range into {
		*n = number(reply[i])
	}
	return c, nil
}

// Holder is a live claim.
type Holder struct {
	Owner    string
	Token    int64
	IDs      []string // of the items that the claim took
	Unmarked int      // of them not yet settled
	Delivery sendonce.Delivery
	Alone    bool
	Lease    time.Duration
	Since    time.Time // on the server's clock, as Until is
	Until    time.Time
}

// Holders returns the live claims, the oldest first.
func (q *Queue[T]) Holders(ctx context.Context) ([]Holder, error) {
	reply, err := q.run(ctx, "show holders", showScript, []any{"holders"})
	if err != nil || len(reply) == 0 {
		return nil, err
	}
	var out []Holder
	for list := reply[1:]; len(list) >= 4; list = list[4:] {
		var c struct {
			Owner    string   `json:"o"`
			Delivery int      `json:"m"`
			Alone    bool     `json:"z"`
			Lease    string   `json:"l"`
			Since    string   `json:"c"`
			IDs      []string `json:"i"`
		}
		if err := json.Unmarshal([]byte(str(list[3])), &c); err != nil {
			return nil, fmt.Errorf("sendonce: a claim of queue %s: %w", q.base, err)
		}
		h := Holder{
			Owner: c.Owner, Token: number(list[0]), IDs: c.IDs, Unmarked: int(number(list[2])), Alone: c.Alone,
			Lease: time.Duration(number(c.Lease)) * time.Microsecond, Since: at(c.Since), Until: at(list[1]),
		}
		if c.Delivery == delivery(sendonce.AtMostOnce) {
			h.Delivery = sendonce.AtMostOnce
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Holder) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Token, b.Token)) })
	return out, nil
}
