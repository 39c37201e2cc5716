package memclaim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
)

var (
	_ sendonce.Claimer[string] = (*Claimer[string])(nil)
	_ sendonce.Ender           = (*Claimer[string])(nil)
	_ sendonce.Beginner        = (*Claimer[string])(nil)
	_ sendonce.Reaper          = (*Claimer[string])(nil)
	_ sendonce.Counter         = (*Claimer[string])(nil)
)

const lease = 30 * time.Second

func ask(limit int) sendonce.ClaimRequest {
	return sendonce.ClaimRequest{Limit: limit, Lease: lease, MaxAttempts: 3, Owner: "test"}
}

func fill(t *testing.T, c *Claimer[string], keys ...int) {
	t.Helper()
	for _, k := range keys {
		require.NoError(t, c.Add(Row[string]{Key: k, Value: "v"}))
	}
}

func claim(t *testing.T, c *Claimer[string], limit int) sendonce.Batch[string] {
	t.Helper()
	b, err := c.Claim(t.Context(), ask(limit))
	require.NoError(t, err)
	return b
}

func keys[T any](b sendonce.Batch[T]) []any {
	out := []any{}
	for _, it := range b.Items {
		out = append(out, it.Key)
	}
	return out
}

func get(t *testing.T, c *Claimer[string], key any) Row[string] {
	t.Helper()
	r, ok := c.Row(key)
	require.True(t, ok, "row %v", key)
	return r
}

// reapFor looks as often as a Dispatcher does, for a while.
func reapFor(t *testing.T, c *Claimer[string], d time.Duration) (sum sendonce.Reaped) {
	t.Helper()
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(lease / 6) {
		r, err := c.Reap(t.Context(), sendonce.ReapRequest{MaxAttempts: 3})
		require.NoError(t, err)
		sum.Returned, sum.Dead, sum.Unknown = sum.Returned+r.Returned, sum.Dead+r.Dead, sum.Unknown+r.Unknown
	}
	return sum
}

func TestAddRefusesKeysThatCannotBe(t *testing.T) {
	c := New[string](nil)
	fill(t, c, 1)
	require.ErrorContains(t, c.Add(Row[string]{Key: 2}, Row[string]{Key: int64(1)}), "already")
	require.ErrorContains(t, c.Add(Row[string]{Key: 2}, Row[string]{Key: 2}), "already")
	require.ErrorContains(t, c.Add(Row[string]{Key: 1.5}), "float64")
	require.ErrorContains(t, c.Add(Row[string]{}), "<nil>")
	assert.Len(t, c.Rows(), 1, "all or none")
}

func TestRowsComeOutInTheOrderOfTheirTimeAndArrival(t *testing.T) {
	var clock time.Time
	clock = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := New[string](&Options{Now: func() time.Time { return clock }})
	fill(t, c, 10, 2)
	clock = clock.Add(-time.Hour) // a stepped clock doesn't turn the order round
	fill(t, c, 9, 1)
	assert.Equal(t, []any{int64(10), int64(2), int64(9)}, keys(claim(t, c, 3)))
	require.NoError(t, c.Add(
		Row[string]{Key: "late", NextAttempt: clock.Add(-time.Minute)},
		Row[string]{Key: "early", NextAttempt: clock.Add(-2 * time.Minute)},
		Row[string]{Key: "future", NextAttempt: clock.Add(time.Minute)},
	))
	assert.Equal(t, []any{"early", "late", int64(1)}, keys(claim(t, c, 10)))
	assert.Empty(t, claim(t, c, 10).Items)
	clock = clock.Add(time.Minute)
	assert.Equal(t, []any{"future"}, keys(claim(t, c, 10)))
}

