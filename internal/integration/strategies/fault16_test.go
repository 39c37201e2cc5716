package strategies

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// docs/faults.md, 8: the driver may count the rows that an UPDATE matched, and not
// those that it changed.
func TestFault08_MatchedRowsAreCounted(t *testing.T) {
	var combos []combo.Combo
	for _, s := range combo.FoundRows.Strategies() {
		combos = append(combos, combo.Combo{Strategy: s, Database: combo.FoundRows, Key: "bigint"})
	}
	combo.Run(t, combos, func(t *testing.T, p *combo.Place) {
		tb := p.Table(t, 200)
		exactlyOnce(t, tb, drain(t, once, tb.Worker(t), tb.Worker(t), tb.Worker(t)), oneInTwenty)
		noClaims(t, tb)
	})
}

// docs/faults.md, 16: Redis forgets the lock again and again while workers claim,
// and somebody else's key stands in the way. The rows of a claim stay its own by
// their token.
func TestFault16_ForgottenLocksCauseNoSecondSend(t *testing.T) {
	for _, d := range combo.Databases() {
		t.Run(d.Name, func(t *testing.T) {
			p := combo.Combo{Strategy: combo.LockedRedis, Database: d, Key: "bigint"}.Start(t)
			tb := p.Table(t, 400)
			client := redis.NewClient(p.Redis.Options())
			defer client.Close()
			ctx, stop := context.WithCancel(t.Context())
			forgotten := 0
			var wg sync.WaitGroup
			wg.Go(func() {
				for ctx.Err() == nil {
					keys, err := client.Keys(ctx, p.Redis.Prefix+"*").Result()
					if err == nil && len(keys) > 0 && client.Del(ctx, keys...).Err() == nil {
						forgotten++
					}
				}
			})
			log := drain(t, once, tb.Worker(t), tb.Worker(t), tb.Worker(t), tb.Worker(t))
			stop()
			wg.Wait()
			exactlyOnce(t, tb, log, oneInTwenty)
			noClaims(t, tb)
			assert.Positive(t, forgotten, "no lock was there to be forgotten")
		})
	}
}
