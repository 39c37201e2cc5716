package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) != "" {
		if err := work(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	servers.Main(m)
}

// plan is what happens in a run, in an order by chance.
type plan struct {
	rows, workers                         int
	kills, stops, restarts, outages, cuts int
	lostReplies                           int
}

// The whole programme of docs/testing.md, on PostgreSQL.
func TestWorkersDieSoak(t *testing.T) {
	servers.Soak(t)
	p := plan{rows: 50_000, workers: 5, kills: 50, stops: 20, restarts: 5, outages: 5, cuts: 10, lostReplies: 20}
	t.Run("AtLeastOnce", func(t *testing.T) { run(t, combo.SkipLocked, sendonce.AtLeastOnce, p) })
	p.rows /= 2
	t.Run("AtMostOnce", func(t *testing.T) { run(t, combo.Atomic, sendonce.AtMostOnce, p) })
}

// A few of each in make test.
func TestWorkersDie(t *testing.T) {
	p := plan{rows: 1500, workers: 3, kills: 4, stops: 2, restarts: 1, outages: 1, cuts: 1, lostReplies: 2}
	for strategy, delivery := range map[combo.Strategy]sendonce.Delivery{combo.Atomic: sendonce.AtLeastOnce, combo.SkipLocked: sendonce.AtMostOnce} {
		t.Run(string(strategy)+"/"+delivery.String(), func(t *testing.T) {
			t.Parallel()
			run(t, strategy, delivery, p)
		})
	}
}

// site is where a run takes place.
type site struct {
	*testing.T
	server   *servers.SQLServer
	table    *combo.Table
	ledger   *ledger
	path     string
	provider string
	delivery sendonce.Delivery
	rand     *rand.Rand

	mu    sync.Mutex
	slots []*slot
	busy  sync.WaitGroup // pauses and cuts that go on
}

// slot is a place for a worker, which a supervisor fills again when it is empty.
type slot struct {
	proxy   *servers.Proxy
	name    string
	place   int
	serial  int
	cmd     *exec.Cmd
	in      io.Closer
	waited  chan struct{}
	stopped bool // by SIGSTOP
	cut     bool
}

func run(t *testing.T, strategy combo.Strategy, delivery sendonce.Delivery, p plan) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("SENDONCE_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("SENDONCE_SEED=%d", seed)
	s := &site{T: t, server: servers.StartPostgres(t), delivery: delivery, rand: rand.New(rand.NewPCG(seed, 1)), path: filepath.Join(t.TempDir(), "ledger")}
	place := combo.Combo{Strategy: strategy, Database: combo.Postgres, Key: "bigint"}.On(t, s.server.Database)
	s.table = place.Table(t, p.rows)
	var err error
	s.ledger, err = openLedger(s.path)
	require.NoError(t, err)
	defer s.ledger.close()
	prov, url := startProvider(t, s.path)
	s.provider = url
	for i := range p.workers {
		sl := &slot{place: i, proxy: servers.NewProxy(t, s.server.Addr)}
		s.slots = append(s.slots, sl)
		s.start(sl)
	}
	began := time.Now()
	s.strike(p)
	struck := time.Since(began)
	prov.calm.Store(true)
	s.drained()
	s.end()

	v := s.verdict()
	t.Logf("%d rows, %d sends, %d accepted, %d delivered by key; again, by reason: %v; met: %v; faults for %v of %v", p.rows, v.sends, v.accepted, prov.delivered(), v.second, v.met, struck, time.Since(began))
	for i, problem := range v.problems {
		if i < 20 {
			t.Error(problem)
		}
	}
	assert.LessOrEqual(t, prov.delivered(), p.rows, "one key a row")
	s.power(v, p)
}

// power: a run that has met nothing says nothing.
func (s *site) power(v verdict, p plan) {
	var need []string // of a small run little can be asked
	if p.rows >= 10_000 {
		need = append(need, "reclaimed", "failed mark", "lost claim", "late fact", "refused opinion")
	}
	for _, what := range need {
		assert.Positive(s, v.met[what], "VOID: the run has met no %s", what)
	}
	assert.Equal(s, p.kills, v.met["killed"])
	assert.Equal(s, p.stops, v.met["paused"])
}

func (s *site) start(sl *slot) {
	sl.serial++
	sl.name = fmt.Sprintf("w%d.%d", sl.place, sl.serial)
	spec := s.table.Spec()
	at := s.server.Database.At(sl.proxy.Addr)
	spec.DSN = at.DSNFor(spec.Driver)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVar+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(s, err)
	require.NoError(s, cmd.Start())
	require.NoError(s, json.NewEncoder(in).Encode(order{Name: sl.name, Spec: spec, Ledger: s.path, Provider: s.provider, Delivery: s.delivery}))
	sl.cmd, sl.in, sl.waited = cmd, in, make(chan struct{})
	go func(done chan struct{}) { _ = cmd.Wait(); close(done) }(sl.waited)
}

// strike lets everything of the plan happen, in an order by chance.
func (s *site) strike(p plan) {
	var acts []func()
	add := func(n int, f func()) {
		for range n {
			acts = append(acts, f)
		}
	}
	add(p.kills, s.kill)
	add(p.stops, s.pause)
	add(p.restarts, s.restart)
	add(p.outages, s.outage)
	add(p.cuts, s.cut)
	add(p.lostReplies, s.loseReplies)
	s.rand.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
	for _, act := range acts {
		time.Sleep(200*time.Millisecond + time.Duration(s.rand.Int64N(int64(600*time.Millisecond))))
		act()
	}
	s.busy.Wait()
}

// pick chooses a worker that nothing happens to now.
func (s *site) pick() *slot {
	for {
		s.mu.Lock()
		var free []*slot
		for _, sl := range s.slots {
			if !sl.stopped && !sl.cut {
				free = append(free, sl)
			}
		}
		s.mu.Unlock()
		if len(free) > 0 {
			return free[s.rand.IntN(len(free))]
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *site) wrote(e event) { require.NoError(s, s.ledger.write(e)) }

func (s *site) kill() {
	sl := s.pick()
	name := sl.name
	require.NoError(s, sl.cmd.Process.Kill())
	<-sl.waited
	s.wrote(event{Kind: fault, What: "killed", Worker: name})
	_ = sl.in.Close()
	s.start(sl)
}

// pause stops a process for a time around the lease.
func (s *site) pause() {
	sl := s.pick()
	d := lease/2 + time.Duration(s.rand.Int64N(int64(2*lease)))
	s.during(sl, &sl.stopped, "paused", d, func() {
		require.NoError(s, sl.cmd.Process.Signal(syscall.SIGSTOP))
	}, func() {
		require.NoError(s, sl.cmd.Process.Signal(syscall.SIGCONT))
	})
}

// cut lets one worker alone lose its line for a time around the lease.
func (s *site) cut() {
	sl := s.pick()
	d := lease + time.Duration(s.rand.Int64N(int64(2*lease)))
	s.during(sl, &sl.cut, "cut", d, func() { sl.proxy.BlackHole(s) }, func() { sl.proxy.Heal(s) })
}

// loseReplies loses what the database answers one worker, for a moment.
func (s *site) loseReplies() {
	sl := s.pick()
	s.during(sl, &sl.cut, "replies lost", 150*time.Millisecond, func() { sl.proxy.LoseReplies(s) }, func() { sl.proxy.Heal(s); sl.proxy.Disconnect(s) })
}

// during lets something happen to a worker beside the other acts.
func (s *site) during(sl *slot, flag *bool, what string, d time.Duration, begin, end func()) {
	name, from := sl.name, time.Now()
	s.mu.Lock()
	*flag = true
	s.mu.Unlock()
	begin()
	s.busy.Go(func() {
		time.Sleep(d)
		end()
		s.wrote(event{Kind: fault, What: what, Worker: name, At: from.UnixNano(), Until: time.Now().UnixNano()})
		s.mu.Lock()
		*flag = false
		s.mu.Unlock()
	})
}

// restart ends the server, with or without notice, and starts it again.
func (s *site) restart() {
	from := time.Now()
	if s.rand.IntN(2) == 0 {
		s.server.Kill(s)
	} else {
		s.server.Stop(s)
	}
	time.Sleep(time.Duration(s.rand.Int64N(int64(time.Second))))
	s.server.Start(s)
	s.wrote(event{Kind: fault, What: "restart", At: from.UnixNano(), Until: time.Now().UnixNano()})
}

// outage makes the server hang, for all, for longer than a lease.
func (s *site) outage() {
	from := time.Now()
	s.server.Pause(s)
	time.Sleep(lease + time.Duration(s.rand.Int64N(int64(lease))))
	s.server.Resume(s)
	s.wrote(event{Kind: fault, What: "outage", At: from.UnixNano(), Until: time.Now().UnixNano()})
}

var names = []string{"pending", "claimed", "sending", "done", "dead", "skipped", "unknown"}

func (s *site) statuses() map[int64]string {
	rows := []struct {
		ID     int64 `db:"id"`
		Status int   `db:"status"`
	}{}
	require.NoError(s, s.table.Admin.SelectContext(s.Context(), &rows, "SELECT id, status FROM "+s.table.Name))
	out := map[int64]string{}
	for _, r := range rows {
		out[r.ID] = names[r.Status]
	}
	return out
}

// drained waits until every row has ended.
func (s *site) drained() {
	require.Eventually(s, func() bool {
		var left int
		err := s.table.Admin.GetContext(s.Context(), &left, "SELECT COUNT(*) FROM "+s.table.Name+" WHERE status IN (0, 1, 2)")
		return err == nil && left == 0
	}, 4*time.Minute, 100*time.Millisecond, "rows are left")
}

// end stops the workers in good order.
func (s *site) end() {
	for _, sl := range s.slots {
		require.NoError(s, sl.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, sl := range s.slots {
		select {
		case <-sl.waited:
			assert.True(s, sl.cmd.ProcessState.Success(), "a worker ends with %v", sl.cmd.ProcessState)
		case <-time.After(30 * time.Second):
			s.Errorf("a worker does not end")
			_ = sl.cmd.Process.Kill()
		}
		_ = sl.in.Close()
	}
	var claims int
	require.NoError(s, s.table.Admin.GetContext(s.Context(), &claims, "SELECT COUNT(*) FROM sendonce_claims"))
	assert.Zero(s, claims, "claims that nobody ended")
}

func (s *site) verdict() verdict {
	events, err := readLedger(s.path)
	require.NoError(s, err)
	return check(trial{events: events, status: s.statuses(), atMostOnce: s.delivery == sendonce.AtMostOnce, lease: lease})
}
