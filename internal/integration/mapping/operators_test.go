package mapping

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
)

var outcomes = []sendonce.Outcome{sendonce.Dead, sendonce.Unknown, sendonce.Skipped}

// Rows that were put aside come back by state, key or condition, and never by
// omission. They are as new, but for their idempotency key.
func TestRequeue(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers", Columns: claim.Columns{Generation: "generation", LastError: "last_error"}}
		db.ready(t, tab, receivers)
		c, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		// 1 and 2 dead, 3 unknown, 4 skipped, 5 done, 6 pending
		fill := func() {
			db.do(t, "DELETE FROM receivers")
			for id, status := range []int{4, 4, 6, 5, 3, 0} {
				db.do(t, fmt.Sprintf("INSERT INTO receivers (id, address, status, token, attempts) VALUES (%d, 'a%d', %d, 77, 5)", id+1, id+1, status))
			}
		}
		dead := []sendonce.Outcome{sendonce.Dead}
		for _, x := range []struct {
			r    claim.Requeue
			want string // the keys that are pending then, 6 among them
		}{
			{claim.Requeue{From: dead}, "1 2 6"},
			{claim.Requeue{From: outcomes}, "1 2 3 4 6"},
			{claim.Requeue{From: []sendonce.Outcome{sendonce.Skipped}}, "4 6"},
			{claim.Requeue{From: outcomes, Keys: []sendonce.Key{int64(4), 2, int32(5), int64(99)}}, "2 4 6"},
			{claim.Requeue{From: outcomes, Keys: []sendonce.Key{}}, "6"},
			{claim.Requeue{From: outcomes, Where: "address = ? OR address = ?", Args: []any{"a1", "a3"}}, "1 3 6"},
			{claim.Requeue{From: dead, Where: "1 = 1 OR address = 'a5' -- all"}, "1 2 6"},
			{claim.Requeue{From: outcomes, Keys: []sendonce.Key{1, 2}, Where: "address > ?", Args: []any{"a1"}}, "2 6"},
		} {
			fill()
			n, err := c.Requeue(t.Context(), x.r)
			require.NoError(t, err)
			ids := db.column(t, "SELECT id FROM receivers WHERE status = 0 ORDER BY id")
			assert.Equal(t, x.want, strings.Join(ids, " "), "%+v", x.r)
			assert.Equal(t, int64(len(ids)-1), n)
			fresh := db.column(t, "SELECT COUNT(*) FROM receivers WHERE status = 0 AND id < 6 AND token = 0 AND attempts = 0 AND next_attempt IS NOT NULL")
			assert.Equal(t, fmt.Sprint(n), fresh[0], "due at once, nothing charged, the old token cleared")
		}
		for _, bad := range []struct {
			r    claim.Requeue
			says string
		}{
			{claim.Requeue{}, "Requeue.From is empty"},
			{claim.Requeue{From: []sendonce.Outcome{sendonce.Done}}, "only dead, unknown and skipped"},
			{claim.Requeue{From: dead, Keys: []sendonce.Key{"1"}}, "Requeue.Keys"},
			{claim.Requeue{From: dead, Where: "id = ?"}, "1 question marks and 0 arguments"},
			{claim.Requeue{From: dead, Where: "id = :id"}, `":id"`},
			{claim.Requeue{From: dead, Where: "nothing = 1"}, "cannot requeue rows of table receivers"},
		} {
			_, err := c.Requeue(t.Context(), bad.r)
			require.ErrorContains(t, err, bad.says)
		}
	})
}

// A row that is requeued keeps its idempotency key; one that is sent again as
// something new has another.
func TestSendAgain(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers", Columns: claim.Columns{Generation: "generation"}}
		db.ready(t, tab, receivers, "INSERT INTO receivers (address) VALUES ('x')")
		c, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		key := func() string {
			got := drain(t, c, func(sendonce.Item[mail]) error { return sendonce.Permanent(errors.New("no")) })
			require.Len(t, got.items, 1)
			assert.Equal(t, 1, got.items[0].Attempt)
			return got.items[0].IdempotencyKey
		}
		first := key()
		for _, again := range []bool{false, true} {
			_, err = c.Requeue(t.Context(), claim.Requeue{From: outcomes, SendAgain: again})
			require.NoError(t, err)
			assert.Equal(t, again, key() != first)
		}
		plain, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, claim.Table{Name: "receivers"}, nil)
		require.NoError(t, err)
		_, err = plain.Requeue(t.Context(), claim.Requeue{From: outcomes, SendAgain: true})
		require.ErrorContains(t, err, "Columns.Generation")
	})
}

// A late result of an attempt that was requeued meanwhile changes nothing.
func TestRequeueWinsOverLateResults(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers"}
		db.ready(t, tab, receivers, "INSERT INTO receivers (address) VALUES ('x')")
		c, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		b := take(t, c, 1)
		require.Empty(t, settle(t, c, b, sendonce.Unknown))
		_, err = c.Requeue(t.Context(), claim.Requeue{From: outcomes})
		require.NoError(t, err)
		es := settle(t, c, b, sendonce.Done)
		require.Len(t, es, 1)
		assert.Equal(t, sendonce.Overtaken, es[0].Cause)
		assert.Equal(t, []string{"0"}, db.column(t, "SELECT status FROM receivers"))
	})
}

