package limits

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/sender"
)

// crowd lets so many waiters of each limit begin n sends in all.
func crowd(t *testing.T, limits []*sender.RateLimit, waiters, n int) *begins {
	t.Helper()
	var b begins
	var left atomic.Int64
	left.Store(int64(n))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for who, l := range limits {
		for range waiters {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if !assert.NoError(t, l.WaitN(ctx, 1)) {
						return
					}
					b.add(who)
				}
			})
		}
	}
	wg.Wait()
	return &b
}

// threeOf is the same limit as three processes have it.
func threeOf(t *testing.T, r *servers.RedisDB, o sender.RateLimitOptions) []*sender.RateLimit {
	t.Helper()
	var limits []*sender.RateLimit
	for range 3 {
		limits = append(limits, newLimit(t, r.Client(t), r.Prefix+"limit", o))
	}
	return limits
}

func TestLimitIsKeptAndUsedByACrowd(t *testing.T) {
	for _, o := range []sender.RateLimitOptions{{Events: 20}, {Events: 100}, {Events: 500}, {Events: 50, Burst: 10}} {
		t.Run(strconv.Itoa(o.Events)+" burst "+strconv.Itoa(o.Burst), func(t *testing.T) {
			limits := threeOf(t, servers.Redis(t), o)
			m := newMeter()
			b := crowd(t, limits, 16, 3*o.Events)
			m.fast(t, perSecond(b.at), o.Events)
			keeps(t, b.at, o)
			for who := range 3 {
				assert.Greater(t, b.by[who], len(b.at)/6, "sends of process %d", who)
			}
		})
	}
}

// One process with one waiter is as fast, and a burst is there after a quiet time
// and not before.
func TestLimitOfOneWaiterHasBursts(t *testing.T) {
	r := servers.Redis(t)
	o := sender.RateLimitOptions{Events: 20, Burst: 5}
	l := newLimit(t, r.Client(t), r.Prefix+"limit", o)
	var b begins
	for i := range 30 {
		if i == 15 {
			time.Sleep(400 * time.Millisecond) // the bucket fills
		}
		require.NoError(t, l.WaitN(t.Context(), 1))
		b.add(0)
	}
	keeps(t, b.at, o)
	assert.Less(t, b.at[19].Sub(b.at[15]), 150*time.Millisecond, "five at once after a quiet time")
	assert.Greater(t, b.at[14].Sub(b.at[0]), 600*time.Millisecond, "no burst at first: what others sent is not known")
	require.NoError(t, l.WaitN(t.Context(), 5), "as many as a burst")
	require.NoError(t, l.WaitN(t.Context(), 0))
}

func TestLimitRefusesMoreThanABurst(t *testing.T) {
	r := servers.Redis(t)
	l := newLimit(t, r.Client(t), r.Prefix+"limit", sender.RateLimitOptions{Events: 20, Burst: 5})
	err := l.WaitN(t.Context(), 6)
	require.ErrorContains(t, err, "6 sends")
	require.ErrorContains(t, err, "Burst is 5")
	require.Error(t, l.WaitN(t.Context(), -1))
}

// A pause holds for those who have a slot already, in all processes, and no
// burst comes after it.
func TestPauseHoldsForAllWhoWait(t *testing.T) {
	r := servers.Redis(t)
	o := sender.RateLimitOptions{Events: 20, Burst: 3}
	limits := threeOf(t, r, o)
	var began, ended time.Time
	pausing := make(chan struct{})
	go func() {
		defer close(pausing)
		time.Sleep(700 * time.Millisecond)
		assert.NoError(t, limits[1].Pause(t.Context(), 1500*time.Millisecond))
		began = time.Now()
		ended = began.Add(1500 * time.Millisecond)
		assert.NoError(t, limits[2].Pause(t.Context(), 100*time.Millisecond), "does not shorten the longer one")
		assert.NoError(t, limits[2].Pause(t.Context(), 0))
	}()
	b := crowd(t, limits, 4, 40)
	<-pausing
	keeps(t, b.at, o)
	before, after := 0, 0
	for _, at := range b.at {
		// Granted right before the pause, and noted right after it.
		const grace = 25 * time.Millisecond
		assert.False(t, at.After(began.Add(grace)) && at.Before(ended.Add(-grace)), "a send began %v after the pause did", at.Sub(began))
		if at.Before(began) {
			before++
		} else if at.Before(ended.Add(40 * time.Millisecond)) {
			after++
		}
	}
	assert.Positive(t, before)
	assert.LessOrEqual(t, after, 1, "sends at the end of the pause")
	assert.Greater(t, b.at[len(b.at)-1], ended)
}

