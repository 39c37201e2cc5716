package redisqueue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/claimtest"
	"github.com/sendonce/sendonce/claim/redisclaim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

// docs/faults.md, 17: a server that has forgotten all scripts is told them again, by
// each operation, and nothing is done twice for it.
func TestFault17_ScriptsAreForgotten(t *testing.T) {
	q, r := newQueue(t)
	ctx := t.Context()
	flush := func() { require.NoError(t, r.client.ScriptFlush(ctx).Err()) }
	var ids []string
	for i := range 5 {
		flush()
		ids = append(ids, add(t, q, item{Value: fmt.Sprint(i)}))
	}
	flush()
	b := claim(t, q, ask(10))
	require.Len(t, b.Items, 5)
	flush()
	ext, err := q.Extend(ctx, []int64{b.Token})
	require.NoError(t, err)
	require.Empty(t, ext.Lost)
	flush()
	lost, err := q.Begin(ctx, []sendonce.Ref{{Key: ids[0], Token: b.Token}})
	require.NoError(t, err)
	require.Empty(t, lost)
	for i, o := range []sendonce.Outcome{sendonce.Done, sendonce.Retry, sendonce.Dead, sendonce.Unknown, sendonce.Released} {
		flush()
		settle(t, q, outcome(b.Items[i], b.Token, o))
	}
	flush()
	require.NoError(t, q.End(ctx, []int64{b.Token}))
	flush()
	_, err = q.Reap(ctx, sendonce.ReapRequest{MaxAttempts: 5})
	require.NoError(t, err)
	flush()
	c, err := q.Counts(ctx)
	require.NoError(t, err)
	require.Equal(t, sendonce.Counts{Pending: 2, Dead: 1, Unknown: 1}, c)
	flush()
	n, err := q.Requeue(ctx, ids[2])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	flush()
	n, err = q.Resume(ctx, []sendonce.Ref{{Key: ids[3], Token: b.Token}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.ElementsMatch(t, []string{"1", "2", "3", "4"}, drain(t, q))
}

// twice sends each command a second time, as a client does that has lost the reply.
type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook { return next }

func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := next(ctx, cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestFault17_RepeatsDoNothingTwice(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	client.AddHook(twice{})
	q, ctx := open[string](t, client, r.Prefix, optionsNone), t.Context()
	for i := range 6 {
		add(t, q, item{Key: fmt.Sprint(i), Value: fmt.Sprint(i), Unique: fmt.Sprint(i)})
	}
	c, err := q.Counts(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 6, c.Pending)
	b := claim(t, q, ask(5))
	require.Len(t, b.Items, 5)
	holders, err := q.Holders(ctx)
	require.NoError(t, err)
	require.Len(t, holders, 1)
	for i, o := range []sendonce.Outcome{sendonce.Done, sendonce.Retry, sendonce.Dead, sendonce.Unknown, sendonce.Released} {
		require.Equal(t, 1, b.Items[i].Attempt)
		settle(t, q, outcome(b.Items[i], b.Token, o))
	}
	require.NoError(t, q.End(ctx, []int64{b.Token}))
	c, err = q.Counts(ctx)
	require.NoError(t, err)
	require.Equal(t, sendonce.Counts{Pending: 3, Dead: 1, Unknown: 1}, c)
	require.ElementsMatch(t, []string{"1", "4", "5"}, drain(t, q))
}

// A claim whose reply is lost is not lost for a lease: the next claim has its items,
// and they were not charged.
func TestFault17_ClaimWhoseReplyIsLost(t *testing.T) {
	r := servers.Redis(t)
	p := servers.NewProxy(t, r.Addr)
	o := r.At(p.Addr).Options()
	o.ReadTimeout, o.MaxRetries = 200*time.Millisecond, -1
	client := redis.NewClient(o)
	defer client.Close()
	q, other := open[string](t, client, r.Prefix, optionsNone), open[string](t, r.Client(t), r.Prefix, optionsNone)
	add(t, q, item{Key: "k", Value: "once"})
	it, token := one(t, q) // the script is known now
	settle(t, q, outcome(it, token, sendonce.Released))
	require.NoError(t, q.End(t.Context(), []int64{token}))

	p.LoseReplies(t)
	_, err := q.Claim(t.Context(), ask(1))
	require.Error(t, err)
	c, err := other.Counts(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Claimed, "VOID: the claim did not act")
	nothing(t, other, "it is claimed")
	p.Heal(t)
	p.Disconnect(t)
	it, token = one(t, q)
	require.Equal(t, 1, it.Attempt, "it was never begun")
	settle(t, q, done(it, token))
	require.NoError(t, q.End(t.Context(), []int64{token}))
	onlyState(t, raw{t, r.Client(t), q.Keys()})
}

func dispatcher(t testing.TB, q *queue, name string, send func(ctx context.Context, it sendonce.Item[string]) error) *sendonce.Dispatcher[string] {
	t.Helper()
	d, err := sendonce.New(q, sendonce.SenderFunc[string](send), sendonce.Config{
		Owner: name, Concurrency: 8, SendTimeout: 300 * time.Millisecond, Lease: 1500 * time.Millisecond, PollInterval: 50 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return d
}

// Redis is killed and started again, twice, while producers add and workers send.
func TestFault17_RestartUnderLoad(t *testing.T) {
	r := servers.StartRedis(t, servers.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	sent, added := map[string]int{}, map[string]bool{}
	last := map[string]string{}
	var workers, producers sync.WaitGroup
	for w := range 2 {
		q := open[string](t, r.Client(t), r.Prefix, optionsNone)
		d := dispatcher(t, q, fmt.Sprint("w", w), func(_ context.Context, it sendonce.Item[string]) error {
			mu.Lock()
			defer mu.Unlock()
			sent[it.Key.(string)]++
			assert.LessOrEqual(t, last[it.Value], it.Key.(string), "the order of %s", it.Value)
			last[it.Value] = it.Key.(string)
			return nil
		})
		workers.Go(func() { assert.NoError(t, d.Run(ctx)) })
	}
	var stop atomic.Bool
	for p := range 2 {
		q := open[string](t, r.Client(t), r.Prefix, optionsNone)
		producers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				key := fmt.Sprint("k", p, i%5)
				if id, err := q.Add(ctx, item{Key: key, Value: key}); err == nil {
					mu.Lock()
					added[id] = true
					mu.Unlock()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 2 {
		time.Sleep(500 * time.Millisecond)
		r.Kill(t)
		time.Sleep(200 * time.Millisecond)
		r.Start(t)
	}
	time.Sleep(500 * time.Millisecond)
	stop.Store(true)
	producers.Wait()
	q := open[string](t, r.Client(t), r.Prefix, optionsNone)
	require.Eventually(t, func() bool { c, err := q.Counts(ctx); return err == nil && c.Left() == 0 }, 30*time.Second, 50*time.Millisecond)
	cancel()
	workers.Wait()
	require.Greater(t, len(added), 200, "VOID: too few items")
	for id := range added {
		assert.Equal(t, 1, sent[id], "item %s", id)
	}
	for id, n := range sent { // one whose Add failed may have been added all the same
		assert.Equal(t, 1, n, "item %s", id)
	}
}

// Every operation works on a cluster, with a queue and keys that would break or move
// a hash tag.
func TestFault17_ClusterTakesEveryScriptAndKey(t *testing.T) {
	client := servers.RedisCluster(t)
	names := []string{"a{b", "}{", "{}", "{a} b:c", " ", "%7B"}
	var n atomic.Int64
	h := harness(keysOf["a key each"], 0)
	h.New = func(t testing.TB, rows, handles int) *claimtest.Store[string] {
		s := &claimtest.Store[string]{}
		var q *queue
		i := n.Add(1)
		for range handles {
			var err error
			q, err = redisclaim.New[string](t.Context(), client, fmt.Sprint(names[i%int64(len(names))], i), &redisclaim.Options{Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			s.Claimers = append(s.Claimers, q)
		}
		for i := range rows {
			id, err := q.Add(t.Context(), redisclaim.Item[string]{Key: keysOf["a key each"](i), Value: fmt.Sprint("value ", i), Unique: fmt.Sprint("{", i, "} :")})
			require.NoError(t, err)
			s.Keys = append(s.Keys, id)
		}
		raw{t, client, q.Keys()}.hooks(s, q)
		return s
	}
	claimtest.Run(t, h)

	slots := map[int64]bool{}
	for _, name := range names {
		q, err := redisclaim.New[string](t.Context(), client, name, &redisclaim.Options{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		var of []int64
		for _, key := range append(q.Keys(), q.Keys()[0][:len(q.Keys()[0])-len("items")]+"added:00") {
			slot, err := client.ClusterKeySlot(t.Context(), key).Result()
			require.NoError(t, err)
			of = append(of, slot)
		}
		require.Len(t, slices.Compact(of), 1, "the slots of %q", q.Keys())
		slots[of[0]] = true
	}
	require.Greater(t, len(slots), 4, "queues are spread over the cluster")
}
