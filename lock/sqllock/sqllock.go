// Package sqllock has locks in a table of the user's database: PostgreSQL, MySQL
// or MariaDB, SQLite. It is the store of locks to use by default, as it forgets
// nothing that the database doesn't.
//
//	err := sqllock.Migrate(ctx, db, sqllock.Postgres, nil) // once
//	locker, err := sqllock.New(ctx, db, sqllock.Postgres, nil)
//	err = lock.Hold(ctx, locker, "nightly-report", 30*time.Second, report)
//
// A lock is a row, which stays when the lock is released: Prune deletes old ones.
// The table is sendonce_locks(name, token, fence, until), and its rows say who
// holds what. In name, percent signs and what is not printable stand as %XX; until
// is 1970 in a lock that was released.
//
// Nothing lives in a session: it works behind a pooler that gives the session to
// somebody else after each transaction, with the driver set as it asks for there.
// Leases end by the database's clock alone. Calls are statements of their own,
// outside any transaction of the caller's.
package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sendonce/sendonce/internal/dialect"
	"github.com/sendonce/sendonce/internal/kit"
	"github.com/sendonce/sendonce/internal/leases"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/internal/lockkit"
)

// Dialect is the database that the locks are in. It is an argument, and not
// guessed from the driver, because drivers get wrapped (for tracing, say).
type Dialect uint8

// The databases.
const (
	Postgres Dialect = iota + 1 // PostgreSQL, 9.5 and later
	MySQL                       // MySQL, 5.7 and later, and MariaDB, 10.3 and later
	SQLite                      // SQLite, 3.35 and later
)

// String returns the database's name.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return dialect.Postgres.Name()
	case MySQL:
		return dialect.MySQL.Name()
	case SQLite:
		return dialect.SQLite.Name()
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

// Options tune New. The zero value works, and so does nil.
type Options struct {
	// Table is the table with the locks, "locks" or "app.locks" (schema, or
	// database for MySQL). Default: "sendonce_locks".
	Table string
}

// Locker is a lock.Locker in a table. It holds no connection between calls. A call
// is one statement; on MySQL and SQLite one more tells why it was refused, and
// on MySQL two more take a lock that nobody has held before.
//
// A statement that the database has undone (a deadlock, a serialization failure)
// is repeated at once a few times. Errors tell sendonce.IsTransient and
// sendonce.IsFatal what they are. Calls return when their context ends, also by
// drivers that then go on waiting for an answer (lib/pq does, if the line is gone):
// such a connection, and a goroutine, stay until the driver gives up.
type Locker struct {
	db    *sql.DB
	d     dialect.Dialect
	verbs verbs

	quoted             string // the table
	looking, verifying *dialect.Stmt
}

var _ lock.Locker = (*Locker)(nil)

// verbs are the statements of one database. What they have done they tell
// themselves, by the row that they found by its token; it is never told by a
// number of rows affected: what that counts depends on the connection.
type verbs interface {
	// acquire returns the fence, or 0 and how long the lock is held at most.
	acquire(ctx context.Context, q dialect.Querier, a dialect.Args) (fence int64, held time.Duration, err error)
	extend(ctx context.Context, q dialect.Querier, a dialect.Args) (fate, error)
	release(ctx context.Context, q dialect.Querier, a dialect.Args) (fate, error)
	// create makes the table; columns are its own as the catalogue prints their
	// types, or how those begin. prune deletes rows.
	create() string
	columns() map[string]string
	prune() *dialect.Stmt
	// look reads fence, until in microseconds (0: released), and whether that is
	// over.
	look() string
}

// fate is what became of a lease.
type fate string

const (
	kept  fate = "kept"
	taken fate = "taken"
	gone  fate = "gone"
)

// undone is how often a statement is sent that the database undoes.
const undone = 10

// New returns a Locker on this database, which stays the caller's to close. It
// looks at the table, and returns the error of Check if that doesn't fit. Options
// may be nil.
func New(ctx context.Context, db *sql.DB, d Dialect, o *Options) (*Locker, error) {
	t, err := newTable(d, o)
	if err != nil {
		return nil, err
	}
	if err := t.check(ctx, db); err != nil {
		return nil, err
	}
	quoted := t.quoted()
	return &Locker{
		db: db, d: t.d, verbs: t.verbs, quoted: quoted,
		looking: t.d.Compile(t.verbs.look()), verifying: t.d.Compile(leases.Verify(t.d, quoted)),
	}, nil
}

// table is where the locks are.
type table struct {
	d            dialect.Dialect
	schema, name string
	verbs        verbs
}

func (t *table) quoted() string { return dialect.Qualified(t.d, t.schema, t.name) }

func newTable(d Dialect, o *Options) (*table, error) {
	t := &table{name: "sendonce_locks"}
	if o != nil && o.Table != "" {
		t.name = o.Table
	}
	if schema, name, ok := strings.Cut(t.name, "."); ok {
		t.schema, t.name = schema, name
	}
	if t.name == "" || strings.ContainsAny(t.schema+t.name, ".\x00") {
		return nil, fmt.Errorf("sendonce: sqllock.Options.Table %q is no name of a table", o.Table)
	}
	switch d {
	case Postgres:
		t.d = dialect.Postgres
		t.verbs = newPostgres(t.quoted())
	case MySQL:
		t.d = dialect.MySQL
		t.verbs = newMySQL(t.quoted())
	case SQLite:
		t.d = dialect.SQLite
		t.verbs = newSQLite(t.quoted())
	default:
		return nil, fmt.Errorf("sendonce: %v is none of sqllock.Postgres, sqllock.MySQL, sqllock.SQLite", d)
	}
	return t, nil
}

