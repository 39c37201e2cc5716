package redisqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/redisclaim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

type (
	queue = redisclaim.Queue[string]
	item  = redisclaim.Item[string]
)

func add(t testing.TB, q *queue, it item) string {
	t.Helper()
	id, err := q.Add(t.Context(), it)
	require.NoError(t, err)
	return id
}

func ask(limit int) sendonce.ClaimRequest {
	return sendonce.ClaimRequest{Limit: limit, Lease: time.Hour, MaxAttempts: 5, Owner: "the test"}
}

func claim(t testing.TB, q *queue, req sendonce.ClaimRequest) sendonce.Batch[string] {
	t.Helper()
	b, err := q.Claim(t.Context(), req)
	require.NoError(t, err)
	return b
}

// one claims the only item that there is to claim.
func one(t testing.TB, q *queue) (sendonce.Item[string], int64) {
	t.Helper()
	b := claim(t, q, ask(10))
	require.Len(t, b.Items, 1)
	return b.Items[0], b.Token
}

func nothing(t testing.TB, q *queue, why string) {
	t.Helper()
	require.Empty(t, claim(t, q, ask(10)).Items, why)
}

func settle(t testing.TB, q *queue, r sendonce.Result) {
	t.Helper()
	es, err := q.Settle(t.Context(), []sendonce.Result{r})
	require.NoError(t, err)
	require.Empty(t, es)
}

func done(it sendonce.Item[string], token int64) sendonce.Result {
	return sendonce.Result{Key: it.Key, Token: token, Outcome: sendonce.Done}
}

// drain does all that there is and returns values in order.
func drain(t testing.TB, q *queue) (out []string) {
	t.Helper()
	for {
		b := claim(t, q, ask(7))
		if len(b.Items) == 0 && !b.More {
			return out
		}
		for _, it := range b.Items {
			out = append(out, it.Value)
			settle(t, q, done(it, b.Token))
		}
		require.NoError(t, q.End(t.Context(), []int64{b.Token}))
	}
}

func newQueue(t testing.TB) (*queue, raw) {
	t.Helper()
	r := servers.Redis(t)
	q := open[string](t, r.Client(t), r.Prefix, redisclaim.Options{})
	return q, raw{t, r.Client(t), q.Keys()}
}

// vanish makes the worker of a claim vanish, and its lease end.
func (r raw) vanish(q *queue, token int64) {
	r.t.Helper()
	// The score of a lease is its end, in microseconds since 1970.
	require.NoError(r.t, r.client.ZAdd(r.t.Context(), r.keys[leases1Key], redis.Z{Score: 1, Member: token}).Err())
	_, err := q.Reap(r.t.Context(), sendonce.ReapRequest{MaxAttempts: 1000, ClockOnly: true})
	require.NoError(r.t, err)
}

func TestHeadStaysInPlace(t *testing.T) {
	ends := map[string]sendonce.Outcome{"done": sendonce.Done, "dead": sendonce.Dead, "skipped": sendonce.Skipped, "unknown": sendonce.Unknown}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			q, r := newQueue(t)
			for _, v := range []string{"a1", "a2", "a3"} {
				add(t, q, item{Key: "a", Value: v})
			}
			add(t, q, item{Key: "b", Value: "b1"})

			b := claim(t, q, ask(10))
			require.Len(t, b.Items, 2, "one of each key")
			require.Equal(t, "a1", b.Items[0].Value)
			require.Equal(t, "b1", b.Items[1].Value)
			settle(t, q, done(b.Items[1], b.Token))
			add(t, q, item{Key: "a", Value: "a4"})
			nothing(t, q, "a1 is at work")

			settle(t, q, sendonce.Result{Key: b.Items[0].Key, Token: b.Token, Outcome: sendonce.Retry, After: 300 * time.Millisecond, Reason: "not now"})
			nothing(t, q, "a1 waits for its retry")
			// One that stands before it can't overtake what was begun.
			add(t, q, item{Key: "a", Value: "a0", At: time.Unix(1, 0)})
			nothing(t, q, "a1 waits for its retry")
			var again sendonce.Batch[string]
			require.Eventually(t, func() bool { again = claim(t, q, ask(10)); return len(again.Items) > 0 }, 10*time.Second, 10*time.Millisecond)
			require.Equal(t, "a1", again.Items[0].Value)
			require.Equal(t, 2, again.Items[0].Attempt)
			require.Greater(t, again.Items[0].Fence, b.Items[0].Fence)

			settle(t, q, sendonce.Result{Key: again.Items[0].Key, Token: again.Token, Outcome: end})
			require.Equal(t, []string{"a0", "a2", "a3", "a4"}, drain(t, q))
			require.NoError(t, q.End(t.Context(), []int64{b.Token, again.Token}))
			if end == sendonce.Done {
				onlyState(t, r)
			}
		})
	}
}

