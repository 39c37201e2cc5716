package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/sender"
)

// A limit has one key, so that no name of it can be of two slots.
func TestFault17_ClusterTakesLimitsOfAnyName(t *testing.T) {
	client := servers.RedisCluster(t)
	for _, key := range []string{"a", "{", "}", "{}", "{a}b", "a}b{c", "a b", "a:b", "\x00", "\xff{"} {
		l := newLimit(t, client, key, sender.RateLimitOptions{Events: 200})
		require.NoError(t, l.WaitN(t.Context(), 1), "%q", key)
		require.NoError(t, client.ForEachMaster(t.Context(), scriptFlush))
		require.NoError(t, l.WaitN(t.Context(), 1), "%q", key)
		require.NoError(t, l.Pause(t.Context(), time.Millisecond), "%q", key)
		n, err := client.Exists(t.Context(), key).Result()
		require.NoError(t, err)
		require.EqualValues(t, 1, n, "%q", key)
	}
}
