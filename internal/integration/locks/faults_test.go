package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/redislock"
)

// everyLocker runs a test on each store.
func everyLocker(t *testing.T, test func(t *testing.T, l lock.Locker)) {
	t.Run("Redis", func(t *testing.T) {
		r := servers.Redis(t)
		test(t, newRedisLocker(t, r.Client(t), r.Prefix))
	})
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			at, _ := d.migrated(t)
			test(t, d.locker(t, at))
		})
	}
}

// The random interleavings of this fault are a case of the conformance suite.
func TestFault15_OldOwnerChangesNothing(t *testing.T) {
	everyLocker(t, func(t *testing.T, l lock.Locker) {
		ctx := t.Context()
		a, err := l.Acquire(ctx, "k", lock.NewToken(), 500*time.Millisecond)
		require.NoError(t, err)
		time.Sleep(time.Second)
		b, err := l.Acquire(ctx, "k", lock.NewToken(), time.Hour)
		require.NoError(t, err)
		require.Greater(t, b.Fence, a.Fence)

		_, err = l.Extend(ctx, a, time.Second)
		var lost *lock.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, lock.Taken, lost.Reason)
		require.ErrorIs(t, l.Release(ctx, a), lock.ErrLost)

		_, err = l.Acquire(ctx, "k", lock.NewToken(), time.Second)
		require.ErrorIs(t, err, lock.ErrHeld, "C is refused")
		_, err = l.Extend(ctx, b, time.Hour)
		require.NoError(t, err)
		require.NoError(t, l.Release(ctx, b))
	})
}

// Renewals that come at once write the same value on some databases, and change
// no row by the count of some connections.
func TestFault08_SameLeaseAgainIsNoLoss(t *testing.T) {
	everyLocker(t, func(t *testing.T, l lock.Locker) {
		ctx := t.Context()
		a, err := l.Acquire(ctx, "k", lock.NewToken(), time.Hour)
		require.NoError(t, err)
		for range 50 {
			again, err := l.Acquire(ctx, "k", a.Token, time.Hour)
			require.NoError(t, err)
			require.Equal(t, a.Fence, again.Fence)
			_, err = l.Extend(ctx, a, time.Hour)
			require.NoError(t, err)
		}
		for range 3 {
			require.NoError(t, l.Release(ctx, a))
		}
		_, err = l.Extend(ctx, a, time.Hour)
		require.ErrorIs(t, err, lock.ErrLost)
	})
}

// Holders that take turns without a pause: nobody is told that a lock is lost
// which was not.
func TestFault15_TurnsUnderContention(t *testing.T) {
	everyLocker(t, func(t *testing.T, l lock.Locker) {
		var inside, turns atomic.Int32
		var all sync.WaitGroup
		end := time.Now().Add(time.Second)
		for range 4 {
			all.Go(func() {
				for time.Now().Before(end) {
					lease, err := lock.Wait(t.Context(), l, "k", 10*time.Second, &lock.Waiting{Poll: time.Millisecond})
					if !assert.NoError(t, err) {
						return
					}
					err = lock.Keep(t.Context(), l, lease, 10*time.Second, func(context.Context, int64) error {
						assert.EqualValues(t, 1, inside.Add(1))
						inside.Add(-1)
						turns.Add(1)
						return nil
					})
					if !assert.NoError(t, err) {
						return
					}
				}
			})
		}
		all.Wait()
		assert.Greater(t, turns.Load(), int32(20))
	})
}

// register is what a fence is for: it refuses whoever comes with a smaller one.
type register struct {
	mu      sync.Mutex
	fence   int64
	refused int
}

func (r *register) write(fence int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.fence {
		r.refused++
		return errors.New("a larger fence was here")
	}
	r.fence = fence
	return nil
}

