package redisqueue

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// verdict is what the check of a run found.
type verdict struct {
	problems []string
	sends    int
	again    map[string]int // sends after the first of an item, by what explains them
}

// lane is a key in the course of a run.
type lane struct {
	next   int  // the item that is not over
	busy   bool // it is being sent
	worker string
	fence  int64
	last   string // how the last send of this item ended
	by     string // and in which worker
}

// check judges a run by its ledger: of one key no two sends are under way at one
// time, the items come in their order, none is lost, and only what failed or was in
// flight at a kill is sent again. The event of a kill is written after the death.
func check(events []event, p plan) verdict {
	v := verdict{again: map[string]int{}}
	lanes := map[string]*lane{}
	dead := map[string]bool{}
	for _, e := range events { // whose death is to come
		if e.What == killed {
			dead[e.Worker] = true
		}
	}
	for _, e := range events {
		if e.What == killed {
			for _, l := range lanes {
				if l.busy && l.worker == e.Worker {
					l.busy, l.last = false, killed
				}
			}
			continue
		}
		l := lanes[e.Key]
		if l == nil {
			l = &lane{}
			lanes[e.Key] = l
		}
		v.step(l, e, dead)
	}
	for key, l := range lanes {
		if l.next != p.items/p.keys || l.busy {
			v.wrong("%s ends at item %d", key, l.next)
		}
	}
	if len(lanes) != p.keys {
		v.wrong("%d keys were seen", len(lanes))
	}
	return v
}

func (v *verdict) wrong(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

func (v *verdict) step(l *lane, e event, dead map[string]bool) {
	switch e.What {
	case begun:
		v.sends++
		if l.busy {
			v.wrong("%s: item %d is sent by %s while %s sends item %d", e.Key, e.N, e.Worker, l.worker, l.next)
		}
		if e.Fence <= l.fence {
			v.wrong("%s: item %d has the fence %d after %d", e.Key, e.N, e.Fence, l.fence)
		}
		switch {
		case e.N == l.next && l.last != "":
			v.again[l.last]++
		case e.N == l.next:
		case e.N == l.next-1 && l.last == "" && dead[l.by]: // sent, and its worker was killed before that was recorded
			v.again[killed]++
			l.next--
		default:
			v.wrong("%s: item %d is sent by %s and it is the turn of item %d", e.Key, e.N, e.Worker, l.next)
		}
		l.busy, l.worker, l.fence, l.last = true, e.Worker, e.Fence, ""
	case failed, sent:
		if !l.busy || l.worker != e.Worker || e.N != l.next {
			v.wrong("%s: item %d %s by %s, who doesn't send it", e.Key, e.N, e.What, e.Worker)
		}
		l.busy, l.by = false, e.Worker
		if l.last = failed; e.What == sent {
			l.last = ""
			l.next++
		}
	}
}

// The checker finds what was planted, and lets pass what is explained.
func TestChecker(t *testing.T) {
	send := func(w string, n int, fence int64, end string) []event {
		es := []event{{What: begun, Worker: w, Key: "k", N: n, Fence: fence}}
		if end != "" {
			es = append(es, event{What: end, Worker: w, Key: "k", N: n, Fence: fence})
		}
		return es
	}
	kill := []event{{What: killed, Worker: "a"}}
	join := func(parts ...[]event) (out []event) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for name, c := range map[string]struct {
		events []event
		want   string // a part of the first problem; "": there is none
	}{
		"as it should be":           {join(send("a", 0, 1, sent), send("b", 1, 2, sent)), ""},
		"failed and sent again":     {join(send("a", 0, 1, failed), send("b", 0, 2, sent), send("b", 1, 3, sent)), ""},
		"killed in flight":          {join(send("a", 0, 1, ""), kill, send("b", 0, 2, sent), send("b", 1, 3, sent)), ""},
		"killed before the mark":    {join(send("a", 0, 1, sent), kill, send("b", 0, 2, sent), send("b", 1, 3, sent)), ""},
		"sent twice":                {join(send("a", 0, 1, sent), send("b", 0, 2, sent), send("b", 1, 3, sent)), "it is the turn of item 1"},
		"another one was killed":    {join(send("b", 0, 1, sent), kill, send("c", 0, 2, sent), send("b", 1, 3, sent)), "it is the turn of item 1"},
		"long after it was killed":  {join(send("a", 0, 1, sent), kill, send("b", 1, 2, sent), send("b", 0, 3, sent)), "it is the turn of item 2"},
		"overlapping":               {join(send("a", 0, 1, ""), send("b", 0, 2, sent), send("b", 1, 3, sent)), "while a sends item 0"},
		"out of order":              {join(send("a", 1, 1, sent), send("a", 0, 2, sent)), "it is the turn of item 0"},
		"lost":                      {join(send("a", 0, 1, sent)), "ends at item 1"},
		"a fence that doesn't grow": {join(send("a", 0, 2, sent), send("b", 1, 2, sent)), "has the fence 2 after 2"},
	} {
		t.Run(name, func(t *testing.T) {
			v := check(c.events, plan{items: 2, keys: 1})
			if c.want == "" {
				assert.Empty(t, v.problems)
			} else if assert.NotEmpty(t, v.problems) {
				assert.Contains(t, v.problems[0], c.want)
			}
		})
	}
}