func TestPauseEndsWhenItsKeyIsDeleted(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	l := newLimit(t, client, r.Prefix+"limit", sender.RateLimitOptions{Events: 20})
	require.NoError(t, l.Pause(t.Context(), time.Hour))
	require.NoError(t, client.Del(t.Context(), r.Prefix+"limit").Err())
	require.NoError(t, l.WaitN(t.Context(), 1))
}

// tat is what Redis holds of the reservations.
func tat(t *testing.T, client redis.UniversalClient, key string) int64 {
	t.Helper()
	n, err := client.HGet(t.Context(), key, "tat").Int64()
	require.NoError(t, err)
	return n
}

func TestCancelledWaitGivesItsSlotBack(t *testing.T) {
	r := servers.Redis(t)
	client, key := r.Client(t), r.Prefix+"limit"
	l := newLimit(t, client, key, sender.RateLimitOptions{Events: 1})
	require.NoError(t, l.WaitN(t.Context(), 1))
	before := tat(t, client, key)

	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		assert.Eventually(t, func() bool { return tat(t, client, key) > before }, 5*time.Second, time.Millisecond)
		time.Sleep(200 * time.Millisecond) // the reply, too, has come: else the slot is lost
		cancel(enough)
	}()
	require.ErrorIs(t, l.WaitN(ctx, 1), enough)
	assert.Equal(t, before, tat(t, client, key))

	// Not if somebody has reserved a later one: two may not have the same.
	ctx, cancel = context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- l.WaitN(ctx, 1) }()
	require.Eventually(t, func() bool { return tat(t, client, key) > before }, 5*time.Second, time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	middle := tat(t, client, key)
	require.NoError(t, client.HIncrBy(t.Context(), key, "tat", 1000).Err())
	cancel(enough)
	require.ErrorIs(t, <-done, enough)
	assert.Equal(t, middle+1000, tat(t, client, key))
	require.ErrorIs(t, l.WaitN(ctx, 1), enough, "a context that has ended")
}

// A process that stands still before it asks, or before it has the answer, begins
// nothing with its slot: those of others are as far apart as ever.
func TestSlotThatIsTakenUpLateIsLost(t *testing.T) {
	for _, stands := range []string{"before", "after"} {
		t.Run(stands, func(t *testing.T) {
			r := servers.Redis(t)
			key := r.Prefix + "limit"
			o := sender.RateLimitOptions{Events: 10}
			client := r.Client(t)
			sleeper := newLimit(t, client, key, o)
			other := newLimit(t, r.Client(t), key, o)
			require.NoError(t, client.Ping(t.Context()).Err()) // connected
			require.NoError(t, other.WaitN(t.Context(), 1))    // the script is there

			var calls atomic.Int64
			client.AddHook(around(func(when string) {
				if when == stands && calls.Add(1) == 2 {
					time.Sleep(450 * time.Millisecond)
				}
			}))
			var b begins
			var wg sync.WaitGroup
			wg.Go(func() {
				assert.NoError(t, sleeper.WaitN(t.Context(), 1))
				b.add(0)
			})
			wg.Go(func() {
				for range 8 {
					assert.NoError(t, other.WaitN(t.Context(), 1))
					b.add(1)
				}
			})
			wg.Wait()
			assert.GreaterOrEqual(t, calls.Load(), int64(3), "it has asked for another slot")
			for i := range b.at[1:] {
				assert.Greater(t, b.at[i+1].Sub(b.at[i]), 50*time.Millisecond, "between two sends")
			}
		})
	}
}

// The script itself, asked by one who woke up too late, or too early.
func TestScriptKnowsWhenATicketIsLate(t *testing.T) {
	text, err := os.ReadFile("../../../sender/ratelimit.lua")
	require.NoError(t, err)
	r := servers.Redis(t)
	client := r.Client(t)
	// An interval of 100 ms, no burst, a second ahead, 10 ms late at the most.
	take := func(ticket ...any) []string {
		args := append([]any{"take", 100_000, 1, 1_000_000, 10_000, 60_000, 1}, ticket...)
		reply, err := client.Eval(t.Context(), string(text), []string{r.Prefix + "limit"}, args...).StringSlice()
		require.NoError(t, err)
		return reply
	}
	first := take(0, 0)
	require.Equal(t, "wait", first[0])
	again := take(first[2], first[3])
	require.Equal(t, "wait", again[0], "too early")
	require.Equal(t, first[2:4], again[2:4], "it is the same ticket")
	time.Sleep(150 * time.Millisecond)
	late := take(first[2], first[3])
	require.Equal(t, "wait", late[0], "too late")
	require.NotEqual(t, first[2], late[2], "it is another ticket")
	void := take(late[2], "1")
	require.NotEqual(t, late[2], void[2], "one of another epoch is none")
}

