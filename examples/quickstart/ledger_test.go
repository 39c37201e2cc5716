package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLedgerIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLedger(path)
	require.NoError(t, err)
	want := []entry{
		{accepted, "worker-1", "a@b.example", "id1@x"},
		{deferred, "worker-2", "c@b.example", ""},
		{refused, "two\nlines", "d@b.example", ""},
	}
	for _, e := range want {
		require.NoError(t, l.add(e))
	}
	// A line that was not written to its end is not there.
	_, err = l.file.WriteString("2026-01-01T00:00:00Z\taccepted\tworker-1\te@b.example\tid")
	require.NoError(t, err)
	require.NoError(t, l.file.Close())

	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	got, err := readLedger(file)
	require.NoError(t, err)
	want[2].worker = "two lines"
	assert.Equal(t, want, got)

	_, err = openLedger(path)
	assert.Error(t, err, "a log that is there is somebody's")
	_, err = readLedger(strings.NewReader("nonsense\n"))
	assert.ErrorContains(t, err, "line 1")
}

type countCase struct {
	name     string
	expected map[string]int
	entries  []entry
	inFlight map[string]bool
	want     tally
	failed   string
}

func mailOf(address, id string) entry { return entry{accepted, "worker-1", address, id} }

var (
	three    = map[string]int{"a@x.example": 1, "b@x.example": 1, "c@x.example": 1}
	allThree = []entry{mailOf("a@x.example", "1"), mailOf("b@x.example", "2"), mailOf("c@x.example", "3")}
)

var countCases = []countCase{
	{
		name: "all got one", entries: allThree,
		want: tally{expected: 3, received: 3},
	},
	{
		name: "nobody got anything", entries: nil,
		want: tally{expected: 3, never: 3}, failed: "3 receivers got nothing",
	},
	{
		name: "one got nothing", entries: allThree[:2],
		want: tally{expected: 3, received: 2, never: 1}, failed: "for example c@x.example",
	},
	{
		name: "a second mail that the killed worker had in flight", entries: append(allThree[:3:3], allThree[0]), inFlight: map[string]bool{"1": true, "2": true},
		want: tally{expected: 3, received: 4, twice: 1, extra: 1},
	},
	{
		name: "a second mail that was in nobody's hands", entries: append(allThree[:3:3], allThree[0]), inFlight: map[string]bool{"2": true, "3": true},
		want: tally{expected: 3, received: 4, twice: 1, extra: 1, unexplained: 1}, failed: "1 mails were received twice",
	},
	{
		name: "three mails of one", entries: append(allThree[:3:3], allThree[0], allThree[0]), inFlight: map[string]bool{"1": true},
		want: tally{expected: 3, received: 5, twice: 1, extra: 2},
	},
	{
		name: "two receivers with one Message-ID", entries: []entry{allThree[0], mailOf("b@x.example", "1"), allThree[2]},
		want: tally{expected: 3, received: 3, twice: 1, extra: 1, unexplained: 1}, failed: "twice",
	},
	{
		name: "one receiver with two Message-IDs does not make up for another", entries: []entry{allThree[0], mailOf("a@x.example", "4"), allThree[1]},
		want: tally{expected: 3, received: 3, never: 1}, failed: "1 receivers got nothing",
	},
	{
		name: "refused for good is not lost", entries: append(allThree[:2:2], entry{refused, "worker-1", "c@x.example", ""}),
		want: tally{expected: 3, received: 2, refused: 1},
	},
	{
		name: "refused for now is", entries: append(allThree[:2:2], entry{deferred, "worker-1", "c@x.example", ""}),
		want: tally{expected: 3, received: 2, deferred: 1, never: 1}, failed: "got nothing",
	},
	{
		name: "a mail that nobody ordered", entries: append(allThree[:3:3], mailOf("d@x.example", "4")),
		want: tally{expected: 3, received: 4, strangers: 1}, failed: "nobody expected",
	},
	{
		name: "two rows with one address", expected: map[string]int{"a@x.example": 2}, entries: []entry{allThree[0], mailOf("a@x.example", "4")},
		want: tally{expected: 2, received: 2},
	},
	{
		name: "two rows with one address, and one mail", expected: map[string]int{"a@x.example": 2}, entries: allThree[:1],
		want: tally{expected: 2, received: 1, never: 1}, failed: "got nothing",
	},
}

func TestCount(t *testing.T) {
	for _, c := range countCases {
		t.Run(c.name, func(t *testing.T) {
			if c.expected == nil {
				c.expected = three
			}
			got := count(c.entries, c.expected, c.inFlight)
			if c.failed == "" {
				assert.Empty(t, got.failed())
			} else {
				assert.Contains(t, got.failed(), c.failed)
			}
			got.byWorker, got.missing = nil, nil
			assert.Equal(t, c.want, got)
		})
	}
}
