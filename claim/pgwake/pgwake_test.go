package pgwake_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim/pgwake"
)

func TestTriggerQuotesItsNames(t *testing.T) {
	got := pgwake.Trigger(`my"schema.the table`, `it's \ a channel`)
	assert.Contains(t, got, `AFTER INSERT ON "my""schema"."the table"`)
	assert.Contains(t, got, `sendonce_wake(E'it''s \\ a channel')`)
	assert.NotContains(t, pgwake.Trigger("t", "a\x00b"), "\x00")
}

func TestListenRefusesWhatIsNoChannel(t *testing.T) {
	for _, channel := range []string{"", strings.Repeat("x", 64), "a\x00"} {
		_, err := pgwake.Listen(t.Context(), "postgres://127.0.0.1:1/db", channel, nil)
		require.ErrorContains(t, err, "channel")
	}
	_, err := pgwake.Listen(t.Context(), "postgres://::nonsense", "c", nil)
	require.ErrorContains(t, err, "sendonce:")
}

func TestListenSaysThatItCannotConnect(t *testing.T) {
	_, err := pgwake.Listen(t.Context(), "postgres://127.0.0.1:1/db", "c", nil)
	require.ErrorContains(t, err, `listen on "c"`)

	// A server that says nothing.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = pgwake.Listen(ctx, "postgres://"+l.Addr().String()+"/db?sslmode=disable", "c", nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