// Acquire implements lock.Locker.
func (l *Locker) Acquire(ctx context.Context, key string, token lock.Token, ttl time.Duration) (lock.Lease, error) {
	ttl, args, err := arguments(key, token, ttl)
	if err != nil {
		return lock.Lease{}, err
	}
	type grant struct {
		fence int64
		held  time.Duration
		start time.Time
	}
	g, err := run(ctx, l, "acquire", key, func(q dialect.Querier) (g grant, err error) {
		g.start = time.Now()
		g.fence, g.held, err = l.verbs.acquire(ctx, q, args)
		return g, err
	})
	if err != nil {
		return lock.Lease{}, err
	}
	if g.fence == 0 {
		return lock.Lease{}, &lock.HeldError{Key: key, For: max(g.held, 0)}
	}
	return lock.Lease{Key: key, Token: token, Fence: g.fence, Until: g.start.Add(ttl)}, nil
}

// Extend implements lock.Locker. A lease that is over, and that nobody has taken,
// is extended.
func (l *Locker) Extend(ctx context.Context, le lock.Lease, ttl time.Duration) (lock.Lease, error) {
	ttl, args, err := arguments(le.Key, le.Token, ttl)
	if err != nil {
		return le, err
	}
	args["fence"] = le.Fence
	start, err := l.decide(ctx, "extend", le, func(q dialect.Querier) (fate, error) { return l.verbs.extend(ctx, q, args) })
	if err == nil {
		le.Until = start.Add(ttl)
	}
	return le, err
}

// Release implements lock.Locker.
func (l *Locker) Release(ctx context.Context, le lock.Lease) error {
	_, args, err := arguments(le.Key, le.Token, time.Millisecond)
	if err != nil {
		return err
	}
	_, err = l.decide(ctx, "release", le, func(q dialect.Querier) (fate, error) { return l.verbs.release(ctx, q, args) })
	return err
}

// Prune deletes the rows of locks that nobody has held for at least the given
// age, an hour or more, and returns how many. Fences go on growing: they are
// never less than the time.
func (l *Locker) Prune(ctx context.Context, age time.Duration) (int64, error) {
	if age < time.Hour {
		return 0, fmt.Errorf("sendonce: Prune of locks that nobody has held for %v: it must be at least an hour", age)
	}
	return run(ctx, l, "prune", "", func(q dialect.Querier) (int64, error) {
		text, args := l.verbs.prune().Bind(dialect.Args{"age": age.Microseconds()})
		result, err := q.ExecContext(ctx, text, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	})
}

func arguments(key string, token lock.Token, ttl time.Duration) (time.Duration, dialect.Args, error) {
	if err := lockkit.CheckName(key, token); err != nil {
		return 0, nil, err
	}
	ttl, err := lockkit.CheckTTL(ttl, time.Microsecond)
	if err != nil {
		return 0, nil, err
	}
	return ttl, dialect.Args{"name": kit.Escape(key, ""), "token": string(token), "ttl": ttl.Microseconds()}, nil
}

// decide makes an error of what became of a lease. It returns a moment before
// that was asked.
func (l *Locker) decide(ctx context.Context, what string, le lock.Lease, call func(dialect.Querier) (fate, error)) (time.Time, error) {
	type verdict struct {
		fate  fate
		start time.Time
	}
	v, err := run(ctx, l, what, le.Key, func(q dialect.Querier) (v verdict, err error) {
		v.start = time.Now()
		v.fate, err = call(q)
		return v, err
	})
	switch {
	case err != nil || v.fate == kept:
		return v.start, err
	case v.fate == taken:
		return v.start, &lock.LostError{Key: le.Key, Fence: le.Fence, Reason: lock.Taken}
	}
	return v.start, &lock.LostError{Key: le.Key, Fence: le.Fence, Reason: lock.Expired}
}

// run runs a call, again if the database has undone it. It returns when ctx ends,
// which not every driver does by itself.
func run[T any](ctx context.Context, l *Locker, what, key string, call func(dialect.Querier) (T, error)) (T, error) {
	value, err := kit.Await(ctx, func() (value T, err error) {
		for range undone {
			value, err = runOnce(ctx, l.db, call)
			if err == nil || ctx.Err() != nil || l.d.Classify(err) != dialect.Transient {
				break
			}
		}
		return value, err
	})
	return value, dialect.Wrap(l.d, fmt.Sprintf("%s lock %q", what, key), err)
}

// runOnce gives a call one connection, so that all its statements are on one
// server.
func runOnce[T any](ctx context.Context, db *sql.DB, call func(dialect.Querier) (T, error)) (T, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer conn.Close()
	return call(conn)
}

// one reads at most one row, to the end: a statement may act while it is read.
func one(ctx context.Context, q dialect.Querier, s *dialect.Stmt, a dialect.Args, into ...any) (found bool, err error) {
	text, args := s.Bind(a)
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		if found {
			return false, errors.New("two rows for one lock: the name is not the table's key")
		}
		if err := rows.Scan(into...); err != nil {
			return false, err
		}
		found = true
	}
	return found, rows.Err()
}
