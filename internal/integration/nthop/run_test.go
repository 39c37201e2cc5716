package nthop

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/sender/sendertest"
)

var tables atomic.Int64

// run is one Dispatcher over a pool of which one operation fails.
type run struct {
	*stage
	*field
	fault Fault
	inj   *Injector
	rec   *sendertest.Recorder[combo.Mail]

	mu       sync.Mutex
	log      bytes.Buffer
	slow     bool     // a call of the store's took long, and was not planned to
	unusual  []string // what a Dispatcher whose claims hold must not meet
	problems []string
	slowness bool // all of them can come of a machine that stood still
}

// wrong notes what no slowness explains.
func (r *run) wrong(format string, args ...any) {
	r.slowness = false
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// late notes what can come of a lease, or another short time, that is over because
// the machine stood still.
func (r *run) late(format string, args ...any) {
	r.slowness = r.slowness || len(r.problems) == 0
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// String tells the run, with all that was wrong in it.
func (r *run) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%s: %v\n  fired: %s\n  %s\n%s", r.setting.name(), r.fault, r.inj.Fired(), strings.Join(r.problems, "\n  "), r.log.String())
}

// Write takes a line of the Dispatcher's log.
func (r *run) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(line)
}

const (
	lease       = 1200 * time.Millisecond
	makeWithin  = time.Second       // a constructor's context
	drainWithin = 150 * time.Second // Drain counts rarely where counts are slow
)

