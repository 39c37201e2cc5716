package claimtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sendonce/sendonce"
)

// long is a lease that doesn't end while a case runs.
const long = time.Hour

// maxAttempts is what cases use that are not about it.
const maxAttempts = 5

// env is what a case works with.
type env[T any] struct {
	t    testing.TB
	h    Harness[T]
	s    *Store[T]
	says string
	ctx  context.Context
}

// held is an item with the claim that it is held by.
type held[T any] struct {
	sendonce.Item[T]
	token int64
	alone bool
}

func (x held[T]) ref() sendonce.Ref { return sendonce.Ref{Key: x.Key, Token: x.token} }

func (x held[T]) is(o sendonce.Outcome) sendonce.Result {
	r := sendonce.Result{Key: x.Key, Token: x.token, Outcome: o}
	if o != sendonce.Done && o != sendonce.Released {
		r.Reason = "because"
	}
	return r
}

func results[T any](xs []held[T], o sendonce.Outcome) []sendonce.Result {
	var rs []sendonce.Result
	for _, x := range xs {
		rs = append(rs, x.is(o))
	}
	return rs
}

func tokens[T any](xs []held[T]) []int64 {
	var out []int64
	for _, x := range xs {
		if !slices.Contains(out, x.token) {
			out = append(out, x.token)
		}
	}
	return out
}

// failf ends the case with the sentence that does not hold.
func (e *env[T]) failf(format string, args ...any) {
	e.t.Helper()
	e.t.Fatalf("%s\n\tthe contract: %s", fmt.Sprintf(format, args...), e.says)
}

func (e *env[T]) must(err error, what string) {
	e.t.Helper()
	if err != nil {
		e.failf("%s: %v", what, err)
	}
}

func (e *env[T]) ask(limit int) sendonce.ClaimRequest {
	return sendonce.ClaimRequest{Limit: limit, Lease: long, MaxAttempts: maxAttempts, Owner: "claimtest"}
}

// short asks for a claim whose end the case waits for.
func (e *env[T]) short(limit int) sendonce.ClaimRequest {
	req := e.ask(limit)
	req.Lease = e.h.Lease
	return req
}

// claim calls Claim once, and checks what holds for each claim.
func (e *env[T]) claim(i int, req sendonce.ClaimRequest) ([]held[T], bool) {
	e.t.Helper()
	b, err := e.s.Claimers[i].Claim(e.ctx, req)
	e.must(err, "Claim")
	if err := checkBatch(b, req); err != nil {
		e.failf("%v", err)
	}
	return heldBy(b), b.More
}

func heldBy[T any](b sendonce.Batch[T]) []held[T] {
	var out []held[T]
	for _, it := range b.Items {
		out = append(out, held[T]{Item: it, token: b.Token, alone: b.Alone})
	}
	return out
}

func checkBatch[T any](b sendonce.Batch[T], req sendonce.ClaimRequest) error {
	seen := map[sendonce.Key]bool{}
	for _, it := range b.Items {
		switch {
		case seen[it.Key]:
			return fmt.Errorf("one claim has row %v twice", it.Key)
		case it.Attempt < 1:
			return fmt.Errorf("row %v is handed out with attempt %d", it.Key, it.Attempt)
		case it.IdempotencyKey == "":
			return fmt.Errorf("row %v is handed out without an idempotency key", it.Key)
		}
		seen[it.Key] = true
	}
	switch {
	case len(b.Items) > req.Limit:
		return fmt.Errorf("a claim of %d has %d rows", req.Limit, len(b.Items))
	case len(b.Items) > 0 && b.Token == 0:
		return fmt.Errorf("a claim with rows has token 0")
	case b.Alone && len(b.Items) != 1:
		return fmt.Errorf("a claim with %d rows is Alone", len(b.Items))
	}
	return nil
}

// take claims until it has n rows, by as many claims as it takes.
func (e *env[T]) take(i, n int, req sendonce.ClaimRequest) []held[T] {
	e.t.Helper()
	var out []held[T]
	e.eventually(func() bool {
		req.Limit = min(req.Limit, n-len(out))
		xs, _ := e.claim(i, req)
		out = append(out, xs...)
		return len(out) == n
	}, func() string { return fmt.Sprintf("%d of %d rows were handed out", len(out), n) })
	return out
}

// takeAll takes n rows with long leases.
func (e *env[T]) takeAll(i, n int) []held[T] {
	e.t.Helper()
	return e.take(i, n, e.ask(n))
}

// one takes one row with a long lease.
func (e *env[T]) one(i int) held[T] {
	e.t.Helper()
	return e.takeAll(i, 1)[0]
}

