package claimtest

import (
	"slices"
	"strings"
	"time"

	"github.com/sendonce/sendonce"
)

func settleCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "Done", says: "A row that is done is never handed out again.", rows: 3, handles: 2, run: done[T]},
		{name: "PutAside", says: "Dead, skipped and unknown rows keep their reason and are never handed out again.", rows: 3, handles: 2, run: putAside[T]},
		{name: "Reason", says: "A store that has no room for a reason cuts it or leaves it out; it never fails for it.", rows: 2, handles: 1, run: reason[T]},
		{name: "RetryComesAfterItsDelay", says: "A row to be retried is pending again, due after Result.After on the store's clock, and its next attempt counts.", rows: 2, handles: 2, run: retryAfter[T]},
		{name: "RetryAtOnce", says: "After of zero: due at once.", rows: 3, handles: 2, run: retryAtOnce[T]},
		{name: "Uncharged", says: "Uncharged gives the attempt of a Retry back.", rows: 2, handles: 2, run: uncharged[T]},
		{name: "Released", says: "A released row is due at once and its attempt is given back.", rows: 3, handles: 2, run: released[T]},
		{name: "OpinionNeedsItsToken", says: "An opinion is written only while the row is claimed by its token; a Done needs the token that the row carries.", rows: 6, handles: 2, run: opinionNeedsToken[T]},
		{name: "OpinionAfterAnOutcome", says: "An opinion is written only while the row is claimed.", rows: 2, handles: 1, run: opinionAfterOutcome[T]},
		{name: "RepeatedSettle", says: "Repeating a Settle that acted is harmless and reports nothing new.", rows: 6, handles: 2, run: repeatedSettle[T]},
		{name: "MixedSettle", says: "Settle records results of any number of claims and outcomes, in any order of the keys.", rows: 150, handles: 2, run: mixedSettle[T]},
		{name: "Nothing", says: "Empty tokens, results and refs do nothing.", rows: 1, handles: 1, run: nothingToDo[T]},
	}
}

var opinions = []sendonce.Outcome{sendonce.Retry, sendonce.Released, sendonce.Dead, sendonce.Skipped, sendonce.Unknown}

func done[T any](e *env[T]) {
	xs := e.takeAll(0, 3)
	e.settled(1, results(xs, sendonce.Done)...) // any handle may record it
	for _, x := range xs {
		e.stands(x.Key, Done, 1)
	}
	e.nothing("all are done")
}

func putAside[T any](e *env[T]) {
	xs := e.takeAll(0, 3)
	stands := []string{Dead, Skipped, Unknown}
	for i, o := range []sendonce.Outcome{sendonce.Dead, sendonce.Skipped, sendonce.Unknown} {
		r := xs[i].is(o)
		r.Reason = "row " + stands[i]
		e.settled(0, r)
		row := e.stands(r.Key, stands[i], 1)
		if !e.h.Caps.NoReasons && !strings.Contains(row.Reason, r.Reason) {
			e.failf("row %v is %s for the reason %q, and not %q", r.Key, stands[i], row.Reason, r.Reason)
		}
	}
	e.nothing("all are put aside")
}

func reason[T any](e *env[T]) {
	xs := e.takeAll(0, 2)
	long := strings.Repeat("é€𝄞 '\"\\%s? ", 2000)
	dead, retry := xs[0].is(sendonce.Dead), xs[1].is(sendonce.Retry)
	dead.Reason, retry.Reason = long, long
	e.settled(0, dead, retry)
	for _, row := range []Row{e.stands(dead.Key, Dead, 1), e.stands(retry.Key, Pending, 1)} {
		if !e.h.Caps.NoReasons && !strings.HasPrefix(long, row.Reason) {
			e.failf("the reason was changed to %.40q", row.Reason)
		}
	}
}

func retryAfter[T any](e *env[T]) {
	const delay = 500 * time.Millisecond
	xs := e.takeAll(0, 2)
	later, soon := xs[0].is(sendonce.Retry), xs[1].is(sendonce.Retry)
	later.After, soon.After = time.Hour, delay
	began := time.Now()
	e.settled(0, later, soon)
	e.stands(soon.Key, Pending, 1)
	x := e.one(1)
	e.notBefore(began, delay)
	if x.Key != soon.Key || x.Attempt != 2 {
		e.failf("row %v is handed out, attempt %d; row %v is due for attempt 2", x.Key, x.Attempt, soon.Key)
	}
	e.nothing("it is due in an hour")
}

func retryAtOnce[T any](e *env[T]) {
	e.settled(0, results(e.takeAll(0, 3), sendonce.Retry)...)
	for _, x := range e.takeAll(1, 3) {
		if x.Attempt != 2 {
			e.failf("row %v comes back with attempt %d, and not 2", x.Key, x.Attempt)
		}
	}
}

func uncharged[T any](e *env[T]) {
	for range 3 {
		xs := e.takeAll(0, 2)
		for _, x := range xs {
			if x.Attempt != 1 {
				e.failf("row %v comes back with attempt %d: it was charged", x.Key, x.Attempt)
			}
			r := x.is(sendonce.Retry)
			r.Uncharged = true
			e.settled(0, r)
			e.stands(x.Key, Pending, 0)
		}
	}
}

