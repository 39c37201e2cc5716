package unique

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/sender/unique"
)

func owner(row string) unique.Owner {
	return unique.Owner{Row: row, ID: "id of " + row, Token: string(lock.NewToken())}
}

// An owner whose lease is over renews nothing, marks nothing and frees nothing that is
// somebody else's, in any order.
func TestFault15_OldOwnerOfAKeyChangesNothing(t *testing.T) {
	r := servers.Redis(t)
	s := redisStore(t, r.Client(t), r.Prefix)
	var goroutines sync.WaitGroup
	for round := range 200 {
		goroutines.Go(func() {
			ctx, key := t.Context(), fmt.Sprint("key ", round)
			a, b, c := owner("a"), owner("b"), owner("c")
			st, err := s.Hold(ctx, key, a, 10*time.Millisecond, "")
			if !assert.NoError(t, err) || !assert.Nil(t, st) {
				return
			}
			time.Sleep(15 * time.Millisecond)
			st, err = s.Hold(ctx, key, b, time.Minute, "")
			if !assert.NoError(t, err) || !assert.Nil(t, st) {
				return
			}
			stale := []func(){
				func() { assert.ErrorIs(t, s.Extend(ctx, key, a.Token, time.Hour), lock.ErrLost) },
				func() { assert.NoError(t, s.Free(ctx, key, a.Token, true)) },
				func() { assert.NoError(t, s.Release(ctx, key, a.Row)) },
				func() {
					st, err := s.Mark(ctx, key, a, time.Hour)
					if assert.NoError(t, err) && assert.NotNil(t, st) {
						assert.Equal(t, "b", st.Row)
					}
				},
			}
			rand.Shuffle(len(stale), func(i, j int) { stale[i], stale[j] = stale[j], stale[i] })
			for _, f := range stale {
				f()
				st, err := s.Hold(ctx, key, c, time.Minute, "")
				if assert.NoError(t, err) && assert.NotNil(t, st) {
					assert.Equal(t, "b", st.Row)
					assert.LessOrEqual(t, st.Left, time.Minute)
				}
			}
		})
	}
	goroutines.Wait()
}

// A key that Redis forgets while its row is sent is noticed by the next renewal, which
// doesn't make it anew; another row has it meanwhile, and keeps it.
func TestFault16_ForgottenKeyEndsTheSend(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	s := redisStore(t, client, r.Prefix)
	o := unique.Options[string]{Key: func(m sendonce.Item[string]) string { return m.Value }, For: time.Hour, Lease: time.Second, Logger: logger}
	var cause error
	u, err := unique.New(sendonce.SenderFunc[string](func(ctx context.Context, _ sendonce.Item[string]) error {
		require.NoError(t, client.Del(t.Context(), s.Name("ann")).Err())
		st, err := s.Hold(t.Context(), "ann", owner("other"), time.Minute, "")
		require.NoError(t, err)
		require.Nil(t, st)
		select {
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-time.After(10 * time.Second):
		}
		return ctx.Err()
	}), unique.Store(s), o)
	require.NoError(t, err)
	err = u.Send(t.Context(), []sendonce.Item[string]{{Key: int64(1), Value: "ann", IdempotencyKey: "1"}})
	require.ErrorIs(t, err, lock.ErrLost)
	require.ErrorIs(t, cause, lock.ErrLost)
	st, err := s.Look(t.Context(), "ann")
	require.NoError(t, err)
	require.NotNil(t, st)
	assert.Equal(t, "other", st.Row)
	assert.Equal(t, unique.Held, st.How)
}

// Redis loses its scripts, and then is killed and started again, while workers send:
// nothing surfaces but a wait, and no row is charged.
func TestFault17_ScriptsAndServerGone(t *testing.T) {
	own := servers.StartRedis(t)
	admin := own.Client(t)
	options := own.Options()
	options.MaxRetries, options.DialerRetries = -1, 1 // what is repeated is repeated by us
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	s := redisStore(t, client, "keys:")
	o := unique.Options[string]{
		Key: func(m sendonce.Item[string]) string { return m.Value }, For: time.Hour, Lease: 500 * time.Millisecond,
		WaitFor: 20 * time.Millisecond, Logger: logger,
	}
	var sent, failed atomic.Int64
	u, err := unique.New(sendonce.SenderFunc[string](func(context.Context, sendonce.Item[string]) error {
		sent.Add(1)
		time.Sleep(time.Millisecond)
		return nil
	}), &counting{Store: s, errors: &failed}, o)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var done atomic.Int64
	const workers, rows = 4, 500
	var goroutines sync.WaitGroup
	for w := range workers {
		goroutines.Go(func() {
			for i := range rows {
				m := sendonce.Item[string]{Key: int64(w*rows + i), Value: fmt.Sprint(w, " ", i), IdempotencyKey: fmt.Sprint(w, i)}
				for {
					err := u.Send(ctx, []sendonce.Item[string]{m})
					if err == nil {
						done.Add(1)
						break
					}
					if !assert.NoError(t, ctx.Err()) || !assert.ErrorContains(t, err, "can't be had") {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	reached := func(n int64) {
		assert.Eventually(t, func() bool { return done.Load() >= n }, 30*time.Second, time.Millisecond)
	}
	reached(20)
	require.NoError(t, admin.ScriptFlush(ctx).Err())
	reached(100)
	require.NoError(t, admin.ScriptFlush(ctx).Err())
	reached(150)
	own.Kill(t)
	require.Less(t, done.Load(), int64(workers*rows), "they are still at it")
	assert.Eventually(t, func() bool { return failed.Load() > 0 }, 30*time.Second, time.Millisecond, "the outage is seen")
	own.Start(t)
	goroutines.Wait()
	assert.Equal(t, int64(workers*rows), done.Load())
	assert.Equal(t, int64(workers*rows), sent.Load(), "no row was sent twice for it")
	everyKeyExpires(t, admin, "keys:")
}

// counting counts the calls that failed.
type counting struct {
	unique.Store
	errors *atomic.Int64
}

func (c *counting) count(err error) {
	if err != nil {
		c.errors.Add(1)
	}
}

func (c *counting) Hold(ctx context.Context, key string, o unique.Owner, ttl time.Duration, over string) (*unique.Standing, error) {
	st, err := c.Store.Hold(ctx, key, o, ttl, over)
	c.count(err)
	return st, err
}

func (c *counting) Mark(ctx context.Context, key string, o unique.Owner, d time.Duration) (*unique.Standing, error) {
	st, err := c.Store.Mark(ctx, key, o, d)
	c.count(err)
	return st, err
}

// Whatever Redis doesn't say sends nothing.
func TestRedisThatDoesNotAnswerSendsNothing(t *testing.T) {
	own := servers.StartRedis(t)
	s := redisStore(t, own.Client(t), "keys:")
	_, err := s.Look(t.Context(), "ann")
	require.NoError(t, err)
	own.Pause(t)
	defer own.Resume(t)
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, late)
	defer cancel()
	start := time.Now()
	_, err = s.Hold(ctx, "ann", owner("1"), time.Minute, "")
	require.ErrorIs(t, err, late)
	assert.Less(t, time.Since(start), 2*time.Second, "a context that ends is obeyed, whatever the client does")
}
