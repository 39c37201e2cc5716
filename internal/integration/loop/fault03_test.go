package loop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// slow is how long a send takes that ignores its context, and what it may take. A
// claim is renewed for a stuck send until ten times SendTimeout are over.
type slow struct{ takes, timeout, lease time.Duration }

var (
	overTwoLeases = slow{4200 * time.Millisecond, 450 * time.Millisecond, 2 * time.Second}
	overTheCap    = slow{9500 * time.Millisecond, time.Second, 4400 * time.Millisecond} // nearly: it is 10 s
)

// docs/faults.md, 3: the message is sent in full, but by a Sender that ignores its
// context for several leases, while another worker looks for vanished ones.
func TestFault03_OneSendThoughItOutlivesItsLease(t *testing.T) {
	each(t, twoOfIt, func(t *testing.T, c combo.Combo) { slowSend(t, c, overTwoLeases, time.Sleep) })
}

// The same with the worker's processor busy.
func TestFault03_OneSendThoughItBurnsTheProcessor(t *testing.T) {
	for _, c := range []combo.Combo{{Strategy: combo.Atomic, Database: combo.Postgres}, {Strategy: combo.LockedRedis, Database: combo.MariaDB}} {
		c.Key = "bigint"
		t.Run(c.Database.Name+"/"+string(c.Strategy), func(t *testing.T) {
			t.Parallel()
			slowSend(t, c, overTwoLeases, burn)
		})
	}
}

func TestFault03_OneSendNearTheCapSoak(t *testing.T) {
	servers.Soak(t)
	each(t, twoOfIt, func(t *testing.T, c combo.Combo) { slowSend(t, c, overTheCap, time.Sleep) })
}

func burn(d time.Duration) {
	for end, n := time.Now().Add(d), 0; time.Now().Before(end); {
		for range 1_000_000 {
			n++
		}
	}
}

func slowSend(t *testing.T, c combo.Combo, times slow, wait func(time.Duration)) {
	s := on(t, c, nil, 1)
	tune := func(cfg *sendonce.Config) {
		cfg.SendTimeout, cfg.Lease, cfg.PollInterval = times.timeout, times.lease, 200*time.Millisecond
	}
	var workers []*worker
	for _, name := range names(2, "worker") {
		workers = append(workers, s.start(t, post{name: name, tune: tune, sender: func(context.Context, item) error {
			wait(times.takes)
			return nil
		}}))
	}
	s.allDone(t, times.takes+10*time.Second)

	sends := s.sends(t).All()
	require.Len(t, sends, 1)
	assert.Equal(t, 1, s.rows(t)[s.Keys[0]].Attempts)
	renewals := 0
	for _, w := range workers {
		for _, r := range w.calls(renewing, sends[0].Start, sends[0].End) {
			if r.err == nil {
				renewals++
			}
		}
	}
	// Some are late, or fail, on a machine that has much to do.
	assert.GreaterOrEqual(t, renewals, int(times.takes/(times.lease/3))/2, "renewals, every third of a lease")
	s.judge(t, allowed{})
}

// A lease that is too short for its SendTimeout is refused.
func TestFault03_ShortLeaseIsRefused(t *testing.T) {
	_, err := sendonce.New[combo.Mail](&watched{}, orAtOnce(nil), sendonce.Config{SendTimeout: 2 * time.Second, Lease: 2 * time.Second})
	require.Error(t, err)
	assert.ErrorContains(t, err, "Config.Lease")
	assert.ErrorContains(t, err, "Config.SendTimeout")
}
