package redisqueue

import (
	"encoding/json"
	"errors"
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

	"github.com/sendonce/sendonce/claim/redisclaim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

// plan is what happens in a run.
type plan struct {
	items, keys, workers, producers int
	kills, restarts                 int
	every                           time.Duration // between kills
	sends                           time.Duration // the longest: where kills are few they must hit some
}

func TestKeysKeepTheirOrderSoak(t *testing.T) {
	servers.Soak(t)
	run(t, plan{items: 5000, keys: 50, workers: 3, producers: 2, kills: 20, restarts: 2, every: time.Second, sends: 20 * time.Millisecond})
}

// A few of each in make test.
func TestKeysKeepTheirOrder(t *testing.T) {
	run(t, plan{items: 600, keys: 10, workers: 3, producers: 2, kills: 4, restarts: 1, every: 700 * time.Millisecond, sends: 80 * time.Millisecond})
}

// site is where a run takes place.
type site struct {
	*testing.T
	server *servers.RedisServer
	path   string
	ledger *ledger
	sends  time.Duration
	rand   *rand.Rand
	slots  []*slot
}

// slot is a place for a worker, which is filled again when it is empty.
type slot struct {
	place, serial int
	name          string
	cmd           *exec.Cmd
	in            io.Closer
	waited        chan struct{}
}

func run(t *testing.T, p plan) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("SENDONCE_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("SENDONCE_SEED=%d", seed)
	s := &site{T: t, path: filepath.Join(t.TempDir(), "ledger"), sends: p.sends, rand: rand.New(rand.NewPCG(seed, 1))}
	s.server = servers.StartRedis(t, servers.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	var err error
	s.ledger, err = openLedger(s.path)
	require.NoError(t, err)
	defer s.ledger.f.Close()
	for i := range p.workers {
		sl := &slot{place: i}
		s.slots = append(s.slots, sl)
		s.start(sl)
	}
	var produced sync.WaitGroup
	span := time.Duration(p.kills) * p.every
	for i := range p.producers {
		produced.Go(func() { s.produce(p, i, span) })
	}
	s.strike(p)
	produced.Wait()
	q := s.open()
	require.Eventually(t, func() bool { c, err := q.Counts(t.Context()); return err == nil && c.Left() == 0 }, 2*time.Minute, 50*time.Millisecond, "items are left")
	// One that was killed between its last result and the end of its claim.
	require.Eventually(t, func() bool { hs, err := q.Holders(t.Context()); return err == nil && len(hs) == 0 }, time.Minute, 50*time.Millisecond, "claims are left")
	s.end()

	events, err := readLedger(s.path)
	require.NoError(t, err)
	v := check(events, p)
	t.Logf("%d items, %d sends, again: %v", p.items, v.sends, v.again)
	for i, problem := range v.problems {
		if i < 20 {
			assert.Fail(t, problem)
		}
	}
	assert.Positive(t, v.again[killed], "VOID: no kill has hit a send")
	assert.Positive(t, v.again[failed], "VOID: no send has failed")
	// What is unique is so for a while longer.
	require.NoError(t, s.server.Client(t).Del(t.Context(), q.Keys()[uniqueKey:]...).Err())
	onlyState(t, raw{t, s.server.Client(t), q.Keys()})
}

func (s *site) open() *redisclaim.Queue[job] {
	return open[job](s.T, s.server.Client(s.T), s.server.Prefix, redisclaim.Options{})
}

// produce adds its part of the keys, item after item, over most of the span. An Add
// that failed may have acted: a unique key, which outlasts the run, tells.
func (s *site) produce(p plan, part int, span time.Duration) {
	q := s.open()
	pause := span * 8 / 10 * time.Duration(p.producers) / time.Duration(p.items)
	for n := range p.items / p.keys {
		for k := part; k < p.keys; k += p.producers {
			j := job{Key: fmt.Sprintf("key {%d}", k), N: n}
			it := redisclaim.Item[job]{Key: j.Key, Value: j, Unique: fmt.Sprint(k, " ", n), UniqueFor: 10 * time.Second}
			s.addSurely(q, it)
			time.Sleep(pause)
		}
	}
}

func (s *site) addSurely(q *redisclaim.Queue[job], it redisclaim.Item[job]) {
	for began := time.Now(); time.Since(began) < 9*time.Second; time.Sleep(20 * time.Millisecond) {
		_, err := q.Add(s.Context(), it)
		if err == nil || errors.Is(err, redisclaim.ErrTaken) {
			return
		}
	}
	assert.Fail(s, "an item can't be added")
}

func (s *site) start(sl *slot) {
	sl.serial++
	sl.name = fmt.Sprintf("w%d.%d", sl.place, sl.serial)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVar+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(s, err)
	require.NoError(s, cmd.Start())
	require.NoError(s, json.NewEncoder(in).Encode(workOrder{Name: sl.name, Redis: s.server.Addr, DB: s.server.DB, Prefix: s.server.Prefix, Ledger: s.path, Sends: s.sends}))
	sl.cmd, sl.in, sl.waited = cmd, in, make(chan struct{})
	go func(done chan struct{}) { _ = cmd.Wait(); close(done) }(sl.waited)
}

// strike kills a worker again and again, and the server now and then.
func (s *site) strike(p plan) {
	for i := range p.kills {
		time.Sleep(p.every)
		sl := s.slots[s.rand.IntN(len(s.slots))]
		require.NoError(s, sl.cmd.Process.Kill())
		<-sl.waited
		s.ledger.write(event{What: killed, Worker: sl.name})
		_ = sl.in.Close()
		s.start(sl)
		if i%(p.kills/p.restarts) == p.kills/p.restarts-1 {
			if s.rand.IntN(2) == 0 {
				s.server.Kill(s)
			} else {
				s.server.Stop(s)
			}
			s.server.Start(s)
		}
	}
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
}
