package sendonce_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

const (
	simRows     = 40
	simAttempts = 4
	simFaults   = time.Minute     // faults happen for so long
	simHealing  = 5 * time.Minute // after so much more every row has ended
)

// sim is one schedule of workers and faults.
type sim struct {
	*world
	seed     uint64
	calm     time.Time // no faults from then on
	over     chan struct{}
	delivery sendonce.Delivery
	rate     float64 // of faulty calls

	mu       sync.Mutex
	workers  []*simWorker
	log      []*simEntry
	claims   map[int64]*simClaim
	tokens   map[sendonce.Key][]*simClaim // the claims that had the row
	problems []string
	power    simPower
}

// simPower is what a run must have met to say anything.
type simPower struct{ reclaimed, refused, late, second, kills int }

var errBusy = errors.New("come back later")

// simEntry is one row in one call of a Sender.
type simEntry struct {
	key                  sendonce.Key
	by                   *simWorker
	claim                *simClaim
	claims               int // of this row until now
	began, ended         time.Time
	accepted             time.Time // by the provider; zero: it was not
	said                 bool      // and the Sender has said so
	free                 bool      // the answer was RetryAfter: not charged
	permanent, ignorance bool      // no retry helps; the context is ignored
}

// wrong notes a broken rule. m.mu is held.
func (m *sim) wrong(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf("%v: ", time.Since(m.calm)+simFaults)+fmt.Sprintf(format, args...))
}

// Many schedules of workers that are killed, stopped and cut off, with stores
// that fail, hang and lose replies, and Senders that do all that Senders do. For
// each, sections 1 to 3, 7 and 8 of docs/semantics.md must hold. SENDONCE_SEEDS
// is the number of schedules, SENDONCE_SEED runs a single one. A seed decides what
// happens, not the order of goroutines nor the library's jitter: a rare failure may
// want several runs of its seed (-count).
func TestSimulation(t *testing.T) {
	var power simPower
	first, seeds, limit := uint64(1), uint64(1<<40), 8*time.Second
	if n, err := strconv.ParseUint(os.Getenv("SENDONCE_SEEDS"), 10, 64); err == nil {
		seeds, limit = n, time.Hour
	}
	one, err := strconv.ParseUint(os.Getenv("SENDONCE_SEED"), 10, 64)
	if err == nil {
		first, seeds = one, 1
	}
	ran, began := 0, time.Now()
	for seed := first; seed < first+seeds && time.Since(began) < limit && !t.Failed(); seed++ {
		ran++
		rows := simRows
		if seed%8 == 0 { // many quick sends, then slow ones: rows wait for long
			rows *= 5
		}
		inFakeTime(t, rows, func(w *world) {
			m := newSim(w, seed)
			m.play()
			for _, p := range m.problems {
				t.Errorf("SENDONCE_SEED=%d: %s", seed, p)
			}
			power.reclaimed += m.power.reclaimed
			power.refused += m.power.refused
			power.late += m.power.late
			power.second += m.power.second
			power.kills += m.power.kills
		})
	}
	t.Logf("%d schedules: %+v", ran, power)
	if seeds > 1 && (power.reclaimed == 0 || power.refused == 0 || power.late == 0) {
		t.Errorf("no power: %+v", power)
	}
}

func newSim(w *world, seed uint64) *sim {
	m := &sim{
		world: w, seed: seed, calm: time.Now().Add(simFaults), over: make(chan struct{}),
		claims: map[int64]*simClaim{}, tokens: map[sendonce.Key][]*simClaim{},
	}
	r := m.dice("world")
	m.delivery = sendonce.Delivery(r.IntN(2))
	// Rows come in bursts, so that there is something to do all the time.
	for key := range len(w.table.Rows()) {
		require.True(w, w.table.Schedule(key+1, time.Now().Add(time.Duration(key%3)*simFaults/3)))
	}
	m.rate = []float64{0, 0.02, 0.1, 0.3}[r.IntN(4)]
	return m
}