// What a dashboard and an operator see.
func TestOverviewAndHolders(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers"}
		db.ready(t, tab, receivers)
		c, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		o, err := c.Overview(t.Context())
		require.NoError(t, err)
		assert.Equal(t, claim.Overview{}, o)
		db.do(t, "INSERT INTO receivers (address, next_attempt) VALUES ('x', '2020-01-01 00:00:00'), ('x', '2999-01-01 00:00:00')", "INSERT INTO receivers (address) VALUES ('x')")
		o, err = c.Overview(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(3), o.Pending)
		assert.InDelta(t, time.Since(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)).Hours(), o.OldestDue.Hours(), 20, "by the session's zone at worst")
		assert.Zero(t, o.OldestClaim)
		b := take(t, c, 5)
		time.Sleep(5 * time.Millisecond) // SQLite's clock has milliseconds
		more := take(t, c, 5)
		require.Len(t, append(b.Items, more.Items...), 2, "two are due")
		hs, err := c.Holders(t.Context())
		require.NoError(t, err)
		require.Len(t, hs, 2)
		assert.Equal(t, b.Token, hs[0].Token, "the oldest first")
		assert.InDelta(t, 60, hs[0].Left.Seconds(), 20)
		assert.Equal(t, sendonce.AtLeastOnce, hs[0].Delivery)
		settle(t, c, b, sendonce.Done)
		hs, err = c.Holders(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []int{1, 0, 1, 1}, []int{hs[0].Rows, hs[0].Unmarked, hs[1].Rows, hs[1].Unmarked})
		o, err = c.Overview(t.Context())
		require.NoError(t, err)
		assert.Positive(t, o.OldestClaim)
		assert.Equal(t, sendonce.Counts{Pending: 1, Claimed: 1, Done: 1}, o.Counts)
	})
}

// The doctor says which strategy to use, and finds what is slow or weak.
func TestDoctor(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers"}
		_, err := claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
		require.ErrorContains(t, err, "it does not exist")
		db.ready(t, tab, receivers)
		report := func(tab claim.Table) string {
			r, err := claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(r.Server, db.d.String()+" "), r.Server)
			for _, f := range r.Findings {
				assert.NotContains(t, []string{f.What, f.Why, f.Cure}, "")
			}
			text := r.String()
			assert.Contains(t, text, map[bool]string{true: "claim.NewAtomic", false: "claim.NewSkipLocked"}[db.d == claim.SQLite])
			return text
		}
		before := report(tab)
		assert.NotContains(t, before, "has the status in it")
		if db.d == claim.SQLite {
			assert.Contains(t, before, "nothing to improve")
			return
		}
		db.do(t, "CREATE INDEX by_state ON receivers (status)")
		assert.Contains(t, report(tab), "by_state has the status in it")
		if db.d != claim.Postgres {
			return
		}
		assert.NotContains(t, before, "filled to")
		assert.Contains(t, before, "never analysed")
		db.do(t, "ALTER TABLE receivers RESET (fillfactor)")
		assert.Contains(t, report(tab), "filled to 100 %")
		db.do(t, "DROP INDEX by_state", "CREATE INDEX by_state ON receivers (name) WHERE status = 0")
		assert.Contains(t, report(tab), "by_state has the status in it")
		db.do(t, "DROP INDEX by_state", "ALTER TABLE receivers SET (fillfactor = 50)", "ANALYZE receivers")
		assert.NotContains(t, report(tab), "receivers")
		assert.NotContains(t, report(tab), "filled to")
	})
}

// A pool that keeps too few connections makes them again for each statement.
func TestDoctorOnThePool(t *testing.T) {
	db := onPostgres(t)
	tab := claim.Table{Name: "receivers"}
	db.ready(t, tab, receivers)
	for _, most := range []int{8, 1} {
		db.DB.SetMaxIdleConns(most)
		for range 110 {
			a, err := db.DB.Conn(t.Context())
			require.NoError(t, err)
			b, err := db.DB.Conn(t.Context())
			require.NoError(t, err)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}
		r, err := claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		assert.Equal(t, most == 1, strings.Contains(r.String(), "db.SetMaxIdleConns(6)"), r)
	}
}

// What the doctor advises for keys that don't grow, it doesn't complain of once
// it is there.
func TestDoctorOnTextKeys(t *testing.T) {
	db := onPostgres(t)
	tab := claim.Table{Name: "receivers"}
	db.ready(t, tab, "CREATE TABLE receivers (id uuid PRIMARY KEY, address text)")
	r, err := claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
	require.NoError(t, err)
	advice := ""
	for _, f := range r.Findings {
		if _, stmt, ok := strings.Cut(f.Cure, "finished rows: "); ok {
			advice = stmt
		}
	}
	require.Contains(t, advice, "CREATE INDEX")
	_, err = db.Exec(advice)
	require.NoError(t, err)
	r, err = claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
	require.NoError(t, err)
	assert.NotContains(t, r.String(), "_sendonce_fresh")
	assert.NotContains(t, r.String(), "don't grow")
}

// With many rows the doctor reads the plans.
func TestDoctorReadsPlans(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers", Order: "name DESC"}
		db.ready(t, tab, receivers)
		db.do(t, "INSERT INTO receivers (address, name) VALUES ('x', 'y')")
		for range 13 {
			db.do(t, "INSERT INTO receivers (address, name) SELECT address, name FROM receivers")
		}
		if db.d != claim.SQLite {
			db.do(t, map[claim.Dialect]string{claim.Postgres: "ANALYZE receivers", claim.MySQL: "ANALYZE TABLE receivers"}[db.d])
		}
		r, err := claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		assert.Contains(t, r.String(), "the plan for looking for fresh rows")
		assert.Contains(t, r.String(), "make an index that gives the order name DESC")
		tab.Order = ""
		r, err = claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		assert.NotContains(t, r.String(), "the plan for looking for fresh rows")
	})
}
