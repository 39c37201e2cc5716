package redisqueue

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/redisclaim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

var optionsNone redisclaim.Options

// docs/faults.md, 16: whatever but the items themselves is deleted by hand, work
// that is listed as running is found and given back, all of it is done, and each
// key's in order; the old owner is told, and makes nothing again.
func TestFault16_RedisForgetsWhoHoldsWhat(t *testing.T) {
	for name, gone := range map[string][]int{
		"the claims":                 {claimsKey},
		"the leases":                 {leases1Key},
		"claims and leases":          {claimsKey, leases1Key},
		"who is at work":             {activeKey, claimsKey, leases1Key},
		"the order":                  {orderKey, freshKey, backKey, suspectsKey},
		"all but the items":          {orderKey, activeKey, freshKey, backKey, suspectsKey, claimsKey, leases1Key, leases2Key, stateKey, stateKey + 1, stateKey + 2, stateKey + 3, stateKey + 4, stateKey + 5, stateKey + 6},
		"only the counters and more": {stateKey, claimsKey, leases1Key},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, r := newQueue(t)
			ctx := t.Context()
			var last string
			for i := range 300 { // more than one step of the walk
				last = add(t, a, item{Key: fmt.Sprint("k", i%3), Value: fmt.Sprint(i), Unique: fmt.Sprint(i)})
			}
			req := ask(10)
			req.Lease = short
			old := claim(t, a, req)
			require.Len(t, old.Items, 3)
			for _, i := range gone {
				require.NoError(t, r.client.Del(ctx, r.keys[i]).Err())
			}
			if contains(gone, claimsKey) || contains(gone, leases1Key) {
				for range 2 { // the first must not have made it again
					ext, err := a.Extend(ctx, []int64{old.Token})
					require.NoError(t, err)
					require.Equal(t, []int64{old.Token}, ext.Lost)
				}
			}
			returned := 0
			require.Eventually(t, func() bool {
				out, err := a.Reap(ctx, sendonce.ReapRequest{MaxAttempts: 5})
				require.NoError(t, err)
				returned += out.Returned
				return returned == 3
			}, 20*time.Second, 30*time.Millisecond)
			require.Greater(t, add(t, a, item{Value: "300"}), last, "ids grow")
			refused(t, a, item{Value: "again", Unique: "299"}, last, "pending")

			next := map[int]int{0: 0, 1: 1, 2: 2}
			n := 0
			for len(next) > 0 && n < 301 {
				b := claim(t, a, ask(10))
				require.NotEmpty(t, b.Items, "%d were done", n)
				for _, it := range b.Items {
					n++
					require.Greater(t, it.Fence, old.Items[2].Fence)
					var i int
					_, err := fmt.Sscan(it.Value, &i)
					require.NoError(t, err)
					if i < 300 {
						require.Equal(t, next[i%3], i)
						next[i%3] += 3
					}
					settle(t, a, done(it, b.Token))
				}
				require.NoError(t, a.End(ctx, []int64{b.Token}))
			}
			require.Equal(t, 301, n)
			onlyState(t, r)
		})
	}
}

func contains(list []int, n int) bool {
	for _, m := range list {
		if m == n {
			return true
		}
	}
	return false
}

func TestFault16_WarnsAboutSettings(t *testing.T) {
	r := servers.StartRedis(t, servers.Options{Args: []string{"--appendonly", "yes"}})
	client := r.Client(t)
	ctx := t.Context()
	warnings := func(c redis.UniversalClient) []string {
		w, err := open[string](t, c, r.Prefix, optionsNone).Warnings(ctx)
		require.NoError(t, err)
		return w
	}
	require.Empty(t, warnings(client))
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "100mb").Err())
	require.NoError(t, client.ConfigSet(ctx, "maxmemory-policy", "volatile-lru").Err())
	w := warnings(client)
	require.Len(t, w, 1)
	assert.Contains(t, w[0], "volatile-lru")
	require.NoError(t, client.ConfigSet(ctx, "appendonly", "no").Err())
	require.Len(t, warnings(client), 2)

	require.NoError(t, client.Do(ctx, "ACL", "SETUSER", "guest", "on", ">secret", "~*", "+@all", "-info", "-config").Err())
	o := r.Options()
	o.Username, o.Password = "guest", "secret"
	guest := redis.NewClient(o)
	defer guest.Close()
	w = warnings(guest)
	require.Len(t, w, 1)
	assert.Contains(t, w[0], "may not be read")
}