func (r *run) config(owner string) sendonce.Config {
	return sendonce.Config{
		Concurrency: 2, BatchSize: 4, SendTimeout: 250 * time.Millisecond, Lease: lease, PollInterval: 100 * time.Millisecond,
		MaxAttempts: maxAttempts, Backoff: func(int) time.Duration { return 5 * time.Millisecond }, Delivery: r.delivery, Owner: owner,
		Hooks:  sendonce.Hooks{Excepted: r.excepted, Lost: r.lost, Claimed: r.took, Settled: r.took, Extended: r.took},
		Logger: slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func (r *run) excepted(e sendonce.Exception) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unusual = append(r.unusual, fmt.Sprintf("the %v of row %v was not recorded as usual: %v", e.Result.Outcome, e.Result.Key, e.Cause))
}

func (r *run) lost(token int64, rows int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unusual = append(r.unusual, fmt.Sprintf("claim %d was lost with %d rows", token, rows))
}

// took notices a store that stands still: a busy disk, or nobody's turn.
func (r *run) took(_ int, took time.Duration, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = r.slow || took > still && !r.fault.Kind.hangs()
}

// play runs it, and judges.
func (r *run) play(ctx context.Context) {
	r.rec = sendertest.New(r.sender(r.field))
	link, err := r.link()
	if err != nil {
		r.wrong("%v", err)
		return
	}
	r.drain(ctx, link)
	r.leftBehind(link)
	link.Close()
	if !soon(func() bool { return r.inj.Open() == 0 }) {
		r.wrong("%d connections are open after the pool was closed", r.inj.Open())
	}
	r.tidy(ctx)
	r.judge(ctx)
	if !r.fault.Kind.hangs() { // which can last longer than a lease, and keep others from the file
		for _, what := range r.unusual {
			r.late("%s", what)
		}
	}
}

// link is a worker's, with the pool that fails.
func (r *run) link() (*combo.Link, error) {
	link, err := r.spec.Dial()
	if err != nil {
		return nil, err
	}
	inner, err := ConnectorOf(link.DB.Driver(), r.spec.DSN)
	if err != nil {
		return nil, err
	}
	_ = link.DB.Close()
	link.DB = sqlx.NewDb(sql.OpenDB(r.inj.Connector(inner)), r.spec.Driver)
	link.DB.SetMaxOpenConns(r.spec.Conns)
	link.DB.SetMaxIdleConns(r.spec.Conns)
	return link, nil
}

func (r *run) drain(ctx context.Context, link *combo.Link) {
	c, err := r.claimer(ctx, link)
	if err != nil {
		r.late("the constructor fails again: %v", err)
		return
	}
	d, err := sendonce.New(c, r.rec.As("first"), r.config("first"))
	if err != nil {
		r.wrong("New: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	if _, err := d.Drain(ctx); err != nil {
		r.wrong("Drain: %v", err)
	}
}

// claimer makes the strategy: the first try works, or its error says why not, and
// the second try works.
func (r *run) claimer(ctx context.Context, link *combo.Link) (combo.Claimer, error) {
	first, cancel := context.WithTimeout(ctx, makeWithin)
	defer cancel()
	c, err := r.spec.Claimer(first, link)
	if err == nil {
		return c, nil
	}
	if r.inj.Fired() == "" { // the machine stood still, and the fault comes later
		return r.spec.Claimer(ctx, link)
	}
	if !r.saysWhy(err) {
		r.late("the constructor's error does not say what is wrong: %v", err)
	}
	return r.spec.Claimer(ctx, link)
}

func (r *run) saysWhy(err error) bool {
	return errors.Is(err, ErrFault) || errors.Is(err, context.DeadlineExceeded)
}

// leftBehind looks for what a Dispatcher must have given back when Drain returns.
func (r *run) leftBehind(link *combo.Link) {
	if !soon(func() bool { return link.DB.Stats().InUse == 0 }) {
		r.wrong("%d connections are in use after Drain", link.DB.Stats().InUse)
		return
	}
	if n := r.inj.InTransaction(); n > 0 {
		r.wrong("%d connections are in a transaction after Drain", n)
	}
}

// soon reports whether it is so within a while: locks are released in the
// background.
func soon(so func() bool) bool {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if so() {
			return true
		}
	}
	return so()
}

// tidy runs a second Dispatcher, on a pool that works, until nothing is left.
func (r *run) tidy(ctx context.Context) {
	if r.clean(ctx) {
		return
	}
	link, err := r.spec.Dial()
	if err != nil {
		r.wrong("%v", err)
		return
	}
	defer link.Close()
	c, err := r.spec.Claimer(ctx, link)
	if err != nil {
		r.wrong("the constructor fails without a fault: %v", err)
		return
	}
	d, err := sendonce.New(c, r.rec.As("second"), r.config("second"))
	if err != nil {
		r.wrong("New: %v", err)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for end := time.Now().Add(20 * time.Second); !r.clean(ctx); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.wrong("the second Dispatcher leaves something undone")
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		r.wrong("Run of the second Dispatcher: %v", err)
	}
}

// clean reports whether every row has ended and no claim is left.
func (r *run) clean(ctx context.Context) bool {
	var rows, claims int
	err := errors.Join(
		r.admin.GetContext(ctx, &rows, "SELECT COUNT(*) FROM "+r.name+" WHERE status < 3"),
		r.admin.GetContext(ctx, &claims, "SELECT COUNT(*) FROM sendonce_claims WHERE source = '"+r.name+"'"))
	if err != nil {
		r.wrong("%v", err)
		return true
	}
	return rows == 0 && claims == 0
}

// judge compares how the rows have ended with their parts.
func (r *run) judge(ctx context.Context) {
	var rows []struct {
		ID       int64 `db:"id"`
		Status   int   `db:"status"`
		Attempts int   `db:"attempts"`
	}
	if err := r.admin.SelectContext(ctx, &rows, "SELECT id, status, attempts FROM "+r.name+" ORDER BY id"); err != nil {
		r.wrong("%v", err)
		return
	}
	if len(rows) != len(r.parts) {
		r.wrong("%d rows are left of %d", len(rows), len(r.parts))
		return
	}
	for i, p := range r.parts {
		sends := r.rec.Sends(r.keys[i])
		if row := rows[i]; row.Status != p.status || row.Attempts != p.attempts {
			r.late("row %d (%s) ended in state %d after %d attempts, and not in %d after %d", row.ID, p.name, row.Status, row.Attempts, p.status, p.attempts)
		}
		if len(sends) != p.sends {
			r.late("row %v (%s) was sent %d times, and not %d: %v", r.keys[i], p.name, len(sends), p.sends, sends)
		}
		if p.sends > 0 && len(sends) > 0 && sends[len(sends)-1].Attempt != p.attempts {
			r.late("row %v (%s) was sent as attempt %d, and not %d", r.keys[i], p.name, sends[len(sends)-1].Attempt, p.attempts)
		}
	}
	if twice := r.rec.MoreThanOnce(); len(twice) > 0 {
		r.wrong("accepted more than once: %v", twice)
	}
	if over := r.rec.Overlaps(); len(over) > 0 {
		r.wrong("sends of one row that overlap: %v", over)
	}
}
