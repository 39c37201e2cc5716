package claim

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

const (
	// windowRows is how many rows of the table, in key order, one look for
	// fresh rows may walk over at most. The bound at its end keeps the plan on
	// the key's index, and makes a plan that sorts bearable
	// (docs/semantics.md, section 5). Where there is work a window is this many
	// claims long; it grows on the way through finished rows.
	windowRows   = 50_000
	windowMin    = 2_000
	windowClaims = 50
	windowGrowth = 4
	// denseParts: a claim that fits so often into a window says that its rows lie
	// close together.
	denseParts = 3

	// frontProbes halve the span of keys this often, looking at so many rows
	// each time.
	frontProbes = 24
	probeRows   = 100

	lookBack    = time.Minute // rows may commit this long after ones with a larger key
	trailEvery  = 10 * time.Second
	restMin     = time.Second // between two looks at rows that were looked at already
	restPerWork = 20          // and this many times what such a look costs

	// lapMost is how long a lap goes on in one direction: where new rows appear as
	// fast as they are sent, it would never come to the rows that it began behind,
	// or left behind.
	lapMost = 20 * time.Second
	// lapTurns: then its other part gets one look in so many.
	lapTurns = 3
)

// walker is the cursor that finds fresh rows: it goes through the table in key
// order, window by window, and does not look back at what it has passed. It
// starts anywhere, goes to the end, then from the first row to where it started;
// then it stays at the end, where new rows appear. If it does not come to the end,
// the two parts take turns. Owned by one Claim at a time.
type walker struct {
	n       *names
	windows map[windowForm]*dialect.Stmt
	span    *dialect.Stmt
	probe   *dialect.Stmt
	highest *dialect.Stmt
	after   [2]*dialect.Stmt // by whether there is a lower bound

	leg
	other *leg // the other part of the lap, while the two take turns
	looks int

	started bool
	start   sendonce.Key // where this lap began; nil: at the first row
	top     sendonce.Key // the end of the table, as far as seen
	resting bool         // the lap is over
	skipped bool         // rows may have been left behind in this lap: walk another
	began   time.Time    // the lap, or the rest after it

	worked time.Duration // what looks without a find have cost since the last rest
	rest   time.Time     // no second look at passed rows before this
	trail  []trailMark
}

// leg is the cursor in one part of a lap.
type leg struct {
	cur      sendonce.Key // the last key looked at; nil: before the first
	end      sendonce.Key // of the window at hand; nil: not known
	size     int          // rows of the next window
	dense    bool         // fresh rows lie so close that a window needs no look-up
	reckoned bool         // end was reckoned so: there may be no such key, and the cursor never goes there
	wrapped  bool         // this is the second part, from the first row to start
}

type trailMark struct {
	at  time.Time
	key sendonce.Key
}

// windowForm is a statement that finds the end of a window.
type windowForm struct {
	lower, upper bool // which bounds there are
	rows         int
}

func newWalker(n *names) walker {
	w := walker{n: n, windows: map[windowForm]*dialect.Stmt{}, leg: leg{size: windowMin}}
	// Each by itself: SQLite reads all keys for both (https://www.sqlite.org/optoverview.html#minmax).
	w.span = n.d.Compile("SELECT (SELECT MIN(" + n.key + ") FROM " + n.quoted + "), (SELECT MAX(" + n.key + ") FROM " + n.quoted + ")")
	w.probe = n.d.Compile("SELECT " + n.status + ", CASE WHEN " + n.next + " IS NULL THEN 1 ELSE 0 END FROM " + n.quoted + " WHERE " + n.key + " > " +
		n.d.Key(":from", n.keyKind) + " ORDER BY " + n.key + " LIMIT " + strconv.Itoa(probeRows))
	w.highest = n.d.Compile("SELECT " + n.key + " FROM " + n.quoted + " WHERE " + n.keysIn() + " ORDER BY " + n.key + " DESC LIMIT 1")
	for i, lower := range []string{"", n.key + " > " + n.d.Key(":from", n.keyKind) + " AND "} {
		w.after[i] = n.d.Compile("SELECT " + n.key + " FROM " + n.quoted + " WHERE " + lower + n.key + " <= " + n.d.Key(":to", n.keyKind) +
			" ORDER BY " + n.key + " LIMIT 1 OFFSET :skip")
	}
	return w
}

