package rediswake_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim/rediswake"
)

func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestListenRefusesWhatCannotWork(t *testing.T) {
	_, err := rediswake.Listen(t.Context(), nil, "c", nil)
	require.ErrorContains(t, err, "client")
	_, err = rediswake.Listen(t.Context(), client(t, "127.0.0.1:1"), "", nil)
	require.ErrorContains(t, err, "channel")
}

func TestListenSaysThatItCannotConnect(t *testing.T) {
	_, err := rediswake.Listen(t.Context(), client(t, "127.0.0.1:1"), "c", nil)
	require.ErrorContains(t, err, `listen on "c"`)
	require.ErrorContains(t, rediswake.Publish(t.Context(), client(t, "127.0.0.1:1"), "c"), `publish on "c"`)

	// A server that says nothing.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = rediswake.Listen(ctx, client(t, l.Addr().String()), "c", nil)
	require.Error(t, err)
}
