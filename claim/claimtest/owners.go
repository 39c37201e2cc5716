package claimtest

import (
	"github.com/sendonce/sendonce"
)

const cancelled = "cancelled" // a state of the application's own

func ownerCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "ForeignState", says: "A row in a state that is not one of ours is left alone, also in the middle of a send (section 3, 13).", rows: 7, handles: 2, needs: []need{setStatus}, run: foreignState[T]},
		{name: "ForeignStateOfAVanishedWorker", says: "A row in a state that is not one of ours is left alone, also by Reap.", rows: 2, handles: 2, needs: []need{setStatus, reaper}, run: foreignReaped[T]},
		{name: "MissingRow", says: "A result of a row that isn't there any more is Missing, and the others are written.", rows: 3, handles: 1, needs: []need{deleteRow}, run: missingRow[T]},
		{name: "MissingRowOfAVanishedWorker", says: "Rows of vanished workers come back, whatever became of others of the same claim.", rows: 3, handles: 2, needs: []need{deleteRow, reaper}, run: missingReaped[T]},
	}
}

func foreignState[T any](e *env[T]) {
	e.must(e.s.SetStatus(e.s.Keys[6], cancelled), "Store.SetStatus")
	xs := e.byKey(e.takeAll(0, 6))
	for i, o := range append([]sendonce.Outcome{sendonce.Done}, opinions...) {
		e.must(e.s.SetStatus(xs[i].Key, cancelled), "Store.SetStatus")
		e.excepted(0, xs[i].is(o), sendonce.Foreign)
		e.stands(xs[i].Key, cancelled, 1)
	}
	for key, x := range e.settle(0, results(xs, sendonce.Done)...) {
		if x.Cause != sendonce.Foreign {
			e.failf("recording done for row %v is answered with: %v", key, x.Cause)
		}
		e.stands(key, cancelled, 1)
	}
	e.nothing("all are in a state of the application's own")
	e.stands(e.s.Keys[6], cancelled, 0)
}

func foreignReaped[T any](e *env[T]) {
	xs := e.byKey(e.take(0, 2, e.short(2)))
	e.must(e.s.SetStatus(xs[0].Key, cancelled), "Store.SetStatus")
	e.reapAll(1, 1, maxAttempts)
	e.stands(xs[0].Key, cancelled, 1)
	if x := e.one(1); x.Key != xs[1].Key {
		e.failf("row %v is handed out in a state of the application's own", x.Key)
	}
	e.nothing("it is in a state of the application's own")
}

func missingRow[T any](e *env[T]) {
	xs := e.byKey(e.takeAll(0, 3))
	gone := xs[1]
	e.must(e.s.Delete(gone.Key), "Store.Delete")
	for _, o := range append([]sendonce.Outcome{sendonce.Done}, opinions...) {
		if o == sendonce.Done && e.h.Caps.DeletesDone {
			e.settled(0, gone.is(o))
			continue
		}
		e.excepted(0, gone.is(o), sendonce.Missing)
	}
	es := e.settle(0, xs[0].is(sendonce.Done), gone.is(sendonce.Dead), xs[2].is(sendonce.Dead))
	if len(es) != 1 || es[gone.Key].Cause != sendonce.Missing {
		e.failf("row %v is the only one that isn't there; reported: %+v", gone.Key, es)
	}
	e.stands(xs[0].Key, Done, 1)
	e.stands(xs[2].Key, Dead, 1)
}

func missingReaped[T any](e *env[T]) {
	xs := e.byKey(e.take(0, 3, e.short(3)))
	e.must(e.s.Delete(xs[1].Key), "Store.Delete")
	e.reapAll(1, 2, maxAttempts)
	e.stands(xs[0].Key, Pending, -1)
	e.stands(xs[2].Key, Pending, -1)
}
