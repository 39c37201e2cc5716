package locks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/locktest"
)

// Every operation of a lock works on a cluster, with keys that would break or
// move a hash tag: case Keys of the suite is made of those.
func TestFault17_ClusterTakesEveryScriptAndKey(t *testing.T) {
	client := servers.RedisCluster(t)
	locktest.Run(t, locktest.Harness{
		TTL:           ttl,
		Caps:          locktest.Caps{Fenced: true},
		Interleavings: 200,
		Open: func(t testing.TB) locktest.Store {
			require.NoError(t, client.FlushAll(t.Context()).Err())
			l := newRedisLocker(t, client, "")
			return locktest.Store{
				New:    func() lock.Locker { return l },
				Forget: func(key string) { forget(t, client, l, key) },
			}
		},
	})
}

func TestFault17_KeysOfOneLockShareASlot(t *testing.T) {
	client := servers.RedisCluster(t)
	l := newRedisLocker(t, client, "app:")
	slots := map[int64]bool{}
	for _, key := range []string{"a", "b", "{", "}", "{}", "{a}b", "a}b{c", "}{", "a:b", "a b", "\x00", "\xff{", "%7B", "{}{x}"} {
		lease, memory := l.Keys(key)
		a, err := client.ClusterKeySlot(t.Context(), lease).Result()
		require.NoError(t, err)
		b, err := client.ClusterKeySlot(t.Context(), memory).Result()
		require.NoError(t, err)
		require.Equal(t, a, b, "the slots of %q and %q", lease, memory)
		slots[a] = true
	}
	require.Greater(t, len(slots), 10, "locks are spread over the cluster")
}