func released[T any](e *env[T]) {
	for n := range 3 {
		xs := e.takeAll(n%2, 3)
		for _, x := range xs {
			if x.Attempt != 1 {
				e.failf("row %v comes back with attempt %d: it was charged", x.Key, x.Attempt)
			}
		}
		e.settled(n%2, results(xs, sendonce.Released)...)
		for _, x := range xs {
			e.stands(x.Key, Pending, 0)
		}
	}
}

func opinionNeedsToken[T any](e *env[T]) {
	xs := e.takeAll(0, 6)
	for i, o := range append(slices.Clone(opinions), sendonce.Done) {
		r := xs[i].is(o)
		r.Token++
		e.excepted(1, r, sendonce.Overtaken, sendonce.NotHeld)
		e.stands(r.Key, Claimed, 1)
	}
	e.nothing("all are claimed")
	e.settled(0, results(xs, sendonce.Done)...)
}

func opinionAfterOutcome[T any](e *env[T]) {
	xs := e.takeAll(0, 2)
	e.settled(0, xs[0].is(sendonce.Dead), xs[1].is(sendonce.Skipped))
	for _, o := range []sendonce.Outcome{sendonce.Retry, sendonce.Released, sendonce.Unknown} {
		e.excepted(0, xs[0].is(o), sendonce.NotHeld, sendonce.Overtaken)
		e.excepted(0, xs[1].is(o), sendonce.NotHeld, sendonce.Overtaken)
	}
	e.stands(xs[0].Key, Dead, 1)
	e.stands(xs[1].Key, Skipped, 1)
	e.nothing("all are put aside")
}

func repeatedSettle[T any](e *env[T]) {
	xs := e.takeAll(0, 6)
	stands := []string{Pending, Pending, Dead, Skipped, Unknown, Done}
	attempts := []int{1, 0, 1, 1, 1, 1}
	var rs []sendonce.Result
	for i, o := range append(slices.Clone(opinions), sendonce.Done) {
		r := xs[i].is(o)
		if o == sendonce.Retry {
			r.After = time.Hour
		}
		rs = append(rs, r)
	}
	for n := range 3 {
		e.settled(n%2, rs...)
		for i, r := range rs {
			e.settled(n%2, r)
			e.stands(r.Key, stands[i], attempts[i])
		}
	}
	if x := e.one(0); x.Key != rs[1].Key || x.Attempt != 1 {
		e.failf("row %v is handed out, attempt %d; row %v was released", x.Key, x.Attempt, rs[1].Key)
	}
	e.nothing("the others have an outcome")
}

func mixedSettle[T any](e *env[T]) {
	var xs []held[T]
	for i := range 3 {
		xs = append(xs, e.takeAll(i%2, 50)...)
	}
	outcomes := append(slices.Clone(opinions), sendonce.Done)
	var rs []sendonce.Result
	for i := range xs {
		x := xs[(i*67+13)%len(xs)] // each once, in no order
		rs = append(rs, x.is(outcomes[i%len(outcomes)]))
	}
	stranger := sendonce.Result{Key: unknownKey(xs[0].Key), Token: xs[0].token, Outcome: sendonce.Retry, Reason: "because"}
	rs = slices.Insert(rs, 70, stranger)
	es := e.settle(0, rs...)
	if x, ok := es[stranger.Key]; !ok || x.Cause != sendonce.Missing || len(es) != 1 {
		e.failf("row %v is the only one that isn't there; reported: %+v", stranger.Key, es)
	}
	stands := map[sendonce.Outcome]string{
		sendonce.Retry: Pending, sendonce.Released: Pending, sendonce.Dead: Dead, sendonce.Skipped: Skipped, sendonce.Unknown: Unknown, sendonce.Done: Done,
	}
	for _, r := range rs {
		attempts := 1
		if r.Outcome == sendonce.Released {
			attempts = 0
		}
		if r.Key != stranger.Key {
			e.stands(r.Key, stands[r.Outcome], attempts)
		}
	}
}

func nothingToDo[T any](e *env[T]) {
	c := e.s.Claimers[0]
	for _, none := range [][]int64{nil, {}} {
		ext, err := c.Extend(e.ctx, none)
		e.must(err, "Extend")
		if len(ext.Lost) > 0 {
			e.failf("an extension of nothing has lost %v", ext.Lost)
		}
		if x, ok := c.(sendonce.Ender); ok {
			e.must(x.End(e.ctx, none), "End")
		}
	}
	e.settled(0)
	e.settled(0, []sendonce.Result{}...)
	if b, ok := c.(sendonce.Beginner); ok {
		lost, err := b.Begin(e.ctx, nil)
		e.must(err, "Begin")
		if len(lost) > 0 {
			e.failf("a beginning of nothing has lost %v", lost)
		}
	}
	e.stands(e.s.Keys[0], Pending, 0)
}
