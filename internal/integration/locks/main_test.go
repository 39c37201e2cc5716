// Package locks tests lock/redislock and lock/sqllock on real servers.
package locks

import (
	"testing"
	"time"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// ttl is the lease of the conformance suite: short, as real time passes.
const ttl = 600 * time.Millisecond

// line is a proxy before a server as locktest wants it.
type line struct {
	t testing.TB
	*servers.Proxy
}

func (l line) BlackHole()             { l.Proxy.BlackHole(l.t) }
func (l line) LoseReplies()           { l.Proxy.LoseReplies(l.t) }
func (l line) Delay(by time.Duration) { l.Proxy.Delay(l.t, by) }
func (l line) Heal()                  { l.Proxy.Heal(l.t) }