func TestFreshAndReturningRowsShareClaims(t *testing.T) {
	c := New[string](nil)
	past := time.Now().Add(-time.Hour)
	for i := range 10 {
		require.NoError(t, c.Add(Row[string]{Key: i}, Row[string]{Key: 100 + i, NextAttempt: past}))
	}
	old := func(b sendonce.Batch[string]) (n int) {
		for _, it := range b.Items {
			if it.Key.(int64) >= 100 {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 3, old(claim(t, c, 6)))
	ones := old(claim(t, c, 1)) + old(claim(t, c, 1)) + old(claim(t, c, 1)) + old(claim(t, c, 1))
	assert.Equal(t, 2, ones, "claims of one row alternate")
}

func TestIdempotencyKeyIsStable(t *testing.T) {
	c := New[string](&Options{Namespace: "campaign"})
	require.NoError(t, c.Add(Row[string]{Key: 7}, Row[string]{Key: "7a"}))
	b := claim(t, c, 2)
	// The hash stands here so that nobody changes it without noticing: after
	// that, providers would take retries for new messages.
	assert.Equal(t, "7815afde208d387f696c460a135b5fe4", b.Items[0].IdempotencyKey)
	assert.Equal(t, "65373b8367e2a8f1c163b98ea0022432", b.Items[1].IdempotencyKey)
}

func TestReaperNeedsItsOwnEyesAndTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := time.Duration(0)
		c := New[string](&Options{Now: func() time.Time { return time.Now().Add(step) }})
		fill(t, c, 1)
		claim(t, c, 1)
		step = time.Hour // the clock alone says that it is over
		assert.Zero(t, reapFor(t, c, lease/2))
		step = 0
		assert.Zero(t, reapFor(t, c, lease/3), "the eyes alone say that it is over")
		sum := reapFor(t, c, lease)
		assert.Equal(t, 1, sum.Returned)
		r := get(t, c, 1)
		assert.Equal(t, Pending, r.Status)
		assert.NotZero(t, r.Token)
		assert.Equal(t, 1, r.Attempts)
		assert.Contains(t, r.Reason, "the worker vanished: test")
		assert.Empty(t, c.Holders())
	})
}

func TestReaperForgetsWhenItsViewHasAGap(t *testing.T) {
	look := func(ctx context.Context, c *Claimer[string]) sendonce.Reaped {
		r, _ := c.Reap(ctx, sendonce.ReapRequest{MaxAttempts: 3})
		return r
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, gap := range map[string]func(c *Claimer[string]){
		"error": func(c *Claimer[string]) { look(gone, c) },
		"pause": func(*Claimer[string]) { time.Sleep(lease/3 + time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New[string](nil)
				fill(t, c, 1)
				claim(t, c, 1)
				time.Sleep(2 * lease)
				assert.Zero(t, reapFor(t, c, lease/2))
				gap(c)
				assert.Zero(t, reapFor(t, c, lease/2), "seen long enough only if the gap is overlooked")
				assert.Equal(t, 1, reapFor(t, c, lease/2).Returned)
			})
		})
	}
}

func TestReaperHealsAClockThatWasSteppedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := time.Duration(0)
		c := New[string](&Options{Now: func() time.Time { return time.Now().Add(step) }})
		fill(t, c, 1)
		claim(t, c, 1)
		step = -time.Hour
		assert.Zero(t, reapFor(t, c, 2*lease))
		assert.Equal(t, 1, reapFor(t, c, lease/2).Returned)
	})
}

func TestReaperByClockOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string](nil)
		fill(t, c, 1)
		claim(t, c, 1)
		req := sendonce.ReapRequest{ClockOnly: true}
		r, err := c.Process().Reap(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, sendonce.Reaped{Next: lease / 6}, r)
		time.Sleep(lease)
		r, err = c.Process().Reap(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, 1, r.Returned)
	})
}

func TestPatrolFindsRowsWithoutAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string](nil)
		fill(t, c, 1)
		b := claim(t, c, 1)
		require.NoError(t, c.End(t.Context(), []int64{b.Token})) // too early: the row isn't settled
		assert.Zero(t, reapFor(t, c, lease/2), "seen once is not enough")
		assert.Equal(t, 1, reapFor(t, c, lease/2).Returned)
		assert.Equal(t, b.Token, get(t, c, 1).Token)
	})
}

func TestRowThatKillsItsWorkersIsDeadAndItsNeighboursAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string](nil)
		fill(t, c, 1, 2, 3)
		dead := 0
		for range 20 {
			b := claim(t, c, 10)
			killed := false
			var rs []sendonce.Result
			for _, it := range b.Items {
				killed = killed || it.Key == sendonce.Key(int64(2))
				rs = append(rs, sendonce.Result{Key: it.Key, Token: b.Token, Outcome: sendonce.Done})
			}
			if killed { // with all that it holds
				dead += reapFor(t, c, 3*lease).Dead
				continue
			}
			_, err := c.Settle(t.Context(), rs)
			require.NoError(t, err)
			require.NoError(t, c.End(t.Context(), []int64{b.Token}))
		}
		assert.Equal(t, 1, dead)
		assert.Equal(t, Dead, get(t, c, 2).Status)
		assert.Equal(t, 3, get(t, c, 2).Attempts)
		assert.Contains(t, get(t, c, 2).Reason, "vanished")
		assert.Equal(t, Done, get(t, c, 1).Status)
		assert.Equal(t, Done, get(t, c, 3).Status)
	})
}

func TestVanishedWorkerUnderAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string](nil)
		fill(t, c, 1, 2)
		req := ask(2)
		req.Delivery = sendonce.AtMostOnce
		b, err := c.Claim(t.Context(), req)
		require.NoError(t, err)
		lost, err := c.Begin(t.Context(), []sendonce.Ref{{Key: 1, Token: b.Token}, {Key: 2, Token: b.Token + 1}})
		require.NoError(t, err)
		assert.Equal(t, []sendonce.Ref{{Key: 2, Token: b.Token + 1}}, lost)
		sum := reapFor(t, c, 3*lease)
		assert.Equal(t, sendonce.Reaped{Returned: 1, Unknown: 1}, sum)
		assert.Equal(t, Unknown, get(t, c, 1).Status)
		assert.Equal(t, 0, get(t, c, 2).Attempts, "it was never begun")
	})
}

func TestForgetDoneKeepsNoRows(t *testing.T) {
	c := New[string](&Options{ForgetDone: true})
	fill(t, c, 1)
	b := claim(t, c, 1)
	rs := []sendonce.Result{{Key: 1, Token: b.Token, Outcome: sendonce.Done}}
	for range 2 { // a repeat whose first reply was lost reports nothing
		es, err := c.Settle(t.Context(), rs)
		require.NoError(t, err)
		assert.Empty(t, es)
	}
	assert.Empty(t, c.Rows())
}

func TestRequeueClearsTheTokenAndTheAttempts(t *testing.T) {
	c := New[string](nil)
	fill(t, c, 1, 2)
	b := claim(t, c, 1)
	_, err := c.Settle(t.Context(), []sendonce.Result{{Key: 1, Token: b.Token, Outcome: sendonce.Dead, Reason: "no"}})
	require.NoError(t, err)
	assert.Equal(t, 1, c.Requeue(1, 2, 3))
	r := get(t, c, 1)
	assert.Equal(t, Pending, r.Status)
	assert.Zero(t, r.Token)
	assert.Zero(t, r.Attempts)
	es, err := c.Settle(t.Context(), []sendonce.Result{{Key: 1, Token: b.Token, Outcome: sendonce.Done}})
	require.NoError(t, err)
	require.Len(t, es, 1, "a late fact of the old attempt can't swallow the new order")
	assert.Equal(t, sendonce.Overtaken, es[0].Cause)
	assert.Equal(t, Pending, get(t, c, 1).Status)
}

func TestBadRequestsAreRefused(t *testing.T) {
	c := New[string](nil)
	fill(t, c, 1)
	_, err := c.Claim(t.Context(), sendonce.ClaimRequest{Limit: 1})
	require.Error(t, err)
	_, err = c.Claim(t.Context(), sendonce.ClaimRequest{Lease: lease})
	require.Error(t, err)
	_, err = c.Settle(t.Context(), []sendonce.Result{{Key: 1}})
	require.Error(t, err)
}

func TestHoldersAndScheduleAndDelete(t *testing.T) {
	c := New[string](nil)
	fill(t, c, 1, 2, 3)
	b := claim(t, c, 2)
	_, err := c.Settle(t.Context(), []sendonce.Result{{Key: 1, Token: b.Token, Outcome: sendonce.Done}})
	require.NoError(t, err)
	hs := c.Holders()
	require.Len(t, hs, 1)
	assert.Equal(t, 2, hs[0].Rows)
	assert.Equal(t, 1, hs[0].Unmarked)
	assert.Equal(t, "test", hs[0].Owner)
	assert.False(t, c.Schedule(2, time.Now()), "it is claimed")
	assert.True(t, c.Schedule(3, time.Now().Add(time.Hour)))
	assert.Empty(t, claim(t, c, 2).Items)
	assert.True(t, c.Schedule(3, time.Time{}))
	assert.True(t, c.Delete(3))
	assert.False(t, c.Delete(3))
	assert.False(t, c.SetStatus(3, Done))
	assert.Empty(t, claim(t, c, 2).Items)
	counts, err := c.Counts(t.Context())
	require.NoError(t, err)
	assert.Equal(t, sendonce.Counts{Claimed: 1, Done: 1}, counts)
}
