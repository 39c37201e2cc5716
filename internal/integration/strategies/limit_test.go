package strategies

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// limit is what the claims of these tests ask for.
const limit = 10

func ask() sendonce.ClaimRequest {
	const day = 24 * 3600 * 1e9
	return sendonce.ClaimRequest{Limit: limit, Lease: day, MaxAttempts: 1 << 20, Owner: "limit"}
}

func TestLimit(t *testing.T) { limits(t, 80, 1) }

// 100,000 claims, shared out over the combinations, or a sample of them.
func TestLimitSoak(t *testing.T) {
	servers.Soak(t)
	limits(t, sized(20_000, 100_000)/len(combo.All())+1, 20)
}

// limits makes so many claims of 10 with four Claimers, of fresh rows and of rows
// that come back, and reads for one in every so many which rows carry its token.
func limits(t *testing.T, claims, every int) {
	combo.Run(t, append(combo.All(), combo.AllUnmarked()...), func(t *testing.T, p *combo.Place) {
		tb := p.Table(t, 0)
		r := &limitRun{tb: tb, every: int64(every)}
		r.left.Store(int64(claims))
		var wg sync.WaitGroup
		c := tb.Worker(t)
		for range 4 {
			if p.Strategy != combo.Unmarked { // whose partitions have one owner
				c = tb.Worker(t)
			}
			c := c
			wg.Go(func() {
				for r.left.Load() > 0 && !t.Failed() {
					r.claim(t, c)
				}
			})
		}
		wg.Wait()
		assert.EqualValues(t, limit, r.most.Load(), "a claim gets what it asks for")
	})
}

type limitRun struct {
	tb         *combo.Table
	every      int64
	left, most atomic.Int64
	mu         sync.Mutex
}

// claim claims, and lets half of the rows come back.
func (r *limitRun) claim(t *testing.T, c combo.Claimer) {
	ctx := t.Context()
	b, err := c.Claim(ctx, ask())
	if !again(t, err) {
		return
	}
	if len(b.Items) == 0 {
		if !b.More {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.tb.Add(t, 300)
		}
		return
	}
	n := r.left.Add(-1)
	if len(b.Items) > limit {
		t.Errorf("a claim of %d returned %d rows", limit, len(b.Items))
	}
	for most := r.most.Load(); int64(len(b.Items)) > most && !r.most.CompareAndSwap(most, int64(len(b.Items))); most = r.most.Load() {
	}
	if n%r.every == 0 && r.tb.Strategy != combo.Unmarked {
		assert.Equal(t, len(b.Items), carrying(t, r.tb, b.Token), "rows that carry the claim's token")
	}
	var rs []sendonce.Result
	for i, item := range b.Items {
		o := sendonce.Done
		if i%2 == 1 && item.Attempt < 3 {
			o = sendonce.Retry
		}
		rs = append(rs, sendonce.Result{Key: item.Key, Token: b.Token, Outcome: o})
	}
	repeat(t, func() error { _, err := c.Settle(ctx, rs); return err })
	repeat(t, func() error { return c.End(ctx, []int64{b.Token}) })
}

// carrying is the number of rows that carry a token.
func carrying(t *testing.T, tb *combo.Table, token int64) (n int) {
	require.NoError(t, tb.Admin.GetContext(t.Context(), &n, tb.Admin.Rebind("SELECT COUNT(*) FROM "+tb.Name+" WHERE token = ?"), token))
	return n
}

// again is false for an error that asks for a repeat; others fail the test.
func again(t *testing.T, err error) bool {
	if err != nil && !sendonce.IsTransient(err) {
		t.Errorf("%v", err)
	}
	return err == nil
}

// repeat does as a Dispatcher does with transient errors.
func repeat(t *testing.T, call func() error) {
	for !again(t, call()) && !t.Failed() {
	}
}
