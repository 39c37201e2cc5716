package strategies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// planners are settings of the connection that force PostgreSQL's hand.
func planners() map[string][]string {
	only := func(kept string) (off []string) {
		for _, method := range []string{"enable_hashjoin", "enable_mergejoin", "enable_nestloop"} {
			if method != kept {
				off = append(off, method+"=off")
			}
		}
		return append(off, "enable_material=off", "enable_memoize=off")
	}
	return map[string][]string{
		"as it likes":         nil,
		"nested loops":        only("enable_nestloop"),
		"merge joins":         only("enable_mergejoin"),
		"hash joins":          only("enable_hashjoin"),
		"no hash aggregates":  {"enable_hashagg=off", "enable_material=off", "enable_hashjoin=off", "enable_mergejoin=off"},
		"generic plans":       {"plan_cache_mode=force_generic_plan"},
		"generic nested":      append(only("enable_nestloop"), "plan_cache_mode=force_generic_plan"),
		"no index scans":      {"enable_indexscan=off", "enable_indexonlyscan=off", "enable_bitmapscan=off"},
		"no sequential scans": {"enable_seqscan=off", "enable_sort=off", "jit=off"},
	}
}

// docs/faults.md, 1: stale statistics, joins of one kind, and generic plans never
// make a claim larger than its limit.
func TestFault01_NeverMoreThanTheLimit(t *testing.T) {
	for _, s := range combo.Postgres.Strategies() {
		for name, params := range planners() {
			// Locks and partitions change nothing about the joins.
			if s != combo.Atomic && s != combo.SkipLocked && name != "generic nested" && name != "merge joins" {
				continue
			}
			d := combo.Postgres
			d.Params = params
			t.Run(string(s)+"/"+name, func(t *testing.T) {
				neverMore(t, combo.Combo{Strategy: s, Database: d, Key: "bigint"}.Start(t))
			})
		}
	}
}

func neverMore(t *testing.T, p *combo.Place) {
	const tries = 3
	for _, rows := range []string{"fresh", "coming back", "ordered"} {
		tb := p.Table(t, 1)
		if rows == "ordered" {
			tb.Mapping.Order = "value DESC"
		}
		// The planner goes on thinking that there is one row.
		tb.Exec(t, "ALTER TABLE "+tb.Name+" SET (autovacuum_enabled = off)")
		tb.Exec(t, "ANALYZE "+tb.Name)
		tb.Add(t, 49)
		if rows == "coming back" {
			tb.Exec(t, "UPDATE "+tb.Name+" SET next_attempt = now()")
		}
		s := tb.Spec()
		s.Conns = 1 // so that statements are executed often enough for a generic plan
		c, _ := s.Open(t)
		seen := map[sendonce.Key]bool{}
		for round := 0; len(seen) < tries*len(tb.Keys) && round < 200 && !t.Failed(); round++ {
			b, err := c.Claim(t.Context(), ask())
			require.NoError(t, err)
			assert.LessOrEqual(t, len(b.Items), limit, "%s rows of one claim", rows)
			if len(b.Items) > 0 {
				assert.Equal(t, len(b.Items), carrying(t, tb, b.Token), "%s rows that carry the claim's token", rows)
			}
			var rs []sendonce.Result
			for _, item := range b.Items {
				seen[sendonce.Ref{Key: item.Key, Token: int64(item.Attempt)}] = true
				o := sendonce.Retry
				if item.Attempt == tries {
					o = sendonce.Done
				}
				rs = append(rs, sendonce.Result{Key: item.Key, Token: b.Token, Outcome: o})
			}
			_, err = c.Settle(t.Context(), rs)
			require.NoError(t, err)
			require.NoError(t, c.End(t.Context(), []int64{b.Token}))
		}
		assert.Len(t, seen, tries*len(tb.Keys), "%s rows were claimed three times each", rows)
	}
}
