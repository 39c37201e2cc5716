package claim

import (
	"math"
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
	w.found(1, 1, 1, int64(1), int64(1))
	assert.Equal(t, windowMin, w.size)
	w.found(100, 100, 1, int64(1), int64(100))
	assert.Equal(t, 100*windowClaims, w.size)
	w.found(100, 100, 3, int64(1), int64(300))
	assert.Equal(t, 300*windowClaims, w.size)
	w.found(1_000_000, 1_000_000, 1, int64(1), int64(1_000_000))
	assert.Equal(t, windowRows, w.size)
}

// Where fresh rows lie close together a window is reckoned; its end may be no row,
// so the cursor never goes there.
func TestWindowIsReckoned(t *testing.T) {
	w := walk(t, int64(500))
	w.end = int64(2500)
	claim := func(rows int, first, last int64) {
		w.found(rows, 100, 1, first, last)
		assert.True(t, w.reached(last))
		w.reckon()
	}
	claim(100, 501, 600)
	assert.Equal(t, int64(5600), w.end, "50 claims")
	assert.Equal(t, int64(600), w.top)
	claim(100, 601, 2200)
	assert.Equal(t, int64(7200), w.end, "it goes along with the cursor")
	claim(100, 2201, 4200)
	assert.Nil(t, w.end, "they are not close: the next window is looked up")
	claim(100, 4201, 4300)
	claim(99, 4301, 4399)
	assert.Nil(t, w.end, "there are no more in it")
	claim(100, 4400, 4499)
	w.passed()
	assert.Equal(t, int64(4499), w.cur)
	w.reckon()
	assert.Nil(t, w.end, "nothing was found: the next window is looked up")

	w.wrapped, w.start, w.top = true, int64(500), int64(9000)
	claim(100, 1, 100)
	assert.Equal(t, int64(500), w.end, "not beyond where the lap began")
	assert.Equal(t, int64(9000), w.top)
	claim(100, 401, 500)
	assert.Nil(t, w.end)

	assert.False(t, w.reached("text"))
	w.found(100, 100, 1, "a", "b")
	assert.False(t, w.dense)
}

func TestReckonedStaysInRange(t *testing.T) {
	assert.Nil(t, reckoned(int64(math.MaxInt64-5), 100, nil))
	assert.Nil(t, reckoned(uint64(math.MaxUint64-5), 100, nil))
	assert.Equal(t, uint64(107), reckoned(uint64(7), 100, nil))
	assert.Equal(t, int64(-1), reckoned(int64(math.MinInt64), math.MaxInt64, nil))
	assert.False(t, near(int64(math.MinInt64), int64(math.MaxInt64), windowRows))
	assert.True(t, near(uint64(1), uint64(4), 3))
}

// What the patrol is told about passed rows: nothing before a lap is over,
// nothing after one that left rows behind, nothing of keys that don't grow.
func TestPublish(t *testing.T) {
	s := newStore(nil, mapped(t, Postgres, Table{Name: "receivers"}, nil))
	w := &s.walker
	s.publish()
	assert.Nil(t, s.passed.Load())
	w.start, w.cur = sendonce.Key(int64(500)), sendonce.Key(int64(900))
	s.publish()
	assert.Nil(t, s.passed.Load(), "it began in the middle")
	w.wrapped = true
	s.publish()
	assert.Nil(t, s.passed.Load(), "not over yet")
	w.resting, w.wrapped = true, false
	s.publish()
	if assert.NotNil(t, s.passed.Load()) {
		assert.Equal(t, sendonce.Key(int64(900)), *s.passed.Load())
	}
	w.resting, w.start = false, nil
	s.publish()
	assert.NotNil(t, s.passed.Load(), "it began at the first row")
	w.skipped = true
	s.publish()
	assert.Nil(t, s.passed.Load())
	w.skipped, s.keyKind = false, dialect.KeyUUID
	s.publish()
	assert.Nil(t, s.passed.Load())
}

// A lap that never comes to the end, because rows are inserted as fast as they are
// sent, comes to the rows that it began behind all the same (docs/faults.md, 21).
func TestLapThatNeverEnds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, int64(500))
	w.began = now
	turns := func(at time.Time) []bool {
		var out []bool
		for range 7 {
			w.takeTurns(at)
			out = append(out, w.wrapped)
		}
		return out
	}
	other := func() { // until the other part has its turn
		for was := w.wrapped; w.wrapped == was; {
			w.takeTurns(now.Add(lapMost))
		}
	}
	none := make([]bool, 7)
	w.nothingUpTo(900)
	assert.Equal(t, none, turns(now.Add(lapMost-1)))
	assert.Equal(t, []bool{false, false, false, true, false, false, true}, turns(now.Add(lapMost)), "then one look in three")
	assert.Nil(t, w.cur, "from the first row")
	w.nothingUpTo(500)
	assert.Equal(t, int64(900), w.top)
	other()
	assert.Equal(t, int64(900), w.cur, "the other part has kept its place")
	w.nothingUpTo(1000)
	other()
	assert.Equal(t, int64(500), w.cur)
	assert.True(t, w.lapOver(now.Add(lapMost), dialect.KeyInt), "the second part is over")
	assert.Equal(t, int64(1000), w.cur)
	assert.True(t, w.resting)
	assert.False(t, w.wrapped)
	assert.Equal(t, none, turns(now.Add(100*lapMost)), "all was seen")

	// Rows were left behind: once more from the first row to here.
	w.skipped = true
	assert.Contains(t, turns(now.Add(200*lapMost)), true)
	assert.Equal(t, int64(1000), w.start)
	assert.False(t, w.skipped)
}

// If the end is reached while the two parts take turns, the second goes on alone.
func TestLapEndsWhileTakingTurns(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := walk(t, int64(500))
	w.began = now
	w.nothingUpTo(900)
	w.takeTurns(now.Add(lapMost)) // one more look at the first part
	assert.True(t, w.lapOver(now.Add(lapMost), dialect.KeyInt))
	assert.True(t, w.wrapped)
	w.nothingUpTo(500)
	assert.True(t, w.lapOver(now.Add(lapMost), dialect.KeyInt))
	assert.True(t, w.resting)
	assert.Equal(t, int64(900), w.cur)
	assert.Nil(t, w.other)
}