func (n *names) window(f windowForm) string {
	q := "SELECT " + n.key + " FROM " + n.quoted + " WHERE 1 = 1"
	if f.lower {
		q += " AND " + n.key + " > " + n.d.Key(":from", n.keyKind)
	}
	if f.upper {
		q += " AND " + n.key + " <= " + n.d.Key(":to", n.keyKind)
	}
	return "SELECT w." + n.key + " FROM (" + q + " ORDER BY " + n.key + " LIMIT " + strconv.Itoa(f.rows) + ") w ORDER BY w." + n.key + " DESC LIMIT 1"
}

func (w *walker) window(f windowForm) *dialect.Stmt {
	st := w.windows[f]
	if st == nil {
		st = w.n.d.Compile(w.n.window(f))
		w.windows[f] = st
	}
	return st
}

// beginWalk chooses where to start: behind the finished rows, as far as a few
// probes can tell, and at different places where claims could collide. A wrong
// guess costs nothing but time: the lap goes round.
func (s *store) beginWalk(ctx context.Context, scatter bool) error {
	w := &s.walker
	switch s.keyKind {
	case dialect.KeyInt:
		start, err := s.guessStart(ctx, scatter)
		if err != nil {
			return err
		}
		w.start = start
	case dialect.KeyUUID:
		if scatter {
			w.start = randomUUID()
		}
	}
	w.cur, w.started, w.began = w.start, true, time.Now()
	return nil
}

// guessStart returns a key to start behind, or nil for the first row.
func (s *store) guessStart(ctx context.Context, scatter bool) (sendonce.Key, error) {
	var first, last sql.NullInt64
	err := s.query(ctx, s.db, "read the first and the last key", s.walker.span, dialect.Args{}, func(rows *sql.Rows) error {
		return rows.Scan(&first, &last)
	})
	if err != nil || !first.Valid {
		return nil, err
	}
	if !scatter {
		if yes, err := s.untouched(ctx, first.Int64, last.Int64); err != nil || yes {
			return nil, err
		}
	}
	// lo is the first row, or has finished rows around it.
	lo, hi := first.Int64, last.Int64
	for range frontProbes {
		span := uint64(hi) - uint64(lo)
		if span < windowMin {
			break
		}
		mid := int64(uint64(lo) + span/2)
		waiting, err := s.freshBehind(ctx, mid)
		if err != nil {
			return nil, err
		}
		if waiting > 0 {
			hi = mid
		} else {
			lo = mid
		}
	}
	if span := uint64(last.Int64) - uint64(lo); scatter && span > 0 {
		lo = int64(uint64(lo) + rand.Uint64N(span))
	} else if lo == first.Int64 {
		return nil, nil
	}
	return lo, nil
}

// untouched reports whether nothing was sent yet, as it seems: the first rows are all
// fresh, and there are fresh ones in the middle.
func (s *store) untouched(ctx context.Context, first, last int64) (bool, error) {
	span := uint64(last) - uint64(first)
	if span < windowMin { // too few to probe
		return false, nil
	}
	n, err := s.freshBehind(ctx, first-1)
	if err != nil || n < probeRows {
		return false, err
	}
	n, err = s.freshBehind(ctx, int64(uint64(first)+span/2))
	return n > 0, err
}

// freshBehind counts how many of the next rows are fresh.
func (s *store) freshBehind(ctx context.Context, key int64) (n int, err error) {
	err = s.query(ctx, s.db, "look for the first fresh row", s.walker.probe, dialect.Args{"from": key}, func(rows *sql.Rows) error {
		var status sql.NullString
		var fresh bool
		err := rows.Scan(&status, &fresh)
		if fresh && s.state(status.String) == pending {
			n++
		}
		return err
	})
	return n, err
}

