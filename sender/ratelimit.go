package sender

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce/internal/kit"
)

//go:embed ratelimit.lua
var rateLimitText string

// It is sent by its hash, and as a text if the server doesn't know that: after a
// restart, say.
var rateLimitScript = redis.NewScript(rateLimitText)

const (
	// rememberLimit is how long Redis knows a limit that nobody uses. After that
	// the first send waits again for one interval.
	rememberLimit = 7 * 24 * time.Hour

	// aheadLeast is how far ahead slots are reserved: what a process that is
	// killed takes with it. It is more where one burst takes longer.
	aheadLeast = time.Second

	// seats is how many waiters of a process look for a slot at once. The others
	// stand in line behind them and ask Redis nothing.
	seats = 4

	// longestNap bounds the sleep of those who have no slot yet, so that they see
	// when an operator deletes the key to end a pause.
	longestNap = 10 * time.Second

	// lateMost is how many grants in a row may come too late to be used.
	lateMost = 10

	// goodbye bounds the return of a slot that is not needed any more.
	goodbye = 100 * time.Millisecond
)

// RateLimitOptions say how much may be sent. Events is needed. All processes
// that share a limit have the same.
type RateLimitOptions struct {
	// Events is how many sends may begin within Per. Write both as the provider
	// does, 10 in a second and not 1 in 100 ms: Per is the window that it counts
	// in. At most 20,000 in a second.
	Events int

	// Per is the window. Default: a second. At least 10 ms.
	Per time.Duration

	// Burst is how many sends may begin at once after a quiet time, and the most
	// that WaitN can be asked for: at least as much as Config.GroupSize. Default: 1.
	Burst int

	// Slack is how late a send may arrive without harm: a late one and those of
	// the next slots come closer together. The limit is spread over Per plus Slack,
	// so it costs Slack/Per of the rate. A quarter of it is for waking up, a quarter
	// for the answer of Redis, and a half for the way to the provider.
	// Default: a twentieth of Per, or 20 ms, or a fifth of Per if that is less.
	Slack time.Duration
}

// RateLimit is a limit on sends that any number of processes share, in Redis 5
// and later, alone or as a cluster. It is a sendonce.Limiter and a
// sendonce.Pauser: give one to Config.Limiter of every Dispatcher.
//
// # The promise
//
// In any window of Per, or longer, by Redis's clock, at most Burst plus
// Events per Per sends begin; with a Burst of 1 never more than Events in any
// window of Per. "Begin" means that WaitN returns. This holds over restarts of
// Redis and of processes, for paused processes and for clocks that are set back,
// because a slot that wasn't taken up in time is lost and not made up for, and
// because a limit that Redis doesn't know begins with nothing to give: the first
// send ever waits for one interval. It does not hold if Redis loses writes that it
// has answered (a failover to a replica that lags behind), if its clock is set
// forward, or if a send takes longer than half of Slack from WaitN to the
// provider: then a few too many may arrive. A larger Slack covers a worse network.
//
// # How it waits
//
// Each send asks Redis for a slot, sleeps until then, and asks again right
// before it begins, so that a Pause which came meanwhile holds for it too. Slots
// are given in the order of asking, in one process and among processes, but only
// for a second ahead (or for one burst, where that takes longer): a process that
// is killed takes no more than that with it. No clock but Redis's is used, save to
// sleep. If Redis can't be asked nothing begins: WaitN returns the error.
type RateLimit struct {
	client   redis.UniversalClient
	key      string
	burst    int
	interval time.Duration // from one event to the next
	ahead    time.Duration
	late     time.Duration // a slot may be taken up, and an answer may take
	seats    chan struct{}
}

// NewRateLimit returns the limit of this key on this client, which stays the
// caller's to close. The key is the name of one hash in Redis and may have any
// bytes; it expires a week after its last use. Deleting it ends a pause within
// seconds and does nothing else. It does not connect.
func NewRateLimit(rdb redis.UniversalClient, key string, o RateLimitOptions) (*RateLimit, error) {
	if rdb == nil {
		return nil, errors.New("sendonce: the Redis client is nil")
	}
	if key == "" {
		return nil, errors.New("sendonce: the key of a rate limit is empty")
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	// Rounded up to what Redis counts in: not one event too many.
	events := time.Duration(o.Events) * time.Microsecond
	interval := (o.Per + o.Slack + events - 1) / events * time.Microsecond
	return &RateLimit{
		client: rdb, key: key, burst: o.Burst, interval: interval,
		ahead: max(aheadLeast, time.Duration(o.Burst)*interval),
		late:  o.Slack / 4,
		seats: make(chan struct{}, seats),
	}, nil
}

// complete sets the defaults and refuses what can't be kept.
func (o *RateLimitOptions) complete() error {
	if o.Per == 0 {
		o.Per = time.Second
	}
	if o.Burst == 0 {
		o.Burst = 1
	}
	if o.Slack == 0 {
		o.Slack = max(o.Per/20, min(20*time.Millisecond, o.Per/5))
	}
	switch {
	case o.Events <= 0:
		return fmt.Errorf("sendonce: RateLimitOptions.Events is %d: say how many sends may begin within Per", o.Events)
	case o.Per < 10*time.Millisecond || o.Per > rememberLimit:
		return fmt.Errorf("sendonce: RateLimitOptions.Per is %v: it must be from 10ms to %v", o.Per, rememberLimit)
	case o.Burst < 0:
		return fmt.Errorf("sendonce: RateLimitOptions.Burst is %d: it must be at least 1", o.Burst)
	case o.Slack < 0 || o.Slack > o.Per:
		return fmt.Errorf("sendonce: RateLimitOptions.Slack is %v: it must be between 0 and Per, which is %v", o.Slack, o.Per)
	case float64(o.Events)/o.Per.Seconds() > 20_000:
		return fmt.Errorf("sendonce: RateLimitOptions: %d in %v is more than 20,000 in a second", o.Events, o.Per)
	case float64(o.Burst)*o.Per.Seconds()/float64(o.Events) > rememberLimit.Seconds():
		return fmt.Errorf("sendonce: RateLimitOptions: a Burst of %d at %d in %v takes longer than a week", o.Burst, o.Events, o.Per)
	}
	return nil
}

// WaitN implements sendonce.Limiter: it returns nil when n sends may begin. An
// error says that they may not: ctx has ended (its cause), Redis can't be asked,
// or n is more than Burst. The slot of a wait that ends early goes back if nobody
// has reserved one after it, and is lost otherwise.
func (l *RateLimit) WaitN(ctx context.Context, n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("sendonce: rate limit %q: a wait for %d sends", l.key, n)
	case n > l.burst:
		return fmt.Errorf("sendonce: rate limit %q: a wait for %d sends at once, and its Burst is %d: "+
			"raise RateLimitOptions.Burst or lower Config.GroupSize", l.key, n, l.burst)
	case n == 0:
		return nil
	}
	var took time.Duration
	for range lateMost {
		a, err := l.slot(ctx, n)
		if err != nil {
			return err
		}
		if took = a.took; took <= l.late {
			return nil
		}
		// Redis granted it some time ago: begun now, it would come too close to
		// those of the next slots.
	}
	return fmt.Errorf("sendonce: rate limit %q: Redis took %v to answer, again and again, and RateLimitOptions.Slack allows %v: raise it",
		l.key, took.Round(time.Microsecond), l.late)
}

