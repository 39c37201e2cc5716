package mapping

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

// SQLite gives the largest id again when its row was deleted, and with it the
// idempotency key. The doctor finds that, and its cure is one.
func TestKeysThatAreGivenAgain(t *testing.T) {
	for _, c := range []struct {
		columns, key string
		again        bool
	}{
		{"(id INTEGER PRIMARY KEY, address text)", "id", true},
		{"(address text, nr integer, PRIMARY KEY (nr))", "nr", true},
		{"(id integer primary key autoincrement, address text)", "id", false},
		{"(id bigint PRIMARY KEY, address text)", "id", false},
		{"(id integer PRIMARY KEY, address text) WITHOUT ROWID", "id", false},
		{"(id text PRIMARY KEY, address text)", "id", false},
		{"(n INTEGER PRIMARY KEY, id text NOT NULL UNIQUE, address text)", "id", false},
	} {
		t.Run(c.columns, func(t *testing.T) {
			db := target{servers.SQLite(t).Open(t, ""), claim.SQLite, "main"}
			tab := claim.Table{Name: "outbox", DeleteDone: true, Columns: claim.Columns{Key: c.key}}
			db.ready(t, tab, "CREATE TABLE outbox "+c.columns)
			report := func() string {
				r, err := claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
				require.NoError(t, err)
				return r.String()
			}
			assert.Equal(t, c.again, strings.Contains(report(), `"`+c.key+`" INTEGER PRIMARY KEY AUTOINCREMENT`))
			tab.DeleteDone = false
			assert.NotContains(t, report(), "AUTOINCREMENT", "rows that stay keep their ids")
		})
	}
}

// Two messages have two idempotency keys, unless the database gives an id again.
func TestIdempotencyKeysOfDeletedRows(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		for table, create := range map[string]string{
			"outbox": "CREATE TABLE outbox (id {serial}, address varchar(200))",
			"counts": "CREATE TABLE counts (id integer PRIMARY KEY AUTOINCREMENT, address varchar(200))",
		} {
			if table == "counts" && db.d != claim.SQLite {
				continue
			}
			tab := claim.Table{Name: table, DeleteDone: true}
			db.ready(t, tab, create)
			c, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
			require.NoError(t, err)
			keys := map[string]bool{}
			for range 2 {
				db.do(t, "INSERT INTO "+table+" (address) VALUES ('ann')")
				got := drain[mail](t, c, nil)
				require.Len(t, got.items, 1)
				keys[got.items[0].IdempotencyKey] = true
			}
			want := 2
			if table == "outbox" && db.d == claim.SQLite {
				want = 1 // what the doctor warns of
			}
			assert.Len(t, keys, want, table)
			r, err := claim.Doctor(t.Context(), db.DB, db.d, tab, nil)
			require.NoError(t, err)
			if want == 2 {
				assert.NotContains(t, r.String(), "AUTOINCREMENT")
			}
		}
	})
}
