// Package sqlunique keeps unique keys in a table of the user's database: PostgreSQL,
// MySQL or MariaDB, SQLite. It is the store to use by default, as it forgets nothing
// that the database doesn't.
//
//	err := sqlunique.Migrate(ctx, db, sqlunique.Postgres, nil) // once
//	keys, err := sqlunique.New(ctx, db, sqlunique.Postgres, nil)
//
// The table is sendonce_unique(name, holder, id, token, since, reserved, held,
// marked, expires), with times in microseconds since 1970 on the database's clock. A
// key that is free has no row, or one that is over, which is deleted now and then.
// In name, percent signs and what is not printable stand as %XX; a long key is named
// by its hash.
//
// A call is one short transaction, which locks one row and is repeated if the
// database undoes it. Nothing lives in a session. Within a transaction of yours use
// Store.In: the reservation is then undone with it.
package sqlunique

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce/internal/dialect"
	"github.com/sendonce/sendonce/internal/kit"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/sender/unique"
)

// Dialect is the database that the keys are in. It is an argument, and not guessed
// from the driver, because drivers get wrapped (for tracing, say).
type Dialect uint8

// The databases.
const (
	Postgres Dialect = iota + 1 // PostgreSQL, 9.5 and later
	MySQL                       // MySQL, 5.7 and later, and MariaDB, 10.3 and later
	SQLite                      // SQLite, 3.35 and later
)

// Options tune New. The zero value works, and so does nil.
type Options struct {
	// Table is the table with the keys, "keys" or "app.keys" (schema, or database
	// for MySQL). Default: "sendonce_unique".
	Table string
}

const (
	// undone is how often a transaction is begun that the database undoes.
	undone = 20
	// pruneEvery is how many calls there are between two looks for rows that are
	// over, of which pruneRows are deleted at the most.
	pruneEvery, pruneRows = 200, 1000
	// pruneAge is how long a row is over before it is deleted.
	pruneAge = time.Minute
)

// Store is a unique.Store in a table. It holds no connection between calls. Errors
// tell sendonce.IsTransient and sendonce.IsFatal what they are. Calls return when
// their context ends, also by drivers that then go on waiting for an answer.
type Store struct {
	*table
	db    *sql.DB
	calls atomic.Uint64
}

var _ unique.Store = (*Store)(nil)

// New returns a Store on this database, which stays the caller's to close. It looks
// at the table, and returns the error of Check if that doesn't fit. Options may be
// nil.
func New(ctx context.Context, db *sql.DB, d Dialect, o *Options) (*Store, error) {
	t, err := newTable(d, o)
	if err != nil {
		return nil, err
	}
	if err := t.check(ctx, db); err != nil {
		return nil, err
	}
	return &Store{table: t, db: db}, nil
}

// act changes the entry of a key in a transaction of its own. What f did counts only
// if that was committed.
func (s *Store) act(ctx context.Context, what, key string, f func(e *unique.Entry, now int64) *unique.Standing) (*unique.Standing, error) {
	if key == "" {
		return nil, errors.New("sendonce: the unique key is empty")
	}
	st, err := kit.Await(ctx, func() (st *unique.Standing, err error) {
		for range undone {
			st, err = s.once(ctx, kit.Name(key, ""), f)
			if err == nil || ctx.Err() != nil || s.d.Classify(err) != dialect.Transient {
				break
			}
		}
		if err == nil && s.calls.Add(1)%pruneEvery == 0 {
			_ = s.prune(ctx) // the next one will
		}
		return st, err
	})
	return st, dialect.Wrap(s.d, what+" a unique key", err)
}

func (s *Store) once(ctx context.Context, name string, f func(e *unique.Entry, now int64) *unique.Standing) (*unique.Standing, error) {
	tx, err := s.d.Begin(ctx, s.db)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	st, err := s.change(ctx, tx, name, f)
	if err != nil {
		return nil, err
	}
	return st, tx.Commit(ctx)
}

// change reads an entry and writes what f makes of it, within a transaction.
func (t *table) change(ctx context.Context, q dialect.Querier, name string, f func(e *unique.Entry, now int64) *unique.Standing) (*unique.Standing, error) {
	e, now, found, err := t.read(ctx, q, name)
	if err != nil {
		return nil, err
	}
	before := e
	st := f(&e, now)
	switch {
	case found && e == before, !found && e.Expires() == 0:
		return st, nil // nothing to write
	case !found:
		if _, err = t.exec(ctx, q, t.add, dialect.Args{"name": name}); err != nil {
			return nil, err
		}
		// Somebody else may have added it just now: decide by what is there.
		if e, now, found, err = t.read(ctx, q, name); err != nil {
			return nil, err
		}
		if !found { // added and deleted: once more
			return nil, &dialect.Error{Class: dialect.Transient, Err: errors.New("the row of the key is gone")}
		}
		st = f(&e, now)
	}
	return st, t.write(ctx, q, name, e)
}

