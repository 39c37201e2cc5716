package claim

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// store is what all strategies share: the claims table and the user's rows, as
// far as no T is needed. Its methods speak one statement or one short
// transaction each.
type store struct {
	*names
	db *sql.DB

	keep   keepSQL
	settle settleSQL
	reap   reapSQL
	patrol patrolSQL
	counts *dialect.Stmt
	walker walker
	sight  sightings
	rounds patrolRounds

	passed atomic.Pointer[sendonce.Key] // every fresh row up to here was seen; nil: not known
	ours   atomic.Pointer[string]       // " AND ...": which rows are ours to claim; nil: all
	relap  atomic.Bool                  // the patrol found that the cursor has left much behind
}

// only is the condition of the strategy's own that rows must meet to be claimed, or "".
func (s *store) only() string {
	if only := s.ours.Load(); only != nil {
		return *only
	}
	return ""
}

func newStore(db *sql.DB, n *names) *store {
	return &store{
		names: n, db: db,
		keep: newKeepSQL(n), settle: newSettleSQL(n), reap: newReapSQL(n), patrol: newPatrolSQL(n),
		counts: n.d.Compile("SELECT " + n.status + ", COUNT(*) FROM " + n.quoted + " WHERE 1 = 1" + n.where + " GROUP BY " + n.status),
		walker: newWalker(n),
	}
}

// keepSQL keeps and ends claims.
type keepSQL struct {
	extend, live, end, begin, sending *dialect.Stmt
}

func newKeepSQL(n *names) keepSQL {
	c := n.d.Compile
	alive := "EXISTS (SELECT 1 FROM " + n.claims + " WHERE token = " + n.d.Int(":token") + " AND until > " + n.d.Now("") + ")"
	return keepSQL{
		extend: c("UPDATE " + n.claims + " SET until = " + n.d.NowPlus("", "lease_ms * 1000") + " WHERE " + n.d.TokensIn("token")),
		live:   c("SELECT token FROM " + n.claims + " WHERE " + n.d.TokensIn("token")),
		end:    c("DELETE FROM " + n.claims + " WHERE " + n.d.TokensIn("token")),
		begin:  c(n.update(n.is(sending), n.keysIn(), n.byToken(), n.is(claimed), alive)),
		sending: c("SELECT " + n.key + " FROM " + n.quoted + " WHERE " + n.keysIn() + " AND " + n.byToken() + " AND " + n.is(sending) +
			" AND " + alive),
	}
}

func (n *names) keysIn() string  { return n.d.KeysIn(n.key, n.keyKind) }
func (n *names) pairsIn() string { return n.d.PairsIn(n.key, n.token, n.keyKind) }
func (n *names) byToken() string { return n.token + " = " + n.d.Int(":token") }

func (n *names) update(set string, where ...string) string {
	return "UPDATE " + n.quoted + " SET " + set + " WHERE " + strings.Join(where, " AND ")
}

// Extend implements sendonce.Claimer. Whether a claim is still there is read
// back: how many rows an UPDATE reports depends on the connection's flags.
func (s *store) Extend(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
	var ext sendonce.Extension
	if len(tokens) == 0 {
		return ext, nil
	}
	args := dialect.Args{"tokens": dialect.Tokens(tokens)}
	if _, err := s.exec(ctx, s.db, "extend the claims", s.keep.extend, args); err != nil {
		return ext, err
	}
	live := make(map[int64]bool, len(tokens))
	err := s.query(ctx, s.db, "read the claims", s.keep.live, args, func(rows *sql.Rows) error {
		var token int64
		err := rows.Scan(&token)
		live[token] = true
		return err
	})
	if err != nil {
		return ext, err
	}
	for _, t := range tokens {
		if !live[t] {
			ext.Lost = append(ext.Lost, t)
		}
	}
	return ext, nil
}

// End implements sendonce.Ender.
func (s *store) End(ctx context.Context, tokens []int64) error {
	if len(tokens) == 0 {
		return nil
	}
	_, err := s.exec(ctx, s.db, "end the claims", s.keep.end, dialect.Args{"tokens": dialect.Tokens(tokens)})
	return err
}

// Begin implements sendonce.Beginner: one statement per claim.
func (s *store) Begin(ctx context.Context, refs []sendonce.Ref) (lost []sendonce.Ref, err error) {
	for token, keys := range byToken(refs) {
		args := dialect.Args{"token": token, "keys": keys}
		if _, err := s.exec(ctx, s.db, "begin to send", s.keep.begin, args); err != nil {
			return nil, err
		}
		begun := make(map[sendonce.Key]bool, len(keys))
		err := s.query(ctx, s.db, "read what was begun", s.keep.sending, args, func(rows *sql.Rows) error {
			key, err := s.scanKey(rows)
			begun[key] = true
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			if !begun[k] {
				lost = append(lost, sendonce.Ref{Key: k, Token: token})
			}
		}
	}
	return lost, nil
}

// byToken groups refs by claim, keys in order.
func byToken(refs []sendonce.Ref) map[int64]dialect.Keys {
	groups := map[int64]dialect.Keys{}
	for _, r := range refs {
		groups[r.Token] = append(groups[r.Token], r.Key)
	}
	for _, keys := range groups {
		sortKeys(keys)
	}
	return groups
}

// Counts implements sendonce.Counter. It reads the whole table, or an index of
// yours on the status.
func (s *store) Counts(ctx context.Context) (sendonce.Counts, error) {
	var c sendonce.Counts
	into := map[state]*int64{
		pending: &c.Pending, claimed: &c.Claimed, sending: &c.Sending, done: &c.Done,
		dead: &c.Dead, skipped: &c.Skipped, unknown: &c.Unknown, foreign: &c.Other,
	}
	err := s.query(ctx, s.db, "count the rows", s.counts, s.bind(dialect.Args{}), func(rows *sql.Rows) error {
		var status sql.NullString
		var n int64
		err := rows.Scan(&status, &n)
		*into[s.state(status.String)] += n
		return err
	})
	return c, err
}

func (s *store) exec(ctx context.Context, q dialect.Querier, what string, st *dialect.Stmt, a dialect.Args) (int64, error) {
	text, args := st.Bind(a)
	res, err := q.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, s.fail(what, err)
	}
	n, err := res.RowsAffected()
	return n, s.fail(what, err)
}

// query calls f for each row and reads them to the end: with a pool of one
// connection nothing else can run before.
func (s *store) query(ctx context.Context, q dialect.Querier, what string, st *dialect.Stmt, a dialect.Args, f func(*sql.Rows) error) error {
	text, args := st.Bind(a)
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return s.fail(what, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return s.fail(what, err)
		}
	}
	return s.fail(what, rows.Err())
}

// fail names the table and what was being done.
func (s *store) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return dialect.Wrap(s.d, fmt.Sprintf("cannot %s of table %s", what, s.source), err)
}

// inTx runs f in one short transaction.
func (s *store) inTx(ctx context.Context, what string, f func(tx dialect.Tx) error) error {
	tx, err := s.d.Begin(ctx, s.db)
	if err != nil {
		return s.fail(what, err)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return s.fail(what, tx.Commit(ctx))
}

func (s *store) scanKey(rows *sql.Rows) (sendonce.Key, error) {
	cell := &keyCell{kind: s.keyKind}
	err := rows.Scan(cell)
	return cell.key, err
}
