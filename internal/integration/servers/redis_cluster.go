package servers

import (
	"bytes"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// RedisCluster starts a cluster of one node that has all slots, by this machine's
// own program. It is removed after the test.
func RedisCluster(t testing.TB) *redis.ClusterClient {
	t.Helper()
	Redis(t) // skips or fails the test as it should where there is none
	program, err := redisKind.program()
	if err != nil {
		MissingTool(t, "redis-server", "redis-server") // of this machine: a cluster of ours
	}
	port, err := freePort()
	require.NoError(t, err)
	bus, err := freePort()
	require.NoError(t, err)
	var log bytes.Buffer
	cmd := exec.Command(program, "--port", port, "--cluster-port", bus, "--bind", "127.0.0.1", "--cluster-enabled", "yes",
		"--dir", t.TempDir(), "--save", "", "--appendonly", "no")
	cmd.Stdout, cmd.Stderr = &log, &log
	p, err := spawn(cmd, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.signalTree(syscall.SIGKILL)
		<-p.done
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
