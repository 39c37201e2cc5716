// Package redisqueue tests claim/redisclaim on real servers.
package redisqueue

import (
	"log/slog"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim/redisclaim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) != "" {
		os.Exit(work(os.Stdin))
	}
	servers.Main(m)
}

// open opens a handle on the test's queue.
func open[T any](t testing.TB, client redis.UniversalClient, prefix string, o redisclaim.Options) *redisclaim.Queue[T] {
	t.Helper()
	o.Prefix = prefix
	o.Logger = slog.New(slog.DiscardHandler)
	q, err := redisclaim.New[T](t.Context(), client, "jobs", &o)
	require.NoError(t, err)
	return q
}
