package claimtest

import (
	"time"

	"github.com/sendonce/sendonce"
)

func fairCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "FailingRowsStarveNobody", says: "Rows that fail at once and come back do not keep fresh ones from being claimed (section 5, fault 21).", rows: 72, handles: 1, needs: []need{fairness}, run: failingStarveNobody[T]},
		{name: "FreshRowsStarveNobody", says: "Fresh rows do not keep one that comes back from being claimed: it is within ten polls of falling due (section 5, fault 21).", rows: 120, handles: 1, needs: []need{fairness}, run: freshStarveNobody[T]},
		{name: "ClaimsOfOneStarveNobody", says: "Fresh rows and rows that come back take turns, also in claims of one row (section 5, fault 21).", rows: 60, handles: 1, needs: []need{fairness}, run: onesStarveNobody[T]},
		{name: "SuspectsStarveNobody", says: "Rows that came back from a vanished worker and others take turns.", rows: 30, handles: 2, needs: []need{fairness, suspects, reaper}, run: suspectsStarveNobody[T]},
	}
}

// polls calls Claim again and again until f says that it is enough. Empty claims
// don't count, nor does time.
func (e *env[T]) polls(most int, req sendonce.ClaimRequest, f func(xs []held[T]) bool, what string) {
	e.t.Helper()
	for range most {
		var xs []held[T]
		e.eventually(func() bool { xs, _ = e.claim(0, req); return len(xs) > 0 }, func() string { return what + ", and nothing is handed out" })
		if f(xs) {
			return
		}
		// A dispatcher, too, does something between two claims.
		time.Sleep(20 * time.Millisecond)
	}
	e.failf("%s in %d claims", what, most)
}

func failingStarveNobody[T any](e *env[T]) {
	bad := map[sendonce.Key]bool{}
	for _, key := range e.s.Keys[:8] {
		bad[key] = true
	}
	req, good := e.ask(8), 0
	req.MaxAttempts = 1000
	// 64 good rows are 8 claims of 8; twice the claims are allowed to them, and
	// as many again to a store that is bad at it.
	e.polls(32, req, func(xs []held[T]) bool {
		var rs []sendonce.Result
		for _, x := range xs {
			if bad[x.Key] {
				rs = append(rs, x.is(sendonce.Retry))
			} else {
				rs = append(rs, x.is(sendonce.Done))
				good++
			}
		}
		e.settled(0, rs...)
		return good == len(e.s.Keys)-8
	}, "8 rows always fail, and the others were not all handed out")
}

func freshStarveNobody[T any](e *env[T]) {
	bad := e.one(0)
	e.settled(0, bad.is(sendonce.Retry))
	e.polls(10, e.ask(4), func(xs []held[T]) bool {
		for _, x := range xs {
			if x.Key == bad.Key {
				return true
			}
		}
		e.settled(0, results(xs, sendonce.Done)...)
		return false
	}, "a row is due for a retry among many fresh ones, and was not handed out")
}

func onesStarveNobody[T any](e *env[T]) {
	fresh, again := map[sendonce.Key]bool{}, 0
	e.polls(40, e.ask(1), func(xs []held[T]) bool {
		for _, x := range xs {
			if x.Attempt > 1 {
				again++
			}
			fresh[x.Key] = true
		}
		e.settled(0, results(xs, sendonce.Retry)...)
		return len(fresh) >= 6 && again >= 6
	}, "fresh rows and rows that come back did not take turns")
}

func suspectsStarveNobody[T any](e *env[T]) {
	suspect, kinds := e.threeKinds(), map[string]bool{}
	req := e.ask(1)
	req.MaxAttempts = 1000
	e.polls(30, req, func(xs []held[T]) bool {
		x := xs[0]
		switch {
		case suspect[x.Key]:
			kinds["suspect"] = true
		case x.Attempt > 1:
			kinds["again"] = true
		default:
			kinds["fresh"] = true
		}
		if !suspect[x.Key] {
			e.settled(0, x.is(sendonce.Retry))
		}
		return len(kinds) == 3
	}, "rows that are fresh, come back and come back from a vanished worker did not take turns")
}
