package mapping

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

// Names of every kind: qualified, reserved, mixed in case, hostile. Ten rows go
// through all that a row goes through.
func TestNames(t *testing.T) {
	cols := claim.Columns{DoneAt: "done_at", LastError: "last_error", Generation: "generation"}
	evil := "a'b\"c`d\\; DROP TABLE innocent; -- :x ? $1"
	for _, x := range []struct {
		name  string
		table claim.Table
	}{
		{"plain", claim.Table{Name: "receivers", Columns: cols}},
		{"schema", claim.Table{Name: "{schema}.receivers", Columns: cols}},
		{"schema apart", claim.Table{Schema: "{schema}", Name: "my.receivers", Columns: cols}},
		{"reserved", claim.Table{Name: "order", Columns: claim.Columns{Key: "select", Status: "case", Token: "group", Attempts: "limit", NextAttempt: "when", DoneAt: "from", LastError: "where", Generation: "table"}}},
		{"mixed case", claim.Table{Name: "MailQueue", Columns: claim.Columns{Key: "MailId", Status: "State", Token: "Token", Attempts: "Tries", NextAttempt: "NextTry", DoneAt: "SentAt", LastError: "Why", Generation: "Gen"}}},
		{"hostile", claim.Table{Name: evil, Columns: claim.Columns{Key: evil, Status: evil + "s", Token: evil + "t", Attempts: evil + "a", NextAttempt: evil + "n", DoneAt: evil + "d", LastError: evil + "l", Generation: evil + "g"}}},
		{"unicode", claim.Table{Name: "empfänger", Columns: claim.Columns{Key: "schlüssel", Status: "статус"}}},
		{"long", claim.Table{Name: strings.Repeat("n", 63), Columns: claim.Columns{Key: strings.Repeat("k", 63)}}},
		{"string states", claim.Table{Name: "receivers", States: claim.StringStates, Columns: cols}},
		{"odd states", claim.Table{Name: "receivers", States: states(`größe 'x' \`, "b?", "c:x", `d"`, "e`", "f--", "g;"), Columns: cols}},
		{"integers", claim.Table{Name: "receivers", States: states(-1, 100_000, 2, 3, 4, 5, int64(6_000_000_000)), Columns: cols}},
	} {
		t.Run(x.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db target) {
				tab := x.table
				if strings.Contains(tab.Name+tab.Schema, "{schema}") {
					db.otherSchema(t, &tab)
				}
				db.do(t, "CREATE TABLE innocent (id int)")
				quoted := db.quoted(tab)
				key := tab.Columns.Key
				if key == "" {
					key = "id"
				}
				_, err := db.Exec("CREATE TABLE " + quoted + " (" + db.quote(key) + " bigint PRIMARY KEY, payload varchar(50))")
				require.NoError(t, err)
				db.ready(t, tab)
				for i := range 10 {
					_, err := db.Exec(fmt.Sprintf("INSERT INTO %s (%s, payload) VALUES (%d, 'p%d')", quoted, db.quote(key), i, i))
					require.NoError(t, err)
				}
				journey(t, db, tab)
				assert.Equal(t, []string{"0"}, db.column(t, "SELECT COUNT(*) FROM innocent"))
			})
		})
	}
}

// Drivers, and their ways of passing arguments, make no difference.
func TestDrivers(t *testing.T) {
	for _, x := range []struct {
		d      claim.Dialect
		driver string
		params []string
	}{
		{claim.Postgres, "postgres", nil},
		{claim.Postgres, "pgx", []string{"default_query_exec_mode=exec"}},
		{claim.Postgres, "pgx", []string{"default_query_exec_mode=simple_protocol"}},
		{claim.Postgres, "pgx", []string{"default_query_exec_mode=cache_describe"}},
		{claim.MySQL, "mysql", []string{"clientFoundRows=true"}},
		{claim.MySQL, "mysql", []string{"interpolateParams=true"}},
		{claim.MySQL, "mysql", []string{"sql_mode='NO_BACKSLASH_ESCAPES,ANSI_QUOTES'"}},
		{claim.MySQL, "mysql", []string{"time_zone='%2B09:00'"}},
		{claim.SQLite, "sqlite3", nil},
	} {
		t.Run(strings.Join(append([]string{x.driver}, x.params...), " "), func(t *testing.T) {
			s := map[claim.Dialect]func(testing.TB) *servers.Database{claim.Postgres: servers.Postgres, claim.MySQL: servers.MariaDB, claim.SQLite: servers.SQLite}[x.d](t)
			db := target{s.Open(t, x.driver, x.params...), x.d, s.Name}
			tab := claim.Table{
				Name: "receivers", Where: "payload <> ?", Args: []any{`it's "7"? \`},
				States:  states(`größe 'x' \`, "b?", "c:x", `d"`, "e`", "f--", "g;"),
				Columns: claim.Columns{DoneAt: "done_at", LastError: "last_error", Generation: "generation"},
			}
			db.ready(t, tab, "CREATE TABLE receivers (id varchar(50) PRIMARY KEY, payload varchar(50))")
			for i := range 10 {
				db.do(t, fmt.Sprintf("INSERT INTO receivers (id, payload) VALUES ('k''%d', 'p')", i))
			}
			journey(t, db, tab)
		})
	}
}

// otherSchema makes the table's schema one that is not the default.
func (db target) otherSchema(t *testing.T, tab *claim.Table) {
	t.Helper()
	name := db.name + "_other"
	switch db.d {
	case claim.SQLite:
		name = "main" // an attached database belongs to one connection only
	default:
		db.do(t, "CREATE SCHEMA "+name)
		t.Cleanup(func() { _, _ = db.Exec("DROP SCHEMA " + name) })
	}
	tab.Name = strings.ReplaceAll(tab.Name, "{schema}", name)
	tab.Schema = strings.ReplaceAll(tab.Schema, "{schema}", name)
}

func (db target) quote(name string) string {
	if db.d == claim.MySQL {
		return "`" + strings.ReplaceAll(name, "`", "``") + "`"
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

func (db target) quoted(tab claim.Table) string {
	schema, name := tab.Schema, tab.Name
	if schema == "" {
		var ok bool
		if schema, name, ok = strings.Cut(tab.Name, "."); !ok {
			return db.quote(tab.Name)
		}
	}
	return db.quote(schema) + "." + db.quote(name)
}

// payload is a row of any table.
type payload struct {
	Payload string `db:"payload"`
}

// journey takes ten rows through every outcome, a requeue and a second life, by
// each strategy in turn.
func journey(t *testing.T, db target, tab claim.Table) {
	t.Helper()
	for name, c := range claimers[payload](t, db, tab) {
		rows := claimSix(t, c)
		var tokens []int64
		for i, o := range []sendonce.Outcome{sendonce.Done, sendonce.Retry, sendonce.Released, sendonce.Dead, sendonce.Skipped, sendonce.Unknown} {
			require.Empty(t, settle(t, c, rows[i], o), o)
			require.Empty(t, settle(t, c, rows[i], o), "a repeated %s is harmless", o)
			tokens = append(tokens, rows[i].Token)
		}
		ext, err := c.Extend(t.Context(), append([]int64{1}, tokens...))
		require.NoError(t, err)
		assert.Equal(t, []int64{1}, ext.Lost)
		require.NoError(t, c.End(t.Context(), tokens))
		counts, err := c.Counts(t.Context())
		require.NoError(t, err)
		assert.Equal(t, sendonce.Counts{Pending: 6, Done: 1, Dead: 1, Skipped: 1, Unknown: 1}, counts, name)
		_, err = c.Overview(t.Context())
		require.NoError(t, err)
		for range 2 { // the patrol begins with the second
			_, err = c.Reap(t.Context(), sendonce.ReapRequest{MaxAttempts: 5})
			require.NoError(t, err)
		}
		n, err := c.Requeue(t.Context(), claim.Requeue{From: []sendonce.Outcome{sendonce.Dead, sendonce.Skipped, sendonce.Unknown}, SendAgain: tab.Columns.Generation != ""})
		require.NoError(t, err)
		assert.Equal(t, int64(3), n)
		got := drain(t, c, nil)
		assert.Len(t, got.keys(), 9, "all but the one that was done")
		counts, err = c.Counts(t.Context())
		require.NoError(t, err)
		assert.Equal(t, sendonce.Counts{Done: 10}, counts)
		_, err = claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		status := tab.Columns.Status
		if status == "" {
			status = "status"
		}
		var pending any = 0
		if tab.States.Pending != nil {
			pending = tab.States.Pending
		}
		arg := "?"
		if db.d == claim.Postgres {
			arg = "$1"
		}
		_, err = db.Exec("UPDATE "+db.quoted(tab)+" SET "+db.quote(status)+" = "+arg, pending)
		require.NoError(t, err)
	}
}

// claimSix claims six rows, one batch each. Atomic starts anywhere, so that it
// may take several claims.
func claimSix(t *testing.T, c full[payload]) (rows []sendonce.Batch[payload]) {
	t.Helper()
	for len(rows) < 6 {
		b := take(t, c, 6-len(rows))
		require.NotEmpty(t, b.Items)
		for i := range b.Items {
			rows = append(rows, sendonce.Batch[payload]{Token: b.Token, Items: b.Items[i : i+1]})
		}
	}
	hs, err := c.Holders(t.Context())
	require.NoError(t, err)
	held := 0
	for _, h := range hs {
		held += h.Unmarked
		assert.Equal(t, h.Rows, h.Unmarked)
		assert.Equal(t, "a test", h.Owner)
		assert.False(t, h.Alone)
		assert.Greater(t, h.Left, 30*time.Second)
		assert.Less(t, h.Held, 30*time.Second)
	}
	assert.Equal(t, 6, held)
	return rows
}