// onlyState checks that an idle queue has nothing but its counters, and what expires.
func onlyState(t testing.TB, r raw) {
	t.Helper()
	prefix, _, _ := strings.Cut(r.keys[0], "{")
	all, err := r.client.Keys(t.Context(), prefix+"*").Result()
	require.NoError(t, err)
	for _, key := range all {
		ttl, err := r.client.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		assert.Positive(t, ttl, "%s has no expiry", key)
	}
	assert.Contains(t, all, r.keys[stateKey])
	for i, key := range r.keys {
		assert.Equal(t, i == stateKey, slices.Contains(all, key), key)
	}
}

// The rule for producers that stamp their items: by stamp among those that wait at
// the moment of claiming; what was claimed is not overtaken.
func TestClocksThatDifferByAMinute(t *testing.T) {
	q, _ := newQueue(t)
	now := time.Now()
	add(t, q, item{Key: "k", Value: "ahead 1", At: now.Add(time.Minute)})
	first, token := one(t, q)
	require.Equal(t, "ahead 1", first.Value, "a stamp is nothing to wait for")
	for i := range 3 {
		at := now.Add(time.Duration(i) * time.Second)
		add(t, q, item{Key: "k", Value: fmt.Sprint("ahead ", i+2), At: at.Add(time.Minute)})
		add(t, q, item{Key: "k", Value: fmt.Sprint("right ", i), At: at})
	}
	add(t, q, item{Key: "k", Value: "right too", At: now.Add(2 * time.Second)}) // equal stamps: by arrival
	nothing(t, q, "the first is at work and is not overtaken")
	settle(t, q, done(first, token))
	require.Equal(t, []string{"right 0", "right 1", "right 2", "right too", "ahead 2", "ahead 3", "ahead 4"}, drain(t, q))
}

func TestReleasedHeadStandsByItsStamp(t *testing.T) {
	q, _ := newQueue(t)
	add(t, q, item{Key: "k", Value: "second", At: time.Unix(200, 0)})
	it, token := one(t, q)
	add(t, q, item{Key: "k", Value: "first", At: time.Unix(100, 0)})
	settle(t, q, sendonce.Result{Key: it.Key, Token: token, Outcome: sendonce.Released})
	require.Equal(t, []string{"first", "second"}, drain(t, q), "it was never begun")
}

// What was tried stays the first, also if the try was not charged and the next one
// was never begun. Requeue makes it as if it had never been tried.
func TestTriedHeadIsNotOvertaken(t *testing.T) {
	tries := map[string]func(q *queue, r raw, it sendonce.Item[string], token int64){
		"a retry, uncharged": func(q *queue, _ raw, it sendonce.Item[string], token int64) {
			settle(t, q, sendonce.Result{Key: it.Key, Token: token, Outcome: sendonce.Retry, Uncharged: true, Reason: "throttled"})
			require.NoError(t, q.End(t.Context(), []int64{token}))
		},
		"a vanished worker": func(q *queue, r raw, _ sendonce.Item[string], token int64) { r.vanish(q, token) },
	}
	for name, try := range tries {
		t.Run(name, func(t *testing.T) {
			q, r := newQueue(t)
			released := func(want string) {
				it, token := one(t, q)
				require.Equal(t, want, it.Value)
				settle(t, q, sendonce.Result{Key: it.Key, Token: token, Outcome: sendonce.Released})
				require.NoError(t, q.End(t.Context(), []int64{token}))
			}
			add(t, q, item{Key: "k", At: time.Unix(20, 0), Value: "tried"})
			it, token := one(t, q)
			try(q, r, it, token)
			add(t, q, item{Key: "k", At: time.Unix(10, 0), Value: "earlier"})
			released("tried")
			released("tried")
			it, token = one(t, q)
			require.Equal(t, "tried", it.Value)
			settle(t, q, sendonce.Result{Key: it.Key, Token: token, Outcome: sendonce.Dead})
			n, err := q.Requeue(t.Context(), it.Key.(string))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			it, token = one(t, q)
			require.Equal(t, "earlier", it.Value)
			settle(t, q, done(it, token))
			it, token = one(t, q)
			add(t, q, item{Key: "k", At: time.Unix(15, 0), Value: "between"})
			settle(t, q, sendonce.Result{Key: it.Key, Token: token, Outcome: sendonce.Released})
			require.Equal(t, []string{"between", "tried"}, drain(t, q))
		})
	}
}

