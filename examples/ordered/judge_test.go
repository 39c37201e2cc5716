package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What is wrong with a ledger is seen.
func TestJudge(t *testing.T) {
	all := []*instance{{address: "a", killed: true}, {address: "b"}}
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	both := []answer{{"c", "1", at(1), at(2)}, {"c", "2", at(3), at(4)}}
	b := func(id, fence, by string) entry { return entry{begun, "c", id, fence, by, 1, 0} }
	m := func(id, fence, by string, n int) entry { return entry{made, "c", id, fence, by, 1, n} }
	f := func(id, fence, by string) entry { return entry{failed, "c", id, fence, by, 1, 0} }
	for _, c := range []struct {
		name    string
		entries []entry
		answers []answer
		want    verdict
	}{
		{"good", []entry{b("1", "9", "b"), m("1", "9", "b", 1), b("2", "10", "b"), m("2", "10", "b", 2)}, both, verdict{}},
		{"failed once", []entry{b("1", "1", "b"), f("1", "1", "b"), b("1", "2", "b"), m("1", "2", "b", 1), b("2", "3", "b"), m("2", "3", "b", 2)}, both, verdict{retried: 1}},
		{"cut", []entry{b("1", "1", "a"), b("1", "2", "b"), m("1", "2", "b", 1), b("2", "3", "b"), m("2", "3", "b", 2)}, both, verdict{cut: 1}},
		{"cut before its mark", []entry{b("1", "1", "a"), m("1", "1", "a", 1), b("1", "2", "b"), m("1", "2", "b", 1), b("2", "3", "b"), m("2", "3", "b", 2)}, both, verdict{cut: 1}},
		{"cut by nobody", []entry{b("1", "1", "b"), b("1", "2", "b"), m("1", "2", "b", 1), b("2", "3", "b"), m("2", "3", "b", 2)}, both, verdict{overlaps: 1}},
		{"twice", []entry{b("1", "1", "b"), m("1", "1", "b", 1), b("1", "2", "b"), m("1", "2", "b", 1), b("2", "3", "b"), m("2", "3", "b", 2)}, both, verdict{twice: 1}},
		{"overlap", []entry{b("1", "1", "a"), b("2", "2", "b"), m("1", "1", "a", 1), m("2", "2", "b", 2)}, both, verdict{overlaps: 3}},
		{"order", []entry{b("2", "1", "b"), m("2", "1", "b", 1), b("1", "2", "b"), m("1", "2", "b", 2)}, both, verdict{disorder: 2}},
		{"ids that lie", []entry{b("1", "1", "b"), m("1", "1", "b", 1), b("2", "2", "b"), m("2", "2", "b", 2)}, []answer{{"c", "2", at(1), at(2)}, {"c", "1", at(3), at(4)}}, verdict{disorder: 1}},
		{"at once", []entry{b("1", "1", "b"), m("1", "1", "b", 1), b("2", "2", "b"), m("2", "2", "b", 2)}, []answer{{"c", "2", at(1), at(3)}, {"c", "1", at(2), at(4)}}, verdict{}},
		{"lost", []entry{b("1", "1", "b"), m("1", "1", "b", 1), b("2", "2", "b")}, both, verdict{lost: 1}},
		{"number", []entry{b("1", "1", "b"), m("1", "1", "b", 1), b("2", "2", "b"), m("2", "2", "b", 3)}, both, verdict{numbers: 1}},
		{"fence", []entry{b("1", "10", "b"), m("1", "10", "b", 1), b("2", "9", "b"), m("2", "9", "b", 2)}, both, verdict{stale: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judge(c.entries, c.answers, all)
			got.made, got.asked, got.customers = nil, 0, 0
			assert.Equal(t, c.want, got)
		})
	}
}