// randomUUID is a valid one: MariaDB takes others for NULL.
func randomUUID() string {
	h := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

// nextWindow makes sure that there is a window at hand. It returns false when
// there is nothing to look at now.
func (s *store) nextWindow(ctx context.Context, now time.Time) (bool, error) {
	w := &s.walker
	w.reckon()
	for w.end == nil {
		end, err := s.windowEnd(ctx)
		if err != nil {
			return false, err
		}
		if end != nil {
			w.end = end
			if !w.wrapped {
				w.top = end
			}
			break
		}
		if s.relap.CompareAndSwap(true, false) {
			w.skipped = true
		}
		more := w.lapOver(now, s.keyKind)
		s.publish()
		if !more {
			return false, nil
		}
	}
	if w.leaveTrail(now) {
		s.publish()
	}
	return true, nil
}

// reckon sets a window by adding to the cursor, where that surely is no larger than
// one that was looked up, and most likely has rows to give: a look-up reads all its
// keys.
func (w *walker) reckon() {
	if w.end != nil || !w.dense {
		return
	}
	switch cur := w.cur.(type) {
	case int64:
		w.end = reckoned(cur, w.size, w.bound())
	case uint64:
		w.end = reckoned(cur, w.size, w.bound())
	}
	w.reckoned = w.end != nil
}

// bound is the key that the leg ends with; nil: none.
func (w *walker) bound() sendonce.Key {
	if w.wrapped {
		return w.start
	}
	return nil
}

// reckoned is the end of a window of so many keys; nil if there is none.
func reckoned[K int64 | uint64](cur K, size int, bound sendonce.Key) sendonce.Key {
	end := cur + K(size)
	if last, ok := bound.(K); ok {
		end = min(end, last)
	}
	if end <= cur { // also beyond the largest number
		return nil
	}
	return end
}

// publish tells the patrol how far every fresh row was seen. Only keys that grow
// can be compared with it.
func (s *store) publish() {
	w := &s.walker
	all := !w.wrapped && !w.skipped && (w.resting || w.start == nil) // from the first row on
	if !all || w.cur == nil || (s.keyKind != dialect.KeyInt && s.keyKind != dialect.KeyUint) {
		s.passed.Store(nil)
		return
	}
	at := w.cur
	s.passed.Store(&at)
}

// takeTurns is called before each look for fresh rows. When a lap has gone on for
// long in one direction, its other part gets some of the looks.
func (w *walker) takeTurns(now time.Time) {
	switch {
	case w.other != nil:
		if w.looks++; w.wrapped || w.looks%lapTurns == 0 {
			w.leg, *w.other = *w.other, w.leg
		}
	case w.wrapped || now.Sub(w.began) < max(lapMost, restPerWork*w.worked):
	case w.skipped && w.cur != nil: // rows were left behind: from the first row to here
		w.start, w.resting, w.skipped = w.cur, false, false
		fallthrough
	case !w.resting && w.start != nil:
		w.other, w.worked = &leg{size: windowMin, wrapped: true}, 0
	}
}

func (s *store) windowEnd(ctx context.Context) (sendonce.Key, error) {
	w, args, f := &s.walker, dialect.Args{}, windowForm{rows: s.walker.size}
	if w.cur != nil {
		f.lower, args["from"] = true, w.cur
	}
	if w.wrapped {
		f.upper, args["to"] = true, w.start
	}
	var end sendonce.Key
	err := s.query(ctx, s.db, "find the next window", w.window(f), args, func(rows *sql.Rows) error {
		var err error
		end, err = scanMaybeKey(rows, s.keyKind)
		return err
	})
	return end, err
}

func scanMaybeKey(rows *sql.Rows, k dialect.KeyKind) (sendonce.Key, error) {
	switch k {
	case dialect.KeyInt:
		var v *int64
		if err := rows.Scan(&v); err != nil || v == nil {
			return nil, err
		}
		return *v, nil
	case dialect.KeyUint:
		var v *uint64
		if err := rows.Scan(&v); err != nil || v == nil {
			return nil, err
		}
		return *v, nil
	}
	var v *string
	if err := rows.Scan(&v); err != nil || v == nil {
		return nil, err
	}
	return *v, nil
}

// lapOver decides where to go at the end of the rows. It returns false when
// there is nowhere to go for now.
func (w *walker) lapOver(now time.Time, kind dialect.KeyKind) bool {
	switch {
	case w.other != nil && !w.wrapped: // this part is over: the other one goes on alone
		w.leg, w.other = *w.other, nil
		return true
	case w.other != nil: // likewise, and the end of the table is not reached
		w.leg, w.other = *w.other, nil
		w.resting, w.start, w.began = true, nil, now
		return true
	case !w.resting && !w.wrapped && w.start != nil: // from the first row to where we began
		w.wrapped, w.cur = true, nil
		return true
	case !w.resting: // once around: stay at the end
		w.resting, w.wrapped, w.start, w.began = true, false, nil, now
		w.cur = w.top
		w.rest = now.Add(max(restMin, restPerWork*w.worked))
		w.worked = 0
		return w.top != nil
	case now.Before(w.rest):
		return false
	}
	grows := kind == dialect.KeyInt || kind == dialect.KeyUint
	if w.skipped || !grows {
		w.newLap(now)
		return true
	}
	w.cur = w.minuteAgo(now)
	w.rest = now.Add(max(restMin, restPerWork*w.worked))
	w.worked = 0
	return true
}

// newLap starts again at the first row.
func (w *walker) newLap(now time.Time) {
	w.cur, w.end, w.start, w.other = nil, nil, nil, nil
	w.began = now
	w.wrapped, w.resting, w.skipped = false, false, false
	w.worked = 0
}

// passed moves the cursor to the end of the window, which has nothing more.
func (w *walker) passed() {
	if w.reckoned { // and was no window: see where the next rows are
		w.end, w.dense, w.reckoned = nil, false, false
		return
	}
	w.cur, w.end = w.end, nil
	w.size = min(w.size*windowGrowth, windowRows)
}

// found says that the window had rows to give: so many of a limit, the keys of the
// first and the last. The cursor is not moved yet.
func (w *walker) found(rows, limit, share int, first, last sendonce.Key) {
	w.size = min(max(windowMin, windowClaims*limit*share), windowRows)
	w.dense = rows == limit && near(first, last, w.size/denseParts)
	if w.dense || w.reckoned {
		w.end, w.reckoned = nil, false
	}
}

// near says that keys are numbers and at most so far apart.
func near(first, last sendonce.Key, most int) bool {
	switch first := first.(type) {
	case int64:
		return uint64(last.(int64))-uint64(first) <= uint64(most)
	case uint64:
		return last.(uint64)-first <= uint64(most)
	}
	return false
}

// reached moves the cursor to the last row that was taken, where keys are numbers,
// which also may be the end of the table. It returns false for others.
func (w *walker) reached(last sendonce.Key) bool {
	switch last.(type) {
	case int64, uint64:
	default:
		return false
	}
	w.cur = last
	if !w.wrapped && (w.top == nil || compareKeys(w.top, last) < 0) {
		w.top = last
	}
	return true
}

// leaveTrail notes where the cursor stands, now and then.
func (w *walker) leaveTrail(now time.Time) bool {
	if w.wrapped || w.cur == nil {
		return false
	}
	if n := len(w.trail); n > 0 && now.Sub(w.trail[n-1].at) < trailEvery {
		return false
	}
	w.trail = append(w.trail, trailMark{now, w.cur})
	for len(w.trail) > 1 && now.Sub(w.trail[1].at) > lookBack {
		w.trail = w.trail[1:]
	}
	return true
}

func (w *walker) minuteAgo(now time.Time) sendonce.Key {
	if len(w.trail) == 0 || now.Sub(w.trail[0].at) < lookBack {
		return nil // we have not been here for a minute: look at all
	}
	return w.trail[0].key
}

// jump moves the cursor past rows that others are taking at this moment.
func (s *store) jump(ctx context.Context, limit int) error {
	w := &s.walker
	w.skipped = true
	which := 0
	args := dialect.Args{"to": w.end, "skip": int64(min(limit+rand.IntN(8*limit), windowRows))}
	if w.cur != nil {
		which, args["from"] = 1, w.cur
	}
	var next sendonce.Key
	err := s.query(ctx, s.db, "pass over rows", w.after[which], args, func(rows *sql.Rows) (err error) {
		next, err = scanMaybeKey(rows, s.keyKind)
		return err
	})
	switch {
	case err != nil:
		return err
	case next == nil:
		w.passed()
	default:
		w.cur = next
	}
	return nil
}