// play runs the schedule and judges it.
func (m *sim) play() {
	r := m.dice("plan")
	for range 2 + r.IntN(3) {
		m.newWorker()
	}
	for range 1 + r.IntN(8) {
		time.Sleep(time.Duration(r.Int64N(int64(simFaults / 5))))
		if time.Now().Before(m.calm) {
			m.strike(r)
		}
	}
	time.Sleep(time.Until(m.calm))
	m.drained(m.newWorker())
	time.Sleep(14 * simLease) // what is still sent, marked or ended
	for _, p := range m.workers {
		if p.killed.IsZero() {
			m.healthy(p)
			if err := p.run.stop(); err != nil {
				m.wrong("worker %s, when there were no faults any more: %v", p.name, err)
			}
			m.released(p)
			m.accounts(p)
		}
	}
	close(m.over)
	for _, p := range m.workers {
		p.run.cancel()
		<-p.run.end
	}
	time.Sleep(time.Minute)
	m.judge()
}

// drained waits until one more worker, without faults, has seen all rows end.
func (m *sim) drained(p *simWorker) {
	if err := p.run.stop(); err != nil {
		m.wrong("a stop at once: %v", err)
	}
	ctx, cancel := context.WithTimeout(m.Context(), simHealing)
	defer cancel()
	if _, err := p.run.Drain(ctx); err != nil || m.left() > 0 {
		m.wrong("%d rows are left: %v", m.left(), err)
	}
}

func (m *sim) left() (n int) {
	for _, r := range m.table.Rows() {
		if r.Status == memclaim.Pending || r.Status == memclaim.Claimed || r.Status == memclaim.Sending {
			n++
		}
	}
	return n
}

// strike lets something happen to a worker, or to all of them.
func (m *sim) strike(r *rand.Rand) {
	var live []*simWorker
	for _, p := range m.workers {
		if p.killed.IsZero() {
			live = append(live, p)
		}
	}
	p := live[r.IntN(len(live))]
	outage := time.Now().Add(time.Duration(r.Int64N(int64(4 * simLease)))).UnixNano()
	mute := r.IntN(2) == 0
	kind := []string{"", "", "extend", "settle"}[r.IntN(4)]
	switch r.IntN(5) {
	case 0, 1:
		m.mu.Lock()
		p.killed = time.Now()
		m.power.kills++
		m.mu.Unlock()
		close(p.kill)
		if r.IntN(4) > 0 || len(live) == 1 {
			m.newWorker()
		}
	case 2:
		m.newWorker()
		if err := p.run.stop(); err == nil {
			m.released(p)
		}
		m.mu.Lock()
		p.killed = time.Now()
		m.mu.Unlock()
		close(p.kill)
	case 3:
		live = []*simWorker{p}
		fallthrough
	default:
		for _, p := range live {
			p.mute.Store(mute)
			p.only.Store(kind)
			p.cut.Store(min(outage, m.calm.UnixNano()))
		}
	}
}

func (m *sim) newWorker() *simWorker {
	p := &simWorker{
		sim: m, name: fmt.Sprint("w", len(m.workers)), table: m.table.Process(), kill: make(chan struct{}),
		held: map[sendonce.Key]*simClaim{},
	}
	r := m.dice(p.name)
	d, err := sendonce.New[string](p, sendonce.BatchSenderFunc[string](p.send), sendonce.Config{
		Concurrency: 1 + r.IntN(4), BatchSize: 1 + r.IntN(20), GroupSize: 1 + r.IntN(3), SendTimeout: simSend, Lease: simLease,
		MaxAttempts: simAttempts, Delivery: m.delivery, Owner: p.name, Logger: slog.New(slog.DiscardHandler),
		Backoff: func(int) time.Duration { return time.Duration(rand.Int64N(int64(3 * time.Second))) },
	})
	require.NoError(m, err)
	m.mu.Lock()
	m.workers = append(m.workers, p)
	m.mu.Unlock()
	p.run = m.start(d)
	return p
}