// No key's name can move it into another's lane.
func TestKeysWithAnyBytes(t *testing.T) {
	q, r := newQueue(t)
	keys := []string{"a", "a|", "a|0", "a}", "{a}", "a:b", "a b", "%61", "\x00", "\xff", "é", "k:a", "i:1", "a%7C"}
	for round := range 2 {
		for i, key := range keys {
			add(t, q, item{Key: key, Value: fmt.Sprint(i, " ", round)})
		}
	}
	for round := range 2 {
		b := claim(t, q, ask(100))
		require.Len(t, b.Items, len(keys))
		for i, it := range b.Items {
			require.Equal(t, fmt.Sprint(i, " ", round), it.Value)
			settle(t, q, sendonce.Result{Key: it.Key, Token: b.Token, Outcome: []sendonce.Outcome{sendonce.Dead, sendonce.Done}[round], Reason: "no"})
		}
		require.NoError(t, q.End(t.Context(), []int64{b.Token}))
	}
	letters, err := q.Dead(t.Context(), "", 100)
	require.NoError(t, err)
	require.Len(t, letters, len(keys))
	for i, l := range letters {
		require.Equal(t, keys[i], l.Key)
		n, err := q.Delete(t.Context(), l.ID)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	onlyState(t, r)
}

func TestDeadLetters(t *testing.T) {
	q, r := newQueue(t)
	add(t, q, item{Key: "k", Value: "bad"})
	it, token := one(t, q)
	add(t, q, item{Key: "k", Value: "next"})
	settle(t, q, sendonce.Result{Key: it.Key, Token: token, Outcome: sendonce.Dead, Reason: "no such receiver"})
	require.NoError(t, q.End(t.Context(), []int64{token}))

	letters, err := q.Dead(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	l := letters[0]
	assert.Equal(t, it.Key, l.ID)
	assert.Equal(t, []any{"k", "bad", 1, "no such receiver"}, []any{l.Key, l.Value, l.Attempts, l.Reason})
	assert.False(t, l.Added.IsZero() || l.Died.Before(l.Added))
	letters, err = q.Dead(t.Context(), l.ID, 10)
	require.NoError(t, err)
	require.Empty(t, letters)

	n, err := q.Requeue(t.Context(), l.ID, "0000000000000009")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"bad", "next"}, drain(t, q), "it stands where it stood")
	onlyState(t, r)
}

func TestDeleteLeavesWhatIsAtWork(t *testing.T) {
	q, r := newQueue(t)
	a, b := add(t, q, item{Key: "k", Value: "a"}), add(t, q, item{Key: "k", Value: "b"})
	it, token := one(t, q)
	n, err := q.Delete(t.Context(), a, b)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	holders, err := q.Holders(t.Context())
	require.NoError(t, err)
	require.Len(t, holders, 1)
	assert.Equal(t, []any{"the test", token, []string{a}, 1, time.Hour}, []any{holders[0].Owner, holders[0].Token, holders[0].IDs, holders[0].Unmarked, holders[0].Lease})
	settle(t, q, done(it, token))
	require.NoError(t, q.End(t.Context(), []int64{token}))
	require.Empty(t, drain(t, q))
	onlyState(t, r)
}
