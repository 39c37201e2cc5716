package strategies

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// sqliteDSNs are connections as people open them: with a busy timeout and WAL, and
// transactions that begin as the driver's own default is.
var sqliteDSNs = map[string]string{
	"sqlite":  "file:%s?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)",
	"sqlite3": "file:%s?_busy_timeout=10000&_journal_mode=WAL",
}

// docs/faults.md, 14: two processes of four goroutines each and one that writes all
// the time.
func TestFault14_SQLiteIsNeverLocked(t *testing.T) {
	for driver, dsn := range sqliteDSNs {
		for _, s := range combo.SQLite.Strategies() {
			for _, conns := range []int{0, 1} {
				if conns == 1 && s != combo.Atomic {
					continue // TestFault14_OneConnection is for all
				}
				t.Run(fmt.Sprintf("%s/%s/%d connections", driver, s, conns), func(t *testing.T) {
					tb := combo.Combo{Strategy: s, Database: combo.SQLite, Key: "bigint"}.Start(t).Table(t, 160)
					spec := tb.Spec()
					spec.Driver, spec.DSN, spec.Conns = driver, fmt.Sprintf(dsn, tb.At.Name), conns
					stop := writeAllTheTime(t, tb)
					exactlyOnce(t, tb, drainByProcesses(t, order{Workers: 4, Strict: true}, spec, spec), oneInTwenty)
					assert.Positive(t, stop(), "writes of somebody else's meanwhile")
				})
			}
		}
	}
}

// writeAllTheTime writes in small transactions until stop is called, which returns
// their number.
func writeAllTheTime(t *testing.T, tb *combo.Table) (stop func() int) {
	tb.Exec(t, "CREATE TABLE others (n integer)")
	ctx, cancel := context.WithCancel(t.Context())
	writes := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			if _, err := tb.Admin.Exec("INSERT INTO others VALUES (1)"); assert.NoError(t, err) {
				n++
			}
			time.Sleep(time.Millisecond) // or nobody else would ever have a turn
		}
		writes <- n
	}()
	return func() int { cancel(); return <-writes }
}

// docs/faults.md, 14: with one connection in the pool a query inside of another's
// result would wait for ever; a Claimer makes none.
func TestFault14_OneConnection(t *testing.T) {
	combo.Each(t, func(t *testing.T, p *combo.Place) {
		tb := p.Table(t, 100)
		spec := tb.Spec()
		spec.Conns = 1
		c, _ := spec.Open(t)
		exactlyOnce(t, tb, drain(t, once, c), oneInTwenty)
		_, err := c.Counts(t.Context())
		require.NoError(t, err)
	})
}
