package strategies

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/mattn/go-sqlite3"
	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// docs/faults.md, 9: what claims and results ask is planned well whatever the planner
// knows of the table: nothing, that all rows are done, or that all are scheduled.
func TestFault09_PlansHold(t *testing.T) {
	const rows = 60_000 // more than one claim may look at
	for _, d := range combo.Databases() {
		for _, s := range d.Strategies() {
			if !slices.Contains([]combo.Strategy{combo.Atomic, combo.SkipLocked, combo.Partitioned}, s) {
				continue // they claim as Atomic does
			}
			t.Run(d.Name+"/"+string(s), func(t *testing.T) {
				p := combo.Combo{Strategy: s, Database: d, Key: "bigint"}.Start(t)
				for _, knows := range []string{"nothing", "all done", "all scheduled, told", "all scheduled, not told"} {
					tb := p.Table(t, 0)
					prepare(t, tb, knows, rows)
					seen := statementsOf(t, tb)
					assert.Greater(t, len(seen), 5, knows)
					for _, st := range seen {
						plan := explain(t, tb, st)
						assert.Empty(t, badPlan(tb, st.text, plan), "the planner knows: %s\n%s\n%s", knows, st.text, plan)
					}
				}
				tb := p.Table(t, 0)
				prepare(t, tb, "all done", rows)
				for _, text := range []string{
					"SELECT id FROM " + tb.Name + " WHERE value <> 'a' LIMIT 10",
					"SELECT id FROM " + tb.Name + " WHERE id > 1 ORDER BY value LIMIT 10",
				} {
					plan := explain(t, tb, statement{text: text})
					assert.NotEmpty(t, badPlan(tb, text, plan), "this test would not see it: %s\n%s", text, plan)
				}
			})
		}
	}
}

// prepare fills a table with rows that are to be sent, of which the planner knows
// so much.
func prepare(t *testing.T, tb *combo.Table, knows string, rows int) {
	t.Helper()
	switch tb.Database.Dialect { // nobody else is to tell it
	case claim.Postgres:
		tb.Exec(t, "ALTER TABLE "+tb.Name+" SET (autovacuum_enabled = off)")
	case claim.MySQL:
		tb.Exec(t, "ALTER TABLE "+tb.Name+" STATS_PERSISTENT = 1, STATS_AUTO_RECALC = 0")
	}
	fill(t, tb, rows)
	if knows == "all done" {
		analyse(t, tb)
	}
	next := "NULL"
	if strings.Contains(knows, "scheduled") {
		next = map[claim.Dialect]string{
			claim.Postgres: "now() - interval '1 hour'",
			claim.MySQL:    "UTC_TIMESTAMP(6) - INTERVAL 1 HOUR",
			claim.SQLite:   "strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 hour')",
		}[tb.Database.Dialect]
	}
	tb.Exec(t, "UPDATE "+tb.Name+" SET status = 0, attempts = 0, next_attempt = "+next)
	if knows == "all scheduled, told" {
		analyse(t, tb)
	}
}

// statementsOf are those of some claims and their results.
func statementsOf(t *testing.T, tb *combo.Table) []statement {
	t.Helper()
	spec := tb.Spec()
	rec := &recorder{}
	db := rec.open(t, tb.Database, spec.DSN)
	c, err := spec.Claimer(t.Context(), &combo.Link{DB: db})
	require.NoError(t, err)
	rec.take() // what its making has asked once
	for found, tries := 0, 0; found < 6; tries++ {
		require.Less(t, tries, 200, "nothing is claimed")
		b, err := c.Claim(t.Context(), ask())
		require.NoError(t, err)
		if len(b.Items) == 0 { // the two kinds of rows take turns
			time.Sleep(time.Millisecond)
			continue
		}
		found++
		var rs []sendonce.Result
		for i, m := range b.Items {
			rs = append(rs, sendonce.Result{Key: m.Key, Token: b.Token, Outcome: []sendonce.Outcome{sendonce.Done, sendonce.Retry}[i%2]})
		}
		_, err = c.Settle(t.Context(), rs)
		require.NoError(t, err)
		require.NoError(t, c.End(t.Context(), []int64{b.Token}))
	}
	return slices.DeleteFunc(rec.take(), func(s statement) bool { return !strings.Contains(s.text, tb.Name) })
}

