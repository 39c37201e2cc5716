package redisqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
)

const short = 500 * time.Millisecond

// reap gives back what a vanished worker held, by the clock alone.
func reap(t testing.TB, q *queue, n int) {
	t.Helper()
	got := 0
	require.Eventually(t, func() bool {
		out, err := q.Reap(t.Context(), sendonce.ReapRequest{MaxAttempts: 5, ClockOnly: true})
		require.NoError(t, err)
		got += out.Returned
		return got >= n
	}, 20*time.Second, 50*time.Millisecond)
	require.Equal(t, n, got)
}

// docs/faults.md, 15: what a slow owner does changes nothing for its successor.
func TestFault15_OldOwnerChangesNothing(t *testing.T) {
	a, r := newQueue(t)
	prefix := r.keys[0][:len(r.keys[0])-len("{jobs}:items")]
	b, c := open[string](t, r.client, prefix, optionsNone), open[string](t, r.client, prefix, optionsNone)
	ctx := t.Context()
	add(t, a, item{Key: "k", Value: "first"})
	add(t, a, item{Key: "k", Value: "second"})
	req := ask(10)
	req.Lease = short
	old := claim(t, a, req)
	require.Len(t, old.Items, 1)
	reap(t, b, 1) // A stalls
	mine, token := one(t, b)
	require.Equal(t, "first", mine.Value)
	require.Greater(t, mine.Fence, old.Items[0].Fence)

	before, err := r.row(mine.Key)
	require.NoError(t, err)
	ext, err := a.Extend(ctx, []int64{old.Token})
	require.NoError(t, err)
	require.Equal(t, []int64{old.Token}, ext.Lost)
	lost, err := a.Begin(ctx, []sendonce.Ref{{Key: mine.Key, Token: old.Token}})
	require.NoError(t, err)
	require.Len(t, lost, 1)
	for _, o := range []sendonce.Outcome{sendonce.Retry, sendonce.Released, sendonce.Dead, sendonce.Skipped, sendonce.Unknown, sendonce.Done} {
		es, err := a.Settle(ctx, []sendonce.Result{outcome(old.Items[0], old.Token, o)})
		require.NoError(t, err)
		require.Len(t, es, 1, o.String())
		assert.Equal(t, sendonce.Overtaken, es[0].Cause, o.String())
	}
	require.NoError(t, a.End(ctx, []int64{old.Token}))
	nothing(t, c, "B holds the first, and the second is behind it")
	after, err := r.row(mine.Key)
	require.NoError(t, err)
	require.Equal(t, before, after)
	ext, err = b.Extend(ctx, []int64{token})
	require.NoError(t, err)
	require.Empty(t, ext.Lost)
	settle(t, b, done(mine, token))
	require.Equal(t, []string{"second"}, drain(t, c))
}