// read locks the row of a key, if there is one.
func (t *table) read(ctx context.Context, q dialect.Querier, name string) (e unique.Entry, now int64, found bool, err error) {
	text, args := t.reading.Bind(dialect.Args{"name": name})
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return e, 0, false, err
	}
	defer rows.Close()
	for rows.Next() {
		if found {
			return e, 0, false, errors.New("two rows for one key: the name is not the table's key")
		}
		found = true
		if err := rows.Scan(&now, &e.Row, &e.ID, &e.Token, &e.Since, &e.Reserved, &e.Held, &e.Marked); err != nil {
			return e, 0, false, err
		}
	}
	return e, now, found, rows.Err()
}

func (t *table) write(ctx context.Context, q dialect.Querier, name string, e unique.Entry) error {
	if e.Expires() == 0 {
		_, err := t.exec(ctx, q, t.remove, dialect.Args{"name": name})
		return err
	}
	_, err := t.exec(ctx, q, t.update, dialect.Args{
		"name": name, "holder": e.Row, "id": e.ID, "token": e.Token, "since": e.Since,
		"reserved": e.Reserved, "held": e.Held, "marked": e.Marked, "expires": e.Expires(),
	})
	return err
}

func (t *table) exec(ctx context.Context, q dialect.Querier, stmt *dialect.Stmt, a dialect.Args) (sql.Result, error) {
	text, args := stmt.Bind(a)
	return q.ExecContext(ctx, text, args...)
}

// prune deletes some of the rows that are over.
func (s *Store) prune(ctx context.Context) error {
	tx, err := s.d.Begin(ctx, s.db)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := s.exec(ctx, tx, s.pruning, dialect.Args{"age": pruneAge.Microseconds()}); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Reserve implements unique.Store.
func (s *Store) Reserve(ctx context.Context, key string, o unique.Owner, d time.Duration, over string) (*unique.Standing, error) {
	return s.act(ctx, "reserve", key, func(e *unique.Entry, now int64) *unique.Standing { return e.Reserve(now, o, d, over) })
}

// Hold implements unique.Store.
func (s *Store) Hold(ctx context.Context, key string, o unique.Owner, ttl time.Duration, over string) (*unique.Standing, error) {
	return s.act(ctx, "hold", key, func(e *unique.Entry, now int64) *unique.Standing { return e.Hold(now, o, ttl, over) })
}

// Extend implements unique.Store.
func (s *Store) Extend(ctx context.Context, key, token string, ttl time.Duration) error {
	st, err := s.act(ctx, "extend", key, func(e *unique.Entry, now int64) *unique.Standing {
		if e.Extend(now, token, ttl) {
			return nil
		}
		return &unique.Standing{}
	})
	if err == nil && st != nil {
		return &lock.LostError{Key: key, Reason: lock.Expired}
	}
	return err
}

// Mark implements unique.Store.
func (s *Store) Mark(ctx context.Context, key string, o unique.Owner, d time.Duration) (*unique.Standing, error) {
	return s.act(ctx, "mark", key, func(e *unique.Entry, now int64) *unique.Standing { return e.Mark(now, o, d) })
}

// Free implements unique.Store.
func (s *Store) Free(ctx context.Context, key, token string, all bool) error {
	_, err := s.act(ctx, "free", key, func(e *unique.Entry, _ int64) *unique.Standing {
		e.Free(token, all)
		return nil
	})
	return err
}

// Release implements unique.Store.
func (s *Store) Release(ctx context.Context, key, row string) error {
	_, err := s.act(ctx, "release", key, func(e *unique.Entry, _ int64) *unique.Standing {
		e.Release(row)
		return nil
	})
	return err
}

// Look implements unique.Store.
func (s *Store) Look(ctx context.Context, key string) (*unique.Standing, error) {
	return s.act(ctx, "look at", key, func(e *unique.Entry, now int64) *unique.Standing { return e.Look(now) })
}

// String returns the database's name.
func (d Dialect) String() string {
	if impl := d.impl(); impl != nil {
		return impl.Name()
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

func (d Dialect) impl() dialect.Dialect {
	switch d {
	case Postgres:
		return dialect.Postgres
	case MySQL:
		return dialect.MySQL
	case SQLite:
		return dialect.SQLite
	}
	return nil
}

// split tells a schema from a name.
func split(table string) (schema, name string) {
	if schema, name, ok := strings.Cut(table, "."); ok {
		return schema, name
	}
	return "", table
}
