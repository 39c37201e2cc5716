package claimtest

import (
	"context"
	"errors"
	"time"

	"github.com/sendonce/sendonce"
)

// slack is how much earlier than asked a row may come: clocks have grains.
const slack = 25 * time.Millisecond

func claimCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "Limit", says: "Claim takes up to req.Limit due rows, never more, and what it has not handed out is not claimed.", rows: 35, handles: 2, run: limit[T]},
		{name: "TokenIsNew", says: "A token is never 0 and new for every claim.", rows: 1, handles: 2, run: tokenIsNew[T]},
		{name: "AttemptsAreCounted", says: "Each row's attempts are counted up, durably, before Claim returns.", rows: 3, handles: 2, run: attemptsAreCounted[T]},
		{name: "EmptyClaim", says: "A Batch without Items leaves nothing behind.", rows: 2, handles: 2, run: emptyClaim[T]},
		{name: "Value", says: "An item has the value of its row.", rows: 20, handles: 1, needs: []need{check}, run: value[T]},
		{name: "IdempotencyKey", says: "The idempotency key is the same over attempts and processes, and another for each row (section 9).", rows: 10, handles: 2, run: idempotencyKey[T]},
		{name: "OnlyDueRows", says: "Only pending rows that are due are handed out.", rows: 4, handles: 2, needs: []need{schedule}, run: onlyDue[T]},
		{name: "LateInsert", says: "A row that is committed late, with a smaller key than others, is found all the same (section 5).", rows: 10, handles: 1, needs: []need{insertBefore, reaper}, run: lateInsert[T]},
		{name: "UnreadableRow", says: "A row that can't be read as a T is handed out with Err, and does not hide its neighbours.", rows: 3, handles: 1, needs: []need{spoil}, run: unreadable[T]},
		{name: "ContextHasEnded", says: "Methods return when ctx ends, with an error, and a Claim whose context has ended claims nothing.", rows: 3, handles: 1, run: contextHasEnded[T]},
		{name: "Delivery", says: "A Claimer that meets a live claim of the other Delivery hands out nothing and returns ErrDelivery.", rows: 2, handles: 2, needs: []need{delivery, ender}, run: otherDelivery[T]},
		{name: "Counts", says: "Counts is the number of rows in each state.", rows: 8, handles: 2, needs: []need{counter, setStatus}, run: counts[T]},
	}
}

func limit[T any](e *env[T]) {
	taken := 0
	for _, n := range []int{10, 1, 7, 10, 10} {
		e.eventually(func() bool {
			xs, _ := e.claim(taken%2, e.ask(n))
			taken += len(xs)
			return len(xs) > 0 || taken == 35
		}, func() string { return "rows are left and none was handed out" })
		claimed := 0
		for _, key := range e.s.Keys {
			row, err := e.s.Row(key)
			e.must(err, "Store.Row")
			if row.Status == Claimed {
				claimed++
			}
		}
		if claimed != taken && !e.h.Caps.Unmarked {
			e.failf("%d rows were handed out and %d are claimed", taken, claimed)
		}
	}
}

func tokenIsNew[T any](e *env[T]) {
	seen := map[int64]bool{}
	for n := range 20 {
		x := e.one(n % 2)
		if seen[x.token] {
			e.failf("token %d was used twice", x.token)
		}
		seen[x.token] = true
		e.settled(n%2, x.is(sendonce.Released))
	}
}

func attemptsAreCounted[T any](e *env[T]) {
	for _, x := range e.takeAll(0, 3) {
		if x.Attempt != 1 {
			e.failf("the first attempt of row %v is numbered %d", x.Key, x.Attempt)
		}
		e.stands(x.Key, Claimed, 1)
		e.settled(0, x.is(sendonce.Retry))
	}
	for attempt := 2; attempt < 5; attempt++ {
		for _, x := range e.takeAll(attempt%2, 3) {
			if x.Attempt != attempt {
				e.failf("attempt %d of row %v is numbered %d", attempt, x.Key, x.Attempt)
			}
			e.stands(x.Key, Claimed, attempt)
			e.settled(attempt%2, x.is(sendonce.Retry))
			e.stands(x.Key, Pending, attempt)
		}
	}
}

