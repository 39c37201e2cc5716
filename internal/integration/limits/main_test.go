// Package limits tests sender.RateLimit, and Dispatchers under limits, on real
// servers and in processes of their own.
package limits

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/sender"
)

// workerVar makes a process of this binary a worker and not a test.
const workerVar = "SENDONCE_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) != "" {
		if err := work(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	servers.Main(m)
}

func newLimit(t testing.TB, client redis.UniversalClient, key string, o sender.RateLimitOptions) *sender.RateLimit {
	t.Helper()
	l, err := sender.NewRateLimit(client, key, o)
	require.NoError(t, err)
	return l
}

// begins is a record of sends that began.
type begins struct {
	mu sync.Mutex
	at []time.Time
	by map[int]int
}

func (b *begins) add(who int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = append(b.at, time.Now())
	if b.by == nil {
		b.by = map[int]int{}
	}
	b.by[who]++
}

// most is the largest number of begins in any window.
func most(at []time.Time, window time.Duration) int {
	n, first := 0, 0
	for i := range at {
		for at[i].Sub(at[first]) >= window {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

// keeps checks the promise of RateLimit over several windows.
func keeps(t *testing.T, at []time.Time, o sender.RateLimitOptions) {
	t.Helper()
	burst := max(o.Burst, 1)
	for _, periods := range []int{1, 2, 3} {
		want := burst + periods*o.Events
		if burst == 1 && periods == 1 {
			want = o.Events
		}
		assert.LessOrEqual(t, most(at, time.Duration(periods)*time.Second), want, "begins in %d s", periods)
	}
}

// perSecond is the rate of the begins from the first to the last.
func perSecond(at []time.Time) float64 {
	return float64(len(at)-1) / at[len(at)-1].Sub(at[0]).Seconds()
}

// fast checks that a limit is used, unless the machine is too busy to tell: slots
// that are taken up late are lost. m was started when the sends were.
func (m *meter) fast(t *testing.T, got float64, limit int) {
	t.Helper()
	m.read()
	t.Logf("%.1f sends in a second of %d; %d of %d naps were late, by %v at the most", got, limit, m.late, m.naps, m.worst)
	if m.late*20 <= m.naps {
		assert.Greater(t, got, 0.8*float64(limit), "sends in a second")
	}
}

// meter finds out how late this machine wakes those who sleep.
type meter struct {
	naps, late int
	worst      time.Duration
	stop, done chan struct{}
}

// read ends the measurement.
func (m *meter) read() {
	close(m.stop)
	<-m.done
}

func newMeter() *meter {
	m := &meter{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(m.done)
		const nap = 5 * time.Millisecond
		for {
			start := time.Now()
			select {
			case <-m.stop:
				return
			case <-time.After(nap):
			}
			m.naps++
			by := time.Since(start) - nap
			m.worst = max(m.worst, by)
			if by > 3*time.Millisecond {
				m.late++
			}
		}
	}()
	return m
}
