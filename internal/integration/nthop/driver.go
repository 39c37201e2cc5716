package nthop

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"sync/atomic"
)

// conn is a connection whose operations are counted. The drivers of the tests
// have all the methods with a context.
type conn struct {
	*Injector
	inner  driver.Conn
	broken atomic.Bool
	tx     atomic.Bool // a transaction of database/sql's
}

// do is one operation. undo throws away what act has got when the reply is lost.
func (c *conn) do(ctx context.Context, what, text string, act func() error, undo func()) error {
	if c.broken.Load() {
		return driver.ErrBadConn
	}
	failed := c.next(what, text)
	if failed && !c.fault.Kind.acts() && !c.fault.Kind.counts() {
		return c.fail(ctx)
	}
	err := act()
	if err != nil {
		// One that failed by itself, or that database/sql will ask for in another
		// way, is not the one to be failed.
		if failed || errors.Is(err, driver.ErrSkip) {
			c.back(failed)
		}
		return err
	}
	if failed && c.fault.Kind.acts() {
		undo()
		return c.fail(ctx)
	}
	if failed {
		return errWrongCount
	}
	return nil
}

// errWrongCount never leaves this package: the operation has its result, and the
// number in it is to be wrong.
var errWrongCount = errors.New("nthop: count wrongly")

func (c *conn) fail(ctx context.Context) error {
	err, broken := c.reply(ctx)
	if broken {
		c.broken.Store(true)
	}
	return err
}

func nothing() {}

func (c *conn) Ping(ctx context.Context) error {
	return c.do(ctx, "ping", "", func() error {
		if p, ok := c.inner.(driver.Pinger); ok {
			return p.Ping(ctx)
		}
		return nil
	}, nothing)
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var s driver.Stmt
	err := c.do(ctx, "prepare", query, func() (err error) {
		s, err = c.inner.(driver.ConnPrepareContext).PrepareContext(ctx, query)
		return err
	}, func() { _ = s.Close() })
	if err != nil {
		return nil, err
	}
	return &stmt{c, s, query}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(ctx, query, func() (driver.Result, error) {
		return c.inner.(driver.ExecerContext).ExecContext(ctx, query, args)
	})
}

