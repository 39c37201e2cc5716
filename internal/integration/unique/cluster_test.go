package unique

import (
	"testing"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/sender/unique/uniquetest"
)

// Every operation works on a cluster, with keys that would break or move a hash tag.
func TestFault17_ClusterTakesEveryCallAndKey(t *testing.T) {
	uniquetest.Run(t, redisHarness(servers.RedisCluster(t), "keys:"))
}