func TestFault16_RedisForgetsTheLock(t *testing.T) {
	for name, all := range map[string]bool{"the lease": false, "the counters too": true} {
		t.Run(name, func(t *testing.T) {
			r := servers.Redis(t)
			client := r.Client(t)
			a, b := newRedisLocker(t, client, r.Prefix), newRedisLocker(t, r.Client(t), r.Prefix)
			leaseKey, memoryKey := a.Keys("k")
			const lease = 900 * time.Millisecond
			var guarded register
			started := 0
			var lostAt time.Time

			err := lock.Hold(t.Context(), a, "k", lease, func(ctx context.Context, fence int64) error {
				for row := range 20 {
					if ctx.Err() != nil {
						assert.Less(t, time.Since(lostAt), lease/2, "the next renewal tells")
						return context.Cause(ctx)
					}
					started++
					time.Sleep(100 * time.Millisecond) // the send
					err := guarded.write(fence)
					if !lostAt.IsZero() {
						assert.Error(t, err, "a late write of the old holder")
						continue
					}
					assert.NoError(t, err)
					if row != 4 {
						continue
					}
					assert.NoError(t, client.Del(t.Context(), leaseKey).Err())
					if all {
						assert.NoError(t, client.Del(t.Context(), memoryKey).Err())
					}
					lostAt = time.Now()
					next, err := b.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
					assert.NoError(t, err)
					assert.Greater(t, next.Fence, fence)
					assert.NoError(t, guarded.write(next.Fence))
				}
				return nil
			})
			var lost *lock.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, lock.Taken, lost.Reason)
			require.LessOrEqual(t, started, 5+4, "rows started by the old holder: none after its next renewal")
			require.Equal(t, started-5, guarded.refused)
			_, err = a.Acquire(t.Context(), "k", lock.NewToken(), time.Second)
			require.ErrorIs(t, err, lock.ErrHeld, "nothing that the old holder did took the lock from the new one")
		})
	}
}

func TestFault16_RenewalNeverMakesAMissingKey(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	l := newRedisLocker(t, client, r.Prefix)
	a, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
	require.NoError(t, err)
	forget(t, client, l, "k")
	_, err = l.Extend(t.Context(), a, time.Hour)
	require.ErrorIs(t, err, lock.ErrLost)
	require.ErrorIs(t, l.Release(t.Context(), a), lock.ErrLost)
	leaseKey, memoryKey := l.Keys("k")
	n, err := client.Exists(t.Context(), leaseKey, memoryKey).Result()
	require.NoError(t, err)
	require.Zero(t, n)
}

// No key of ours is without an expiry, whatever was done with it.
func TestFault16_EveryKeyExpires(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	l := newRedisLocker(t, client, r.Prefix)
	check := func(what string) {
		t.Helper()
		keys, err := client.Keys(t.Context(), r.Prefix+"*").Result()
		require.NoError(t, err)
		require.NotEmpty(t, keys)
		for _, key := range keys {
			left, err := client.PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			require.Positive(t, left, "after %s, %s has no expiry", what, key)
		}
	}
	a, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
	require.NoError(t, err)
	check("Acquire")
	_, err = l.Acquire(t.Context(), "k", a.Token, time.Hour)
	require.NoError(t, err)
	check("Acquire again")
	_, err = l.Extend(t.Context(), a, time.Hour)
	require.NoError(t, err)
	check("Extend")
	_, memoryKey := l.Keys("k")
	require.NoError(t, client.Del(t.Context(), memoryKey).Err())
	require.NoError(t, l.Release(t.Context(), a))
	check("Release without memory")
}

