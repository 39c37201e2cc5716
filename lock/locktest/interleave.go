package locktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sendonce/sendonce/lock"
)

const (
	owners   = 3
	steps    = 7
	atOnce   = 50
	manyOfIt = 1000
)

// verb is what an owner did.
type verb string

const (
	acquire verb = "Acquire"
	extend  verb = "Extend"
	release verb = "Release"
)

// event is one call.
type event struct {
	owner      int
	verb       verb
	start, end time.Time
	before     lock.Lease // as the owner had it
	after      lock.Lease // as it was returned
	err        error
}

func (ev event) String() string {
	return fmt.Sprintf("\n  owner %d: %s at %s for %v, fence %d, until %s: fence %d, until %s, %v", ev.owner, ev.verb, ev.start.Format("05.000000"),
		ev.end.Sub(ev.start), ev.before.Fence, ev.before.Until.Format("05.000000"), ev.after.Fence, ev.after.Until.Format("05.000000"), ev.err)
}

func interleavings(e *env) {
	n := e.h.Interleavings
	if n == 0 {
		n = manyOfIt
		if testing.Short() {
			n /= 5
		}
	}
	ttl := e.ttl / 10
	var mu sync.Mutex
	pause := func() {
		if d := rand.Float64(); d < 0.6 {
			time.Sleep(time.Duration(d * 2 * float64(ttl)))
		}
	}
	var lockers [owners]lock.Locker
	for i := range lockers {
		lockers[i] = e.Pausing(pause)
	}
	seen := map[string]int{}
	var bad atomic.Int32
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			events := schedule(e, lockers, fmt.Sprintf("interleaving %d", i), ttl, pause)
			problems := judge(events, seen, &mu)
			if len(problems) > 0 && bad.Add(1) <= 3 { // the first few tell enough
				e.Errorf("interleaving %d:\n  %s\nin:%v", i, strings.Join(problems, "\n  "), events)
			}
		})
	}
	all.Wait()
	if n := bad.Load(); n > 3 {
		e.Errorf("and %d more", n-3)
	}
	// Without these the schedules have shown nothing.
	for _, must := range []string{"granted", "held", "extended", "released", "lost Extend", "lost Release"} {
		if seen[must] == 0 {
			e.Errorf("VOID: in %d interleavings there was no %q: %v", n, must, seen)
		}
	}
	e.Logf("%d interleavings: %v", n, seen)
}

// schedule lets three owners do what they like with one lock.
func schedule(e *env, lockers [owners]lock.Locker, key string, ttl time.Duration, pause func()) []event {
	var mu sync.Mutex
	var events []event
	var all sync.WaitGroup
	for owner := range owners {
		all.Go(func() {
			var lease lock.Lease // the last one had, over or not
			for range steps {
				ev := event{owner: owner, before: lease}
				pause()
				step(e, lockers[owner], key, ttl, &ev)
				if ev.err == nil && ev.verb != release {
					lease = ev.after
				}
				mu.Lock()
				events = append(events, ev)
				mu.Unlock()
				if ev.err != nil && !errors.Is(ev.err, lock.ErrHeld) && !errors.Is(ev.err, lock.ErrLost) {
					e.Errorf("%v", ev)
					return
				}
			}
		})
	}
	all.Wait()
	// Stable: in virtual time an owner's calls may begin at one instant.
	slices.SortStableFunc(events, func(a, b event) int { return a.start.Compare(b.start) })
	return events
}

func step(e *env, l lock.Locker, key string, ttl time.Duration, ev *event) {
	ev.start = time.Now()
	defer func() { ev.end = time.Now() }()
	choice := rand.IntN(3)
	if ev.before.Token == "" {
		choice = 0
	}
	switch choice {
	case 0:
		ev.verb = acquire
		token := lock.NewToken()
		if ev.before.Token != "" && rand.IntN(4) == 0 {
			token = ev.before.Token // as if its reply had been lost
		}
		ev.after, ev.err = l.Acquire(e.ctx, key, token, ttl)
	case 1:
		ev.verb = extend
		ev.after, ev.err = l.Extend(e.ctx, ev.before, ttl)
	default:
		ev.verb = release
		ev.err = l.Release(e.ctx, ev.before)
	}
}

