package claimtest

import (
	"github.com/sendonce/sendonce"
)

func factCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "LateDone", says: "A Done is a fact: it is written as long as the row carries its token, also when the row has gone back to pending (section 3, transition 5).", rows: 3, handles: 2, needs: []need{reaper, lateFacts}, run: lateDone[T]},
		{name: "LateDoneOfARowPutAside", says: "A Done is written also when the row is dead or unknown meanwhile (section 3, transition 5).", rows: 2, handles: 2, needs: []need{lateFacts}, run: lateDoneOfPutAside[T]},
		{name: "OvertakenDone", says: "A Done that finds another claim's token writes nothing and is Overtaken; the other's result stands.", rows: 4, handles: 2, needs: []need{reaper}, run: overtakenDone[T]},
		{name: "LateOpinions", says: "An opinion is not written once the row has gone back.", rows: 5, handles: 2, needs: []need{reaper}, run: lateOpinions[T]},
		{name: "OvertakenOpinions", says: "An opinion is not written once another claim has the row.", rows: 5, handles: 2, needs: []need{reaper}, run: overtakenOpinions[T]},
		{name: "RequeueClearsTheToken", says: "After a Requeue a late result of the old attempt can't swallow the new order (section 3, transition 12).", rows: 1, handles: 2, needs: []need{requeue}, run: requeueClears[T]},
	}
}

// vanish takes n rows and gives them back as if the worker had vanished.
func (e *env[T]) vanish(n int) []held[T] {
	e.t.Helper()
	xs := e.byKey(e.take(0, n, e.short(n)))
	e.reapAll(1, n, maxAttempts)
	return xs
}

func lateDone[T any](e *env[T]) {
	xs := e.vanish(3)
	for _, x := range xs[:2] {
		e.stands(x.Key, Pending, -1)
		e.excepted(0, x.is(sendonce.Done), sendonce.Late)
		e.stands(x.Key, Done, -1)
		e.settled(0, x.is(sendonce.Done)) // it is recorded, so there is nothing to report
	}
	if x := e.one(1); x.Key != xs[2].Key {
		e.failf("row %v is handed out, though it is done", x.Key)
	}
	e.nothing("the others are done")
}

func lateDoneOfPutAside[T any](e *env[T]) {
	xs := e.takeAll(0, 2)
	e.settled(0, xs[0].is(sendonce.Dead), xs[1].is(sendonce.Unknown))
	for _, x := range xs {
		e.excepted(0, x.is(sendonce.Done), sendonce.Late)
		e.stands(x.Key, Done, 1)
	}
	e.nothing("all are done")
}

func overtakenDone[T any](e *env[T]) {
	old := e.vanish(4)
	news := e.byKey(e.takeAll(1, 4))
	e.excepted(0, old[0].is(sendonce.Done), sendonce.Overtaken)
	e.stands(old[0].Key, Claimed, -1)
	e.settled(1, news[0].is(sendonce.Skipped))
	e.stands(old[0].Key, Skipped, -1)
	e.excepted(0, old[0].is(sendonce.Done), sendonce.Overtaken)
	e.stands(old[0].Key, Skipped, -1)

	e.settled(1, news[1].is(sendonce.Dead), news[2].is(sendonce.Retry))
	e.excepted(0, old[1].is(sendonce.Done), sendonce.Overtaken)
	e.excepted(0, old[2].is(sendonce.Done), sendonce.Overtaken)
	e.stands(old[1].Key, Dead, -1)
	e.stands(old[2].Key, Pending, -1)

	e.settled(1, news[3].is(sendonce.Done))
	if !e.h.Caps.DeletesDone {
		e.excepted(0, old[3].is(sendonce.Done), sendonce.Overtaken)
	}
	e.stands(old[3].Key, Done, -1)
}

func lateOpinions[T any](e *env[T]) {
	xs := e.vanish(5)
	for i, o := range opinions {
		e.excepted(0, xs[i].is(o), sendonce.NotHeld, sendonce.Overtaken)
		e.stands(xs[i].Key, Pending, -1)
	}
	want := 2
	if e.h.Caps.NoVanished {
		want = 1
	}
	for _, x := range e.takeAll(1, 5) {
		if x.Attempt != want {
			e.failf("row %v has attempt %d, and not %d", x.Key, x.Attempt, want)
		}
	}
}

func overtakenOpinions[T any](e *env[T]) {
	old := e.vanish(5)
	news := e.byKey(e.takeAll(1, 5))
	for i, o := range opinions {
		e.excepted(0, old[i].is(o), sendonce.NotHeld, sendonce.Overtaken)
		e.stands(old[i].Key, Claimed, -1)
	}
	e.nothing("all are claimed")
	e.settled(1, results(news, sendonce.Done)...)
}

func requeueClears[T any](e *env[T]) {
	old := e.one(0)
	e.settled(0, old.is(sendonce.Dead))
	e.must(e.s.Requeue(old.Key), "Store.Requeue")
	e.stands(old.Key, Pending, 0)
	e.excepted(0, old.is(sendonce.Done), sendonce.NotHeld, sendonce.Overtaken)
	e.stands(old.Key, Pending, 0)
	x := e.one(1)
	if x.Attempt != 1 {
		e.failf("row %v has attempt %d after Requeue", x.Key, x.Attempt)
	}
	e.settled(1, x.is(sendonce.Done))
}
