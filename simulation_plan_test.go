package sendonce_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

const (
	simSend    = 1400 * time.Millisecond
	simFaults  = 5  // leases
	simHealing = 40 // leases: after so much more every row has ended
)

// sim is one schedule of workers and faults.
type sim struct {
	*world
	seed     uint64
	liveness bool // liveness is judged: faults end, and every row must
	born     time.Time
	calm     time.Time // no faults from then on
	over     chan struct{}

	lease    time.Duration
	delivery sendonce.Delivery
	attempts int
	rate     float64 // of faulty calls
	ignoring int     // one send in so many ignores its context
	rare     int     // which rare branches are likely
	refused  sendonce.Key
	walls    []simStep // of the wall clock of the workers' machine
	offset   atomic.Int64

	lateCommits sync.WaitGroup

	mu       sync.Mutex
	workers  []*simWorker
	keys     []int64
	rows     map[int64]*simRow
	claims   map[int64]*simClaim
	live     []*simClaim // those in the table
	claimsOf map[int64][]*simClaim
	log      map[int64][]*simEntry
	stepped  bool
	problems []string
	power    simPower
}

type simStep struct {
	at time.Time
	by time.Duration
}

// wall is the wall clock of the workers' machine.
func (m *sim) wall(t time.Time) time.Time {
	t = t.Round(0)
	out := t
	for _, s := range m.walls {
		if !t.Before(s.at) {
			out = out.Add(s.by)
		}
	}
	return out
}

// wrong notes a broken rule. m.mu is held.
func (m *sim) wrong(format string, args ...any) {
	if len(m.problems) < 20 {
		m.problems = append(m.problems, fmt.Sprintf("%v: ", time.Since(m.born))+fmt.Sprintf(format, args...))
	}
}

// The rare branches: what one schedule in three makes likely.
const (
	rareOneRow = iota
	rareOneSender
	rareGroups
	rareLongLinger
	rareNoLinger
	rareShortStop
	rareSuspects
	rareLastTry
	rareIgnoring
	rareManyQuick
	rareRefused
	rareWall
	rareRenewals
	rareBranches
)

func newSim(t *testing.T, seed uint64) *sim {
	m := &sim{
		seed: seed, born: time.Now(), over: make(chan struct{}), liveness: seed%2 == 0,
		rows: map[int64]*simRow{}, claims: map[int64]*simClaim{}, claimsOf: map[int64][]*simClaim{}, log: map[int64][]*simEntry{},
	}
	m.world = &world{T: t, table: memclaim.New[string](&memclaim.Options{Now: m.storeNow})}
	r := m.dice("world")
	m.rare = r.IntN(3 * rareBranches)
	// The shortest lease for that send limit, or a longer one; odd, so that no two
	// timers of a worker fall together.
	m.lease = 6*time.Second + 7 + time.Duration(r.IntN(3))*time.Second
	m.calm = time.Now().Add(simFaults * m.lease)
	m.delivery = sendonce.Delivery(r.IntN(2))
	m.attempts = 4
	m.rate = []float64{0, 0.02, 0.1, 0.3}[r.IntN(4)]
	m.ignoring = 60
	n := 8 + r.IntN(8)
	switch m.rare {
	case rareLastTry:
		m.attempts = 1 + r.IntN(2)
	case rareIgnoring:
		m.ignoring = 5
	case rareManyQuick:
		n = 60
	case rareRenewals:
		n = 24
	case rareRefused:
		m.refused = int64(1 + r.IntN(n))
	case rareWall:
		for range 2 {
			m.walls = append(m.walls, simStep{m.born.Add(time.Duration(r.Int64N(int64(simFaults * m.lease)))), time.Duration(r.Int64N(int64(4*m.lease))) - 2*m.lease})
			m.power.Steps++
		}
	}
	m.addRows(r, n)
	return m
}

// addRows fills the table: rows come in bursts, so that there is something to do
// all the time, and some are committed later than rows with larger keys.
func (m *sim) addRows(r *rand.Rand, n int) {
	for i := range n {
		key := int64(i + 1)
		row := simRow{status: memclaim.Pending}
		if m.rare == rareSuspects || m.rare == rareRenewals && i%3 == 0 {
			row.token, row.attempts = 1, max(r.IntN(m.attempts), r.IntN(m.attempts))
		}
		if part := key % 4; part > 0 {
			row.due = m.storeNow().Add(time.Duration(part-1) * simFaults * m.lease / 3)
			m.add(key, row)
			continue
		}
		time.AfterFunc(time.Duration(r.Int64N(int64(simFaults*m.lease))), func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.add(key, row)
		})
	}
}