// tenure is what one fence stands for.
type tenure struct {
	fence     int64
	owner     int
	asked     time.Time // when the first grant's call began
	begin     time.Time // when the first grant's reply came
	sureUntil time.Time // the latest Until of a call that was confirmed
	given     time.Time // when its release was called, or zero
}

// surelyEnds is when the tenure is no longer its owner's, as far as that knows.
func (t *tenure) surelyEnds() time.Time {
	if !t.given.IsZero() && t.given.Before(t.sureUntil) {
		return t.given
	}
	return t.sureUntil
}

// judge finds what must not be, and counts what there was.
func judge(events []event, seen map[string]int, mu *sync.Mutex) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	tenures := map[int64]*tenure{}
	for _, ev := range events {
		count(ev, seen, mu)
		if t := tenures[ev.before.Fence]; t != nil && ev.verb == release && t.given.IsZero() {
			t.given = ev.start // whatever the answer was
		}
		if ev.err != nil {
			continue
		}
		fence := ev.after.Fence
		if ev.verb == release {
			fence = ev.before.Fence
		}
		t := tenures[fence]
		if t == nil {
			if ev.verb != acquire {
				complain("%s succeeded for fence %d, which nobody was granted", ev.verb, fence)
				continue
			}
			t = &tenure{fence: fence, owner: ev.owner, asked: ev.start, begin: ev.end}
			tenures[fence] = t
		}
		switch {
		case t.owner != ev.owner:
			complain("owners %d and %d have the same fence %d", t.owner, ev.owner, fence)
		case ev.verb != release && ev.after.Until.After(t.sureUntil):
			t.sureUntil = ev.after.Until
		}
	}
	var order []*tenure
	for _, t := range tenures {
		order = append(order, t)
	}
	slices.SortFunc(order, func(a, b *tenure) int { return int(a.fence - b.fence) })
	for i, later := range order {
		for _, earlier := range order[:i] {
			if end := earlier.surelyEnds(); later.begin.Before(end) {
				complain("fence %d was granted %v before the end of fence %d", later.fence, end.Sub(later.begin), earlier.fence)
			}
			if later.begin.Before(earlier.asked) {
				complain("fence %d was granted before fence %d was asked for", later.fence, earlier.fence)
			}
		}
	}
	return append(problems, wronged(events, tenures)...)
}

// wronged finds holders that were told that the lock is lost, and old ones that
// were not.
func wronged(events []event, tenures map[int64]*tenure) (problems []string) {
	given := map[int64]bool{}
	for _, ev := range events {
		if ev.verb == acquire {
			continue
		}
		t := tenures[ev.before.Fence]
		if t == nil {
			continue // complained of
		}
		before := given[t.fence]
		given[t.fence] = before || ev.verb == release
		if errors.Is(ev.err, lock.ErrLost) && !before && ev.end.Before(ev.before.Until) {
			problems = append(problems, fmt.Sprintf("%s of fence %d lost the lock %v before Until", ev.verb, t.fence, ev.before.Until.Sub(ev.end)))
		}
		if ev.err != nil {
			continue
		}
		for _, other := range tenures {
			if other.fence > t.fence && other.begin.Before(ev.start) && ev.before.Token != "" {
				problems = append(problems, fmt.Sprintf("%s of fence %d succeeded after fence %d was granted", ev.verb, t.fence, other.fence))
			}
		}
	}
	return problems
}

func count(ev event, seen map[string]int, mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	switch {
	case errors.Is(ev.err, lock.ErrHeld):
		seen["held"]++
	case errors.Is(ev.err, lock.ErrLost):
		seen["lost "+string(ev.verb)]++
	case ev.err == nil:
		seen[map[verb]string{acquire: "granted", extend: "extended", release: "released"}[ev.verb]]++
	}
}
