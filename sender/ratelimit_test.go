package sender_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/sender"
)

var (
	_ sendonce.Limiter = (*sender.RateLimit)(nil)
	_ sendonce.Pauser  = (*sender.RateLimit)(nil)
)

// nobody is a client of a port on which nobody listens.
func nobody(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestRateLimitRefusesWhatCannotBeKept(t *testing.T) {
	tests := map[string]sender.RateLimitOptions{
		"Events is 0":           {},
		"Events is -1":          {Events: -1},
		"Per is 1ms":            {Events: 1, Per: time.Millisecond},
		"Per is -1s":            {Events: 1, Per: -time.Second},
		"Per is 200h0m0s":       {Events: 1, Per: 200 * time.Hour},
		"Burst is -1":           {Events: 1, Burst: -1},
		"Slack is -1ns":         {Events: 1, Slack: -1},
		"Slack is 2s":           {Events: 1, Slack: 2 * time.Second},
		"more than 20,000":      {Events: 20_001},
		"longer than a week":    {Events: 1, Per: time.Hour, Burst: 169},
		"Per, which is 1s":      {Events: 1, Slack: time.Minute},
		"takes longer than a w": {Events: 1, Burst: 1 << 40},
	}
	for want, o := range tests {
		_, err := sender.NewRateLimit(nobody(t), "key", o)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "RateLimitOptions")
	}
	good := sender.RateLimitOptions{Events: 1}
	_, err := sender.NewRateLimit(nil, "key", good)
	require.ErrorContains(t, err, "client is nil")
	_, err = sender.NewRateLimit(nobody(t), "", good)
	require.ErrorContains(t, err, "key")
	for _, o := range []sender.RateLimitOptions{
		good,
		{Events: 20_000},
		{Events: 1, Per: 7 * 24 * time.Hour},
		{Events: 100, Burst: 100},
		{Events: 1, Per: 10 * time.Millisecond},
	} {
		_, err = sender.NewRateLimit(nobody(t), "key", o)
		require.NoError(t, err)
	}
}

func TestRateLimitThatCannotAskLetsNobodyPass(t *testing.T) {
	l, err := sender.NewRateLimit(nobody(t), "mail:limit", sender.RateLimitOptions{Events: 10, Burst: 3})
	require.NoError(t, err)
	require.ErrorContains(t, l.WaitN(t.Context(), 1), `rate limit "mail:limit" in Redis`)
	require.ErrorContains(t, l.Pause(t.Context(), time.Second), `rate limit "mail:limit" in Redis`)

	err = l.WaitN(t.Context(), 4)
	require.ErrorContains(t, err, "4 sends")
	require.ErrorContains(t, err, "Burst is 3")
	require.Error(t, l.WaitN(t.Context(), -1))
	require.NoError(t, l.WaitN(t.Context(), 0))
	require.NoError(t, l.Pause(t.Context(), 0))
}

func TestRateLimitObeysItsContext(t *testing.T) {
	l, err := sender.NewRateLimit(nobody(t), "key", sender.RateLimitOptions{Events: 10})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(sendonce.ErrStopping)
	assert.ErrorIs(t, l.WaitN(ctx, 1), sendonce.ErrStopping)
	assert.ErrorIs(t, l.Pause(ctx, time.Second), sendonce.ErrStopping)
}
