package crash

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// provider takes messages over HTTP and writes each one down before it answers. It
// refuses three in ten, and leaves one in twenty without an answer: half of those
// it has taken. When it is calm it is quick, and always answers.
type provider struct {
	ledger *ledger
	calm   atomic.Bool
	mu     sync.Mutex
	keys   map[string]bool
	extra  int // taken again by their idempotency key
}

func startProvider(t *testing.T, path string) (*provider, string) {
	t.Helper()
	l, err := openLedger(path)
	require.NoError(t, err)
	p := &provider{ledger: l, keys: map[string]bool{}}
	s := httptest.NewServer(p)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close(); _ = l.close() })
	return p, s.URL
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, _ := strconv.ParseInt(r.FormValue("key"), 10, 64)
	n := rand.IntN(40)
	if p.calm.Load() {
		n = 0
	} else {
		time.Sleep(5*time.Millisecond + rand.N(40*time.Millisecond))
	}
	switch {
	case n > 27:
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	case n == 1: // nothing is taken, and nothing is said
		<-r.Context().Done()
		return
	case n == 2:
		p.take(w, r, key)
		<-r.Context().Done()
		return
	}
	p.take(w, r, key)
	w.WriteHeader(http.StatusOK)
}

func (p *provider) take(w http.ResponseWriter, r *http.Request, key int64) {
	idem := r.FormValue("idem")
	if err := p.ledger.write(event{Kind: accepted, Key: key, Send: r.FormValue("send"), Idem: idem}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[idem] {
		p.extra++
	}
	p.keys[idem] = true
}

// delivered is what a provider that honours idempotency keys has delivered.
func (p *provider) delivered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.keys)
}
