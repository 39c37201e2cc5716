package sendonce

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"os"
	"time"
)

// The arithmetic of leases: docs/semantics.md, section 2.

// renewEvery is the interval of renewals, and renewWithin bounds one call.
func (c *Config) renewEvery() time.Duration  { return c.Lease / 3 }
func (c *Config) renewWithin() time.Duration { return min(c.renewEvery(), 5*time.Second) }

// margin is kept between the end of a send and the end of its lease.
func (c *Config) margin() time.Duration { return max(c.Lease/10, 100*time.Millisecond) }

func (c Config) withDefaults() (Config, error) {
	if err := c.refuseNegative(); err != nil {
		return c, err
	}
	set(&c.Concurrency, 16)
	set(&c.BatchSize, max(100, c.Concurrency))
	set(&c.GroupSize, 1)
	set(&c.SendTimeout, 10*time.Second)
	if c.SendTimeout > math.MaxInt64/8 {
		return c, fmt.Errorf("sendonce: Config.SendTimeout is %v: choose a limit that a lease can cover", c.SendTimeout)
	}
	set(&c.Lease, max(30*time.Second, 2*c.SendTimeout+10*time.Second))
	set(&c.StopTimeout, c.SendTimeout)
	set(&c.PollInterval, time.Second)
	set(&c.MaxAttempts, 5)
	set(&c.MarkLinger, 2*time.Millisecond)
	if c.Backoff == nil {
		c.Backoff = backoff
	}
	if c.Delivery > AtMostOnce {
		return c, fmt.Errorf("sendonce: Config.Delivery is %d: use AtLeastOnce or AtMostOnce", c.Delivery)
	}
	if c.Owner == "" {
		host, _ := os.Hostname() // a name for people: without a host it is still unique
		c.Owner = fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:6])
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if need := shortestLease(c.SendTimeout); c.Lease < need {
		return c, fmt.Errorf("sendonce: Config.Lease is %v: with Config.SendTimeout %v it must be at least %v, or 0 for the default", c.Lease, c.SendTimeout, need)
	}
	return c, nil
}

// shortestLease is the lease L that is 1.5 times the send limit, the margin and
// one renewal, of which the last two grow with L themselves.
func shortestLease(limit time.Duration) time.Duration {
	c := Config{}
	need := func() time.Duration { return (limit + c.margin() + c.renewWithin()) * 3 / 2 }
	for c.Lease = limit; c.Lease < need(); {
		// It comes nearer with each step: what grows with L grows by two thirds
		// of it at the most.
		c.Lease = need().Truncate(time.Millisecond) + time.Millisecond
	}
	return c.Lease
}

func set[V comparable](field *V, value V) {
	var zero V
	if *field == zero {
		*field = value
	}
}

func (c *Config) refuseNegative() error {
	for name, v := range map[string]int64{
		"Concurrency": int64(c.Concurrency), "BatchSize": int64(c.BatchSize), "GroupSize": int64(c.GroupSize),
		"SendTimeout": int64(c.SendTimeout), "Lease": int64(c.Lease), "StopTimeout": int64(c.StopTimeout),
		"PollInterval": int64(c.PollInterval), "MaxAttempts": int64(c.MaxAttempts), "MarkLinger": int64(c.MarkLinger),
		"IdempotencyWindow": int64(c.IdempotencyWindow),
	} {
		if v < 0 {
			return fmt.Errorf("sendonce: Config.%s is negative; leave it 0 for the default", name)
		}
	}
	return nil
}

const (
	backoffFirst = time.Second
	backoffMax   = 5 * time.Minute
)

// backoff is the default delay: exponential, between half and the whole of it at
// random, so that rows that failed together don't come back together.
func backoff(attempt int) time.Duration {
	d := backoffMax
	if attempt < 20 {
		d = min(backoffFirst<<max(attempt-1, 0), backoffMax)
	}
	return jitter(d)
}

// jitter returns between half of d and d.
func jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + time.Duration(random(int64(d/2)))
}

// Tests that want the same run twice set these two.
var (
	random = mathrand.Int64N
	wall   = func(t time.Time) time.Time { return t.Round(0) }
)

// elapsed is the time since t on the monotonic or the wall clock, whichever went
// further: the monotonic one stands still while a machine is suspended.
func elapsed(t, now time.Time) time.Duration {
	return max(now.Sub(t), wall(now).Sub(wall(t)))
}
