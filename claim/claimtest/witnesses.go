package claimtest

import (
	"context"
	"fmt"
	"time"

	"github.com/sendonce/sendonce"
)

func witnessCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "OneLookIsNotEnough", says: "A claim is taken only by a process that has itself seen it unchanged for two thirds of its lease: the store's clock alone is not enough (section 4).", rows: 2, handles: 3, needs: []need{reaper}, run: oneLook[T]},
		{name: "TwoWitnesses", says: "A claim is taken when its lease is over and it was seen unchanged for two thirds of its lease, and not before (section 4).", rows: 2, handles: 2, needs: []need{reaper}, run: twoWitnesses[T]},
		{name: "ErrorIsAGap", says: "An error of Reap forgets what was seen (section 4).", rows: 1, handles: 2, needs: []need{reaper}, run: errorIsGap[T]},
		{name: "PauseIsAGap", says: "A pause between looks that is longer than a third of the lease forgets what was seen (section 4).", rows: 1, handles: 2, needs: []need{reaper}, run: pauseIsGap[T]},
	}
}

// watched is for how long a claim must have been seen.
func (e *env[T]) watched() time.Duration { return e.h.Lease / 3 * 2 }

// look calls Reap as a Dispatcher does. A claim that is taken before its time,
// counted from a moment not after the first look that may count, is a fault.
func (e *env[T]) look(i int, notBefore time.Time) (taken int) {
	e.t.Helper()
	var sum sendonce.Reaped
	e.reap(i, sendonce.ReapRequest{MaxAttempts: maxAttempts}, &sum)
	if sum.Returned == 0 {
		return 0
	}
	// A delay of the machine makes this later, so that it can't fail a store.
	if took := time.Since(notBefore); took < e.watched()-slack {
		e.failf("a claim was taken after it was seen for %v at the most; its lease of %v asks for %v", took, e.h.Lease, e.watched())
	}
	return sum.Returned
}

// lookFor looks often, for a while or until the claim is taken.
func (e *env[T]) lookFor(i int, d time.Duration, notBefore time.Time) (taken bool) {
	e.t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(e.h.Lease / 20) {
		if e.look(i, notBefore) > 0 {
			return true
		}
	}
	return false
}

func oneLook[T any](e *env[T]) {
	xs := e.take(0, 2, e.short(2))
	time.Sleep(3 * e.h.Lease)
	for i := range e.s.Claimers {
		began := time.Now()
		for range 2 {
			e.look(i, began)
		}
	}
	e.extend(0, xs) // nobody has taken it
	e.settled(0, results(xs, sendonce.Done)...)
}

func twoWitnesses[T any](e *env[T]) {
	began := time.Now()
	e.take(0, 2, e.short(2)) // by one claim or two
	returned := 0
	e.eventually(func() bool {
		n := e.look(1, began)
		if took := time.Since(began); n > 0 && took < e.h.Lease-slack {
			e.failf("a claim was taken after %v; its lease of %v went on", took, e.h.Lease)
		}
		returned += n
		return returned == 2
	}, func() string { return fmt.Sprintf("%d of 2 rows of a vanished worker came back", returned) })
	e.takeAll(1, 2)
}

// gap has handle 1 look for almost long enough, then the gap, then look on. If
// the gap is overlooked, the claim is taken soon after it.
func (e *env[T]) gap(gap func()) {
	e.t.Helper()
	e.take(0, 1, e.short(1))
	time.Sleep(e.h.Lease)
	if e.lookFor(1, e.watched()*3/4, time.Now()) {
		e.takeAll(1, 1)
		return // the machine was slow, and it was time
	}
	gap()
	again := time.Now()
	e.eventually(func() bool { return e.lookFor(1, e.h.Lease, again) }, func() string { return "the row of a vanished worker did not come back" })
	e.takeAll(1, 1)
}

func errorIsGap[T any](e *env[T]) {
	e.gap(func() {
		ended, cancel := context.WithCancel(e.ctx)
		cancel()
		if _, err := e.reaper(1).Reap(ended, sendonce.ReapRequest{MaxAttempts: maxAttempts}); err == nil {
			e.failf("Reap returns no error though its context has ended")
		}
	})
}

func pauseIsGap[T any](e *env[T]) {
	e.gap(func() { time.Sleep(e.h.Lease * 2 / 5) })
}