// nothing makes sure that there is nothing to claim, by any handle.
func (e *env[T]) nothing(why string) {
	e.t.Helper()
	for range 3 {
		for i := range e.s.Claimers {
			more := true
			for try := 0; more && try < 20; try++ {
				var xs []held[T]
				if xs, more = e.claim(i, e.ask(100)); len(xs) > 0 {
					e.failf("row %v is handed out (attempt %d), though %s", xs[0].Key, xs[0].Attempt, why)
				}
			}
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// settle calls Settle and returns the exceptions by key.
func (e *env[T]) settle(i int, rs ...sendonce.Result) map[sendonce.Key]sendonce.Exception {
	e.t.Helper()
	es, err := e.s.Claimers[i].Settle(e.ctx, rs)
	e.must(err, "Settle")
	out := map[sendonce.Key]sendonce.Exception{}
	for _, x := range es {
		if !slices.Contains(rs, x.Result) {
			e.failf("Settle reports %v of a result that it was not given: %+v", x.Cause, x.Result)
		}
		if _, twice := out[x.Result.Key]; twice {
			e.failf("Settle reports row %v twice", x.Result.Key)
		}
		out[x.Result.Key] = x
	}
	return out
}

// settled settles what must go as usual.
func (e *env[T]) settled(i int, rs ...sendonce.Result) {
	e.t.Helper()
	for key, x := range e.settle(i, rs...) {
		e.failf("recording %v for row %v was answered with: %v (status %q)", x.Result.Outcome, key, x.Cause, x.Status)
	}
}

// excepted settles one result that must not go as usual.
func (e *env[T]) excepted(i int, r sendonce.Result, causes ...sendonce.Cause) {
	e.t.Helper()
	x, ok := e.settle(i, r)[r.Key]
	if !ok || !slices.Contains(causes, x.Cause) {
		answer := "nothing"
		if ok {
			answer = x.Cause.String()
		}
		e.failf("recording %v for row %v was answered with: %s; and not with: %v", r.Outcome, r.Key, answer, causes)
	}
}

// stands checks a row of the store. Attempts below 0 are not checked.
func (e *env[T]) stands(key sendonce.Key, status string, attempts int) Row {
	e.t.Helper()
	row, err := e.s.Row(key)
	e.must(err, "Store.Row")
	if status == Done && e.h.Caps.DeletesDone {
		if row.Found {
			e.failf("row %v is done and still there: %+v", key, row)
		}
		return row
	}
	if !row.Found {
		e.failf("row %v is gone, and not %s", key, status)
	}
	if status == Claimed && e.h.Caps.Unmarked {
		status = Pending
	}
	if row.Status != status {
		e.failf("row %v is %s, and not %s", key, row.Status, status)
	}
	if attempts >= 0 && row.Attempts != attempts && (!e.h.Caps.Unmarked || status != Pending && status != cancelled) {
		e.failf("row %v (%s) has %d attempts, and not %d", key, status, row.Attempts, attempts)
	}
	return row
}

// eventually polls until ok says so, less and less often.
func (e *env[T]) eventually(ok func() bool, what func() string) {
	e.t.Helper()
	wait := 5 * time.Millisecond
	for end := time.Now().Add(e.h.Patience); ; time.Sleep(wait) {
		wait = min(wait*5/4, e.h.Lease/20)
		if ok() {
			return
		}
		if time.Now().After(end) {
			e.failf("after %v: %s", e.h.Patience, what())
		}
	}
}

func (e *env[T]) reaper(i int) sendonce.Reaper {
	e.t.Helper()
	return optional[sendonce.Reaper](e, i, "Reaper")
}

func (e *env[T]) end(i int, xs ...held[T]) {
	e.t.Helper()
	e.must(optional[sendonce.Ender](e, i, "Ender").End(e.ctx, tokens(xs)), "End")
}

// optional is an interface that handle i must have.
func optional[I any, T any](e *env[T], i int, name string) I {
	e.t.Helper()
	x, ok := e.s.Claimers[i].(I)
	if !ok {
		e.t.Fatalf("%T is not a sendonce.%s; if that is so, set Caps.No%s", e.s.Claimers[i], name, name)
	}
	return x
}

// reapAll has handle i take back n rows of vanished workers. It goes by the
// clock alone: how it sees with its own eyes has cases of its own.
func (e *env[T]) reapAll(i, n, maxAttempts int) sendonce.Reaped {
	e.t.Helper()
	var sum sendonce.Reaped
	rows := func() int { return sum.Returned + sum.Dead + sum.Unknown }
	e.eventually(func() bool {
		e.reap(i, sendonce.ReapRequest{MaxAttempts: maxAttempts, ClockOnly: true}, &sum)
		return rows() >= n
	}, func() string { return fmt.Sprintf("of %d rows with vanished workers %d were given back", n, rows()) })
	if rows() > n {
		e.failf("of %d rows with vanished workers %d were given back: %+v", n, rows(), sum)
	}
	return sum
}

func (e *env[T]) reap(i int, req sendonce.ReapRequest, sum *sendonce.Reaped) {
	e.t.Helper()
	r, err := e.reaper(i).Reap(e.ctx, req)
	e.must(err, "Reap")
	sum.Returned += r.Returned
	sum.Dead += r.Dead
	sum.Unknown += r.Unknown
}

// byKey orders items as the store's keys are.
func (e *env[T]) byKey(xs []held[T]) []held[T] {
	slices.SortFunc(xs, func(a, b held[T]) int {
		return slices.Index(e.s.Keys, a.Key) - slices.Index(e.s.Keys, b.Key)
	})
	return xs
}
