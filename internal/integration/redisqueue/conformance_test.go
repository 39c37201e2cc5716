package redisqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/claimtest"
	"github.com/sendonce/sendonce/claim/redisclaim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

// How items stand by their keys must make no difference to the contract.
var keysOf = map[string]func(i int) string{
	"no key":     func(int) string { return "" },
	"a key each": func(i int) string { return fmt.Sprintf("{%d}: a|b %%", i) },
}

func TestConformance(t *testing.T) {
	for name, keyOf := range keysOf {
		t.Run(name, func(t *testing.T) {
			claimtest.Run(t, harness(keyOf, 0))
		})
	}
	t.Run("done items are kept", func(t *testing.T) {
		claimtest.Run(t, harness(keysOf["no key"], time.Hour))
	})
}

func harness(keyOf func(int) string, keepDone time.Duration) claimtest.Harness[string] {
	return claimtest.Harness[string]{
		New: func(t testing.TB, rows, handles int) *claimtest.Store[string] {
			r := servers.Redis(t)
			s := &claimtest.Store[string]{}
			var q *redisclaim.Queue[string]
			for range handles {
				q = open[string](t, r.Client(t), r.Prefix, redisclaim.Options{KeepDone: keepDone})
				s.Claimers = append(s.Claimers, q)
			}
			for i := range rows {
				id, err := q.Add(t.Context(), redisclaim.Item[string]{Key: keyOf(i), Value: fmt.Sprint("value ", i)})
				require.NoError(t, err)
				s.Keys = append(s.Keys, id)
			}
			raw{t, r.Client(t), q.Keys()}.hooks(s, q)
			return s
		},
		Caps: claimtest.Caps{DeletesDone: keepDone == 0}, Parallel: 8,
	}
}

// raw reaches into a queue by hand.
type raw struct {
	t      testing.TB
	client redis.UniversalClient
	keys   []string
}

// The keys of a queue, as Keys has them.
const (
	itemsKey = iota
	valuesKey
	orderKey
	activeKey
	freshKey
	backKey
	suspectsKey
	claimsKey
	leases1Key
	leases2Key
	stateKey
	uniqueKey = stateKey + 5 // and the windows
)

var errNone = errors.New("no such item")

func (r raw) row(id sendonce.Key) (map[string]any, error) {
	text, err := r.client.HGet(r.t.Context(), r.keys[itemsKey], id.(string)).Result()
	if errors.Is(err, redis.Nil) {
		return nil, errNone
	}
	row := map[string]any{}
	return row, errors.Join(err, json.Unmarshal([]byte(text), &row))
}

func (r raw) change(id sendonce.Key, field string, value any) (map[string]any, error) {
	row, err := r.row(id)
	if err != nil {
		return nil, err
	}
	row[field] = value
	return row, r.client.HSet(r.t.Context(), r.keys[itemsKey], id, mustJSON(row)).Err()
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (r raw) hooks(s *claimtest.Store[string], q *redisclaim.Queue[string]) {
	t, ctx := r.t, r.t.Context()
	s.Row = func(key sendonce.Key) (claimtest.Row, error) {
		row, err := r.row(key)
		if errors.Is(err, errNone) {
			return claimtest.Row{}, nil
		}
		reason, _ := row["r"].(string)
		attempts, _ := row["a"].(float64)
		return claimtest.Row{Found: true, Status: row["s"].(string), Attempts: int(attempts), Reason: reason}, err
	}
	s.Check = func(item sendonce.Item[string]) error {
		for i, key := range s.Keys {
			if want := fmt.Sprint("value ", i); key == item.Key && item.Value != want {
				return fmt.Errorf("its value is %q, and not %q", item.Value, want)
			}
		}
		return nil
	}
	s.SetStatus = func(key sendonce.Key, status string) error {
		_, err := r.change(key, "s", status)
		for _, k := range r.keys[stateKey+1 : stateKey+5] {
			err = errors.Join(err, r.client.ZRem(ctx, k, key).Err())
		}
		return err
	}
	// By hand, in the middle of a send: Queue.Delete doesn't do that.
	s.Delete = func(key sendonce.Key) error { return r.client.HDel(ctx, r.keys[itemsKey], key.(string)).Err() }
	s.Schedule = func(key sendonce.Key, after time.Duration) error {
		now, err := r.client.Time(ctx).Result()
		require.NoError(t, err)
		due := now.Add(after).UnixMicro()
		row, err := r.change(key, "d", fmt.Sprint(due))
		require.NoError(t, err)
		return errors.Join(r.client.ZRem(ctx, r.keys[freshKey], row["k"]).Err(),
			r.client.ZAdd(ctx, r.keys[backKey], redis.Z{Score: float64(due), Member: row["k"]}).Err())
	}
	// Reap's walk finds it.
	s.InsertBefore = func() (sendonce.Key, error) {
		id := "0000000000000001"
		row := map[string]any{"s": "pending", "t": "0", "a": 0, "d": "0", "b": "0", "n": "1", "k": "k:first", "p": id}
		return id, errors.Join(r.client.HSet(ctx, r.keys[valuesKey], id, `"value"`).Err(), r.client.HSet(ctx, r.keys[itemsKey], id, mustJSON(row)).Err())
	}
	s.Spoil = func(key sendonce.Key) error {
		return r.client.HSet(ctx, r.keys[valuesKey], key, "{not JSON").Err()
	}
	s.Requeue = func(key sendonce.Key) error {
		n, err := q.Requeue(ctx, key.(string))
		if err == nil && n != 1 {
			err = fmt.Errorf("%d items were requeued", n)
		}
		return err
	}
}
