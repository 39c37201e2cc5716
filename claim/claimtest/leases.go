package claimtest

import (
	"slices"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
)

func leaseCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "OnlyReapTakes", says: "Claim hands out pending rows only: a row whose lease is over comes back through Reap alone, and its claim can still be extended.", rows: 2, handles: 2, run: onlyReapTakes[T]},
		{name: "ExtendKeepsAClaim", says: "Extend makes the claims last for their lease again.", rows: 4, handles: 2, needs: []need{reaper}, run: extendKeeps[T]},
		{name: "ExtendNamesTheLost", says: "A claim that is not there any more is named in Lost, is not made again, and the others are extended.", rows: 3, handles: 2, needs: []need{ender}, run: extendNamesLost[T]},
		{name: "ExtendAfterReap", says: "A claim that was taken is Lost to its owner, and an extension by its token does nothing for the claim that has the rows now.", rows: 2, handles: 3, needs: []need{reaper}, run: extendAfterReap[T]},
		{name: "EndIsIdempotent", says: "Ending a claim that is not there does nothing, and nothing to other claims.", rows: 4, handles: 2, needs: []need{ender}, run: endIsIdempotent[T]},
		{name: "VanishedWorker", says: "The rows of a vanished worker come back with their attempts kept and their idempotency key the same.", rows: 6, handles: 2, needs: []need{reaper}, run: vanishedWorker[T]},
		{name: "TwoReapers", says: "Two reapers side by side give each row back once.", rows: 24, handles: 4, needs: []need{reaper}, run: twoReapers[T]},
		{name: "ReapLeavesTheLiving", says: "Reap takes no claim whose lease goes on.", rows: 4, handles: 2, needs: []need{reaper}, run: reapLeavesLiving[T]},
		{name: "PatrolFindsOrphans", says: "Rows that are claimed without a claim come back (section 3, transition 11).", rows: 2, handles: 2, needs: []need{reaper, ender, patrol}, run: patrolFinds[T]},
	}
}

func onlyReapTakes[T any](e *env[T]) {
	xs := e.take(0, 2, e.short(2))
	time.Sleep(e.h.Lease * 3 / 2)
	e.nothing("only Reap may take it from its owner")
	e.extend(0, xs)
	e.settled(0, results(xs, sendonce.Done)...)
}

// extend must find all the claims of these rows.
func (e *env[T]) extend(i int, xs []held[T]) {
	e.t.Helper()
	ext, err := e.s.Claimers[i].Extend(e.ctx, tokens(xs))
	e.must(err, "Extend")
	if len(ext.Lost) > 0 {
		e.failf("Extend says that the claims %v are lost", ext.Lost)
	}
}

// lost must find none of them.
func (e *env[T]) lost(i int, xs []held[T]) {
	e.t.Helper()
	want := tokens(xs)
	for range 2 { // the first must not have made them again
		ext, err := e.s.Claimers[i].Extend(e.ctx, want)
		e.must(err, "Extend")
		slices.Sort(ext.Lost)
		slices.Sort(want)
		if !slices.Equal(ext.Lost, want) {
			e.failf("the claims %v are lost; Extend says: %v", want, ext.Lost)
		}
	}
}

func extendKeeps[T any](e *env[T]) {
	xs := append(e.take(0, 2, e.short(2)), e.take(0, 2, e.short(2))...)
	var sum sendonce.Reaped
	// Extend and Reap take turns, so a slow machine slows both.
	for end := time.Now().Add(4 * e.h.Lease); time.Now().Before(end); time.Sleep(e.h.Lease / 8) {
		e.extend(0, xs)
		e.reap(1, sendonce.ReapRequest{MaxAttempts: maxAttempts}, &sum)
		if sum.Returned > 0 {
			e.failf("%d rows were taken from a worker that extends its claims", sum.Returned)
		}
	}
	e.nothing("all are claimed")
	e.settled(0, results(xs, sendonce.Done)...)
}

func extendNamesLost[T any](e *env[T]) {
	xs := []held[T]{e.one(0), e.one(0), e.one(0)}
	e.settled(0, xs[1].is(sendonce.Done))
	e.end(0, xs[1])
	never := xs[2].token ^ 1
	ext, err := e.s.Claimers[0].Extend(e.ctx, []int64{xs[0].token, xs[1].token, never, xs[2].token})
	e.must(err, "Extend")
	slices.Sort(ext.Lost)
	want := []int64{xs[1].token, never}
	slices.Sort(want)
	if !slices.Equal(ext.Lost, want) {
		e.failf("the claims %v are lost; Extend says: %v", want, ext.Lost)
	}
	e.lost(0, xs[1:2])
	e.settled(0, xs[0].is(sendonce.Done), xs[2].is(sendonce.Done))
}