// A clock that is set back would hold everybody up for as long.
func TestClockSetBackHoldsNobodyUp(t *testing.T) {
	r := servers.Redis(t)
	client, key := r.Client(t), r.Prefix+"limit"
	l := newLimit(t, client, key, sender.RateLimitOptions{Events: 20})
	require.NoError(t, l.WaitN(t.Context(), 1))
	hour := time.Hour.Microseconds()
	for _, field := range []string{"tat", "seen"} { // as an hour ahead would have written them
		require.NoError(t, client.HIncrBy(t.Context(), key, field, hour).Err())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, l.WaitN(ctx, 1))
	require.Less(t, tat(t, client, key), time.Now().Add(time.Minute).UnixMicro())

	// A pause goes on for as long as it would have.
	require.NoError(t, l.Pause(t.Context(), 300*time.Millisecond))
	start := time.Now()
	for _, field := range []string{"tat", "seen", "pause"} {
		require.NoError(t, client.HIncrBy(t.Context(), key, field, hour).Err())
	}
	require.NoError(t, l.WaitN(ctx, 1))
	assert.Greater(t, time.Since(start), 250*time.Millisecond)
}

func TestLimitExpiresAWeekAfterItsUse(t *testing.T) {
	r := servers.Redis(t)
	client, key := r.Client(t), r.Prefix+"limit"
	l := newLimit(t, client, key, sender.RateLimitOptions{Events: 20})
	require.NoError(t, l.WaitN(t.Context(), 1))
	ttl := client.PTTL(t.Context(), key).Val()
	assert.InDelta(t, (7 * 24 * time.Hour).Seconds(), ttl.Seconds(), 60)
	require.NoError(t, l.Pause(t.Context(), 30*24*time.Hour))
	assert.Greater(t, client.PTTL(t.Context(), key).Val(), 36*24*time.Hour, "longer than the pause")
}

// Whatever Redis doesn't say begins nothing.
func TestLimitFailsClosed(t *testing.T) {
	own := servers.StartRedis(t)
	o := own.Options()
	o.MaxRetries = -1
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	l := newLimit(t, client, "limit", sender.RateLimitOptions{Events: 1000})
	require.NoError(t, l.WaitN(t.Context(), 1))

	own.Pause(t)
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, late)
	defer cancel()
	start := time.Now()
	require.ErrorIs(t, l.WaitN(ctx, 1), late)
	require.ErrorIs(t, l.Pause(ctx, time.Second), late)
	assert.Less(t, time.Since(start), 2*time.Second, "a context that ends is obeyed, whatever the client does")
	own.Resume(t)

	own.Kill(t)
	require.ErrorContains(t, l.WaitN(t.Context(), 1), "rate limit \"limit\" in Redis")
	require.Error(t, l.Pause(t.Context(), time.Second))
	own.Start(t)
	require.NoError(t, l.WaitN(t.Context(), 1), "no restart of ours is needed")

	require.NoError(t, client.Del(t.Context(), "limit").Err())
	require.NoError(t, client.Set(t.Context(), "limit", "of something else", 0).Err())
	require.ErrorContains(t, l.WaitN(t.Context(), 1), "WRONGTYPE")
}

// Redis loses its scripts, and then all it knows, while three processes wait.
func TestLimitIsKeptOverRestartsOfRedis(t *testing.T) {
	own := servers.StartRedis(t)
	o := sender.RateLimitOptions{Events: 20}
	limits := threeOf(t, own.RedisDB, o)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var b begins
	var wg sync.WaitGroup
	for who, l := range limits {
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if l.WaitN(ctx, 1) == nil {
						b.add(who)
					} else {
						time.Sleep(5 * time.Millisecond)
					}
				}
			})
		}
	}
	admin := own.Client(t)
	time.Sleep(500 * time.Millisecond)
	require.NoError(t, admin.ScriptFlush(t.Context()).Err())
	time.Sleep(500 * time.Millisecond)
	for range 2 {
		own.Kill(t)
		own.Start(t)
		restarted := time.Now()
		require.Eventually(t, func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.at[len(b.at)-1].After(restarted)
		}, 10*time.Second, 5*time.Millisecond, "sends go on")
	}
	wg.Wait()
	keeps(t, b.at, o)
	assert.Greater(t, len(b.at), 20)
}

// around is called before and after every command.
type around func(when string)

func (around) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (f around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		f("before")
		defer f("after")
		return next(ctx, cmd)
	}
}

func (around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func scriptFlush(ctx context.Context, c *redis.Client) error { return c.ScriptFlush(ctx).Err() }
