// Package pgwake tells a Dispatcher of new rows in PostgreSQL at once, by LISTEN
// and NOTIFY, so that it needn't poll often:
//
//	_, err := db.ExecContext(ctx, pgwake.Trigger("receivers", "receivers")) // once, as a migration
//	...
//	l, err := pgwake.Listen(ctx, dsn, "receivers", nil)
//	...
//	defer l.Close()
//	d, err := sendonce.New(rows, sender, sendonce.Config{Wake: l.C, PollInterval: time.Minute})
//
// A notification is a hint and no more: polling goes on, and finds what no
// notification tells of (rows that are scheduled or due again, and whatever was
// lost).
//
// LISTEN belongs to a session, so it can't go through a pooler of transactions
// such as PgBouncer in its usual mode: give Listen the server's own address.
// Listen finds out if it is not, where that can be found out, and returns
// ErrPooled. Inserts may go through poolers as they like.
//
// A commit that notifies waits for others that do, for a moment, in the whole
// server. Where thousands of transactions in a second insert rows, poll.
package pgwake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrPooled is returned by Listen when what it is connected to pools
// transactions: notifications would not arrive.
var ErrPooled = errors.New("sendonce: LISTEN needs a session of its own, and a pooler gives it away after each transaction: connect to the server itself")

// Options tune Listen. The zero value works, and so does nil.
type Options struct {
	// CheckInterval is how often the connection is looked at while nothing
	// comes over it. Default: 30 s.
	CheckInterval time.Duration

	// Logger is told when the connection is lost, and when it is back.
	// Default: slog.Default().
	Logger *slog.Logger
}

const (
	answerWithin = 10 * time.Second // one connection, or one statement
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 10 * time.Second
)

// Listener is a connection that listens. It has one goroutine, which ends with
// the context that Listen was given, or by Close.
type Listener struct {
	// C receives something when there may be new rows: after notifications, any
	// number of which may be one, and after each new connection, because those in
	// between were missed. It is never closed.
	C <-chan struct{}

	wake    chan struct{}
	cfg     *pgx.ConnConfig
	channel string
	o       Options
	cancel  context.CancelFunc
	done    chan struct{}
}

// Listen connects, listens on the channel, and makes a new connection whenever
// one is lost. It returns an error if the first can't be made. dsn is a URL or
// a list of settings, as pgx takes it. Options may be nil.
func Listen(ctx context.Context, dsn, channel string, o *Options) (*Listener, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("sendonce: %w", err)
	}
	return ListenConfig(ctx, cfg, channel, o)
}

// ListenConfig is Listen for a configuration that is there already.
func ListenConfig(ctx context.Context, cfg *pgx.ConnConfig, channel string, o *Options) (*Listener, error) {
	if err := checkChannel(channel); err != nil {
		return nil, err
	}
	l := &Listener{wake: make(chan struct{}, 1), cfg: cfg.Copy(), channel: channel, done: make(chan struct{})}
	l.C = l.wake
	if o != nil {
		l.o = *o
	}
	if l.o.CheckInterval <= 0 {
		l.o.CheckInterval = 30 * time.Second
	}
	if l.o.Logger == nil {
		l.o.Logger = slog.Default()
	}
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, l.cancel = context.WithCancel(ctx)
	go l.run(ctx, conn)
	return l, nil
}

func checkChannel(channel string) error {
	if channel == "" || len(channel) > 63 || strings.ContainsRune(channel, 0) {
		return fmt.Errorf("sendonce: the channel %q must have from 1 to 63 bytes, and none of them 0", channel)
	}
	return nil
}

// Close ends the connection and returns when nothing of the Listener is left.
func (l *Listener) Close() {
	l.cancel()
	<-l.done
}

// run keeps a connection that listens, until ctx ends.
func (l *Listener) run(ctx context.Context, conn *pgx.Conn) {
	defer close(l.done)
	for conn != nil {
		err := l.listen(ctx, conn)
		end(conn)
		if ctx.Err() != nil {
			return
		}
		l.o.Logger.Warn("sendonce: the connection that listens for new rows is lost; they are found by polling", "channel", l.channel, "err", err)
		conn = l.again(ctx)
	}
}

// again makes a new connection: nil if ctx ends first.
func (l *Listener) again(ctx context.Context) *pgx.Conn {
	for pause := backoffFirst; ; pause = min(2*pause, backoffMost) {
		t := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		if conn, err := l.connect(ctx); err == nil {
			l.o.Logger.Info("sendonce: new rows are listened for again", "channel", l.channel)
			l.hint() // what came meanwhile was missed
			return conn
		}
	}
}

// hint wakes. It never waits: one hint is as good as many.
func (l *Listener) hint() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// listen waits for notifications until the connection is lost or ctx ends.
func (l *Listener) listen(ctx context.Context, conn *pgx.Conn) error {
	for {
		wait, cancel := context.WithTimeout(ctx, l.o.CheckInterval)
		_, err := conn.WaitForNotification(wait)
		quiet := err != nil && wait.Err() != nil && ctx.Err() == nil && !conn.IsClosed()
		cancel()
		switch {
		case err == nil:
			l.hint()
		case quiet: // a line that is cut without a word would be quiet for ever
			if _, err := l.pid(ctx, conn); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// connect makes a connection that listens.
func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conn, err := pgx.ConnectConfig(within, l.cfg)
	if err != nil {
		return nil, fmt.Errorf("sendonce: listen on %q: %w", l.channel, err)
	}
	_, err = conn.Exec(within, "LISTEN "+pgx.Identifier{l.channel}.Sanitize(), pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		err = l.checkSession(within, conn)
	}
	if err != nil {
		end(conn)
		return nil, fmt.Errorf("sendonce: listen on %q: %w", l.channel, err)
	}
	return conn, nil
}

// checkSession finds out whether the session that listens stays ours. A pooler
// shows, because it invents the process id that a client is told. It gives the
// session away if it does so to a second client that begins a transaction.
func (l *Listener) checkSession(ctx context.Context, conn *pgx.Conn) error {
	mine, err := l.pid(ctx, conn)
	if err != nil || mine == conn.PgConn().PID() {
		return err
	}
	second, err := pgx.ConnectConfig(ctx, l.cfg)
	if err != nil {
		return nil // the only client that it lets in: not known
	}
	defer end(second)
	begun, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := second.Exec(begun, "BEGIN", pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil // it has no other session to give: not known
	}
	theirs, err := l.pid(begun, second)
	if err != nil {
		return nil // likewise
	}
	if theirs == mine {
		return ErrPooled
	}
	now, err := l.pid(ctx, conn)
	if err == nil && now != mine {
		return ErrPooled
	}
	return err
}

// pid asks for the session's process id.
func (l *Listener) pid(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

// end takes leave of the server, also where ctx has ended.
func end(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
