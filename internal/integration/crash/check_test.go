package crash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = int64(time.Millisecond)

// one is a send of row 1 that begins then, is accepted after 10 ms and answered
// after 20.
func one(worker, name string, at int64, ok bool) []event {
	return []event{
		{Kind: begun, At: at, Worker: worker, Key: 1, Send: name, Idem: "k"},
		{Kind: accepted, At: at + 10*ms, Key: 1, Send: name},
		{Kind: answered, At: at + 20*ms, Worker: worker, Key: 1, Send: name, OK: ok},
	}
}

func join(parts ...[]event) (out []event) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func mark(worker string, at int64) []event {
	return []event{{Kind: marked, At: at, Worker: worker, Key: 1}}
}

func hit(what, worker string, at, until int64) []event {
	return []event{{Kind: fault, What: what, Worker: worker, At: at, Until: until}}
}

// The checker finds what was planted, and lets pass what is explained.
func TestChecker(t *testing.T) {
	const s = 1000 * ms
	start := s
	usual := join(one("a", "1", start, true), mark("a", start+25*ms))
	again := one("b", "2", start+5*s, true)
	done := map[int64]string{1: "done"}
	for name, c := range map[string]struct {
		trial  trial
		want   string // a part of the only problem; "": there is none
		second string // what explains the second acceptance
	}{
		"as it should be":      {trial{events: usual, status: done}, "", ""},
		"a row lost":           {trial{events: usual, status: map[int64]string{1: "done", 2: "pending"}}, "row 2 is lost", ""},
		"a row claimed":        {trial{events: usual, status: map[int64]string{1: "claimed"}}, "row 1 is lost: it is claimed", ""},
		"done and never sent":  {trial{status: done}, "nobody has accepted it", ""},
		"unknown":              {trial{events: usual, status: map[int64]string{1: "unknown"}}, "unknown under AtLeastOnce", ""},
		"unknown is a promise": {trial{events: usual, status: map[int64]string{1: "unknown"}, atMostOnce: true}, "", ""},
		"sent twice":           {trial{events: join(usual, again), status: done}, "nothing explains it", "nothing"},
		"not marked":           {trial{events: join(one("a", "1", start, true), again), status: done}, "nothing explains it", "nothing"},
		"an outage of all is no reason": {
			trial{events: join(one("a", "1", start, true), hit("outage", "", start+15*ms, start+4*s), again), status: done}, "nothing explains it", "nothing",
		},
		"killed before the mark": {trial{events: join(one("a", "1", start, true), hit("killed", "a", start+22*ms, 0), again), status: done}, "", "killed"},
		"killed in mid-send":     {trial{events: join(one("a", "1", start, true)[:2], hit("killed", "a", start+15*ms, 0), again), status: done}, "", "killed"},
		"killed after the mark":  {trial{events: join(usual, hit("killed", "a", start+s, 0), again), status: done}, "nothing explains it", "nothing"},
		"another one was killed": {trial{events: join(one("a", "1", start, true), hit("killed", "c", start+22*ms, 0), again), status: done}, "nothing explains it", "nothing"},
		"no answer came":         {trial{events: join(one("a", "1", start, false), again), status: done}, "", "no answer"},
		"paused for a lease":     {trial{events: join(one("a", "1", start, true), hit("paused", "a", start+21*ms, start+3*s), again), status: done}, "", "paused"},
		"paused too late":        {trial{events: join(one("a", "1", start, true), hit("paused", "a", start+5*s-100*ms, start+6*s), again), status: done}, "nothing explains it", "nothing"},
		"cut off alone":          {trial{events: join(one("a", "1", start, true), hit("cut", "a", start, start+4*s), again), status: done}, "", "cut"},
		"the second was paused before its first byte": {
			trial{events: join(one("a", "1", start+s, true), []event{{Kind: begun, At: start, Worker: "b", Key: 1, Send: "2", Idem: "k"}},
				hit("paused", "b", start+ms, start+5*s), []event{{Kind: accepted, At: start + 5*s, Key: 1, Send: "2"}}), status: done},
			"", "paused before the first byte",
		},
		"overlapping": {
			trial{events: join(one("a", "1", start, false), one("b", "2", start+5*ms, true)), status: done}, "is sent by a from", "no answer",
		},
		"overlapping while the first is stopped": {
			trial{events: join(one("a", "1", start, false), hit("paused", "a", start+ms, start+30*ms), one("b", "2", start+15*ms, true)), status: done}, "", "no answer",
		},
		"two idempotency keys": {
			trial{events: join(one("a", "1", start, false)[:1], []event{{Kind: answered, At: start + ms, Send: "1"}}, []event{
				{Kind: begun, At: start + s, Worker: "a", Key: 1, Send: "2", Idem: "other"}, {Kind: accepted, At: start + s, Key: 1, Send: "2"},
			}), status: done}, "two idempotency keys", "",
		},
		"twice under AtMostOnce": {
			trial{events: join(one("a", "1", start, true), hit("killed", "a", start+22*ms, 0), again), status: done, atMostOnce: true}, "accepted twice under AtMostOnce", "killed",
		},
		"nobody sent what was accepted": {
			trial{events: join(usual, []event{{Kind: accepted, Key: 1, Send: "9"}}), status: done}, "no send explains", "",
		},
		"not a row of the table": {trial{events: usual, status: map[int64]string{}}, "not in the table", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.trial.lease = 2 * time.Second
			v := check(c.trial)
			if c.want == "" {
				assert.Empty(t, v.problems)
			} else if assert.Len(t, v.problems, 1) {
				assert.Contains(t, v.problems[0], c.want)
			}
			if c.second == "" {
				assert.Empty(t, v.second)
			} else {
				assert.Equal(t, map[string]int{c.second: 1}, v.second)
			}
		})
	}
}
