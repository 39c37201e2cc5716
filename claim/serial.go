package claim

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// Serial hands rows out one at a time, strictly in the order of Table.Order, or of
// the key: the first row that has not come to an end, and no other until it has.
// While it is held, or waits for a retry, nobody gets anything; when it is done,
// dead or skipped (or unknown), the next one comes. Any number of processes may
// run beside each other: one of them is at work, and another one goes on when it
// dies, after its lease. It implements the same interfaces as Atomic.
//
// The order is that of the rows which claims can see. A row that commits late,
// with a smaller place in the order than one that was sent already, comes after
// it: let the database give the places (an identity column, or its clock), and
// not the clocks of several producers.
type Serial[T any] struct {
	*claimer[T]
	turns  int64 // the token of the row that claims take turns by
	serial serialSQL
}

var _ interface {
	sendonce.Claimer[struct{}]
	sendonce.Ender
	sendonce.Beginner
	sendonce.Reaper
	sendonce.Counter
	sendonce.DoubtKeeper
	sendonce.Examiner[struct{}]
} = &Serial[struct{}]{}

// serialSQL are the statements of a claim in order.
type serialSQL struct {
	turn, addTurn *dialect.Stmt
	busy, head    *dialect.Stmt
}

// NewSerial checks the table as Check does and makes the strategy; compare
// NewAtomic. Everybody who claims from the table must use it: others know nothing
// of an order, and a Serial that meets their live claims waits.
//
// Rows that Table.Order doesn't tell apart go in the order of the key.
//
// The first row is looked for at each claim, which wants an index of yours: on
// PostgreSQL and SQLite one on the order's columns and, as the last, the key, WHERE
// the status is that of Pending, Claimed or Sending; on MySQL one on the status and
// those columns.
func NewSerial[T any](ctx context.Context, db *sqlx.DB, d Dialect, t Table, o *Options) (*Serial[T], error) {
	c, err := open[T](ctx, db, d, t, o, "")
	if err != nil {
		return nil, err
	}
	s := &Serial[T]{claimer: c, turns: turnsOf(c.source), serial: newSerialSQL(c.names)}
	c.findRows = s.claimHead
	if err := s.addTurns(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// addTurns makes the row by which claims take turns. Made by the first claims, it
// could be made by two at once.
func (s *Serial[T]) addTurns(ctx context.Context) error {
	err := s.takeTurn(ctx, s.db)
	if err == nil {
		return nil
	}
	// Somebody else was faster?
	n, again := s.exec(ctx, s.db, "take turns", s.serial.turn, dialect.Args{"token": s.turns})
	if again == nil && n > 0 {
		return nil
	}
	return err
}

// turnsOf names the row by which claims of a table take turns. Tokens of claims are
// positive.
func turnsOf(source string) int64 {
	sum := sha256.Sum256([]byte("turns of " + source))
	return -int64(binary.BigEndian.Uint64(sum[:8])>>1) - 1
}

func newSerialSQL(n *names) serialSQL {
	c, d := n.d.Compile, n.d
	// The key tells apart rows that Table.Order doesn't. Without it a database returns
	// them as their last changes lie, and one that waits for its retry is passed.
	order := n.key
	if n.order != "" {
		order = n.order + ", " + n.key
	}
	return serialSQL{
		// A write, which every database holds a lock for until the transaction ends;
		// and one that changes something, or MySQL counts no row.
		turn: c("UPDATE " + n.claims + " SET lease_ms = lease_ms + 1 WHERE token = " + d.Int(":token")),
		addTurn: c("INSERT INTO " + n.claims + claimColumns + "VALUES (" + d.Int(":token") + ", " + d.Str(":source") + ", 'the turns of a serial strategy', '[]', 0, 0, 0, " +
			d.Now("") + ", " + d.Now("") + ")"),
		busy: c("SELECT 1 FROM " + n.claims + " WHERE source = " + d.Str(":source") + " LIMIT 1"),
		head: c("SELECT " + n.key + ", " + n.status + ", " + n.token + ", " + n.attempts + ", CASE WHEN " + n.next + " > " + d.Now(n.nextType) + " THEN 0 ELSE 1 END FROM " +
			n.quoted + " WHERE " + n.in(pending, claimed, sending) + n.where + " ORDER BY " + order + "\n LIMIT 1"),
	}
}

// firstRow is the first row that has not come to an end.
type firstRow struct {
	key             sendonce.Key
	token, attempts int64
	free            bool // pending and due
}

func (s *Serial[T]) first(ctx context.Context, q dialect.Querier) (*firstRow, error) {
	held := false
	err := s.query(ctx, q, "read the claims", s.serial.busy, dialect.Args{"source": s.source}, func(*sql.Rows) error {
		held = true
		return nil
	})
	if err != nil || held {
		return nil, err
	}
	var out *firstRow
	cell := &keyCell{kind: s.keyKind}
	err = s.query(ctx, q, "look for the first row", s.serial.head, s.bind(dialect.Args{}), func(rows *sql.Rows) error {
		var row firstRow
		var status string
		var due int64
		err := rows.Scan(cell, &status, &row.token, &row.attempts, &due)
		row.key, row.free = cell.key, due != 0 && s.state(status) == pending
		out = &row
		return err
	})
	if err != nil || out == nil || !out.free {
		return nil, err
	}
	return out, nil
}

// claimHead takes the first row. Claims of all processes take turns, or one could
// take a row that commits while another takes the one behind it.
func (s *Serial[T]) claimHead(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	// A look without a turn: most of the time there is nothing to do.
	if row, err := s.first(ctx, s.db); err != nil || row == nil {
		return sendonce.Batch[T]{}, err
	}
	p := pick{kind: headRow, only: s.only()}
	b := sendonce.Batch[T]{Token: newToken()}
	err := s.inTx(ctx, "claim the first row", func(tx dialect.Tx) error {
		b.Items, b.Alone = nil, false
		if err := s.takeTurn(ctx, tx); err != nil {
			return err
		}
		row, err := s.first(ctx, tx)
		if err != nil || row == nil {
			return err
		}
		b.Alone = row.token != 0 && row.attempts >= lastBefore(req.MaxAttempts)
		if p.kind = headRow; row.token != 0 {
			p.kind = headSuspect
		}
		a := s.bind(dialect.Args{"keys": dialect.Keys{row.key}})
		s.bindClaim(a, b, req)
		b.Items, err = s.takeIn(ctx, tx, p, s.takes.get(p), a)
		return err
	})
	if err != nil {
		s.lostReply(ctx, err, b.Token, p.kind, req)
		return sendonce.Batch[T]{}, err
	}
	s.doubtful(b.Items, p.kind, req)
	return b, nil
}

// takeTurn waits until no other claim of this table is under way, and keeps others
// out until the transaction ends.
func (s *Serial[T]) takeTurn(ctx context.Context, tx dialect.Querier) error {
	args := dialect.Args{"token": s.turns, "source": "turns of " + s.source}
	n, err := s.exec(ctx, tx, "take turns", s.serial.turn, args)
	if err != nil || n > 0 {
		return err
	}
	_, err = s.exec(ctx, tx, "take turns", s.serial.addTurn, args)
	return err
}