func extendAfterReap[T any](e *env[T]) {
	old := e.take(0, 2, e.short(2))
	e.reapAll(1, 2, maxAttempts)
	e.lost(0, old)
	news := e.take(1, 2, e.short(2))
	e.lost(0, old)
	// If those had kept the new claim alive, it would not be over now.
	for began := time.Now(); time.Since(began) < 2*e.h.Lease; time.Sleep(e.h.Lease / 8) {
		e.lost(0, old)
	}
	var sum sendonce.Reaped
	e.reap(2, sendonce.ReapRequest{MaxAttempts: maxAttempts, ClockOnly: true}, &sum)
	if sum.Returned != 2 {
		e.failf("the claim that has the rows now was kept alive by an old token: Reap says %+v", sum)
	}
	e.lost(1, news)
}

func endIsIdempotent[T any](e *env[T]) {
	a, b := e.take(0, 2, e.ask(2)), e.take(1, 2, e.ask(2))
	e.settled(0, results(a, sendonce.Done)...)
	for range 2 {
		e.end(0, a...)
		e.must(optional[sendonce.Ender](e, 0, "Ender").End(e.ctx, []int64{b[0].token ^ 1}), "End")
	}
	e.lost(0, a)
	e.extend(1, b)
	for _, x := range b {
		e.stands(x.Key, Claimed, 1)
	}
	e.settled(1, results(b, sendonce.Done)...)
	for _, x := range a {
		e.stands(x.Key, Done, 1)
	}
}

func vanishedWorker[T any](e *env[T]) {
	first := map[sendonce.Key]held[T]{}
	for _, x := range e.take(0, 6, e.short(6)) {
		first[x.Key] = x
	}
	if sum := e.reapAll(1, 6, maxAttempts); sum.Returned != 6 {
		e.failf("Reap says %+v of 6 rows that come back", sum)
	}
	want := 2
	if e.h.Caps.NoVanished {
		want = 1
	}
	for key := range first {
		e.stands(key, Pending, want-1)
	}
	for _, x := range e.takeAll(1, 6) {
		if x.Attempt != want || x.IdempotencyKey != first[x.Key].IdempotencyKey {
			e.failf("row %v comes back with attempt %d, and not %d, and idempotency key %q, and not %q",
				x.Key, x.Attempt, want, x.IdempotencyKey, first[x.Key].IdempotencyKey)
		}
	}
}

func twoReapers[T any](e *env[T]) {
	for range 6 {
		e.take(0, 4, e.short(4))
	}
	var mu sync.Mutex
	returned, failed := 0, error(nil)
	for end := time.Now().Add(e.h.Patience); returned < 24 && failed == nil && time.Now().Before(end); time.Sleep(e.h.Lease / 20) {
		var wg sync.WaitGroup
		for i := range e.s.Claimers {
			r := e.reaper(i)
			wg.Go(func() {
				out, err := r.Reap(e.ctx, sendonce.ReapRequest{MaxAttempts: maxAttempts, ClockOnly: true})
				mu.Lock()
				defer mu.Unlock()
				returned += out.Returned + out.Dead + out.Unknown
				if err != nil && !sendonce.IsTransient(err) {
					failed = err
				}
			})
		}
		wg.Wait()
	}
	e.must(failed, "Reap")
	if returned != 24 {
		e.failf("24 rows had vanished workers, and %d were given back", returned)
	}
	e.takeAll(1, 24)
	e.nothing("all are claimed")
}

func reapLeavesLiving[T any](e *env[T]) {
	xs := e.takeAll(0, 4)
	var sum sendonce.Reaped
	for range 4 {
		e.reap(1, sendonce.ReapRequest{MaxAttempts: maxAttempts, ClockOnly: true}, &sum)
		e.reap(1, sendonce.ReapRequest{MaxAttempts: maxAttempts}, &sum)
	}
	if sum.Returned+sum.Dead+sum.Unknown > 0 {
		e.failf("Reap took live claims: %+v", sum)
	}
	e.extend(0, xs)
	e.settled(0, results(xs, sendonce.Done)...)
}

func patrolFinds[T any](e *env[T]) {
	xs := e.take(0, 2, e.short(2))
	e.claim(1, e.short(1)) // a process knows a lease by its own claims
	e.end(0, xs...)        // too early: its rows aren't settled
	var sum sendonce.Reaped
	e.reap(1, sendonce.ReapRequest{MaxAttempts: maxAttempts}, &sum)
	if sum.Returned > 0 {
		e.failf("rows without a claim were given back when they were first seen")
	}
	e.eventually(func() bool {
		time.Sleep(e.h.Lease / 8)
		e.reap(1, sendonce.ReapRequest{MaxAttempts: maxAttempts}, &sum)
		return sum.Returned == 2
	}, func() string { return "rows that are claimed without a claim were not given back" })
	e.takeAll(1, 2)
}
