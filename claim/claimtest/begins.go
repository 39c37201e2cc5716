package claimtest

import (
	"slices"
	"time"

	"github.com/sendonce/sendonce"
)

func beginCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "Begin", says: "Begin makes it durable that rows are about to be sent, and returns those that their claim does not hold.", rows: 5, handles: 2, needs: []need{beginner}, run: begin[T]},
		{name: "BeginAfterTheLease", says: "Begin refuses rows whose claim is over (section 3, transition 3).", rows: 2, handles: 1, needs: []need{beginner}, run: beginLate[T]},
		{name: "BegunRowsSettle", says: "A row that is being sent settles like one that is claimed, but is not released (section 3).", rows: 6, handles: 1, needs: []need{beginner}, run: begunSettle[T]},
		{name: "VanishedInMidSend", says: "A row that was being sent under AtMostOnce when its worker vanished becomes unknown and is never handed out again; one that was not begun comes back uncharged (section 3, transition 9).", rows: 3, handles: 2, needs: []need{beginner, reaper}, run: vanishedInMidSend[T]},
		{name: "LateDoneOfUnknown", says: "A Done is written also when the row has become unknown meanwhile (section 3, transition 5).", rows: 1, handles: 2, needs: []need{beginner, reaper, lateFacts}, run: lateDoneOfUnknown[T]},
	}
}

func (e *env[T]) atMostOnce(req sendonce.ClaimRequest) sendonce.ClaimRequest {
	req.Delivery = sendonce.AtMostOnce
	return req
}

// begin calls Begin, and checks which refs it refuses.
func (e *env[T]) begin(i int, refs, refused []sendonce.Ref) {
	e.t.Helper()
	lost, err := optional[sendonce.Beginner](e, i, "Beginner").Begin(e.ctx, refs)
	e.must(err, "Begin")
	same := len(lost) == len(refused)
	for _, r := range refused {
		same = same && slices.Contains(lost, r)
	}
	if !same {
		e.failf("of %v Begin refuses %v, and not %v", refs, lost, refused)
	}
}

func begin[T any](e *env[T]) {
	xs := e.byKey(e.take(0, 5, e.atMostOnce(e.ask(5))))
	e.settled(0, xs[2].is(sendonce.Released), xs[3].is(sendonce.Dead))
	stranger := sendonce.Ref{Key: xs[1].Key, Token: xs[1].token ^ 1}
	missing := sendonce.Ref{Key: unknownKey(xs[0].Key), Token: xs[0].token}
	refs := []sendonce.Ref{xs[3].ref(), stranger, xs[0].ref(), missing, xs[2].ref()}
	refused := []sendonce.Ref{xs[3].ref(), stranger, missing, xs[2].ref()}
	for range 2 { // the reply to the first may be lost
		e.begin(0, refs, refused)
		e.stands(xs[0].Key, Sending, 1)
		e.stands(xs[1].Key, Claimed, 1)
		e.stands(xs[2].Key, Pending, 0)
		e.stands(xs[3].Key, Dead, 1)
		e.stands(xs[4].Key, Claimed, 1)
	}
	e.settled(0, xs[0].is(sendonce.Done))
	e.begin(0, []sendonce.Ref{xs[0].ref()}, []sendonce.Ref{xs[0].ref()})
	e.stands(xs[0].Key, Done, 1)
}

func beginLate[T any](e *env[T]) {
	xs := e.take(0, 2, e.atMostOnce(e.short(2)))
	time.Sleep(e.h.Lease + 2*slack)
	refs := []sendonce.Ref{xs[0].ref(), xs[1].ref()}
	e.begin(0, refs, refs)
	e.stands(xs[0].Key, Claimed, 1)
	e.stands(xs[1].Key, Claimed, 1)
}

func begunSettle[T any](e *env[T]) {
	xs := e.byKey(e.take(0, 6, e.atMostOnce(e.ask(6))))
	var refs []sendonce.Ref
	for _, x := range xs {
		refs = append(refs, x.ref())
	}
	e.begin(0, refs, nil)
	e.settled(0, xs[0].is(sendonce.Done), xs[1].is(sendonce.Retry), xs[2].is(sendonce.Dead), xs[3].is(sendonce.Skipped), xs[4].is(sendonce.Unknown))
	for i, status := range []string{Done, Pending, Dead, Skipped, Unknown} {
		e.stands(xs[i].Key, status, 1)
	}
	e.excepted(0, xs[5].is(sendonce.Released), sendonce.NotHeld)
	e.stands(xs[5].Key, Sending, 1)
}

func vanishedInMidSend[T any](e *env[T]) {
	xs := e.byKey(e.take(0, 3, e.atMostOnce(e.short(3))))
	lost, err := optional[sendonce.Beginner](e, 0, "Beginner").Begin(e.ctx, []sendonce.Ref{xs[1].ref()})
	e.must(err, "Begin")
	if len(lost) > 0 {
		e.t.Skip("the machine is so slow that the lease was over before the row was begun")
	}
	sum := e.reapAll(1, 3, maxAttempts)
	if sum.Unknown != 1 || sum.Returned != 2 {
		e.failf("one row was being sent and two were not begun: Reap says %+v", sum)
	}
	e.stands(xs[1].Key, Unknown, 1)
	for _, x := range e.take(1, 2, e.atMostOnce(e.ask(2))) {
		if x.Attempt != 1 {
			e.failf("row %v was never begun, and comes back for attempt %d", x.Key, x.Attempt)
		}
	}
	// What is left is live under AtMostOnce, so nothing asks under that.
	xs, _ = e.claim(1, e.atMostOnce(e.ask(3)))
	if len(xs) > 0 {
		e.failf("row %v is handed out, though it is unknown or claimed", xs[0].Key)
	}
}

func lateDoneOfUnknown[T any](e *env[T]) {
	x := e.take(0, 1, e.atMostOnce(e.short(1)))[0]
	lost, err := optional[sendonce.Beginner](e, 0, "Beginner").Begin(e.ctx, []sendonce.Ref{x.ref()})
	e.must(err, "Begin")
	if len(lost) > 0 {
		e.t.Skip("the machine is so slow that the lease was over before the row was begun")
	}
	e.reapAll(1, 1, maxAttempts)
	e.stands(x.Key, Unknown, 1)
	e.excepted(0, x.is(sendonce.Done), sendonce.Late)
	e.stands(x.Key, Done, 1)
}