// slot returns when a slot's time has come and Redis has confirmed it.
func (l *RateLimit) slot(ctx context.Context, n int) (answer, error) {
	for {
		a, err := l.reserve(ctx, n)
		for err == nil && a.word == "wait" {
			// Not late because of the way to Redis and back. Too early is no harm.
			if err = sleep(ctx, a.wait-max(0, a.took-l.late/2)); err != nil {
				l.giveBack(ctx, n, a.ticket)
				return a, err
			}
			a, err = l.take(ctx, n, a.ticket)
		}
		if err != nil || a.word == "go" {
			return a, err
		}
		// A pause has made the ticket void, or we woke up too late: in line again.
	}
}

// reserve stands in line until there is a slot to be had.
func (l *RateLimit) reserve(ctx context.Context, n int) (answer, error) {
	select {
	case l.seats <- struct{}{}:
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	defer func() { <-l.seats }()
	for {
		a, err := l.take(ctx, n, ticket{"0", "0", "0"})
		if err != nil || a.word != "later" {
			return a, err
		}
		// Spread over an interval, or all who wait would ask at once.
		if err := sleep(ctx, min(longestNap, a.wait+rand.N(l.interval))); err != nil {
			return a, err
		}
	}
}

// Pause implements sendonce.Pauser: no send of any process begins within d from
// now, also none that waits in WaitN and has a slot. A longer pause that is in
// force stays. After it sends begin at the rate, without a burst.
func (l *RateLimit) Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	reply, err := l.run(ctx, "pause", d.Microseconds()+1)
	if err != nil {
		return err
	}
	if len(reply) != 1 || reply[0] != "ok" {
		return fmt.Errorf("sendonce: rate limit %q in Redis: its answer is %q", l.key, reply)
	}
	return nil
}

// giveBack is for a wait that is over before its slot. That it fails costs the
// slot and nothing else.
func (l *RateLimit) giveBack(ctx context.Context, n int, t ticket) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	_, _ = l.run(ctx, "back", n, t.epoch, t.tat)
}

// ticket is a slot that is ours, as Redis writes it.
type ticket struct{ slot, epoch, tat string }

// answer is what Redis says to one who asks: go, wait (with a ticket) or later.
type answer struct {
	word string
	wait time.Duration
	ticket
	took time.Duration // by our clock
}

func (l *RateLimit) take(ctx context.Context, n int, t ticket) (answer, error) {
	start := time.Now()
	reply, err := l.run(ctx, "take", n, t.slot, t.epoch)
	if err != nil {
		return answer{}, err
	}
	if len(reply) != 5 {
		return answer{}, fmt.Errorf("sendonce: rate limit %q in Redis: its answer is %q", l.key, reply)
	}
	micros, err := strconv.ParseInt(reply[1], 10, 64)
	if err != nil || reply[0] != "go" && reply[0] != "wait" && reply[0] != "later" {
		return answer{}, fmt.Errorf("sendonce: rate limit %q in Redis: its answer is %q", l.key, reply)
	}
	return answer{
		word: reply[0], wait: time.Duration(micros) * time.Microsecond,
		ticket: ticket{slot: reply[2], epoch: reply[3], tat: reply[4]}, took: time.Since(start),
	}, nil
}

// run returns when ctx ends, whatever the client does: by itself it may wait for
// an answer until its ReadTimeout, in a goroutine that is then left behind.
func (l *RateLimit) run(ctx context.Context, verb string, args ...any) ([]string, error) {
	reply, err := kit.Await(ctx, func() ([]string, error) {
		all := append([]any{
			verb, l.interval.Microseconds(), l.burst, l.ahead.Microseconds(), l.late.Microseconds(), rememberLimit.Milliseconds(),
		}, args...)
		return rateLimitScript.Run(ctx, l.client, []string{l.key}, all...).StringSlice()
	})
	switch {
	case err == nil:
		return reply, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("sendonce: rate limit %q in Redis: %w", l.key, err)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