type statement struct {
	text string
	args []any
}

// recorder sees all statements of a pool.
type recorder struct {
	sqlmw.NullInterceptor
	mu   sync.Mutex
	seen []statement
}

func (r *recorder) open(t *testing.T, d combo.Database, dsn string) *sqlx.DB {
	t.Helper()
	plain := map[claim.Dialect]driver.Driver{
		claim.Postgres: stdlib.GetDefaultDriver(), claim.MySQL: mysql.MySQLDriver{}, claim.SQLite: &sqlite3.SQLiteDriver{},
	}[d.Dialect]
	name := fmt.Sprintf("recorded %p", r)
	sql.Register(name, sqlmw.Driver(plain, r))
	db, err := sql.Open(name, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return sqlx.NewDb(db, d.Driver)
}

func (r *recorder) note(text string, args []driver.NamedValue) {
	st := statement{text: text}
	for _, a := range args {
		st.args = append(st.args, a.Value)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, st)
}

func (r *recorder) take() []statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// ConnQueryContext implements sqlmw.Interceptor, as the others do.
func (r *recorder) ConnQueryContext(ctx context.Context, c driver.QueryerContext, text string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	r.note(text, args)
	return r.NullInterceptor.ConnQueryContext(ctx, c, text, args)
}

func (r *recorder) ConnExecContext(ctx context.Context, c driver.ExecerContext, text string, args []driver.NamedValue) (driver.Result, error) {
	r.note(text, args)
	return r.NullInterceptor.ConnExecContext(ctx, c, text, args)
}

// explain returns the plan, a line per step.
func explain(t *testing.T, tb *combo.Table, st statement) string {
	t.Helper()
	word := "EXPLAIN "
	if tb.Database.Dialect == claim.SQLite {
		word = "EXPLAIN QUERY PLAN "
	}
	rows, err := tb.Admin.QueryxContext(t.Context(), word+st.text, st.args...)
	require.NoError(t, err, st.text)
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		cells := map[string]any{}
		require.NoError(t, rows.MapScan(cells))
		for _, column := range []string{"QUERY PLAN", "table", "type", "rows", "Extra", "detail"} {
			if v, ok := cells[column]; ok && v != nil {
				fmt.Fprintf(&b, "%s=%s ", column, v)
			}
		}
		b.WriteByte('\n')
	}
	require.NoError(t, rows.Err())
	return b.String()
}

// badPlan says what is wrong with a plan. Windows are exempt: they read 50,000
// keys, by design, and a small table may as well be read whole for that.
func badPlan(tb *combo.Table, text, plan string) string {
	window := strings.Contains(text, ") w ORDER BY w.")
	whole := map[claim.Dialect]string{
		claim.Postgres: `Seq Scan on ` + tb.Name + `\b`,
		claim.MySQL:    `table=` + tb.Name + ` type=(ALL|index)`,
		claim.SQLite:   `detail=SCAN ` + tb.Name + `\b`,
	}[tb.Database.Dialect]
	sorts := map[claim.Dialect]string{claim.Postgres: `Sort`, claim.MySQL: `Using filesort`, claim.SQLite: `USE TEMP B-TREE FOR ORDER`}[tb.Database.Dialect]
	switch {
	case !window && regexp.MustCompile(whole).MatchString(plan):
		return "it reads the whole table"
	case !window && strings.Contains(text, "LIMIT") && strings.Contains(plan, sorts):
		return "it sorts all rows that could be claimed"
	}
	return ""
}
