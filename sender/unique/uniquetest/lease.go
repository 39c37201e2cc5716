package uniquetest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce/sender/unique"
)

func leaseCases() []testCase {
	return []testCase{
		{name: "Held", contract: "a key is held by one row at a time, and others are told which", run: func(e *env) {
			e.free("at first")
			e.hold(who("1"), long)
			e.cannotHold(who("2"), "1", unique.Held)
			st, err := e.o.Reserve(e.ctx, key, who("2"), long, "")
			e.refused("Reserve", "1", unique.Held, st, err)
			st = e.stands("", "1", unique.Held)
			if st.Left < long-time.Minute || st.Version == "" {
				e.Fatalf("Look: the lease ends in %v instead of %v, version %q", st.Left, long, st.Version)
			}
		}},
		{name: "HoldAgain", contract: "Hold may be repeated, and makes the lease last for ttl again", run: func(e *env) {
			a := who("1")
			e.hold(a, e.span)
			e.hold(a, long)
			e.sleep(e.span)
			e.cannotHold(who("2"), "1", unique.Held)
			e.ok("Free", e.s.Free(e.ctx, key, a.Token, false))
			e.free("after Free")
		}},
		{name: "SameRow", contract: "a row is never in its own way: a new token takes its lease over, and the old one has lost it", run: func(e *env) {
			old, again := who("1"), who("1")
			e.hold(old, long)
			e.hold(again, long)
			e.lost("Extend by the old token", e.o.Extend(e.ctx, key, old.Token, long))
			e.ok("Free by the old token", e.o.Free(e.ctx, key, old.Token, true))
			e.cannotHold(who("2"), "1", unique.Held)
			e.ok("Extend by the new token", e.o.Extend(e.ctx, key, again.Token, long))
		}},
		{name: "Expiry", contract: "a lease that nobody extends ends", run: func(e *env) {
			e.hold(who("1"), e.span)
			e.sleep(e.span)
			e.free("after the lease")
			e.hold(who("2"), long)
			e.cannotHold(who("1"), "2", unique.Held)
		}},
		{name: "Extend", contract: "Extend makes the lease last for ttl again", run: func(e *env) {
			a := who("1")
			e.hold(a, e.span)
			e.ok("Extend", e.o.Extend(e.ctx, key, a.Token, long))
			e.sleep(e.span)
			e.cannotHold(who("2"), "1", unique.Held)
		}},
	}
}

func staleCases() []testCase {
	return []testCase{
		{name: "StaleExtend", contract: "Extend of a lease that somebody else has taken is lock.ErrLost and changes nothing", run: func(e *env) {
			a, b := who("1"), who("2")
			e.hold(a, e.span)
			e.sleep(e.span)
			e.hold(b, 2*e.span)
			e.lost("Extend", e.s.Extend(e.ctx, key, a.Token, long))
			e.sleep(2 * e.span)
			e.free("after the lease of the second row")
		}},
		{name: "ExtendFreed", contract: "a lease that was ended can't be extended", run: func(e *env) {
			a := who("1")
			e.reserve("1", long)
			e.hold(a, long)
			e.ok("Free", e.s.Free(e.ctx, key, a.Token, false))
			e.lost("Extend", e.s.Extend(e.ctx, key, a.Token, long))
			e.stands("after that", "1", unique.Reserved)
		}},
		{name: "ExtendForgotten", contract: "Extend never makes anew what the store has forgotten", forgets: true, run: func(e *env) {
			a := who("1")
			e.hold(a, long)
			e.open.Forget(key)
			e.lost("Extend", e.s.Extend(e.ctx, key, a.Token, long))
			e.free("after that")
		}},
		{name: "StaleFree", contract: "an owner whose lease is over frees nothing", run: func(e *env) {
			a := who("1")
			e.hold(a, e.span)
			e.sleep(e.span)
			e.hold(who("2"), long)
			e.ok("Free", e.s.Free(e.ctx, key, a.Token, true))
			e.ok("Release", e.s.Release(e.ctx, key, a.Row))
			e.cannotHold(who("3"), "2", unique.Held)
		}},
		{name: "FreeAgain", contract: "Free of a lease that is not there does nothing, also with no token at all", run: func(e *env) {
			e.ok("Free", e.s.Free(e.ctx, key, who("1").Token, true))
			e.reserve("1", long)
			e.ok("Free", e.s.Free(e.ctx, key, "", true))
			e.stands("after that", "1", unique.Reserved)
		}},
		{name: "Keys", contract: "keys that differ in any byte are different, and any bytes will do", run: differentKeys},
		{name: "Arguments", contract: "the empty key is refused", run: func(e *env) {
			if _, err := e.s.Hold(e.ctx, "", who("1"), long, ""); err == nil {
				e.Fatal("Hold of the empty key was granted")
			}
		}},
		{name: "Context", contract: "a call returns an error when its context has ended, and does nothing", run: func(e *env) {
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			if _, err := e.s.Hold(ctx, key, who("1"), long, ""); err == nil {
				e.Fatal("Hold says that it acted")
			}
			e.free("after that")
		}},
		{name: "Race", contract: "of many who take a key at once one has it", run: race},
	}
}

func differentKeys(e *env) {
	all := []string{
		"a", "A", "a ", " a", "a\x00", "\x00", "\xff", "\xc3", "é", "e\u0301", "ß", "ss", "{a}", "}{", "{", "%", "%41", "%25", "a:b", "a b", "a\n", "💌", "\\", "'", `"`, "?", ":name", "$1",
		strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 257), strings.Repeat("x", 5000), strings.Repeat("x", 5000) + "y",
		strings.Repeat("\x00", 100), strings.Repeat("\x00", 101),
	}
	for i, k := range all {
		o := who(string(rune('A' + i)))
		st, err := e.s.Hold(e.ctx, k, o, long, "")
		e.granted("Hold of another key", st, err)
	}
	for i, k := range all {
		st, err := e.o.Look(e.ctx, k)
		e.refused("Look", string(rune('A'+i)), unique.Held, st, err)
	}
}

func race(e *env) {
	for range 5 {
		var granted atomic.Int32
		owners := make(chan unique.Owner, 16)
		var goroutines sync.WaitGroup
		for i := range 16 {
			goroutines.Go(func() {
				o := who(string(rune('a' + i)))
				st, err := e.open.New().Hold(e.ctx, key, o, long, "")
				if err != nil {
					e.Errorf("Hold: %v", err)
				} else if st == nil {
					granted.Add(1)
					owners <- o
				}
			})
		}
		goroutines.Wait()
		if granted.Load() != 1 {
			e.Fatalf("%d of 16 hold the key", granted.Load())
		}
		o := <-owners
		e.stands("after the race", o.Row, unique.Held)
		e.ok("Free", e.s.Free(e.ctx, key, o.Token, false))
	}
}
