package redisqueue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

// docs/faults.md, 20: out in the order in which Add returned, for 200 items within a
// moment, of two producers, two of them equal. Producers' clocks don't matter, as
// nothing of them is sent; so the only clock there is, the server's, falls back.
func TestFault20_OutInTheOrderOfAdd(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	a, b := open[string](t, client, r.Prefix, optionsNone), open[string](t, r.Client(t), r.Prefix, optionsNone)
	var want, ids []string
	var ahead int64
	for i := 1; i <= 200; i++ {
		v := fmt.Sprint("job:", i)
		if i == 9 {
			v = "job:8" // of equal bytes, and another item all the same
		}
		if i == 101 { // as it is after the server's clock was set back by 5 s
			now, err := client.Time(t.Context()).Result()
			require.NoError(t, err)
			ahead = now.Add(5 * time.Second).UnixMicro()
			require.NoError(t, client.HSet(t.Context(), a.Keys()[stateKey], "arrived", ahead).Err())
		}
		q := a
		if i%2 == 0 {
			q = b
		}
		ids = append(ids, add(t, q, item{Key: "k", Value: v}))
		want = append(want, v)
	}
	require.IsIncreasing(t, ids)
	require.Equal(t, fmt.Sprint(ahead+1), ids[100], "what came before the clock fell back stays before")
	require.Equal(t, want, drain(t, a))
}

// Without a key there is no order to rely on, but what waits longer goes first.
func TestFault20_WithoutAKeyTheOldestGoFirst(t *testing.T) {
	q, _ := newQueue(t)
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprint("job:", i))
		add(t, q, item{Value: want[i], At: time.Now().Add(-time.Duration(i) * time.Hour)})
	}
	assert.Equal(t, want, drain(t, q))
}
