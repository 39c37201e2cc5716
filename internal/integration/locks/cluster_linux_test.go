package locks

import (
	"bytes"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/locktest"
)

// startCluster starts a cluster of one node that has all slots.
func startCluster(t testing.TB) *redis.ClusterClient {
	t.Helper()
	servers.Redis(t) // skips or fails the test as it should where there is none
	program, err := exec.LookPath("redis-server")
	if err != nil {
		servers.MissingTool(t, "redis-server", "redis-server") // of this machine: a cluster of ours
	}
	port, bus := freePort(t), freePort(t)
	var log bytes.Buffer
	cmd := exec.Command(program, "--port", port, "--cluster-port", bus, "--bind", "127.0.0.1", "--cluster-enabled", "yes",
		"--dir", t.TempDir(), "--save", "", "--appendonly", "no")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})

	node := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	t.Cleanup(func() { _ = node.Close() })
	require.Eventually(t, func() bool { return node.Ping(t.Context()).Err() == nil }, 10*time.Second, 20*time.Millisecond, "%s", &log)
	require.NoError(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + port}})
	t.Cleanup(func() { _ = client.Close() })
	require.Eventually(t, func() bool { return client.Set(t.Context(), "probe", 1, time.Minute).Err() == nil }, 10*time.Second, 20*time.Millisecond)
	return client
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// Every operation of a lock works on a cluster, with keys that would break or
// move a hash tag: case Keys of the suite is made of those.
func TestFault17_ClusterTakesEveryScriptAndKey(t *testing.T) {
	client := startCluster(t)
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
	client := startCluster(t)
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
