package claimtest

import (
	"strings"

	"github.com/sendonce/sendonce"
)

func suspectCases[T any]() []testCase[T] {
	const says = "A row on its last attempt that was claimed Alone and vanished with its worker is dead, with a reason"
	need := []need{reaper, suspects, vanished}
	return []testCase[T]{
		{name: "SuspectsApart", says: "Rows that came back from a vanished worker are claimed without other rows, at most req.Suspects at once (section 7).", rows: 15, handles: 2, needs: need, run: suspectsApart[T]},
		{name: "AllSuspects", says: "ClaimRequest.Suspects of zero means Limit.", rows: 6, handles: 2, needs: need, run: allSuspects[T]},
		{name: "LastAttemptAlone", says: says + " (section 7).", rows: 2, handles: 2, needs: need, run: lastAttemptAlone[T]},
		{name: "NeighboursAreSpared", says: says + "; one that wasn't Alone comes back, Alone (section 7).", rows: 3, handles: 2, needs: need, run: neighboursSpared[T]},
		{name: "SuspectsSettleLikeOthers", says: "A row that came back and is settled for a retry is an ordinary one again.", rows: 4, handles: 2, needs: need, run: suspectsSettle[T]},
	}
}

// threeKinds leaves a third of the rows fresh, a third come back for a retry and
// a third come back from a vanished worker; it returns the latter.
func (e *env[T]) threeKinds() map[sendonce.Key]bool {
	e.t.Helper()
	n := len(e.s.Keys) / 3
	xs := e.take(0, 2*n, e.short(2*n))
	e.settled(0, results(xs[:n], sendonce.Retry)...)
	e.reapAll(1, n, maxAttempts)
	suspect := map[sendonce.Key]bool{}
	for _, x := range xs[n:] {
		suspect[x.Key] = true
	}
	return suspect
}

func suspectsApart[T any](e *env[T]) {
	suspect := e.threeKinds()
	req := e.ask(10)
	req.Suspects = 2
	came := 0
	e.eventually(func() bool {
		xs, _ := e.claim(1, req)
		n := 0
		for _, x := range xs {
			if suspect[x.Key] {
				n++
			}
		}
		switch {
		case n > 0 && n < len(xs):
			e.failf("a claim has %d rows of a vanished worker among %d rows", n, len(xs))
		case n > req.Suspects:
			e.failf("a claim that asks for %d suspects at most has %d", req.Suspects, n)
		case len(xs) > 0 && xs[0].alone:
			e.failf("row %v is Alone on attempt %d of %d", xs[0].Key, xs[0].Attempt, maxAttempts)
		}
		came += len(xs)
		return came == len(e.s.Keys)
	}, func() string { return "rows of one kind were not handed out" })
}

func allSuspects[T any](e *env[T]) {
	e.vanish(6)
	var xs []held[T]
	e.eventually(func() bool { xs, _ = e.claim(1, e.ask(4)); return len(xs) > 0 }, func() string { return "no row came back" })
	if len(xs) != 4 {
		e.failf("6 rows came back from a vanished worker, and a claim of 4 has %d", len(xs))
	}
	e.takeAll(1, 2)
}

func lastAttemptAlone[T any](e *env[T]) {
	const two = 2 // attempts
	req := e.short(10)
	req.MaxAttempts = two
	e.take(0, 2, req)
	e.reapAll(1, 2, two)
	var xs []held[T]
	e.eventually(func() bool { xs, _ = e.claim(1, req); return len(xs) > 0 }, func() string { return "no row came back" })
	x := xs[0]
	if len(xs) != 1 || !x.alone || x.Attempt != two {
		e.failf("%d rows are handed out together, Alone: %v, the first of them for attempt %d of %d", len(xs), x.alone, x.Attempt, two)
	}
	if sum := e.reapAll(0, 1, two); sum.Dead != 1 {
		e.failf("a row that vanished Alone on its last attempt: Reap says %+v", sum)
	}
	row := e.stands(x.Key, Dead, two)
	if !e.h.Caps.NoReasons && strings.TrimSpace(row.Reason) == "" {
		e.failf("row %v is dead and doesn't say why", x.Key)
	}
	// The other one was not charged for it.
	other := e.take(1, 1, req)[0]
	if other.Key == x.Key || !other.alone || other.Attempt != two {
		e.failf("row %v is handed out, Alone: %v, attempt %d", other.Key, other.alone, other.Attempt)
	}
	e.settled(1, other.is(sendonce.Done))
	e.nothing("one is dead and one is done")
}

func neighboursSpared[T any](e *env[T]) {
	const two = 2 // attempts
	req := e.short(3)
	req.MaxAttempts = two
	e.settled(0, results(e.take(0, 3, req), sendonce.Retry)...)
	for _, x := range e.take(0, 3, req) {
		if x.Attempt != two || x.alone {
			e.failf("row %v failed and is handed out for attempt %d, Alone: %v", x.Key, x.Attempt, x.alone)
		}
	}
	if sum := e.reapAll(1, 3, two); sum.Dead != 0 {
		e.failf("three rows vanished together on their last attempt: Reap says %+v", sum)
	}
	for range 3 {
		req.Limit = 3
		var xs []held[T]
		e.eventually(func() bool { xs, _ = e.claim(1, req); return len(xs) > 0 }, func() string { return "a row didn't come back" })
		if len(xs) != 1 || !xs[0].alone || xs[0].Attempt != two {
			e.failf("%d rows are handed out together, Alone: %v, the first of them for attempt %d", len(xs), xs[0].alone, xs[0].Attempt)
		}
		e.settled(1, xs[0].is(sendonce.Done))
	}
	e.nothing("all are done")
}

func suspectsSettle[T any](e *env[T]) {
	e.vanish(4)
	xs := e.takeAll(1, 4)
	e.settled(1, xs[0].is(sendonce.Retry), xs[1].is(sendonce.Retry), xs[2].is(sendonce.Released), xs[3].is(sendonce.Done))
	want := map[sendonce.Key]int{xs[0].Key: 3, xs[1].Key: 3, xs[2].Key: 2}
	for _, x := range e.takeAll(0, 3) {
		if x.Attempt != want[x.Key] || x.alone {
			e.failf("row %v is handed out for attempt %d, and not %d, Alone: %v", x.Key, x.Attempt, want[x.Key], x.alone)
		}
	}
}
