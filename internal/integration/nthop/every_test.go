package nthop

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

func TestMain(m *testing.M) { servers.Main(m) }

// crewFor has as many runs at a time as the database has connections for, if so
// many crews share it.
func crewFor(t *testing.T, d combo.Database, crews int) *crew {
	t.Helper()
	if d.Dialect == claim.SQLite {
		return newCrew(t, 48/crews, 128/crews)
	}
	return newCrew(t, 10/crews, 18/crews)
}

// TestNothingFails is the play without a fault: what each row's part is, and how
// many operations there are.
func TestNothingFails(t *testing.T) {
	for _, s := range settings(combo.SQLite) {
		if s.Strategy == combo.LockedRedis && testing.Short() {
			continue
		}
		t.Run(s.name(), func(t *testing.T) {
			servers.NoLeaks(t)
			r := s.stage(t).withoutFault(t)
			require.Empty(t, r.problems, r)
			t.Log(r.inj.Count(), "operations")
		})
	}
}

func (st *stage) withoutFault(t *testing.T) *run {
	return newCrew(t, 1, 1).try(t, st, Fault{}, nil)
}

// TestEveryOperationSample runs some of TestEveryOperationSoak, and none that
// hangs: that takes long.
func TestEveryOperationSample(t *testing.T) {
	if testing.Short() {
		t.Skip("some hundred runs: half a minute")
	}
	seed := seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := slices.DeleteFunc(Kinds(), Kind.hangs)
	for _, s := range settings(combo.SQLite) {
		if s.Strategy == combo.LockedRedis || s.Strategy == combo.LockedMem {
			continue
		}
		t.Run(s.name(), func(t *testing.T) {
			servers.NoLeaks(t)
			st, c := s.stage(t), crewFor(t, s.Database, 4)
			for range 12 {
				c.start(t, st, drawn(random, kinds, mostDrawn), func(*run) {})
			}
			c.wait(t)
		})
	}
}

// TestEveryOperationSoak: on SQLite each operation fails in each way, with each
// strategy. With SENDONCE_FULL it is so on every database; else the others have
// samples.
func TestEveryOperationSoak(t *testing.T) {
	servers.Soak(t)
	seed := seed(t)
	for _, d := range combo.Databases() {
		t.Run(d.Name, func(t *testing.T) {
			servers.NoLeaks(t)
			if d.Dialect != claim.SQLite && !servers.Full() {
				sampleOf(t, d, seed)
				return
			}
			for _, s := range settings(d) {
				if !servers.Full() && s.delivery == sendonce.AtMostOnce && onceIsEnough[s.Strategy] {
					continue
				}
				t.Run(s.role(), func(t *testing.T) {
					t.Parallel() // the last runs of one hang while the next has begun
					servers.Ran(t, s.Name())
					st, c := s.stage(t), crewFor(t, d, 2)
					c.everything(t, st)
					c.wait(t)
				})
			}
		})
	}
}

// sampleOf runs as many faults as there is time for, with all strategies of the
// database in turn.
func sampleOf(t *testing.T, d combo.Database, seed uint64) {
	t.Helper()
	var stages []*stage
	for _, s := range settings(d) {
		servers.Ran(t, s.Name())
		stages = append(stages, s.stage(t))
	}
	c, random := crewFor(t, d, 1), rand.New(rand.NewPCG(seed, 0))
	end := time.Now().Add(sampleTime)
	for i := 0; time.Now().Before(end); i++ {
		c.start(t, stages[i%len(stages)], drawn(random, Kinds(), mostDrawn), func(*run) {})
	}
	c.wait(t)
}

// mostDrawn is about how many operations a run has.
const mostDrawn = 220

// onceIsEnough are strategies that do on the pool just what Locked with a lock on
// the pool does, but for the lock; and the one that takes longest.
var onceIsEnough = map[combo.Strategy]bool{combo.LockedMem: true, combo.LockedRedis: true, combo.Serial: true}

// sampleTime is how long the samples of one database take. The last ones that hang
// take as long as their timeouts.
const sampleTime = 45 * time.Second

// seed is SENDONCE_SEED, or a new one.
func seed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(rand.Uint32())
	if text := os.Getenv("SENDONCE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "SENDONCE_SEED")
	}
	t.Logf("SENDONCE_SEED=%d", seed)
	return seed
}

// drawn is one of the faults of up to most operations.
func drawn(random *rand.Rand, kinds []Kind, most int) Fault {
	k := kinds[random.IntN(len(kinds))]
	if k.counts() {
		most = max(most/5, 1)
	}
	return Fault{N: 1 + random.IntN(most), Kind: k, Broken: random.IntN(2) == 1, Row: random.IntN(3)}
}

// planned is the fault of a kind at operation n. What else there is to choose
// differs from one n to the next.
func planned(n int, k Kind) Fault {
	h := uint32(n*8+int(k)) * 2654435761
	return Fault{N: n, Kind: k, Broken: h>>16&1 == 1, Row: int(h >> 20 % 3)}
}

// everything runs each kind at operation 1, 2, 3 ... until nothing fails any more.
// SENDONCE_NTH is one kind alone, "hang after", or one run, "hang after:17".
func (c *crew) everything(t *testing.T, st *stage) {
	t.Helper()
	only, number, one := strings.Cut(os.Getenv("SENDONCE_NTH"), ":")
	for _, k := range Kinds() {
		switch {
		case only != "" && only != k.String():
		case one:
			n, err := strconv.Atoi(number)
			require.NoError(t, err, "SENDONCE_NTH")
			c.start(t, st, planned(n, k), func(*run) {})
		default:
			c.each(t, st, k)
		}
	}
}

func (c *crew) each(t *testing.T, st *stage, k Kind) {
	t.Helper()
	last := make(chan struct{})
	end := sync.OnceFunc(func() { close(last) })
	for n := 1; ; n++ {
		c.start(t, st, planned(n, k), func(r *run) {
			if r.inj.Fired() == "" {
				end()
			}
		})
		select {
		case <-last:
			return
		default:
		}
	}
}
