package limits

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

// provider answers 429 above its limit in any sliding second, and once, half-way,
// for no fault of ours.
type provider struct {
	limit, half int
	pause       time.Duration

	mu       sync.Mutex
	at       []time.Time // all requests
	accepted int
	ours     int       // answered 429 because there were too many
	paused   time.Time // when it asked for a pause
}

func (p *provider) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.at = append(p.at, now)
	within := 0
	for _, at := range p.at {
		if now.Sub(at) < time.Second {
			within++
		}
	}
	switch {
	case within > p.limit:
		p.ours++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case p.accepted == p.half && p.paused.IsZero() && p.pause > 0:
		p.paused = now
		w.Header().Set("Retry-After", strconv.Itoa(int(p.pause.Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		p.accepted++
	}
}

// worker is a process that sends.
type worker struct {
	cmd *exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Reader
}

func startWorker(t *testing.T, o order) worker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerVar+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, json.NewEncoder(in).Encode(o))
	return worker{cmd, in, bufio.NewReader(out)}
}

// fault22 runs three processes that share a limit of so many sends in a second:
// first they poll in vain, then each has a third of the rows.
func fault22(t *testing.T, limit, rows int, pause time.Duration) {
	r := servers.Redis(t)
	p := &provider{limit: limit, half: rows / 2, pause: pause}
	web := httptest.NewServer(p)
	defer web.Close()
	o := order{
		Addr: r.Addr, DB: r.DB, Key: r.Prefix + "limit", Events: limit, Per: time.Second,
		Provider: web.URL, Polls: 34, Rows: rows / 3,
	}
	var workers []worker
	for range 3 {
		workers = append(workers, startWorker(t, o))
	}
	for _, w := range workers {
		line, err := w.out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
	}
	asked, err := r.Client(t).Exists(t.Context(), o.Key).Result()
	require.NoError(t, err)
	require.Zero(t, asked, "empty polls have asked the limit")
	for _, w := range workers {
		_, err := w.in.Write([]byte("go\n"))
		require.NoError(t, err)
	}
	m := newMeter()
	var done, retried, attempts int
	for _, w := range workers {
		var rep report
		require.NoError(t, json.NewDecoder(w.out).Decode(&rep))
		require.NoError(t, w.cmd.Wait())
		done, retried, attempts = done+rep.Done, retried+int(rep.Retried), max(attempts, rep.Most)
	}
	assert.Equal(t, rows, done)
	assert.Equal(t, 1, attempts, "attempts of a row: one that the provider defers is not charged")
	judge(t, p, m, rows, retried)
}

// judge checks what the provider has seen.
func judge(t *testing.T, p *provider, m *meter, rows, retried int) {
	t.Helper()
	assert.Equal(t, rows, p.accepted)
	require.False(t, p.paused.IsZero())

	var quiet, whole time.Duration
	hasty := 0
	for i, at := range p.at {
		after := at.Sub(p.paused)
		switch {
		case after <= 0:
		case after < 150*time.Millisecond: // begun before the others could know
			hasty++
		case after < p.pause:
			t.Errorf("a send %v after the provider had asked for a pause of %v", after, p.pause)
		}
		if i > 0 && at.After(p.paused) {
			quiet = max(quiet, at.Sub(p.at[i-1]))
		}
	}
	assert.LessOrEqual(t, hasty, 2, "sends begun before the pause was known")
	assert.Less(t, len(p.at)-rows, 3, "sends for nothing; %d rows came back", retried)
	whole = p.at[len(p.at)-1].Sub(p.at[0]) - quiet
	got := float64(len(p.at)-2) / whole.Seconds()
	m.fast(t, got, p.limit)
	if m.worst < slack/2 { // else a send may have stood still between the limit's word and the provider
		assert.Zero(t, p.ours, "429 by our doing")
	} else {
		assert.LessOrEqual(t, p.ours, 2, "429 by our doing, on a machine that stands still for %v", m.worst)
	}
}

func TestFault22_LimitOfThreeProcessesIsOneLimit(t *testing.T) {
	fault22(t, 50, 240, time.Second)
}

func TestFault22_SoakTenInASecond(t *testing.T) {
	servers.Soak(t)
	fault22(t, 10, 300, 3*time.Second)
}

// The limiter that everybody knows fits as it is, and limits one process.
func TestFault22_LimitOfEachProcessIsItsOwn(t *testing.T) {
	const limit = 40
	p := &provider{limit: 1 << 30}
	web := httptest.NewServer(p)
	defer web.Close()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			rows := memclaim.New[int](nil)
			for i := range limit {
				assert.NoError(t, rows.Add(memclaim.Row[int]{Key: i}))
			}
			d, err := sendonce.New(rows, post(web.URL), sendonce.Config{Limiter: rate.NewLimiter(limit, 1)})
			if assert.NoError(t, err) {
				stats, err := d.Drain(t.Context())
				assert.NoError(t, err)
				assert.EqualValues(t, limit, stats.Sent)
			}
		})
	}
	wg.Wait()
	took := p.at[len(p.at)-1].Sub(p.at[0])
	assert.Greater(t, took, 900*time.Millisecond, "each keeps its own limit")
	assert.Greater(t, most(p.at, time.Second), limit*3/2, "and two together send twice as much")
}
