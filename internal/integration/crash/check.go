package crash

import (
	"fmt"
	"slices"
	"time"
)

// trial is a run that is over: what was written, how the rows stand, and the
// promise.
type trial struct {
	events     []event
	status     map[int64]string // of every row
	atMostOnce bool
	lease      time.Duration
}

// verdict is what the check found.
type verdict struct {
	problems []string
	sends    int
	accepted int
	second   map[string]int // acceptances after the first, by what explains them
	met      map[string]int // what the run has met
}

// send is one Send, from what was written about it.
type send struct {
	key                  int64
	worker, idem         string
	begun, accepted      int64
	ended                int64 // when it returned, or its worker died; 0: never
	marked               int64
	returned, ok, killed bool
}

// check judges a trial. It is a function of it and of nothing else.
func check(t trial) verdict {
	c := checker{trial: t, out: verdict{second: map[string]int{}, met: map[string]int{}}, sends: map[string]*send{}, byKey: map[int64][]*send{}}
	c.collect()
	for key, status := range t.status {
		c.row(key, status)
	}
	for key := range c.byKey {
		if _, known := t.status[key]; !known {
			c.wrong("row %d was sent and is not in the table", key)
		}
	}
	slices.Sort(c.out.problems)
	return c.out
}

type checker struct {
	trial
	out    verdict
	sends  map[string]*send
	byKey  map[int64][]*send
	faults []event
}

func (c *checker) wrong(format string, args ...any) {
	c.out.problems = append(c.out.problems, fmt.Sprintf(format, args...))
}

func (c *checker) collect() {
	for _, e := range c.events {
		s := c.sends[e.Send]
		switch e.Kind {
		case begun:
			s = &send{key: e.Key, worker: e.Worker, idem: e.Idem, begun: e.At}
			c.sends[e.Send] = s
			c.byKey[e.Key] = append(c.byKey[e.Key], s)
			c.out.sends++
		case accepted:
			if s == nil || s.accepted != 0 {
				c.wrong("an acceptance of row %d that no send explains: %s", e.Key, e.Send)
				continue
			}
			s.accepted = e.At
			c.out.accepted++
		case answered:
			s.ended, s.returned, s.ok = e.At, true, e.OK
		case marked:
			for _, s := range c.byKey[e.Key] {
				if s.worker == e.Worker && s.marked == 0 && s.returned && s.ok {
					s.marked = e.At
				}
			}
		case fault:
			c.faults = append(c.faults, e)
			c.out.met[e.What]++
		case noted:
			c.out.met[e.What] += e.N
		}
	}
	for _, f := range c.faults {
		if f.What != "killed" {
			continue
		}
		for _, s := range c.sends {
			if s.worker == f.Worker && !s.returned {
				s.ended, s.killed = f.At, true
			}
		}
	}
}

// row judges one row by its sends.
func (c *checker) row(key int64, status string) {
	sends := c.byKey[key]
	slices.SortFunc(sends, func(a, b *send) int { return int(a.begun - b.begun) })
	var taken []*send
	for i, s := range sends {
		if s.idem != sends[0].idem {
			c.wrong("row %d has two idempotency keys, %s and %s", key, sends[0].idem, s.idem)
		}
		if i > 0 {
			c.overlap(sends[i-1], s)
		}
		if s.accepted != 0 {
			taken = append(taken, s)
		}
	}
	slices.SortFunc(taken, func(a, b *send) int { return int(a.accepted - b.accepted) })
	for i := 1; i < len(taken); i++ {
		why := c.explains(taken[i-1], taken[i])
		if why == "" {
			c.wrong("row %d was accepted from %s at %d and again from %s at %d, and nothing explains it", key, taken[i-1].worker, taken[i-1].accepted, taken[i].worker, taken[i].accepted)
			why = "nothing"
		}
		c.out.second[why]++
		if c.atMostOnce {
			c.wrong("row %d was accepted twice under AtMostOnce, from %s and %s", key, taken[i-1].worker, taken[i].worker)
		}
	}
	c.fate(key, status, taken)
}

// fate: every row has ended, and as it was sent.
func (c *checker) fate(key int64, status string, taken []*send) {
	switch status {
	case "done":
		if len(taken) == 0 {
			c.wrong("row %d is done, and nobody has accepted it", key)
		}
	case "unknown":
		if !c.atMostOnce {
			c.wrong("row %d is unknown under AtLeastOnce", key)
		}
	default:
		c.wrong("row %d is lost: it is %s", key, status)
	}
}

// overlap: two sends of a row are never under way at one time, unless the first
// one's process was stopped or cut off, or is dead.
func (c *checker) overlap(a, b *send) {
	if a.ended != 0 && b.begun >= a.ended {
		return
	}
	if c.hit(a.worker, a.begun-int64(c.lease), b.begun, "paused", "cut", "killed") {
		return
	}
	c.wrong("row %d is sent by %s from %d to %d and by %s from %d", a.key, a.worker, a.begun, a.ended, b.worker, b.begun)
}

// explains says what lets a row be accepted a second time, "" if nothing does: a
// fault of the first sender's process alone between the acceptance and its mark, or
// a stop of the second one between its last check and the first byte. An outage
// that all workers live through explains nothing.
func (c *checker) explains(a, b *send) string {
	if a.marked != 0 && a.marked < b.begun {
		return ""
	}
	switch {
	case a.killed || c.hit(a.worker, a.accepted, b.accepted, "killed"):
		return "killed"
	case a.returned && !a.ok:
		return "no answer"
	// To lose its claim it must have been away for most of a lease.
	case c.away(a, b, "paused"):
		return "paused"
	case c.away(a, b, "cut"):
		return "cut"
	case c.hit(b.worker, b.begun, b.accepted, "paused"):
		return "paused before the first byte"
	}
	return ""
}

// away reports whether a's process was, from some moment before its mark, and for
// most of a lease before b began.
func (c *checker) away(a, b *send, what string) bool {
	return slices.ContainsFunc(c.faults, func(f event) bool {
		return f.What == what && f.Worker == a.worker && f.Until > a.begun && f.At < b.begun-int64(c.lease)/2 &&
			(a.marked == 0 || a.marked > f.At)
	})
}

// hit reports whether a fault of the worker falls between two moments.
func (c *checker) hit(worker string, from, to int64, kinds ...string) bool {
	return slices.ContainsFunc(c.faults, func(f event) bool {
		return f.Worker == worker && slices.Contains(kinds, f.What) && f.At <= to && max(f.Until, f.At) >= from
	})
}