// send is what all Senders do: each item by itself, in order.
func (p *simWorker) send(ctx context.Context, items []sendonce.Item[string]) error {
	entries := p.begin(items)
	if entries == nil {
		<-p.over
		return errGone
	}
	defer p.end(entries)
	errs := make(sendonce.ItemErrors, len(items))
	for i, e := range entries {
		r := p.dice(p.name, fmt.Sprint(e.key, items[i].Attempt, e.claims))
		d := simSend / time.Duration(len(items))
		if r.IntN(60) == 0 && time.Now().Before(p.calm) {
			p.ignore(entries)
			ctx, d = context.WithoutCancel(ctx), time.Duration(r.Int64N(int64(4*simLease)))
		}
		errs[i] = p.one(ctx, r, e, d)
	}
	p.note(func() {
		for i, e := range entries {
			e.said = errs[i] == nil
			e.free = errors.Is(errs[i], errBusy)
		}
	})
	return errs
}

// ignore notes that a call ignores the end of its context from now on. What is
// sent alone doesn't wait for such a call.
func (p *simWorker) ignore(entries []*simEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(entries)
	for _, e := range entries {
		e.ignorance = true
	}
}

// leave takes a call off those at work. p.mu is held.
func (p *simWorker) leave(entries []*simEntry) {
	if entries[0].ignorance {
		return
	}
	p.flight--
	if entries[0].claim.alone {
		p.byItself--
	}
}

func (p *simWorker) note(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// one sends one item within about d.
func (p *simWorker) one(ctx context.Context, r *rand.Rand, e *simEntry, d time.Duration) error {
	part := d/3 + time.Duration(r.Int64N(int64(d)/8))
	if p.quick() {
		part /= 200
	}
	if e.ignorance {
		part = d
	}
	if err := p.pause(ctx, part); err != nil {
		return err
	}
	switch r.IntN(24) {
	case 0, 1:
		return errFlaky
	case 2:
		panic("the Sender is broken")
	case 3:
		runtime.Goexit()
	case 4:
		return sendonce.NotSent(errFlaky)
	case 5:
		return sendonce.RetryAfter(time.Second, errBusy)
	case 6:
		p.note(func() { e.permanent = true })
		return sendonce.Permanent(errFlaky)
	case 7:
		return sendonce.Skip("a duplicate")
	case 8:
		if e.ignorance {
			return errFlaky
		}
		return p.pause(ctx, time.Hour)
	}
	p.note(func() { e.accepted = time.Now() })
	switch r.IntN(12) {
	case 0:
		return sendonce.Ambiguous(errors.New("no answer came"))
	case 1:
		panic("after the send")
	case 2:
		if !e.ignorance {
			return p.pause(ctx, time.Hour)
		}
	}
	return p.pause(ctx, part)
}

// quick: sends are quick and slow by turns, so that claims that were made while
// they were quick have to wait.
func (p *simWorker) quick() bool {
	return p.dice(p.name, time.Now().Truncate(simLease).String()).IntN(2) == 0
}

// pause is one in a process that may be killed meanwhile.
func (p *simWorker) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.kill:
		<-p.over
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin checks what must hold when a send begins.
func (p *simWorker) begin(items []sendonce.Item[string]) (entries []*simEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead() {
		return nil
	}
	now := time.Now()
	for _, item := range items {
		c := p.held[item.Key]
		if left := c.until.Sub(now); left < simSend+simMargin {
			p.wrong("the start rule: worker %s begins row %v with %v left", p.name, item.Key, left)
		}
		if row := p.row(int(item.Key.(int64))); p.delivery == sendonce.AtMostOnce && row.Status != memclaim.Sending {
			p.wrong("no intent: worker %s begins row %v, which is %s", p.name, item.Key, row.Status)
		}
		e := &simEntry{key: item.Key, by: p, claim: c, claims: len(p.tokens[item.Key]), began: now}
		entries = append(entries, e)
		p.log = append(p.log, e)
	}
	alone := entries[0].claim.alone
	if p.flight > 0 && (alone || p.byItself > 0) {
		p.wrong("worker %s begins row %v beside others (alone: %v)", p.name, items[0].Key, alone)
	}
	if p.flight++; alone {
		p.byItself++
	}
	return entries
}

func (p *simWorker) end(entries []*simEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(entries)
	for _, e := range entries {
		e.ended = time.Now()
		if p.dead() {
			e.ended = p.killed
		}
	}
}
