package memclaim_test

import (
	"context"
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
