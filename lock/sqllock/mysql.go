package sqllock

import (
	"context"
	"strings"
	"time"

	"github.com/sendonce/sendonce/internal/dialect"
)

// mysql has no statement that writes and returns what it wrote, on MySQL at least.
// To write and then read the row back is not enough: who takes the lock between a
// release and that look would make it seem lost. LAST_INSERT_ID(fence) makes an
// UPDATE answer with the fence of the row that it found by the token, and with 0
// if it found none, however rows are counted on the connection.
//
// UTC_TIMESTAMP is the start of the statement: one that waited for the row takes
// its own lease to be shorter, and others' to last longer.
type mysql struct {
	table                         string
	taking, adding                *dialect.Stmt
	extending, releasing, reading *dialect.Stmt
	pruning                       *dialect.Stmt
}

// Names and tokens are binary: no collation takes two of them for one. In the SET
// of an UPDATE the order counts: fence goes by the token as it was. Reading FOR
// UPDATE sees what is committed, and is sent to the primary by proxies that split
// reads from writes.
const (
	myTake = `UPDATE {table} SET
fence = LAST_INSERT_ID(CASE WHEN token = :token AND until > {released} THEN fence ELSE GREATEST(fence + 1, {now}) END),
token = :token, until = {end}
WHERE name = :name AND (token = :token OR until <= UTC_TIMESTAMP(6))`

	myAdd = `INSERT IGNORE INTO {table} (name, token, fence, until) VALUES (:name, '', 0, {released})`

	myRead = `SELECT token, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), until) FROM {table} WHERE name = :name FOR UPDATE`

	myExtend = `UPDATE {table} SET until = {end}, fence = LAST_INSERT_ID(fence)
WHERE name = :name AND token = :token AND fence = :fence AND until > {released}`

	myRelease = `UPDATE {table} SET until = {released}, fence = LAST_INSERT_ID(fence) WHERE name = :name AND token = :token`

	myPrune = `DELETE FROM {table} WHERE until < UTC_TIMESTAMP(6) - INTERVAL :age MICROSECOND AND fence < {now} - :age`
)

func newMySQL(table string) *mysql {
	compile := func(text string) *dialect.Stmt {
		return dialect.MySQL.Compile(strings.NewReplacer(
			"{table}", table,
			"{now}", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
			"{end}", "UTC_TIMESTAMP(6) + INTERVAL :ttl MICROSECOND",
			"{released}", "CAST('1970-01-01' AS DATETIME(6))",
		).Replace(text))
	}
	return &mysql{
		table: table, taking: compile(myTake), adding: compile(myAdd), reading: compile(myRead),
		extending: compile(myExtend), releasing: compile(myRelease), pruning: compile(myPrune),
	}
}

// wrote runs an UPDATE and returns the fence that it answers with.
func (m *mysql) wrote(ctx context.Context, q dialect.Querier, s *dialect.Stmt, a dialect.Args) (fence int64, err error) {
	text, args := s.Bind(a)
	result, err := q.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (m *mysql) acquire(ctx context.Context, q dialect.Querier, a dialect.Args) (fence int64, held time.Duration, err error) {
	fence, err = m.wrote(ctx, q, m.taking, a)
	if err != nil || fence != 0 {
		return fence, 0, err
	}
	var token string
	var micros int64
	found, err := one(ctx, q, m.reading, a, &token, &fence, &micros)
	if err != nil || found {
		return 0, time.Duration(micros) * time.Microsecond, err
	}
	text, args := m.adding.Bind(a)
	if _, err := q.ExecContext(ctx, text, args...); err != nil {
		return 0, 0, err
	}
	fence, err = m.wrote(ctx, q, m.taking, a)
	return fence, 0, err
}

func (m *mysql) extend(ctx context.Context, q dialect.Querier, a dialect.Args) (fate, error) {
	return m.fate(ctx, q, m.extending, a)
}

func (m *mysql) release(ctx context.Context, q dialect.Querier, a dialect.Args) (fate, error) {
	return m.fate(ctx, q, m.releasing, a)
}

// fate reads the row only to tell why the statement found none.
func (m *mysql) fate(ctx context.Context, q dialect.Querier, s *dialect.Stmt, a dialect.Args) (fate, error) {
	fence, err := m.wrote(ctx, q, s, a)
	if err != nil || fence != 0 {
		return kept, err
	}
	var token string
	var micros int64
	found, err := one(ctx, q, m.reading, a, &token, &fence, &micros)
	switch {
	case err != nil || !found:
		return gone, err
	case token == a["token"] && fence == a["fence"]:
		return gone, nil
	}
	return taken, nil
}

// create gives the name the length that an index of any row format takes.
func (m *mysql) create() string {
	return "CREATE TABLE IF NOT EXISTS " + m.table +
		" (name varbinary(765) PRIMARY KEY, token varbinary(64) NOT NULL, fence bigint NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB"
}

func (m *mysql) columns() map[string]string {
	return map[string]string{"name": "varbinary(", "token": "varbinary(", "fence": "bigint", "until": "datetime(6)"}
}

func (m *mysql) prune() *dialect.Stmt { return m.pruning }

func (m *mysql) look() string {
	return "SELECT fence, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', until), until <= UTC_TIMESTAMP(6) FROM " + m.table + " WHERE name = :name"
}
