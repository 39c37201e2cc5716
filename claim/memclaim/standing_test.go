package memclaim_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim/memclaim"
)

func TestAlive(t *testing.T) {
	c := memclaim.New[string](nil)
	require.NoError(t, c.Add(memclaim.Row[string]{Key: 1}))
	for status, want := range map[string]bool{
		memclaim.Pending: true, memclaim.Claimed: true, memclaim.Sending: true, memclaim.Done: false,
		memclaim.Dead: false, memclaim.Skipped: false, memclaim.Unknown: false, "cancelled": false,
	} {
		require.True(t, c.SetStatus(1, status))
		alive, err := c.Alive(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, want, alive, status)
	}
	alive, err := c.Alive(t.Context(), 2)
	require.NoError(t, err)
	assert.False(t, alive, "a row that is not there")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Alive(ended, 1)
	require.Error(t, err)
}

// Who asks may not know of which type the key was.
func TestAliveByTheOtherInteger(t *testing.T) {
	c := memclaim.New[string](nil)
	require.NoError(t, c.Add(memclaim.Row[string]{Key: 1}, memclaim.Row[string]{Key: uint64(2)}, memclaim.Row[string]{Key: -1}, memclaim.Row[string]{Key: int64(math.MinInt64)}))
	for _, ask := range []struct {
		key   any
		alive bool
	}{{uint64(1), true}, {2, true}, {int64(2), true}, {uint64(math.MaxUint64), false}, {uint64(1 << 63), false}, {-2, false}, {"1", false}} {
		alive, err := c.Alive(t.Context(), ask.key)
		require.NoError(t, err)
		assert.Equal(t, ask.alive, alive, "%T(%v)", ask.key, ask.key)
	}
}
