package strategies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// pooled are the parameters with which a driver keeps nothing in a session.
var pooled = map[string][]string{
	"pgx":      {"default_query_exec_mode=exec"},
	"postgres": {"binary_parameters=yes"},
}

// docs/faults.md, 2: behind PgBouncer, which gives a session to somebody else
// after each transaction, and two sessions for all.
func TestFault02_BehindATransactionPooler(t *testing.T) {
	for driver, params := range pooled {
		for _, s := range combo.Postgres.Strategies() {
			t.Run(driver+"/"+string(s), func(t *testing.T) {
				d := combo.Postgres
				d.Driver = driver
				direct := combo.Combo{Strategy: s, Database: d, Key: "bigint"}.Start(t)
				tb := direct.Table(t, 300)
				// The proxy's address is all that differs.
				through := *tb
				place := combo.Combo{Strategy: s, Database: d, Key: "bigint"}.On(t, servers.PgBouncer(t, direct.At).Database)
				place.Redis = direct.Redis
				through.Place = place
				var workers []combo.Claimer
				for range 4 {
					c, _ := through.Spec(params...).Open(t)
					workers = append(workers, c)
				}
				exactlyOnce(t, tb, drain(t, once, workers...), oneInTwenty)
				for what, query := range map[string]string{
					"advisory locks":       "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'",
					"open transactions":    "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'",
					"settings of sessions": "SELECT COUNT(*) FROM pg_settings WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'extra_float_digits', 'TimeZone')",
					"prepared statements":  "SELECT COUNT(*) FROM pg_prepared_statements",
				} {
					db := place.At.Open(t, driver, params...)
					var n int
					require.NoError(t, db.Get(&n, query))
					assert.Zero(t, n, what)
				}
			})
		}
	}
}