func emptyClaim[T any](e *env[T]) {
	e.takeAll(0, 2)
	var empty []int64
	e.eventually(func() bool {
		b, err := e.s.Claimers[1].Claim(e.ctx, e.ask(5))
		e.must(err, "Claim")
		if len(b.Items) > 0 {
			e.failf("row %v is handed out, though it is claimed", b.Items[0].Key)
		}
		empty = append(empty, b.Token)
		return !b.More
	}, func() string { return "each empty claim says that there are more rows" })
	for _, token := range empty {
		if token == 0 {
			continue
		}
		ext, err := e.s.Claimers[1].Extend(e.ctx, []int64{token})
		e.must(err, "Extend")
		if len(ext.Lost) != 1 {
			e.failf("an empty claim has left a claim that can be extended")
		}
	}
	for _, key := range e.s.Keys {
		e.stands(key, Claimed, 1)
	}
}

func value[T any](e *env[T]) {
	for _, x := range e.takeAll(0, 20) {
		if err := e.s.Check(x.Item); x.Err != nil || err != nil {
			e.failf("row %v: %v, %v", x.Key, x.Err, err)
		}
	}
}

func idempotencyKey[T any](e *env[T]) {
	first, rows := map[sendonce.Key]string{}, map[string]sendonce.Key{}
	for n := range 3 {
		for _, x := range e.takeAll(n%2, 10) {
			if n == 0 {
				first[x.Key] = x.IdempotencyKey
			}
			if x.IdempotencyKey != first[x.Key] {
				e.failf("row %v had the idempotency key %q and has %q on attempt %d", x.Key, first[x.Key], x.IdempotencyKey, x.Attempt)
			}
			if other, ok := rows[x.IdempotencyKey]; ok && other != x.Key {
				e.failf("rows %v and %v have the same idempotency key", other, x.Key)
			}
			rows[x.IdempotencyKey] = x.Key
			e.settled(n%2, x.is(sendonce.Retry))
		}
	}
}

func onlyDue[T any](e *env[T]) {
	const delay = 500 * time.Millisecond
	e.must(e.s.Schedule(e.s.Keys[0], time.Hour), "Store.Schedule")
	e.must(e.s.Schedule(e.s.Keys[2], -time.Hour), "Store.Schedule")
	began := time.Now()
	e.must(e.s.Schedule(e.s.Keys[1], delay), "Store.Schedule")
	for _, x := range e.takeAll(0, 3) {
		switch x.Key {
		case e.s.Keys[0]:
			e.failf("row %v is handed out an hour before it is due", x.Key)
		case e.s.Keys[1]:
			e.notBefore(began, delay)
		}
	}
	e.nothing("it is due in an hour")
	e.stands(e.s.Keys[0], Pending, 0)
}

// notBefore checks that so much time has gone by. A slow machine can't fail it.
func (e *env[T]) notBefore(began time.Time, delay time.Duration) {
	e.t.Helper()
	if took := time.Since(began); took < delay-slack {
		e.failf("a row that is due after %v is handed out after %v", delay, took)
	}
}

func lateInsert[T any](e *env[T]) {
	e.settled(0, results(e.takeAll(0, 10), sendonce.Done)...)
	e.nothing("all are done")
	key, err := e.s.InsertBefore()
	e.must(err, "Store.InsertBefore")
	var sum sendonce.Reaped
	e.eventually(func() bool {
		e.reap(0, sendonce.ReapRequest{MaxAttempts: maxAttempts}, &sum) // the patrol walks with it
		xs, _ := e.claim(0, e.ask(5))
		for _, x := range xs {
			if x.Key != key || x.Attempt != 1 {
				e.failf("row %v is handed out, attempt %d; and not row %v", x.Key, x.Attempt, key)
			}
		}
		return len(xs) == 1
	}, func() string { return "the row was not found" })
}

