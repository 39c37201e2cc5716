package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/sender/sendertest"
)

type (
	item   = sendonce.Item[combo.Mail]
	sender = sendonce.SenderFunc[combo.Mail]
)

// scene is one test's table, the workers that send its rows, and the record of
// their sends, which is a file.
type scene struct {
	*combo.Table
	record  string
	workers []*worker
}

// bothServers are the databases, with servers, that every fault is tried on.
var bothServers = []combo.Database{combo.Postgres, combo.MariaDB}

// each runs f beside other tests for strategies on both servers.
func each(t *testing.T, strategies []combo.Strategy, f func(t *testing.T, c combo.Combo)) {
	t.Helper()
	t.Parallel()
	for _, d := range bothServers {
		for _, s := range strategies {
			t.Run(d.Name+"/"+string(s), func(t *testing.T) {
				t.Parallel()
				f(t, combo.Combo{Strategy: s, Database: d, Key: "bigint"})
			})
		}
	}
}

// The strategies of most tests: what they try is the loop above them.
var (
	one     = []combo.Strategy{combo.Atomic}
	twoOfIt = []combo.Strategy{combo.Atomic, combo.LockedRedis} // a lease, with and without a lock
)

// on makes a scene with so many rows in a database, nil for a new one.
func on(t *testing.T, c combo.Combo, at *servers.Database, rows int) *scene {
	t.Helper()
	if at == nil {
		at = c.Database.New(t)
	}
	s := &scene{record: filepath.Join(t.TempDir(), "sends")}
	noneLeft(t)
	admin := at.Open(t, c.Database.Driver, c.Database.Params...)
	admin.SetMaxOpenConns(1) // so that it can tell its own connection from others
	s.Table = c.On(t, at).TableOn(t, admin, rows)
	return s
}

// config is what workers run with, unless a test says otherwise. The lease is short,
// and leaves some room on a machine that has more to do.
func config(name string) sendonce.Config {
	return sendonce.Config{
		Owner: name, Concurrency: 4, BatchSize: 20, SendTimeout: 500 * time.Millisecond, Lease: 3 * time.Second,
		StopTimeout: time.Second, PollInterval: 100 * time.Millisecond, MaxAttempts: 5,
		Backoff: func(int) time.Duration { return 50 * time.Millisecond },
	}
}

// post is what a worker is told.
type post struct {
	name    string
	sender  sender            // nil: sends at once
	answer  sender            // nil: the sender's; else asked after a send, and not recorded
	at      *servers.Database // nil: the scene's, with no proxy between
	renewAt *servers.Database // nil: as at; else the line of its renewals alone
	params  []string          // of its connections
	tune    func(*sendonce.Config)
}

// worker is a Dispatcher that runs, with pools of its own.
type worker struct {
	*sendonce.Dispatcher[combo.Mail]
	*watched
	cfg   sendonce.Config
	links []*combo.Link
	log   *syncBuffer

	end  context.CancelFunc
	done chan struct{}
	err  error // of Run, once done

	mu         sync.Mutex
	lost       []int64
	unrecorded int
	exceptions []sendonce.Exception
}

func (w *worker) hooks() sendonce.Hooks {
	return sendonce.Hooks{
		Lost:       func(token int64, _ int) { w.mu.Lock(); w.lost = append(w.lost, token); w.mu.Unlock() },
		Unrecorded: func(int, time.Duration, error) { w.mu.Lock(); w.unrecorded++; w.mu.Unlock() },
		Excepted: func(e sendonce.Exception) {
			w.mu.Lock()
			w.exceptions = append(w.exceptions, e)
			w.mu.Unlock()
		},
	}
}

func (w *worker) losses() int         { w.mu.Lock(); defer w.mu.Unlock(); return len(w.lost) }
func (w *worker) unrecordedTold() int { w.mu.Lock(); defer w.mu.Unlock(); return w.unrecorded }
func (w *worker) causes() (out []sendonce.Cause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.exceptions {
		out = append(out, e.Cause)
	}
	return out
}

// worker makes one that doesn't run yet.
func (s *scene) worker(t *testing.T, p post) *worker {
	t.Helper()
	w := &worker{done: make(chan struct{}), log: &syncBuffer{}}
	at := s.At
	if p.at != nil {
		at = p.at
	}
	marked(t, func() {
		claimer := s.open(t, w, at, p.params)
		renewer := claimer
		if p.renewAt != nil {
			renewer = s.open(t, w, p.renewAt, p.params)
		}
		w.watched = &watched{Claimer: claimer, renewer: renewer}
	})
	w.cfg = config(p.name)
	w.cfg.Hooks, w.cfg.Logger = w.hooks(), slog.New(slog.NewTextHandler(w.log, nil))
	if p.tune != nil {
		p.tune(&w.cfg)
	}
	rec, err := sendertest.NewFile[combo.Mail](s.record, orAtOnce(p.sender))
	require.NoError(t, err)
	t.Cleanup(func() { _ = rec.Close() })
	var all sendonce.Sender[combo.Mail] = rec.As(p.name)
	if p.answer != nil {
		all = sender(func(ctx context.Context, m item) error {
			if err := rec.As(p.name).Send(ctx, []item{m}); err != nil {
				return err
			}
			return p.answer(ctx, m)
		})
	}
	w.Dispatcher, err = sendonce.New[combo.Mail](w.watched, all, w.cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s:\n%s\nits calls:\n%s", p.name, w.log, w.watched)
		}
	})
	s.workers = append(s.workers, w)
	return w
}

