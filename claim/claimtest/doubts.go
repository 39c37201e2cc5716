package claimtest

import (
	"time"

	"github.com/sendonce/sendonce"
)

func doubtCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "VanishedAreInDoubt", says: "Item.InDoubt: an earlier send of this row may have been accepted, because its worker vanished; DoubtAge counts from its claim at the latest (section 9).", rows: 2, handles: 2, needs: []need{doubt, reaper, suspects, vanished}, run: vanishedInDoubt[T]},
		{name: "DoubtIsKept", says: "A Result with Doubt puts the row in doubt since the earliest such attempt; one without leaves it as it is (section 9).", rows: 3, handles: 1, needs: []need{doubt}, run: doubtIsKept[T]},
		{name: "RequeuedIsNotInDoubt", says: "A row that an operator requeues is not in doubt any more.", rows: 1, handles: 1, needs: []need{doubt, requeue}, run: requeuedIsSure[T]},
		{name: "Unknowns", says: "Unknowns returns unknown rows in the order of their keys, after the given one, with their token; a Done under it is Late (section 3, transition 5).", rows: 6, handles: 1, needs: []need{examiner}, run: unknowns[T]},
		{name: "Resume", says: "Resume puts unknown rows back to pending if they carry that token, and no others; they are due at once, keep their attempts and are not in doubt (section 3, transition 14).", rows: 4, handles: 1, needs: []need{examiner}, run: resume[T]},
	}
}

func (e *env[T]) doubtKept() {
	e.t.Helper()
	for i := range e.s.Claimers {
		e.must(optional[sendonce.DoubtKeeper](e, i, "DoubtKeeper").KeepsDoubt(), "KeepsDoubt")
	}
}

func vanishedInDoubt[T any](e *env[T]) {
	e.doubtKept()
	began := time.Now()
	for _, x := range e.take(0, 2, e.short(2)) {
		if x.InDoubt || x.DoubtAge != 0 {
			e.failf("row %v was never tried and is in doubt for %v", x.Key, x.DoubtAge)
		}
	}
	e.reapAll(1, 2, maxAttempts)
	for _, x := range e.takeAll(1, 2) {
		if !x.InDoubt || x.DoubtAge < e.h.Lease-slack || x.DoubtAge > time.Since(began)+slack {
			e.failf("row %v came back from a worker that vanished within %v and has InDoubt %v, DoubtAge %v", x.Key, time.Since(began), x.InDoubt, x.DoubtAge)
		}
	}
}

func doubtIsKept[T any](e *env[T]) {
	e.doubtKept()
	doubted := func(x held[T], d time.Duration) sendonce.Result {
		r := x.is(sendonce.Retry)
		r.Doubt = d
		return r
	}
	xs := e.byKey(e.takeAll(0, 3))
	e.settled(0, doubted(xs[0], time.Hour), doubted(xs[1], time.Minute), xs[2].is(sendonce.Retry))
	xs = e.byKey(e.takeAll(0, 3))
	e.settled(0, doubted(xs[0], time.Second), xs[1].is(sendonce.Retry), xs[2].is(sendonce.Retry))
	xs = e.byKey(e.takeAll(0, 3))
	for i, least := range []time.Duration{time.Hour, time.Minute, 0} {
		x := xs[i]
		if x.InDoubt != (least > 0) || x.DoubtAge < least-slack || x.DoubtAge > least+e.h.Patience {
			e.failf("row %v was put in doubt since %v ago, and has InDoubt %v, DoubtAge %v", x.Key, least, x.InDoubt, x.DoubtAge)
		}
	}
}

func requeuedIsSure[T any](e *env[T]) {
	e.doubtKept()
	x := e.one(0)
	r := x.is(sendonce.Dead)
	r.Doubt = time.Hour
	e.settled(0, r)
	e.must(e.s.Requeue(x.Key), "Store.Requeue")
	if x = e.one(0); x.InDoubt {
		e.failf("row %v was requeued and is in doubt for %v", x.Key, x.DoubtAge)
	}
}

func (e *env[T]) unknowns(after sendonce.Key, limit int) []sendonce.UnknownRow[T] {
	e.t.Helper()
	rows, err := optional[sendonce.Examiner[T]](e, 0, "Examiner").Unknowns(e.ctx, after, limit)
	e.must(err, "Unknowns")
	if len(rows) > limit {
		e.failf("Unknowns was asked for %d rows and returns %d", limit, len(rows))
	}
	return rows
}

func unknowns[T any](e *env[T]) {
	if rows := e.unknowns(nil, 10); len(rows) != 0 {
		e.failf("nothing is unknown, and Unknowns returns row %v", rows[0].Item.Key)
	}
	xs := e.byKey(e.takeAll(0, 6))
	e.settled(0, xs[0].is(sendonce.Done), xs[1].is(sendonce.Unknown), xs[2].is(sendonce.Dead), xs[3].is(sendonce.Unknown), xs[4].is(sendonce.Unknown))
	var after sendonce.Key
	for _, i := range []int{1, 3, 4} {
		rows := e.unknowns(after, 1)
		if len(rows) != 1 || rows[0].Item.Key != xs[i].Key || rows[0].Token != xs[i].token || rows[0].Item.IdempotencyKey != xs[i].IdempotencyKey {
			e.failf("after %v Unknowns returns %+v, and not row %v with token %d", after, rows, xs[i].Key, xs[i].token)
		}
		if e.s.Check != nil {
			e.must(e.s.Check(rows[0].Item), "the item's value")
		}
		after = rows[0].Item.Key
	}
	if rows := e.unknowns(nil, 10); len(rows) != 3 {
		e.failf("three rows are unknown, and Unknowns returns %d", len(rows))
	}
	if rows := e.unknowns(after, 10); len(rows) != 0 {
		e.failf("after the last one Unknowns returns row %v", rows[0].Item.Key)
	}
	if !e.h.Caps.NoLateFacts {
		e.excepted(0, xs[3].is(sendonce.Done), sendonce.Late)
		e.stands(xs[3].Key, Done, 1)
	}
}

func resume[T any](e *env[T]) {
	xs := e.byKey(e.takeAll(0, 4))
	r := xs[0].is(sendonce.Unknown)
	r.Doubt = time.Hour
	e.settled(0, r, xs[1].is(sendonce.Unknown), xs[2].is(sendonce.Done))
	stranger := sendonce.Ref{Key: xs[1].Key, Token: xs[1].token ^ 1}
	refs := []sendonce.Ref{xs[0].ref(), stranger, xs[2].ref(), xs[3].ref(), {Key: unknownKey(xs[0].Key), Token: xs[0].token}}
	for i, want := range []int{1, 0} {
		n, err := optional[sendonce.Examiner[T]](e, 0, "Examiner").Resume(e.ctx, refs)
		e.must(err, "Resume")
		if n != want {
			e.failf("call %d of Resume says that it has put %d rows back, and not %d", i+1, n, want)
		}
	}
	e.stands(xs[0].Key, Pending, 1)
	e.stands(xs[1].Key, Unknown, 1)
	e.stands(xs[2].Key, Done, 1)
	e.stands(xs[3].Key, Claimed, 1)
	x := e.one(0)
	if x.Key != xs[0].Key || x.Attempt != 2 || x.InDoubt {
		e.failf("row %v was resumed; handed out is row %v for attempt %d, InDoubt: %v", xs[0].Key, x.Key, x.Attempt, x.InDoubt)
	}
}