func TestFault16_EvictingPolicyIsWarnedOf(t *testing.T) {
	warning := func(client redis.UniversalClient) string {
		t.Helper()
		w, err := redislock.EvictionWarning(t.Context(), client)
		require.NoError(t, err)
		return w
	}
	server := servers.StartRedis(t, servers.Options{Args: []string{"--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru"}})
	client := server.Client(t)
	require.Contains(t, warning(client), "allkeys-lru")

	// It does happen, and is found by the next renewal; fences grow all the same.
	l := newRedisLocker(t, client, server.Prefix)
	a, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
	require.NoError(t, err)
	for i := 0; ; i++ {
		require.NoError(t, client.Set(t.Context(), fmt.Sprint("fill", i), make([]byte, 10_000), 0).Err())
		if i%50 != 0 {
			continue
		}
		lease, memory := l.Keys("k")
		if n, err := client.Exists(t.Context(), lease, memory).Result(); err == nil && n == 0 {
			break
		}
		require.Less(t, i, 100_000, "Redis evicts nothing")
	}
	_, err = l.Extend(t.Context(), a, time.Hour)
	require.ErrorIs(t, err, lock.ErrLost)
	b, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
	require.NoError(t, err)
	require.Greater(t, b.Fence, a.Fence)

	// A user who may not read the settings gets words, and no error.
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-config", "-info").Err())
	o := server.Options()
	o.Username, o.Password = "app", "secret"
	blind := redis.NewClient(o)
	t.Cleanup(func() { _ = blind.Close() })
	require.Contains(t, warning(blind), "may not be read")
	_, err = newRedisLocker(t, blind, server.Prefix).Extend(t.Context(), b, time.Hour)
	require.NoError(t, err, "the lock itself works")

	// One who may not use INFO can still be told by CONFIG.
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "app", "+config").Err())
	require.Contains(t, warning(blind), "allkeys-lru")

	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	require.Empty(t, warning(client))
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl").Err())
	require.Contains(t, warning(client), "volatile-ttl")
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Empty(t, warning(client), "without a limit nothing is evicted")
	server.Kill(t)
	_, err = redislock.EvictionWarning(t.Context(), client)
	require.Error(t, err, "a Redis that is not there is an error")
}

func TestFault17_ScriptsAreFlushed(t *testing.T) {
	server := servers.StartRedis(t)
	client := server.Client(t)
	l := newRedisLocker(t, client, server.Prefix)
	flush := func() { require.NoError(t, client.ScriptFlush(t.Context()).Err()) }
	last := int64(0)
	for range 5 {
		flush()
		a, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
		require.NoError(t, err)
		require.Greater(t, a.Fence, last)
		last = a.Fence
		flush()
		_, err = l.Extend(t.Context(), a, time.Hour)
		require.NoError(t, err)
		flush()
		require.NoError(t, l.Release(t.Context(), a))
	}
}

// Redis is stopped and started while many take turns. Calls of clients that try
// for long enough all succeed, but that leases are lost which Redis forgot.
func TestFault17_RestartUnderLoad(t *testing.T) {
	server := servers.StartRedis(t)
	o := server.Options()
	o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 200, 20*time.Millisecond, 50*time.Millisecond
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	l := newRedisLocker(t, client, server.Prefix)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var stop atomic.Bool
	var restarts, turns, lost, after atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		key := fmt.Sprint("k", i%4)
		all.Go(func() {
			last := int64(0)
			for !stop.Load() {
				lease, err := l.Acquire(ctx, key, lock.NewToken(), time.Minute)
				if errors.Is(err, lock.ErrHeld) {
					time.Sleep(time.Millisecond)
					continue
				}
				if !assert.NoError(t, err) {
					return
				}
				assert.Greater(t, lease.Fence, last)
				last = lease.Fence
				_, err = l.Extend(ctx, lease, time.Minute)
				if err == nil {
					err = l.Release(ctx, lease)
				}
				if errors.Is(err, lock.ErrLost) {
					lost.Add(1)
					assert.Positive(t, restarts.Load(), "a loss without a restart: %v", err)
					continue
				}
				assert.NoError(t, err)
				turns.Add(1)
				if restarts.Load() == 2 {
					after.Add(1)
				}
			}
		})
	}
	for range 2 {
		time.Sleep(500 * time.Millisecond)
		before := restarts.Load()
		restarts.Add(1)
		server.Stop(t)
		time.Sleep(200 * time.Millisecond)
		server.Start(t)
		require.Equal(t, before+1, restarts.Load())
	}
	time.Sleep(time.Second)
	stop.Store(true)
	all.Wait()
	t.Logf("%d turns, %d leases lost to the restarts", turns.Load(), lost.Load())
	assert.Greater(t, after.Load(), int64(50), "turns after the restarts")
}