func (m *sim) add(key int64, row simRow) {
	err := m.table.Add(memclaim.Row[string]{Key: key, Status: row.status, Token: row.token, Attempts: row.attempts, NextAttempt: row.due})
	require.NoError(m, err)
	m.rows[key] = &row
	m.keys = append(m.keys, key)
}

// play runs the schedule and judges it.
func (m *sim) play() {
	r := m.dice("plan")
	for range 2 + r.IntN(3) {
		m.newWorker()
	}
	if m.rare == rareRenewals {
		m.waves(r)
	}
	for range 1 + r.IntN(8) {
		time.Sleep(time.Duration(r.Int64N(int64(simFaults * m.lease / 5))))
		if time.Now().Before(m.calm) {
			m.strike(r)
		}
	}
	time.Sleep(time.Until(m.calm))
	if m.liveness {
		m.heal()
	}
	close(m.over)
	for _, p := range m.workers {
		m.mu.Lock()
		if p.killed.IsZero() {
			p.killed = time.Now()
			close(p.kill)
		}
		m.mu.Unlock()
		p.run.cancel()
		<-p.run.end
	}
	m.lateCommits.Wait()
	time.Sleep(8 * m.lease) // for Senders that ignore their context
	m.judge()
}

// heal waits until everything has ended, and stops the workers one after another.
func (m *sim) heal() {
	live := m.alive()
	if len(live) > 1 { // a stop without faults, with work at hand
		time.Sleep(m.lease * 3 / 2)
		m.stopped(live[0])
	}
	m.drained(m.newWorker())
	for range 20 { // what is still sent, marked or ended
		if !slices.ContainsFunc(m.alive(), func(p *simWorker) bool { return !m.idle(p) }) && len(m.table.Holders()) == 0 {
			break
		}
		time.Sleep(m.lease)
	}
	for _, p := range m.alive() {
		m.healthy(p)
		m.stopped(p)
	}
	if h := m.table.Holders(); len(h) > 0 {
		m.problem("claims that did not end: %+v", h)
	}
}

func (m *sim) problem(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong(format, args...)
}

func (m *sim) alive() (live []*simWorker) {
	for _, p := range m.workers {
		if p.killed.IsZero() {
			live = append(live, p)
		}
	}
	return live
}

// drained waits until one more worker, without faults, has seen all rows end.
func (m *sim) drained(p *simWorker) {
	if err := m.stop(p); err != nil {
		m.problem("a stop at once: %v", err)
	}
	ctx, cancel := context.WithTimeout(m.Context(), simHealing*m.lease)
	defer cancel()
	p.stopping = false
	if _, err := p.d.Drain(ctx); err != nil || m.left() > 0 {
		m.problem("%d rows are left: %v", m.left(), err)
	}
	m.kill(p)
}

func (m *sim) left() (n int) {
	for _, r := range m.table.Rows() {
		if r.Status == memclaim.Pending || r.Status == memclaim.Claimed || r.Status == memclaim.Sending {
			n++
		}
	}
	return n
}

func (m *sim) kill(p *simWorker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.killed = time.Now()
	close(p.kill)
}

func (m *sim) stop(p *simWorker) error {
	m.mu.Lock()
	p.stopping = true
	m.mu.Unlock()
	return p.run.stop()
}

// strike lets something happen to a worker, to all of them, or to the table.
func (m *sim) strike(r *rand.Rand) {
	live := m.alive()
	p := live[r.IntN(len(live))]
	switch r.IntN(10) {
	case 0, 1:
		m.power.Kills++
		m.kill(p)
		if r.IntN(4) > 0 || len(live) == 1 {
			m.newWorker()
		}
	case 2:
		m.power.Stops++
		m.newWorker()
		if err := m.stop(p); err == nil {
			m.released(p)
		}
		m.kill(p)
	case 3, 4:
		if r.IntN(2) == 0 {
			live = []*simWorker{p}
		}
		outage := time.Now().Add(time.Duration(r.Int64N(int64(3 * m.lease))))
		mute, kind := r.IntN(2) == 0, []string{"", "", "extend", "settle"}[r.IntN(4)]
		m.power.Outages++
		for _, p := range live {
			p.mute.Store(mute)
			p.only.Store(kind)
			p.cut.Store(min(outage.UnixNano(), m.calm.UnixNano()))
		}
	case 5, 6:
		if r.IntN(4) > 0 {
			live = []*simWorker{p}
		}
		for _, p := range live {
			m.standStill(p, m.lease*3/10+time.Duration(r.Int64N(int64(m.lease*13/10))))
		}
	case 7:
		m.mu.Lock()
		m.stepped = true
		m.power.Steps++
		m.mu.Unlock()
		m.offset.Add(r.Int64N(int64(4*m.lease)) - int64(2*m.lease))
	default:
		m.meddle(r)
	}
}

