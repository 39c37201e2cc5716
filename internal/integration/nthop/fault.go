// Package nthop runs a Dispatcher over a database whose Nth operation fails, for
// every N: the database is a real one, and a database/sql driver around its own
// driver makes the fault.
package nthop

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Kind is how an operation fails.
type Kind uint8

// The kinds. The last three are of operations that change rows.
const (
	ErrorBefore  Kind = iota + 1 // an error, and nothing was done
	ErrorAfter                   // it was done, and the reply is an error
	HangBefore                   // nothing is done, and no reply comes
	HangAfter                    // it was done, and no reply comes
	NoneAffected                 // the number of affected rows is 0
	OneMore                      // it is one too many
	NoCount                      // it can't be had
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{ErrorBefore, ErrorAfter, HangBefore, HangAfter, NoneAffected, OneMore, NoCount}
}

var kindNames = [...]string{
	ErrorBefore: "error before", ErrorAfter: "error after", HangBefore: "hang before", HangAfter: "hang after",
	NoneAffected: "none affected", OneMore: "one more affected", NoCount: "no count",
}

// String names the kind.
func (k Kind) String() string { return kindNames[k] }

func (k Kind) acts() bool   { return k == ErrorAfter || k == HangAfter }
func (k Kind) hangs() bool  { return k == HangBefore || k == HangAfter }
func (k Kind) counts() bool { return k >= NoneAffected }

// Fault is what goes wrong, once.
type Fault struct {
	N    int // which operation, from 1; 0: none
	Kind Kind

	// Broken: the connection is of no use afterwards. Else it works.
	Broken bool

	// Row is the row of a result at which reading it fails, from 0. A shorter
	// result fails at its end.
	Row int
}

// String tells the fault.
func (f Fault) String() string {
	line := "the connection works afterwards"
	if f.Broken {
		line = "the connection is broken afterwards"
	}
	return fmt.Sprintf("operation %d: %v (%s, row %d of a result)", f.N, f.Kind, line, f.Row)
}

// Patience is how long an operation hangs if it has no deadline. After that the
// connection is broken: the operating system gives up at last.
const Patience = 700 * time.Millisecond

// ErrFault is what a faulty operation returns, unless its context has ended.
var ErrFault = errors.New("nthop: the planned fault")

// Injector counts the operations of a pool's connections and makes one fail.
//
// What counts is each call of a driver that may need the server: opening a
// connection, a ping, Prepare, Exec, Query, Begin, Commit and Rollback; and the
// reading of one result as a whole. For the kinds that are about the number of
// affected rows only Exec counts. Closing things, and taking a connection from
// the pool again, is not counted.
type Injector struct {
	fault Fault

	// Hanging, if not nil, is called when an operation begins to hang.
	Hanging func()

	mu    sync.Mutex
	n     int
	fired string
	conns map[*conn]struct{}
}

// New makes an Injector.
func New(f Fault) *Injector { return &Injector{fault: f, conns: map[*conn]struct{}{}} }

// Fired tells what failed, and "" if nothing has.
func (i *Injector) Fired() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fired
}

// Count is the number of operations up to now.
func (i *Injector) Count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.n
}

// Open is the number of connections that are not closed.
func (i *Injector) Open() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.conns)
}

// InTransaction is how many of them are in a transaction. Nobody may use the pool
// meanwhile.
func (i *Injector) InTransaction() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := 0
	for c := range i.conns {
		if c.inTransaction() {
			n++
		}
	}
	return n
}

// next counts one operation and says whether it is the one that fails.
func (i *Injector) next(what, text string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fault.Kind.counts() && what != "exec" {
		return false
	}
	i.n++
	if i.fired != "" || i.n != i.fault.N {
		return false
	}
	i.fired = strings.TrimSpace(what + " " + short(text))
	return true
}

// back takes the last count back: it was no operation after all.
func (i *Injector) back(failed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n--
	if failed {
		i.fired = ""
	}
}

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 90 {
		text = text[:90] + " ..."
	}
	return text
}

// reply is what the faulty operation returns instead of its result. Hanging lasts
// until ctx ends, or for a bounded time where nothing bounds it: then the
// connection is broken whatever was planned.
func (i *Injector) reply(ctx context.Context) (err error, broken bool) {
	if !i.fault.Kind.hangs() {
		return ErrFault, i.fault.Broken
	}
	if i.Hanging != nil {
		i.Hanging()
	}
	var patience <-chan time.Time
	if _, bounded := ctx.Deadline(); !bounded {
		t := time.NewTimer(Patience)
		defer t.Stop()
		patience = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err(), i.fault.Broken
	case <-patience:
		return fmt.Errorf("%w: nothing came for %v", ErrFault, Patience), true
	}
}

// Connector wraps a driver's.
func (i *Injector) Connector(inner driver.Connector) driver.Connector { return connector{i, inner} }

type connector struct {
	*Injector
	inner driver.Connector
}

func (c connector) Driver() driver.Driver { return c.inner.Driver() }

// Connect counts. A fault after it acted is a connection that is there and that
// nobody knows of.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	failed := c.next("connect", "")
	if failed && !c.fault.Kind.acts() {
		err, _ := c.reply(ctx)
		return nil, err
	}
	inner, err := c.inner.Connect(ctx)
	if err != nil {
		if failed {
			c.back(true)
		}
		return nil, err
	}
	if failed {
		err, _ := c.reply(ctx)
		_ = inner.Close()
		return nil, err
	}
	wrapped := &conn{Injector: c.Injector, inner: inner}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[wrapped] = struct{}{}
	return wrapped, nil
}

// ConnectorOf makes the connector of a registered driver.
func ConnectorOf(d driver.Driver, dsn string) (driver.Connector, error) {
	if dc, ok := d.(driver.DriverContext); ok {
		return dc.OpenConnector(dsn)
	}
	return plainConnector{d, dsn}, nil
}

type plainConnector struct {
	driver driver.Driver
	dsn    string
}

func (p plainConnector) Driver() driver.Driver                        { return p.driver }
func (p plainConnector) Connect(context.Context) (driver.Conn, error) { return p.driver.Open(p.dsn) }
