package claim

import (
	"context"
	"database/sql"
	"strconv"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

const (
	// patrolShare is the part of the time that the patrol may take: 1/20.
	patrolShare = 20

	// patrolFinds bounds what one window may turn up at a time, and
	// patrolMemory what is remembered from one look to the next.
	patrolFinds  = 1000
	patrolMemory = 100_000

	ownerGone = "unknown: its claim is gone"

	// sinceNobodyKnows is for rows whose claim is gone: longer than any provider
	// remembers.
	sinceNobodyKnows = 365 * 24 * time.Hour
)

// patrolSQL finds what cursors, indexes and the claims table have missed.
type patrolSQL struct {
	windows  [2]*dialect.Stmt // by whether there is a lower bound, like those below
	orphans  [2]*dialect.Stmt // claimed, and no such claim
	behind   [2]string        // fresh rows behind the cursor, up to the strategy's own condition
	hasClaim *dialect.Stmt
	makeDue  *dialect.Stmt
}

func newPatrolSQL(n *names) patrolSQL {
	d, c := n.d, n.d.Compile
	p := patrolSQL{
		hasClaim: c("SELECT 1 FROM " + n.claims + " WHERE token = " + d.Int(":token")),
		makeDue:  c(n.update(n.next+" = "+d.Now(n.nextType), n.keysIn(), n.is(pending), n.d.IsNull(n.next, n.keyKind))),
	}
	most := strconv.Itoa(patrolFinds)
	for i, lower := range []string{"", n.key + " > " + d.Key(":from", n.keyKind) + " AND "} {
		window := "FROM " + n.quoted + " WHERE " + lower + n.key + " <= " + d.Key(":to", n.keyKind) + " AND "
		p.windows[i] = c(n.window(windowForm{lower: i == 1, rows: windowRows}))
		p.orphans[i] = c("SELECT " + n.key + ", " + n.token + ", " + n.status + " " + window + n.in(claimed, sending) +
			" AND " + n.token + " NOT IN (SELECT token FROM " + n.claims + ") ORDER BY " + n.key + " LIMIT " + most)
		p.behind[i] = "SELECT " + n.key + " " + window + n.guard(freshRows)
	}
	return p
}

// patrolRounds is where the patrol is and what it has seen once.
type patrolRounds struct {
	mu      sync.Mutex
	at      sendonce.Key // the last key looked at; nil: before the first
	spent   time.Duration
	since   time.Time
	orphans map[sendonce.Ref]time.Time // when each was seen first
	strays  [2]*dialect.Stmt           // behind, with the condition that only is
	only    string
}

// behind renders what looks for fresh rows of the strategy's own.
func (s *store) behind() [2]*dialect.Stmt {
	p, only := &s.rounds, s.only()
	if p.strays[0] == nil || p.only != only {
		for i, text := range s.patrol.behind {
			p.strays[i] = s.d.Compile(text + only + " ORDER BY " + s.key + " LIMIT " + strconv.Itoa(patrolFinds))
		}
		p.only = only
	}
	return p.strays
}

func (p *patrolRounds) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.orphans)
}

// walkRound looks at the next windows of the table, as many as its share of the
// time allows, and at least at one; but the first time at none: a process that has
// just started has rows to send.
func (s *store) walkRound(ctx context.Context, req sendonce.ReapRequest, out *sendonce.Reaped) error {
	p := &s.rounds
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since, p.orphans = time.Now(), map[sendonce.Ref]time.Time{}
		return nil
	}
	if err := s.giveOrphansBack(ctx, req, out); err != nil {
		clear(p.orphans)
		return err
	}
	for {
		began := time.Now()
		more, err := s.patrolWindow(ctx, req, out)
		p.spent += time.Since(began)
		if err != nil {
			clear(p.orphans)
			return err
		}
		if !more || p.spent*patrolShare >= time.Since(p.since) {
			return nil
		}
	}
}