// waves: processes stand still for most of a lease, and can't renew until soon
// after, so that rows wait that may not be begun, and then may.
func (m *sim) waves(r *rand.Rand) {
	for i := range time.Duration(3) {
		time.Sleep(time.Until(m.born.Add(i*m.lease*3/2 + time.Duration(r.Int64N(int64(m.lease/3))))))
		for _, p := range m.alive() {
			m.standStill(p, m.lease*6/10+time.Duration(r.Int64N(int64(m.lease*35/100))))
		}
	}
}

// standStill pauses a process.
func (m *sim) standStill(p *simWorker, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.power.Pauses++
	now := time.Now()
	p.pauses = append(p.pauses, [2]time.Time{now, now.Add(d)})
	p.until.Store(max(p.until.Load(), now.Add(d).UnixNano()))
}

// meddle is what the application and operators do.
func (m *sim) meddle(r *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.keys[r.IntN(len(m.keys))]
	kind := r.IntN(3)
	if kind == 0 { // a row that is being sent
		for _, k := range m.keys {
			if m.rows[k].held() {
				key = k
			}
		}
		m.power.Foreign++
		m.rows[key].status = "archived"
		m.table.SetStatus(key, "archived")
	} else if kind == 1 && len(m.live) > 0 {
		c := m.live[r.IntN(len(m.live))]
		m.power.Forgotten++
		c.deleted = true
		m.drop(c)
		_ = m.table.End(context.Background(), []int64{c.token})
	}
	for _, k := range m.keys {
		row := m.rows[k]
		if kind == 2 && (row.status == memclaim.Dead || row.status == memclaim.Unknown || row.status == memclaim.Skipped) {
			m.power.Requeued += m.table.Requeue(k)
			row.status, row.token, row.attempts, row.due, row.requeued = memclaim.Pending, 0, 0, m.storeNow(), time.Now()
			m.same("a requeue", k)
		}
	}
}

func (m *sim) newWorker() *simWorker {
	n := int64(len(m.workers))
	p := &simWorker{
		sim: m, name: fmt.Sprint("w", n), n: n, table: m.table.Process(), kill: make(chan struct{}),
		holds: map[int64]*simClaim{}, unmarked: map[sendonce.Ref]bool{}, lease: 30 * time.Second,
	}
	r := m.dice("worker", n)
	backoff := m.dice("backoff", n)
	var mu sync.Mutex
	p.cfg = sendonce.Config{
		Concurrency: 1 + r.IntN(4), BatchSize: 1 + r.IntN(12), GroupSize: 1, SendTimeout: simSend, Lease: m.lease,
		MaxAttempts: m.attempts, Delivery: m.delivery, Owner: p.name, Logger: slog.New(slog.DiscardHandler),
		Backoff: func(int) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(backoff.Int64N(int64(m.lease / 2)))
		},
		Hooks: sendonce.Hooks{Lost: func(token int64, _ int) {
			p.note(func() { p.claims[token].told = time.Now(); p.power.Lost++ })
		}},
	}
	p.rarely(r)
	d, err := sendonce.New[string](p, sendonce.BatchSenderFunc[string](p.send), p.cfg)
	require.NoError(m, err)
	p.d = d
	m.mu.Lock()
	m.workers = append(m.workers, p)
	m.mu.Unlock()
	time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond) // no two in step
	p.run = m.start(d)
	return p
}

// rarely makes a rare branch likely.
func (p *simWorker) rarely(r *rand.Rand) {
	switch p.rare {
	case rareOneRow:
		p.cfg.BatchSize = 1
	case rareOneSender, rareManyQuick:
		p.cfg.Concurrency = 1
	case rareRenewals:
		p.cfg.Concurrency = 2 + r.IntN(2)
	case rareGroups:
		p.cfg.GroupSize = 2 + r.IntN(3)
	case rareLongLinger:
		p.cfg.MarkLinger = time.Second
	case rareNoLinger:
		p.cfg.MarkLinger = 1
	case rareShortStop:
		p.cfg.StopTimeout = time.Duration(1 + r.IntN(int(simSend)))
	}
}
