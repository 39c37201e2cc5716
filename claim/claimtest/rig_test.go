package claimtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// rig is the table under the fakes, and what they share.
type rig struct {
	c         *memclaim.Claimer[string]
	mu        sync.Mutex
	keepToken bool // Requeue does not clear it
	keepDoubt bool // nor ends the doubt
	late      bool // InsertBefore inserts what nobody finds
	seen      map[any]bool
}

var errNoRow = errors.New("no such row")

func found(ok bool) error {
	if !ok {
		return errNoRow
	}
	return nil
}

func newRig() *rig { return &rig{c: memclaim.New[string](nil), seen: map[any]bool{}} }

// first reports whether x is noted for the first time.
func (w *rig) first(x any) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	is := !w.seen[x]
	w.seen[x] = true
	return is
}

// edit changes a row in ways that no Claimer may.
func (w *rig) edit(key sendonce.Key, f func(r *memclaim.Row[string])) error {
	r, ok := w.c.Row(key)
	if !ok {
		return errNoRow
	}
	f(&r)
	w.c.Delete(key)
	return w.c.Add(r)
}

// each edits all rows that a condition holds for.
func (w *rig) each(which func(r memclaim.Row[string]) bool, f func(r *memclaim.Row[string])) (n int) {
	for _, r := range w.c.Rows() {
		if which(r) && w.edit(r.Key, f) == nil {
			n++
		}
	}
	return n
}

func (w *rig) row(key sendonce.Key) (Row, error) {
	r, ok := w.c.Row(key)
	return Row{Found: ok, Status: r.Status, Attempts: r.Attempts, Reason: r.Reason}, nil
}

func (w *rig) token(key sendonce.Key) int64 {
	r, _ := w.c.Row(key)
	return r.Token
}

func (w *rig) status(key sendonce.Key) string {
	r, _ := w.c.Row(key)
	return r.Status
}

// store is a Store of the rig.
func (w *rig) store(t testing.TB, rows int) *Store[string] {
	s := &Store[string]{
		Row:       w.row,
		SetStatus: func(key sendonce.Key, status string) error { return found(w.c.SetStatus(key, status)) },
		Delete:    func(key sendonce.Key) error { return found(w.c.Delete(key)) },
		Schedule: func(key sendonce.Key, after time.Duration) error {
			return found(w.c.Schedule(key, time.Now().Add(after)))
		},
		Requeue: func(key sendonce.Key) error {
			token := w.token(key)
			before, _ := w.c.Row(key)
			err := found(w.c.Requeue(key) == 1)
			if w.keepToken {
				return w.edit(key, func(r *memclaim.Row[string]) { r.Token = token })
			}
			if w.keepDoubt {
				return w.edit(key, func(r *memclaim.Row[string]) { r.DoubtSince = before.DoubtSince })
			}
			return err
		},
		Spoil: func(key sendonce.Key) error {
			return w.edit(key, func(r *memclaim.Row[string]) { r.Err = errors.New("unreadable") })
		},
		Check: func(item sendonce.Item[string]) error {
			if item.Value != "v" {
				return errors.New("wrong value")
			}
			return nil
		},
		InsertBefore: func() (sendonce.Key, error) {
			row := memclaim.Row[string]{Key: 1, Value: "v"}
			if w.late {
				row.NextAttempt = time.Now().Add(24 * time.Hour)
			}
			return int64(1), w.c.Add(row)
		},
	}
	for i := range rows {
		key := int64(1000 + i)
		if err := w.c.Add(memclaim.Row[string]{Key: key, Value: "v"}); err != nil {
			t.Fatal(err)
		}
		s.Keys = append(s.Keys, key)
	}
	return s
}

// fake is a handle with methods that can be replaced. A fake's inner handle is
// what the replacement calls.
type fake struct {
	inner  *memclaim.Claimer[string]
	claim  func(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[string], error)
	extend func(ctx context.Context, tokens []int64) (sendonce.Extension, error)
	settle func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error)
	end    func(ctx context.Context, tokens []int64) error
	begin  func(ctx context.Context, refs []sendonce.Ref) ([]sendonce.Ref, error)
	reap   func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error)
	counts func(ctx context.Context) (sendonce.Counts, error)

	unknowns func(ctx context.Context, after sendonce.Key, limit int) ([]sendonce.UnknownRow[string], error)
	resume   func(ctx context.Context, refs []sendonce.Ref) (int, error)
}

func newFake(c *memclaim.Claimer[string]) *fake {
	return &fake{inner: c, claim: c.Claim, extend: c.Extend, settle: c.Settle, end: c.End, begin: c.Begin, reap: c.Reap, counts: c.Counts, unknowns: c.Unknowns, resume: c.Resume}
}

func (f *fake) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[string], error) {
	return f.claim(ctx, req)
}

func (f *fake) Extend(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
	return f.extend(ctx, tokens)
}

func (f *fake) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	return f.settle(ctx, rs)
}

func (f *fake) End(ctx context.Context, tokens []int64) error { return f.end(ctx, tokens) }

func (f *fake) Begin(ctx context.Context, refs []sendonce.Ref) ([]sendonce.Ref, error) {
	return f.begin(ctx, refs)
}

func (f *fake) Reap(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
	return f.reap(ctx, req)
}

func (f *fake) Counts(ctx context.Context) (sendonce.Counts, error) { return f.counts(ctx) }

func (f *fake) KeepsDoubt() error { return nil }

func (f *fake) Unknowns(ctx context.Context, after sendonce.Key, limit int) ([]sendonce.UnknownRow[string], error) {
	return f.unknowns(ctx, after, limit)
}

func (f *fake) Resume(ctx context.Context, refs []sendonce.Ref) (int, error) {
	return f.resume(ctx, refs)
}

// each lets a fake change every result before it is settled.
func (f *fake) eachResult(change func(r *sendonce.Result)) {
	f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
		changed := make([]sendonce.Result, len(rs))
		for i, r := range rs {
			change(&r)
			changed[i] = r
		}
		es, err := f.inner.Settle(ctx, changed)
		for i := range es { // it answers for what it was given
			for _, r := range rs {
				if r.Key == es[i].Result.Key {
					es[i].Result = r
				}
			}
		}
		return es, err
	}
}

// eachBatch lets a fake change every claim that it hands out.
func (f *fake) eachBatch(change func(b *sendonce.Batch[string])) {
	f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[string], error) {
		b, err := f.inner.Claim(ctx, req)
		change(&b)
		return b, err
	}
}

// afterReap lets a fake do something after each Reap.
func (f *fake) afterReap(do func(out *sendonce.Reaped)) {
	f.reap = func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
		out, err := f.inner.Reap(ctx, req)
		do(&out)
		return out, err
	}
}
