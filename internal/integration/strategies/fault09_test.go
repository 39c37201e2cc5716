package strategies

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// finished fills the table with rows that are done, and analyses it.
func finished(t *testing.T, tb *combo.Table, rows int) {
	t.Helper()
	fill(t, tb, rows)
	analyse(t, tb)
}

// fill adds rows that are done, with keys before those of others.
func fill(t *testing.T, tb *combo.Table, rows int) {
	t.Helper()
	series := map[claim.Dialect]string{
		claim.Postgres: "SELECT g, 'old', 3, 1 FROM generate_series(-%d, -1) g",
		claim.MySQL:    "SELECT CAST(seq AS SIGNED) - %[1]d - 1, 'old', 3, 1 FROM seq_1_to_%[1]d",
		claim.SQLite:   "WITH RECURSIVE c(g) AS (SELECT -%d UNION ALL SELECT g + 1 FROM c WHERE g < -1) SELECT g, 'old', 3, 1 FROM c",
	}[tb.Database.Dialect]
	tb.Exec(t, "INSERT INTO "+tb.Name+" (id, value, status, attempts) "+fmt.Sprintf(series, rows))
}

func analyse(t *testing.T, tb *combo.Table) {
	t.Helper()
	tb.Exec(t, map[bool]string{true: "ANALYZE TABLE ", false: "ANALYZE "}[tb.Database.Dialect == claim.MySQL]+tb.Name)
}

// snapshot holds a transaction open that sees the table as it is now.
func snapshot(t *testing.T, tb *combo.Table) {
	t.Helper()
	tx, err := tb.Admin.Beginx()
	require.NoError(t, err)
	if tb.Database.Dialect == claim.Postgres {
		_, err = tx.Exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		require.NoError(t, err)
	}
	var n int
	require.NoError(t, tx.Get(&n, "SELECT COUNT(*) FROM "+tb.Name))
	t.Cleanup(func() { _ = tx.Rollback() })
}

// docs/faults.md, 9: no claim reads the whole table, by the server's own count, with
// many finished rows, dead versions and an old snapshot.
func TestFault09_NoClaimReadsTheWholeTable(t *testing.T) {
	const old, rows = 250_000, 400
	for _, d := range []combo.Database{combo.Postgres, combo.MariaDB} {
		for _, s := range d.Strategies() {
			t.Run(d.Name+"/"+string(s), func(t *testing.T) {
				tb := combo.Combo{Strategy: s, Database: d, Key: "bigint"}.Start(t).Table(t, 0)
				finished(t, tb, old)
				snapshot(t, tb)
				tb.Add(t, rows)
				spec := tb.Spec()
				spec.Conns = 1
				c, link := spec.Open(t)
				most, handed := 0, 0
				for idle := 0; idle < 30 && handed < 3*rows && !t.Failed(); {
					before := rowsRead(t, link.DB, tb)
					b, err := c.Claim(t.Context(), ask())
					require.NoError(t, err)
					most = max(most, rowsRead(t, link.DB, tb)-before)
					handed += len(b.Items)
					if idle++; len(b.Items) > 0 || b.More {
						idle = 0
					}
					var rs []sendonce.Result
					for _, item := range b.Items {
						o := sendonce.Retry
						if item.Attempt == 3 {
							o = sendonce.Done
						}
						rs = append(rs, sendonce.Result{Key: item.Key, Token: b.Token, Outcome: o})
					}
					_, err = c.Settle(t.Context(), rs)
					require.NoError(t, err)
					require.NoError(t, c.End(t.Context(), []int64{b.Token}))
				}
				assert.Equal(t, 3*rows, handed, "rows that were handed out")
				assert.Less(t, most, old, "rows that one claim read of a table of %d", old+rows)
				t.Log("rows read by one claim at most:", most)
				before, n := rowsRead(t, link.DB, tb), 0
				require.NoError(t, link.DB.Get(&n, "SELECT COUNT(*) FROM "+tb.Name+" WHERE value <> ''"))
				assert.GreaterOrEqual(t, rowsRead(t, link.DB, tb)-before, old, "the count sees who does")
			})
		}
	}
}

// rowsRead is how many rows were read, of the table on PostgreSQL and by this one
// connection on MariaDB.
func rowsRead(t *testing.T, db *sqlx.DB, tb *combo.Table) (n int) {
	t.Helper()
	query := "SELECT CAST(SUM(variable_value) AS SIGNED) FROM information_schema.session_status WHERE variable_name LIKE 'HANDLER_READ%'"
	if tb.Database.Dialect == claim.Postgres {
		_, err := db.Exec("SELECT pg_stat_force_next_flush()")
		require.NoError(t, err)
		query = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = '" + tb.Name + "'"
	}
	require.NoError(t, db.Get(&n, query))
	return n
}

// docs/faults.md, 9: with 500,000 finished rows, an old snapshot and 200 rows a
// second for three minutes, claims in the end take at most five times as long as in
// the beginning.
func TestFault09_ClaimsStayFastSoak(t *testing.T) {
	servers.Soak(t)
	var wg sync.WaitGroup // side by side, or it would take an hour
	for _, d := range []combo.Database{combo.Postgres, combo.MariaDB} {
		for _, s := range []combo.Strategy{combo.Atomic, combo.SkipLocked, combo.Partitioned} {
			wg.Go(func() {
				t.Run(d.Name+"/"+string(s), func(t *testing.T) {
					stayFast(t, combo.Combo{Strategy: s, Database: d, Key: "bigint"}.Start(t), time.Duration(sized(1, 3))*time.Minute)
				})
			})
		}
	}
	wg.Wait()
}

func stayFast(t *testing.T, p *combo.Place, lasts time.Duration) {
	tb := p.Table(t, 0)
	finished(t, tb, 500_000)
	snapshot(t, tb)
	var mu sync.Mutex
	type took struct{ at, time time.Duration }
	var claims []took
	began := time.Now()
	cfg := config("steady")
	cfg.Hooks.Claimed = func(n int, d time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil && n > 0 {
			claims = append(claims, took{time.Since(began), d})
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, c := range fleet(t, tb, 2) {
		d, err := sendonce.New(c, once, cfg)
		require.NoError(t, err)
		wg.Go(func() { assert.NoError(t, d.Run(ctx)) })
	}
	for tick := time.NewTicker(100 * time.Millisecond); time.Since(began) < lasts; <-tick.C {
		tb.Add(t, 20)
	}
	cancel()
	wg.Wait()
	p95 := func(from, to time.Duration) time.Duration {
		var ds []time.Duration
		for _, c := range claims {
			if from <= c.at && c.at < to {
				ds = append(ds, c.time)
			}
		}
		slices.Sort(ds)
		require.NotEmpty(t, ds)
		return ds[len(ds)*95/100]
	}
	first, last := p95(0, 30*time.Second), p95(lasts-30*time.Second, lasts)
	t.Logf("95%% of claims took at most %v in the first and %v in the last 30 s", first, last)
	assert.LessOrEqual(t, last, 5*first)
}
