package locks

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/locktest"
	"github.com/sendonce/sendonce/lock/redislock"
)

func newRedisLocker(t testing.TB, client redis.UniversalClient, prefix string) *redislock.Locker {
	t.Helper()
	l, err := redislock.New(client, &redislock.Options{Prefix: prefix})
	require.NoError(t, err)
	return l
}

// forget deletes what Redis knows of a key.
func forget(t testing.TB, client redis.UniversalClient, l *redislock.Locker, key string) {
	t.Helper()
	lease, memory := l.Keys(key)
	require.NoError(t, client.Del(t.Context(), lease, memory).Err())
}

func TestRedisConformance(t *testing.T) {
	locktest.Run(t, locktest.Harness{
		TTL:  ttl,
		Caps: locktest.Caps{Fenced: true},
		Open: func(t testing.TB) locktest.Store {
			r := servers.Redis(t)
			client := r.Client(t)
			first := newRedisLocker(t, client, r.Prefix)
			return locktest.Store{
				New:    func() lock.Locker { return first },
				Forget: func(key string) { forget(t, client, first, key) },
				Line: func() (lock.Locker, locktest.Line) {
					p := servers.NewProxy(t, r.Addr)
					return newRedisLocker(t, r.At(p.Addr).Client(t), r.Prefix), line{t, p}
				},
				Pausing: func(pause func()) lock.Locker {
					client := r.Client(t)
					client.AddHook(pausingHook(pause))
					return newRedisLocker(t, client, r.Prefix)
				},
			}
		},
	})
}

// pausingHook pauses before every command.
type pausingHook func()

func (pausingHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (p pausingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p()
		return next(ctx, cmd)
	}
}

func (pausingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A client that waits for its contexts leaves nothing behind when the line is
// gone.
func TestRedisLeavesNoGoroutine(t *testing.T) {
	r := servers.Redis(t)
	p := servers.NewProxy(t, r.Addr)
	servers.NoLeaks(t)
	o := r.At(p.Addr).Options()
	o.ContextTimeoutEnabled = true
	client := redis.NewClient(o)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	l := newRedisLocker(t, client, r.Prefix)
	err := lock.Hold(t.Context(), l, "k", ttl, func(ctx context.Context, _ int64) error {
		p.BlackHole(t)
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, lock.ErrLost)
	p.Heal(t)
}
