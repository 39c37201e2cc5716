package uniquetest

import (
	"sync"
	"sync/atomic"

	"github.com/sendonce/sendonce/sender/unique"
)

func markCases() []testCase {
	return []testCase{
		{name: "Mark", contract: "a marked key is nobody else's for d, and the lease is over", run: func(e *env) {
			a := who("1")
			e.hold(a, long)
			e.mark(a, 2*e.span)
			e.cannotHold(who("2"), "1", unique.Marked)
			st, err := e.o.Reserve(e.ctx, key, who("2"), long, "")
			e.refused("Reserve", "1", unique.Marked, st, err)
			e.lost("Extend", e.s.Extend(e.ctx, key, a.Token, long))
			e.ok("Free", e.s.Free(e.ctx, key, a.Token, true))
			e.ok("Release", e.s.Release(e.ctx, key, a.Row))
			if st := e.stands("after Free", "1", unique.Marked); st.ID != a.ID {
				e.Fatalf("Look: the row is marked under %q instead of %q", st.ID, a.ID)
			}
			e.sleep(2 * e.span)
			e.free("after the window")
			e.hold(who("2"), long)
		}},
		{name: "OwnMark", contract: "a row that is marked under its ID is told so; under another one it may go", run: func(e *env) {
			a := who("1")
			e.hold(a, long)
			e.mark(a, long)
			again := who("1")
			st, err := e.o.Hold(e.ctx, key, again, long, "")
			e.refused("Hold by the marked row", "1", unique.Marked, st, err)
			if st.ID != a.ID {
				e.Fatalf("Hold: the row is marked under %q instead of %q", st.ID, a.ID)
			}
			again.ID = "of another generation"
			e.hold(again, long)
			e.ok("Free", e.s.Free(e.ctx, key, again.Token, true))
			e.stands("after that", "1", unique.Marked)
		}},
		{name: "MarkAgain", contract: "Mark may be repeated", run: func(e *env) {
			a := who("1")
			e.hold(a, long)
			e.mark(a, e.span)
			e.mark(a, long)
			e.sleep(e.span)
			e.stands("after the first window", "1", unique.Marked)
		}},
		{name: "LateMark", contract: "Mark needs no lease", run: func(e *env) {
			a := who("1")
			e.hold(a, e.span)
			e.sleep(e.span)
			e.mark(a, long)
			e.cannotHold(who("2"), "1", unique.Marked)
		}},
	}
}

func lateMarkCases() []testCase {
	return []testCase{
		{name: "MarkTaken", contract: "Mark changes nothing where another row has the key", run: func(e *env) {
			a, b := who("1"), who("2")
			e.hold(a, e.span)
			e.sleep(e.span)
			e.hold(b, long)
			st, err := e.s.Mark(e.ctx, key, a, long)
			e.refused("Mark", "2", unique.Held, st, err)
			e.ok("Extend by the second row", e.s.Extend(e.ctx, key, b.Token, long))
			e.ok("Free by the second row", e.s.Free(e.ctx, key, b.Token, true))
			e.free("after that")
		}},
		{name: "MarkByOldToken", contract: "a mark by an earlier token of the row leaves the lease of the later one", run: func(e *env) {
			old, again := who("1"), who("1")
			e.hold(old, long)
			e.hold(again, long)
			e.mark(old, long)
			e.ok("Extend by the later token", e.s.Extend(e.ctx, key, again.Token, long))
			e.ok("Free by the later token", e.s.Free(e.ctx, key, again.Token, true))
			e.stands("after that", "1", unique.Marked)
		}},
	}
}

