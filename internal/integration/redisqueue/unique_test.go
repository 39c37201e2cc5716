package redisqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/redisclaim"
)

// refused checks that an item is refused because of another one.
func refused(t testing.TB, q *queue, it item, by, state string) *redisclaim.TakenError {
	t.Helper()
	_, err := q.Add(t.Context(), it)
	var taken *redisclaim.TakenError
	require.ErrorAs(t, err, &taken)
	require.ErrorIs(t, err, redisclaim.ErrTaken)
	assert.Equal(t, []string{it.Unique, by, state}, []string{taken.Unique, taken.ID, taken.State})
	assert.WithinDuration(t, time.Now(), taken.Since, time.Minute)
	return taken
}

func TestUniqueUntilItEnds(t *testing.T) {
	for name, end := range map[string]func(q *queue, it sendonce.Item[string], token int64){
		"done": func(q *queue, it sendonce.Item[string], token int64) { settle(t, q, done(it, token)) },
		"dead": func(q *queue, it sendonce.Item[string], token int64) { settle(t, q, outcome(it, token, sendonce.Dead)) },
		"skipped": func(q *queue, it sendonce.Item[string], token int64) {
			settle(t, q, outcome(it, token, sendonce.Skipped))
		},
		"deleted": func(q *queue, it sendonce.Item[string], token int64) {
			settle(t, q, outcome(it, token, sendonce.Retry))
			n, err := q.Delete(t.Context(), it.Key.(string))
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, r := newQueue(t)
			first := item{Key: "k", Value: "v", Unique: "ann@example.com {|} \xff"}
			id := add(t, q, first)
			refused(t, q, first, id, "pending")
			it, token := one(t, q)
			refused(t, q, first, id, "claimed")
			settle(t, q, outcome(it, token, sendonce.Retry))
			refused(t, q, first, id, "pending")
			it, token = one(t, q)
			end(q, it, token)
			n, err := r.client.HLen(t.Context(), r.keys[uniqueKey]).Result()
			require.NoError(t, err)
			require.Zero(t, n, "nothing is left of it")
			again := add(t, q, first)
			require.Greater(t, again, id)
			refused(t, q, first, again, "pending")
		})
	}
}

// Unique is often a header that a request may leave out.
func TestWindowWithoutUniqueMeansNothing(t *testing.T) {
	q, r := newQueue(t)
	it := item{Value: "v", UniqueFor: time.Hour}
	add(t, q, it)
	add(t, q, it)
	require.Equal(t, []string{"v", "v"}, drain(t, q))
	onlyState(t, r)
}

func outcome(it sendonce.Item[string], token int64, o sendonce.Outcome) sendonce.Result {
	return sendonce.Result{Key: it.Key, Token: token, Outcome: o, Reason: "because"}
}

func TestUniqueForAWindow(t *testing.T) {
	q, r := newQueue(t)
	first := item{Value: "v", Unique: "u", UniqueFor: 400 * time.Millisecond}
	id := add(t, q, first)
	refused(t, q, first, id, "pending")
	it, token := one(t, q)
	settle(t, q, done(it, token))
	require.NoError(t, q.End(t.Context(), []int64{token}))
	began := time.Now()
	_, err := q.Add(t.Context(), first)
	if err != nil {
		var taken *redisclaim.TakenError
		require.ErrorAs(t, err, &taken)
		assert.Equal(t, []string{id, "done"}, []string{taken.ID, taken.State})
		assert.WithinDuration(t, began, taken.Until, time.Minute)
	}
	require.Eventually(t, func() bool {
		nothing(t, q, "it is done")
		n, _ := r.client.Exists(t.Context(), r.keys[uniqueKey:]...).Result()
		return n == 0
	},
		10*time.Second, 20*time.Millisecond, "the window is over")
	add(t, q, item{Value: "again", Unique: "u"})
	require.Equal(t, []string{"again"}, drain(t, q))
	onlyState(t, r)
}

// Never two of one unique key on their way (docs/faults.md, 18 d).
func TestRequeueOfATakenUnique(t *testing.T) {
	q, _ := newQueue(t)
	first := item{Value: "v", Unique: "u"}
	id := add(t, q, first)
	it, token := one(t, q)
	settle(t, q, outcome(it, token, sendonce.Dead))
	newer := add(t, q, first)
	n, err := q.Requeue(t.Context(), id)
	require.Zero(t, n)
	var taken *redisclaim.TakenError
	require.ErrorAs(t, err, &taken)
	require.Equal(t, []string{newer, "u"}, []string{taken.ID, taken.Unique})
	it, token = one(t, q)
	require.Equal(t, newer, it.Key)
	settle(t, q, done(it, token))
	n, err = q.Requeue(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	refused(t, q, first, id, "pending")
}

func TestUniqueKeepsWhatIsUnknown(t *testing.T) {
	q, _ := newQueue(t)
	first := item{Value: "v", Unique: "u"}
	id := add(t, q, first)
	it, token := one(t, q)
	settle(t, q, outcome(it, token, sendonce.Unknown))
	refused(t, q, first, id, "unknown")
	settleLate(t, q, done(it, token))
	add(t, q, first)
}

func settleLate(t testing.TB, q *queue, r sendonce.Result) {
	t.Helper()
	es, err := q.Settle(t.Context(), []sendonce.Result{r})
	require.NoError(t, err)
	require.Len(t, es, 1)
	require.Equal(t, sendonce.Late, es[0].Cause)
}
