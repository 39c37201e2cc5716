package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// walk is a walker without a database: keys are 1 to last.
func walk(t *testing.T, start sendonce.Key) *walker {
	t.Helper()
	n := mapped(t, Postgres, Table{Name: "receivers"}, nil)
	w := newWalker(n)
	w.started, w.start, w.cur = true, start, start
	return &w
}

// nothingUpTo says that a window ends at a key, and that it gave nothing.
func (w *walker) nothingUpTo(end int64) {
	w.end = end
	if !w.wrapped {
		w.top = end
	}
	w.passed()
}

// A lap that began in the middle goes to the end, then from the first row to
// where it began, and then rests at the end (docs/semantics.md, section 5).
func TestLap(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, int64(500))
	w.nothingUpTo(900)
	assert.Equal(t, int64(900), w.cur)
	assert.True(t, w.lapOver(now, dialect.KeyInt))
	assert.True(t, w.wrapped)
	assert.Nil(t, w.cur, "from the first row")
	w.nothingUpTo(500)
	assert.Equal(t, int64(900), w.top, "the second part does not move the end of the table")
	assert.True(t, w.lapOver(now, dialect.KeyInt), "once more at the end: rows may have come")
	assert.True(t, w.resting)
	assert.False(t, w.wrapped)
	assert.Equal(t, int64(900), w.cur)
	assert.False(t, w.lapOver(now, dialect.KeyInt), "and rest")
	assert.False(t, w.lapOver(now.Add(restMin-1), dialect.KeyInt))
}

func TestLapFromTheFirstRow(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, nil)
	w.nothingUpTo(900)
	assert.True(t, w.lapOver(now, dialect.KeyInt))
	assert.True(t, w.resting, "there is no second part")
}

func TestEmptyTable(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, nil)
	assert.False(t, w.lapOver(now, dialect.KeyInt))
	assert.True(t, w.lapOver(now.Add(restMin), dialect.KeyInt), "after the rest it looks again")
	assert.Nil(t, w.cur)
}

// Rows may commit late, with smaller keys: a look that finds nothing goes on from
// where the cursor stood a minute ago; keys that don't grow go round.
func TestRestLooksBack(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, nil)
	for i := range int64(20) {
		w.nothingUpTo((i + 1) * 100)
		w.leaveTrail(now.Add(time.Duration(i) * 10 * time.Second))
	}
	end := now.Add(190 * time.Second)
	assert.True(t, w.lapOver(end, dialect.KeyInt))
	assert.False(t, w.lapOver(end, dialect.KeyInt))
	later := end.Add(restMin)
	w.leaveTrail(later)
	assert.True(t, w.lapOver(later, dialect.KeyInt))
	at, ok := w.cur.(int64)
	assert.True(t, ok)
	// 1400 is where it stood 60 s before its last mark; a mark is up to 10 s old.
	assert.GreaterOrEqual(t, at, int64(1200))
	assert.LessOrEqual(t, at, int64(1400))

	w.cur, w.rest = w.top, later
	assert.True(t, w.lapOver(later, dialect.KeyUUID))
	assert.Nil(t, w.cur)
	assert.False(t, w.resting, "a new lap")
}

// Without a minute of trail, all is looked at.
func TestShortTrail(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, nil)
	assert.Nil(t, w.minuteAgo(now))
	w.cur = int64(5)
	w.leaveTrail(now)
	assert.Nil(t, w.minuteAgo(now.Add(lookBack-1)))
	assert.Equal(t, int64(5), w.minuteAgo(now.Add(lookBack)))
	w.cur = int64(6)
	w.leaveTrail(now.Add(trailEvery - 1))
	assert.Len(t, w.trail, 1, "marks are not left closer than that")
	w.cur, w.wrapped = int64(7), true
	w.leaveTrail(now.Add(time.Hour))
	assert.Len(t, w.trail, 1, "nor on the way back")
}

func TestTrailStaysShort(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, nil)
	for i := range int64(10_000) {
		w.cur = i
		w.leaveTrail(now.Add(time.Duration(i) * time.Second))
	}
	assert.LessOrEqual(t, len(w.trail), int(lookBack/trailEvery)+2)
	assert.GreaterOrEqual(t, now.Add(9999*time.Second).Sub(w.trail[0].at), lookBack)
}

// Rows were left behind in a lap: it walks another, once it has rested.
func TestSkippedWalksAgain(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, nil)
	w.nothingUpTo(900)
	w.skipped = true
	assert.True(t, w.lapOver(now, dialect.KeyInt))
	assert.False(t, w.lapOver(now, dialect.KeyInt))
	assert.True(t, w.lapOver(now.Add(restMin), dialect.KeyInt))
	assert.Nil(t, w.cur)
	assert.False(t, w.resting)
	assert.False(t, w.skipped)
}

// The rest is as long as the looks were dear.
func TestRestIsWorthTheWork(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, nil)
	w.nothingUpTo(900)
	w.worked = time.Second
	assert.True(t, w.lapOver(now, dialect.KeyInt))
	assert.False(t, w.lapOver(now.Add(restPerWork*time.Second-1), dialect.KeyInt))
	assert.True(t, w.lapOver(now.Add(restPerWork*time.Second), dialect.KeyInt))
}

// Windows grow through finished rows, to a bound, and shrink where there is work.
func TestWindowSizes(t *testing.T) {
	w := walk(t, nil)
	assert.Equal(t, windowMin, w.size)
	for range 10 {
		w.nothingUpTo(1)
	}
	assert.Equal(t, windowRows, w.size)
	w.found(1)
	assert.Equal(t, windowMin, w.size)
	w.found(100)
	assert.Equal(t, 100*windowClaims, w.size)
	w.found(1_000_000)
	assert.Equal(t, windowRows, w.size)
}

// What the patrol is told about passed rows: nothing before a lap is over,
// nothing after one that left rows behind, nothing of keys that don't grow.
func TestPublish(t *testing.T) {
	s := newStore(nil, mapped(t, Postgres, Table{Name: "receivers"}, nil))
	w := &s.walker
	s.publish()
	assert.Nil(t, s.passed.Load())
	w.top = sendonce.Key(int64(900))
	s.publish()
	assert.Nil(t, s.passed.Load(), "not over yet")
	w.resting = true
	s.publish()
	if assert.NotNil(t, s.passed.Load()) {
		assert.Equal(t, sendonce.Key(int64(900)), *s.passed.Load())
	}
	w.skipped = true
	s.publish()
	assert.Nil(t, s.passed.Load())
	w.skipped, s.keyKind = false, dialect.KeyUUID
	s.publish()
	assert.Nil(t, s.passed.Load())
}
