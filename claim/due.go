package claim

import (
	"context"
	"database/sql"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

const (
	// lowMarkSlack is how far the low mark stays behind: rows that come back
	// are stamped a moment before they can be seen.
	lowMarkSlack = time.Second

	// lowMarkReset is how often it goes back to the start.
	lowMarkReset = time.Minute

	// lowest is no low mark: what was scheduled for the year 1 is due as well.
	lowest = math.MinInt64

	// ownerChars is what the claims table has room for.
	ownerChars = 250
)

// dueSQL finds rows that come back, and looks claims up.
type dueSQL struct {
	n         *names
	otherMode *dialect.Stmt
	claimOf   *dialect.Stmt

	mu     sync.Mutex
	byText map[string]*dialect.Stmt
}

func newDueSQL(n *names) *dueSQL {
	c, d := n.d.Compile, n.d
	s := &dueSQL{n: n, byText: map[string]*dialect.Stmt{}}
	s.otherMode = c("SELECT owner FROM " + n.claims + " WHERE source = " + d.Str(":source") + " AND mode <> " + d.Int(":mode") + " LIMIT 1")
	s.claimOf = c("SELECT row_keys, alone FROM " + n.claims + " WHERE token = " + d.Int(":token"))
	return s
}

func (s *dueSQL) compile(text string) *dialect.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byText[text]
	if st == nil {
		st = s.n.d.Compile(text)
		s.byText[text] = st
	}
	return st
}

// fresh asks whether there is a fresh row in a window.
func (s *dueSQL) fresh(lower bool, only string) *dialect.Stmt {
	n, bound := s.n, ""
	if lower {
		bound = n.key + " > " + n.d.Key(":from", n.keyKind) + " AND "
	}
	return s.compile("SELECT 1 FROM " + n.quoted + " WHERE " + bound + n.key + " <= " + n.d.Key(":to", n.keyKind) + " AND " + n.guard(freshRows) + only +
		" ORDER BY " + n.key + " LIMIT 1") // in order, so that no planner reads the whole table in hope of one
}

// returning lists rows that are due, the longest due first. With a user's order,
// only those of vanished workers: the others are found by that order.
func (s *dueSQL) returning(limit int, low int64, only string) *dialect.Stmt {
	n := s.n
	lower := ""
	if low != lowest {
		lower = n.next + " >= " + n.d.FromMicros(n.nextType, ":low") + " AND "
	}
	if n.order != "" {
		only += " AND " + n.token + " <> 0"
	}
	return s.compile("SELECT " + n.key + ", " + n.token + ", " + n.attempts + ", " + n.d.Micros(n.next) + " FROM " + n.quoted +
		" WHERE " + lower + n.next + " <= " + n.d.Now(n.nextType) +
		" AND " + n.d.Is(n.status, n.lit[pending], n.keyKind) + n.where + only + " ORDER BY " + n.next + " LIMIT " + strconv.Itoa(limit))
}

func (s *dueSQL) ordered(limit int, only string) *dialect.Stmt {
	n := s.n
	return s.compile("SELECT " + n.key + ", " + n.token + ", " + n.attempts + ", 0 FROM " + n.quoted +
		" WHERE " + n.guard(orderedRows) + only + " ORDER BY " + n.order + "\n LIMIT " + strconv.Itoa(limit))
}

func (s *dueSQL) rowsOf(list string) *dialect.Stmt {
	n := s.n
	return s.compile("SELECT " + list + " FROM " + n.quoted + " WHERE " + n.keysIn() + " AND " + n.byToken() + " AND " + n.is(claimed))
}

// candidate is a row that is due, as it was seen.
type candidate struct {
	key      sendonce.Key
	token    int64
	attempts int64
	due      int64 // microseconds
}

func (c *claimer[T]) candidates(ctx context.Context, st *dialect.Stmt, a dialect.Args) ([]candidate, error) {
	var out []candidate
	cell := &keyCell{kind: c.keyKind}
	err := c.query(ctx, c.db, "look for rows that are due", st, c.bind(a), func(rows *sql.Rows) error {
		var x candidate
		var due sql.NullInt64 // a time that the application wrote may not be one
		err := rows.Scan(cell, &x.token, &x.attempts, &due)
		x.key, x.due = cell.key, due.Int64
		if !c.flying.has(x.key) {
			out = append(out, x)
		}
		return err
	})
	return out, err
}

func keysOf(cs []candidate) dialect.Keys {
	keys := make(dialect.Keys, len(cs))
	for i, x := range cs {
		keys[i] = x.key
	}
	return keys
}

// claimDue takes rows that come back: retries, or suspects by themselves (rows
// that a vanished worker may have died of), or one suspect alone on its last
// attempt (docs/semantics.md, section 7).
func (c *claimer[T]) claimDue(ctx context.Context, req sendonce.ClaimRequest, now time.Time) (sendonce.Batch[T], error) {
	if !now.Before(c.lowReset) {
		c.lowMark, c.lowReset = lowest, now.Add(lowMarkReset)
	}
	limit := roundLimit(req.Limit)
	// More than asked for, so that several workers don't all want the same.
	cands, err := c.candidates(ctx, c.due.returning(c.flying.beyond(4*limit), c.lowMark, c.only()), dialect.Args{"low": c.lowMark})
	if err != nil {
		return sendonce.Batch[T]{}, err
	}
	if len(cands) < limit {
		c.dueAt = now.Add(dueEvery)
	}
	if len(cands) == 0 {
		return sendonce.Batch[T]{}, nil
	}
	if mark := cands[0].due - lowMarkSlack.Microseconds(); mark > 0 { // not all databases can count back before 1970
		c.lowMark = max(c.lowMark, mark)
	}
	kind, chosen := c.choose(cands, req)
	alone := kind == lastTryRows
	b, err := c.takeBatch(ctx, req, pick{kind: kind}, dialect.Args{"keys": keysOf(chosen)}, alone)
	b.More = err == nil // there may be more, also where others were faster
	return b, err
}

// choose picks one kind of rows. The kinds take turns.
func (c *claimer[T]) choose(cands []candidate, req sendonce.ClaimRequest) (pickKind, []candidate) {
	var kinds [3][]candidate
	last := lastBefore(req.MaxAttempts)
	for _, x := range cands {
		switch {
		case x.token == 0:
			kinds[0] = append(kinds[0], x)
		case x.attempts < last:
			kinds[1] = append(kinds[1], x)
		default:
			kinds[2] = append(kinds[2], x)
		}
	}
	limits := [3]int{req.Limit, req.Limit, 1}
	if req.Suspects > 0 {
		limits[1] = min(req.Suspects, req.Limit)
	}
	for {
		k := c.rotate % len(kinds)
		c.rotate++
		if len(kinds[k]) == 0 {
			continue
		}
		of := kinds[k]
		if extra := len(of) - limits[k]; extra > 0 {
			of = of[rand.IntN(extra+1):][:limits[k]]
		}
		return returningRows + pickKind(k), of
	}
}
