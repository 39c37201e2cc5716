package redisqueue

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
