package locks

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/assert"
)

type assertCollect = assert.CollectT

// pausingDB opens a pool, by the driver of another, that pauses before every
// statement.
func pausingDB(t testing.TB, like *sql.DB, dsn string, pause func()) *sql.DB {
	db := sql.OpenDB(connector{driver: like.Driver(), dsn: dsn, pause: pause})
	db.SetMaxOpenConns(24) // three pools of them are in use at once
	db.SetMaxIdleConns(24)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

type connector struct {
	driver driver.Driver
	dsn    string
	pause  func()
}

func (c connector) Driver() driver.Driver { return c.driver }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return pausingConn{conn, c.pause}, nil
}

// pausingConn hands everything that database/sql asks of a connection on.
type pausingConn struct {
	driver.Conn
	pause func()
}

func (c pausingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.pause()
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c pausingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.pause()
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c pausingConn) Ping(ctx context.Context) error { return c.Conn.(driver.Pinger).Ping(ctx) }

func (c pausingConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c pausingConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}