func unreadable[T any](e *env[T]) {
	bad := e.s.Keys[1]
	e.must(e.s.Spoil(bad), "Store.Spoil")
	for _, x := range e.takeAll(0, 3) {
		if (x.Err != nil) != (x.Key == bad) {
			e.failf("row %v has Err %v; row %v is the one that can't be read", x.Key, x.Err, bad)
		}
		if x.Key == bad {
			e.settled(0, x.is(sendonce.Dead))
			e.stands(x.Key, Dead, 1)
		} else {
			e.settled(0, x.is(sendonce.Done))
		}
	}
}

func contextHasEnded[T any](e *env[T]) {
	x := e.one(0)
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	c := e.s.Claimers[0]
	calls := map[string]func() error{
		"Claim":  func() error { _, err := c.Claim(ended, e.ask(2)); return err },
		"Extend": func() error { _, err := c.Extend(ended, []int64{x.token}); return err },
		"Settle": func() error { _, err := c.Settle(ended, []sendonce.Result{x.is(sendonce.Dead)}); return err },
	}
	if r, ok := c.(sendonce.Reaper); ok {
		calls["Reap"] = func() error { _, err := r.Reap(ended, sendonce.ReapRequest{}); return err }
	}
	for name, call := range calls {
		began := time.Now()
		if err := call(); err == nil {
			e.failf("%s returns no error", name)
		}
		if took := time.Since(began); took > e.h.Patience/2 {
			e.failf("%s returns after %v", name, took)
		}
	}
	for _, key := range e.s.Keys {
		if key != x.Key {
			e.stands(key, Pending, 0)
		}
	}
	e.stands(x.Key, Claimed, 1)
	e.takeAll(0, 2)
}

func otherDelivery[T any](e *env[T]) {
	x := e.one(0)
	other := e.ask(1)
	other.Delivery = sendonce.AtMostOnce
	var b sendonce.Batch[T]
	var err error
	for _, by := range []int{1, 0} { // also the handle that has just claimed under the first
		b, err = e.s.Claimers[by].Claim(e.ctx, other)
		if !errors.Is(err, sendonce.ErrDelivery) || len(b.Items) > 0 {
			e.failf("a claim under the other Delivery has %d rows and the error %v", len(b.Items), err)
		}
	}
	for _, key := range e.s.Keys {
		if key != x.Key {
			e.stands(key, Pending, 0)
		}
	}
	e.settled(0, x.is(sendonce.Done))
	e.end(0, x)
	e.eventually(func() bool {
		b, err = e.s.Claimers[1].Claim(e.ctx, other)
		return err == nil && len(b.Items) == 1
	}, func() string { return "no live claim is left, and still: " + errText(err) })
}

func errText(err error) string {
	if err == nil {
		return "no row is handed out"
	}
	return err.Error()
}

func counts[T any](e *env[T]) {
	c := optional[sendonce.Counter](e, 1, "Counter")
	xs := e.takeAll(0, 6)
	e.settled(0, xs[0].is(sendonce.Done), xs[1].is(sendonce.Dead), xs[2].is(sendonce.Skipped), xs[3].is(sendonce.Unknown), xs[4].is(sendonce.Retry))
	e.must(e.s.SetStatus(xs[3].Key, "cancelled"), "Store.SetStatus")
	got, err := c.Counts(e.ctx)
	e.must(err, "Counts")
	want := sendonce.Counts{Pending: 3, Claimed: 1, Done: 1, Dead: 1, Skipped: 1, Other: 1}
	if e.h.Caps.DeletesDone {
		want.Done = 0
	}
	if e.h.Caps.Unmarked {
		want.Pending, want.Claimed = 4, 0
	}
	if got != want {
		e.failf("counted %+v; there are %+v", got, want)
	}
}