func orAtOnce(f sender) sendonce.Sender[combo.Mail] {
	if f == nil {
		return sender(func(context.Context, item) error { return nil })
	}
	return f
}

// open makes a Claimer whose pool is the worker's.
func (s *scene) open(t *testing.T, w *worker, at *servers.Database, params []string) combo.Claimer {
	t.Helper()
	spec := s.Spec()
	spec.DSN = at.DSNFor(s.Place.Database.Driver, append(params, s.Place.Database.Params...)...)
	c, link := spec.Open(t)
	w.links = append(w.links, link)
	return c
}

// start makes a worker and runs it.
func (s *scene) start(t *testing.T, p post) *worker {
	t.Helper()
	w := s.worker(t, p)
	w.run(t)
	return w
}

func (w *worker) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	marked(t, func() {
		go func() {
			defer close(w.done)
			w.err = w.Run(ctx)
		}()
	})
	t.Cleanup(func() { // of a test that failed early
		cancel()
		<-w.done
	})
}

// running fails the test if Run has returned.
func (w *worker) running(t *testing.T) {
	t.Helper()
	select {
	case <-w.done:
		t.Errorf("Run of %s has returned, and nobody asked it to: %v", w.cfg.Owner, w.err)
	default:
	}
}

// stop asks Run to return, and returns what it said.
func (w *worker) stop(t *testing.T) error {
	t.Helper()
	w.running(t)
	w.end()
	select {
	case <-w.done:
	case <-time.After(time.Minute):
		t.Fatalf("Run of %s does not return", w.cfg.Owner)
	}
	return w.err
}

// idle waits until it has found nothing to do.
func (w *worker) idle(t *testing.T) {
	t.Helper()
	await(t, 10*time.Second, w.cfg.Owner+" has looked for rows", func() bool { return len(w.all(claiming)) > 0 })
}

// sends reads the record.
func (s *scene) sends(t *testing.T) *sendertest.Log {
	t.Helper()
	log, err := sendertest.Read(s.record)
	require.NoError(t, err)
	return log
}

// row is how a row stands in the table.
type row struct {
	ID       int64  `db:"id"`
	Status   int    `db:"status"`
	Token    int64  `db:"token"`
	Attempts int    `db:"attempts"`
	Due      bool   `db:"due"` // it has a time of its next attempt
	Reason   string `db:"reason"`
}

// The states, as the table has them.
const (
	pending = iota
	claimed
	sending
	done
	dead
)

func (s *scene) rows(t *testing.T) map[sendonce.Key]row {
	t.Helper()
	rows, err := s.look()
	require.NoError(t, err)
	return rows
}

func (s *scene) look() (map[sendonce.Key]row, error) {
	var rows []row
	err := s.Admin.Select(&rows, "SELECT id, status, token, attempts, next_attempt IS NOT NULL AS due, COALESCE(last_error, '') AS reason FROM "+s.Name)
	byKey := map[sendonce.Key]row{}
	for _, r := range rows {
		byKey[r.ID] = r
	}
	return byKey, err
}

// count is the number of rows in a state.
func (s *scene) count(t *testing.T, state int) (n int) {
	t.Helper()
	for _, r := range s.rows(t) {
		if r.Status == state {
			n++
		}
	}
	return n
}

// await waits until something is so.
func await(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(25 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", within, what)
		}
	}
}

// allDone waits until every row is.
func (s *scene) allDone(t *testing.T, within time.Duration) {
	t.Helper()
	await(t, within, "every row is done", func() bool { return s.count(t, done) == len(s.Keys) })
}

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*syncBuffer)(nil)

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
func (b *syncBuffer) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// until returns when the context has ended, and why.
func until(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// takes is a Sender that takes so long, or until its context ends.
func takes(d time.Duration) sender {
	return func(ctx context.Context, _ item) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d):
			return nil
		}
	}
}

// isStopped returns the error of a Run that has left something behind.
func isStopped(t *testing.T, err error) *sendonce.StoppedError {
	t.Helper()
	var stopped *sendonce.StoppedError
	if !errors.As(err, &stopped) {
		t.Fatalf("Run returned %v, and not what it has left behind", err)
	}
	return stopped
}

func names(n int, of string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(of, " ", i+1)
	}
	return out
}