// patrolWindow looks at one window. It returns false at the end of the table.
func (s *store) patrolWindow(ctx context.Context, req sendonce.ReapRequest, out *sendonce.Reaped) (bool, error) {
	p, args, which := &s.rounds, dialect.Args{}, 0
	if p.at != nil {
		args["from"], which = p.at, 1
	}
	var end sendonce.Key
	err := s.query(ctx, s.db, "patrol the rows", s.patrol.windows[which], args, func(rows *sql.Rows) (err error) {
		end, err = scanMaybeKey(rows, s.keyKind)
		return err
	})
	if err != nil {
		return false, err
	}
	if end == nil {
		p.at = nil
		return false, nil
	}
	args["to"] = end
	if err := s.noteOrphans(ctx, s.patrol.orphans[which], args); err != nil {
		return false, err
	}
	found, err := s.makeStraysDue(ctx, s.behind()[which], args, end)
	if err != nil {
		return false, err
	}
	if found == patrolFinds {
		// So many were not left behind one by one: walk over the table again.
		s.relap.Store(true)
	}
	p.at = end
	return true, nil
}

// noteOrphans remembers claimed rows whose claim is not there. Claims are made
// and recorded in one transaction, so this takes a hand in the claims table.
func (s *store) noteOrphans(ctx context.Context, st *dialect.Stmt, a dialect.Args) error {
	p, now := &s.rounds, time.Now()
	cell := &keyCell{kind: s.keyKind}
	return s.query(ctx, s.db, "patrol the rows", st, a, func(rows *sql.Rows) error {
		var ref sendonce.Ref
		var status string
		if err := rows.Scan(cell, &ref.Token, &status); err != nil {
			return err
		}
		ref.Key = cell.key
		if _, known := p.orphans[ref]; !known && len(p.orphans) < patrolMemory {
			p.orphans[ref] = now
		}
		return nil
	})
}

// giveOrphansBack gives those back that were noted two thirds of a lease ago and
// still stand as they did.
func (s *store) giveOrphansBack(ctx context.Context, req sendonce.ReapRequest, out *sendonce.Reaped) error {
	p, now := &s.rounds, time.Now()
	wait := time.Duration(s.sight.lease.Load()) * 2 / 3
	if wait == 0 {
		wait = 20 * time.Second
	}
	var ripe []sendonce.Ref
	for ref, since := range p.orphans {
		if now.Sub(since) >= wait {
			ripe = append(ripe, ref)
			delete(p.orphans, ref)
		}
	}
	for token, keys := range byToken(ripe) {
		var did sendonce.Reaped
		err := s.inTx(ctx, "give rows back", func(tx dialect.Tx) error {
			claimed := false
			err := s.query(ctx, tx, "look for a claim", s.patrol.hasClaim, dialect.Args{"token": token}, func(*sql.Rows) error {
				claimed = true
				return nil
			})
			if err != nil || claimed {
				return err
			}
			gone := seenClaim{token: token, owner: ownerGone, made: now.Add(-sinceNobodyKnows)}
			if s.sight.atMostOnce.Load() {
				gone.mode = int64(sendonce.AtMostOnce)
			}
			did, err = s.giveBack(ctx, tx, keys, gone, req)
			return err
		})
		if err != nil {
			return err
		}
		out.Returned += did.Returned
		out.Unknown += did.Unknown
	}
	return nil
}

// makeStraysDue gives fresh rows behind the cursor a due time, by which they are
// found. Only keys that grow have a "behind": for others the cursor goes round.
func (s *store) makeStraysDue(ctx context.Context, st *dialect.Stmt, a dialect.Args, end sendonce.Key) (int, error) {
	passed := s.passed.Load()
	if passed == nil || compareKeys(end, *passed) > 0 {
		return 0, nil
	}
	var keys dialect.Keys
	err := s.query(ctx, s.db, "patrol the rows", st, s.bind(a), func(rows *sql.Rows) error {
		key, err := s.scanKey(rows)
		keys = append(keys, key)
		return err
	})
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	_, err = s.exec(ctx, s.db, "make rows due", s.patrol.makeDue, dialect.Args{"keys": keys})
	return len(keys), err
}