func (c *conn) exec(ctx context.Context, query string, run func() (driver.Result, error)) (driver.Result, error) {
	var res driver.Result
	err := c.do(ctx, "exec", query, func() (err error) {
		res, err = run()
		return err
	}, nothing)
	if errors.Is(err, errWrongCount) {
		return miscounted{res, c.fault.Kind}, nil
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// miscounted is a result that tells a wrong number of rows.
type miscounted struct {
	driver.Result
	kind Kind
}

func (m miscounted) RowsAffected() (int64, error) {
	switch m.kind {
	case NoneAffected:
		return 0, nil
	case NoCount:
		return 0, ErrFault
	}
	n, err := m.Result.RowsAffected()
	return n + 1, err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(ctx, query, func() (driver.Rows, error) {
		return c.inner.(driver.QueryerContext).QueryContext(ctx, query, args)
	})
}

// query acts when its result is read: SQLite does so row by row.
func (c *conn) query(ctx context.Context, query string, run func() (driver.Rows, error)) (driver.Rows, error) {
	var rs driver.Rows
	err := c.do(ctx, "query", query, func() (err error) {
		rs, err = run()
		return err
	}, func() { drain(rs) })
	if err != nil {
		return nil, err
	}
	return &rows{c: c, Rows: rs, ctx: ctx, query: query, failed: c.next("read", query)}, nil
}

// drain reads a result to its end, so that its statement has acted.
func drain(rs driver.Rows) {
	cells := make([]driver.Value, len(rs.Columns()))
	for rs.Next(cells) == nil {
	}
	_ = rs.Close()
}

// rows is a result. If reading it fails, it does so at the planned row, or at its
// end.
type rows struct {
	driver.Rows
	c      *conn
	ctx    context.Context
	query  string
	failed bool
	at     int
}

func (r *rows) Next(dest []driver.Value) error {
	if r.c.broken.Load() {
		return driver.ErrBadConn
	}
	f := r.c.fault
	due := r.failed && r.at == f.Row
	r.at++
	if due && !f.Kind.acts() {
		return r.fail()
	}
	err := r.Rows.Next(dest)
	if r.failed && (due || errors.Is(err, io.EOF)) {
		for err == nil && due { // all of it has happened, and the rest is lost
			err = r.Rows.Next(dest)
		}
		return r.fail()
	}
	return err
}

func (r *rows) fail() error {
	r.failed = false
	return r.c.fail(r.ctx)
}

func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx counts. A driver closes a connection whose transaction it could not
// begin, commit or roll back, if it does not know in which state it is; so it is
// broken then.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	var inner driver.Tx
	err := c.do(ctx, "begin", "", func() (err error) {
		inner, err = c.inner.(driver.ConnBeginTx).BeginTx(ctx, o)
		return err
	}, func() { c.broken.Store(true) })
	if err != nil {
		return nil, err
	}
	c.tx.Store(true)
	return &tx{c, inner}, nil
}

type tx struct {
	c     *conn
	inner driver.Tx
}

// Commit counts. If it fails before it acted, and the connection lives on, the
// server has refused it: it rolls back.
func (t *tx) Commit() error {
	err := t.c.do(context.Background(), "commit", "", func() error { return t.end(t.inner.Commit) }, nothing)
	if err != nil && !t.c.broken.Load() && t.c.tx.Load() {
		_ = t.end(t.inner.Rollback)
	}
	return err
}

// Rollback counts.
func (t *tx) Rollback() error {
	err := t.c.do(context.Background(), "rollback", "", func() error { return t.end(t.inner.Rollback) }, nothing)
	if err != nil && t.c.tx.Load() {
		t.c.broken.Store(true)
		return driver.ErrBadConn
	}
	return err
}

func (t *tx) end(how func() error) error {
	err := how()
	if err == nil {
		t.c.tx.Store(false)
	}
	return err
}

// Close closes the real connection, which ends what is open on it.
func (c *conn) Close() error {
	c.mu.Lock()
	delete(c.conns, c)
	c.mu.Unlock()
	return c.inner.Close()
}

func (c *conn) ResetSession(ctx context.Context) error {
	if c.broken.Load() {
		return driver.ErrBadConn
	}
	if r, ok := c.inner.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	v, ok := c.inner.(driver.Validator)
	return !c.broken.Load() && (!ok || v.IsValid())
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error { return check(c.inner, v) }

func check(inner any, v *driver.NamedValue) error {
	if n, ok := inner.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// inTransaction asks SQLite itself: its transactions are statements.
func (c *conn) inTransaction() bool {
	if lite, ok := c.inner.(interface{ AutoCommit() bool }); ok {
		return !lite.AutoCommit()
	}
	return c.tx.Load()
}

type stmt struct {
	c     *conn
	inner driver.Stmt
	text  string
}

func (s *stmt) Close() error  { return s.inner.Close() }
func (s *stmt) NumInput() int { return s.inner.NumInput() }

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error { return check(s.inner, v) }

var errNoContext = errors.New("nthop: database/sql asks with a context")

func (s *stmt) Exec([]driver.Value) (driver.Result, error) { return nil, errNoContext }
func (s *stmt) Query([]driver.Value) (driver.Rows, error)  { return nil, errNoContext }

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.exec(ctx, s.text, func() (driver.Result, error) {
		return s.inner.(driver.StmtExecContext).ExecContext(ctx, args)
	})
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.query(ctx, s.text, func() (driver.Rows, error) {
		return s.inner.(driver.StmtQueryContext).QueryContext(ctx, args)
	})
}