func reserveCases() []testCase {
	return []testCase{
		{name: "Reserve", contract: "a reserved key is nobody else's for d, and its row's to hold", run: func(e *env) {
			a := who("1")
			e.reserve("1", e.span)
			e.reserve("1", 4*e.span)
			e.sleep(e.span)
			e.cannotHold(who("2"), "1", unique.Reserved)
			e.hold(a, e.span)
			e.stands("while it is sent", "1", unique.Held)
			e.ok("Free", e.s.Free(e.ctx, key, a.Token, false))
			e.stands("after a failed send", "1", unique.Reserved)
			e.sleep(4 * e.span)
			e.free("after its end")
			e.reserve("2", long)
		}},
		{name: "FreeAll", contract: "Free of all ends the reservation too", run: func(e *env) {
			a := who("1")
			e.reserve("1", long)
			e.hold(a, long)
			e.ok("Free", e.s.Free(e.ctx, key, a.Token, true))
			e.free("after that")
		}},
		{name: "MarkEndsReservation", contract: "Mark ends the reservation", run: func(e *env) {
			a := who("1")
			e.reserve("1", long)
			e.hold(a, long)
			e.mark(a, e.span)
			e.sleep(e.span)
			e.free("after the window")
		}},
		{name: "Release", contract: "Release ends the reservation of its row, and nothing else", run: func(e *env) {
			e.reserve("1", long)
			e.ok("Release by another row", e.o.Release(e.ctx, key, "2"))
			e.stands("after that", "1", unique.Reserved)
			a := who("1")
			e.hold(a, long)
			e.ok("Release", e.o.Release(e.ctx, key, "1"))
			e.stands("after that", "1", unique.Held)
			e.ok("Free", e.s.Free(e.ctx, key, a.Token, false))
			e.free("after all")
			e.ok("Release again", e.o.Release(e.ctx, key, "1"))
		}},
	}
}

func takeOverCases() []testCase {
	return []testCase{
		{name: "TakeOver", contract: "a reservation is taken over by who knows its version, as long as it has not changed", run: func(e *env) {
			e.reserve("1", long)
			old := e.stands("", "1", unique.Reserved).Version
			st, err := e.s.Hold(e.ctx, key, who("2"), long, old+"x")
			e.refused("Hold with another version", "1", unique.Reserved, st, err)
			e.sleep(0)
			e.reserve("1", long-e.span)
			st, err = e.s.Hold(e.ctx, key, who("2"), long, old)
			e.refused("Hold with an old version", "1", unique.Reserved, st, err)
			e.ok("Release", e.s.Release(e.ctx, key, "1"))
			e.reserve("3", long)
			st, err = e.s.Reserve(e.ctx, key, who("2"), long, old)
			e.refused("Reserve with the version of another row's", "3", unique.Reserved, st, err)
			st, err = e.o.Reserve(e.ctx, key, who("2"), long, st.Version)
			e.granted("Reserve with the version", st, err)
			e.cannotHold(who("3"), "2", unique.Reserved)
			st, err = e.o.Hold(e.ctx, key, who("4"), long, e.stands("", "2", unique.Reserved).Version)
			e.granted("Hold with the version", st, err)
			e.cannotHold(who("2"), "4", unique.Held)
		}},
		{name: "NoTakeOver", contract: "what is held or marked is not taken over", run: func(e *env) {
			a := who("1")
			e.reserve("1", long)
			version := e.stands("", "1", unique.Reserved).Version
			e.hold(a, long)
			st, err := e.o.Hold(e.ctx, key, who("2"), long, version)
			e.refused("Hold", "1", unique.Held, st, err)
			st, err = e.o.Hold(e.ctx, key, who("2"), long, st.Version)
			e.refused("Hold", "1", unique.Held, st, err)
			e.mark(a, long)
			st, err = e.o.Reserve(e.ctx, key, who("2"), long, version)
			e.refused("Reserve", "1", unique.Marked, st, err)
			st, err = e.o.Reserve(e.ctx, key, who("2"), long, st.Version)
			e.refused("Reserve", "1", unique.Marked, st, err)
		}},
		{name: "TakeOverRace", contract: "of many who take a reservation over one has it", run: takeOverRace},
	}
}

func takeOverRace(e *env) {
	e.reserve("dead", long)
	version := e.stands("", "dead", unique.Reserved).Version
	var granted atomic.Int32
	var goroutines sync.WaitGroup
	for i := range 16 {
		goroutines.Go(func() {
			st, err := e.open.New().Reserve(e.ctx, key, who(string(rune('a'+i))), long, version)
			if err != nil {
				e.Errorf("Reserve: %v", err)
			} else if st == nil {
				granted.Add(1)
			}
		})
	}
	goroutines.Wait()
	if granted.Load() != 1 {
		e.Fatalf("%d of 16 took the reservation over", granted.Load())
	}
}
