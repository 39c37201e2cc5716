package mapping

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
)

// A table with nothing but a boolean "sent": a status beside it, filled from it.
func TestAdoptBoolean(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		db.do(t, "CREATE TABLE receivers (id {serial}, address varchar(50), sent boolean NOT NULL DEFAULT {false})")
		for i := range 10 {
			db.do(t, fmt.Sprintf("INSERT INTO receivers (address, sent) VALUES ('a%d', %s)", i, map[bool]string{true: "{true}", false: "{false}"}[i < 4]))
		}
		err := claim.Check(t.Context(), db.DB, db.d, claim.Table{Name: "receivers", Columns: claim.Columns{Status: "sent"}}, nil)
		if db.d == claim.MySQL {
			assert.NotContains(t, err.Error(), `"sent"`, "a boolean is a small integer there")
		} else {
			require.ErrorContains(t, err, `column "sent" is of type bool`)
			require.ErrorContains(t, err, "or Columns.Status to another column, or make one")
		}
		tab := claim.Table{Name: "receivers"}
		db.ready(t, tab)
		db.do(t, "UPDATE receivers SET status = 3 WHERE sent")
		for name, c := range claimers[mail](t, db, tab) {
			got := drain(t, c, nil)
			assert.Len(t, got.keys(), 6, name)
			for k := range got.keys() {
				assert.Greater(t, k.(int64), int64(4), "what was sent is not sent again")
			}
			db.do(t, "UPDATE receivers SET status = 0, token = 0 WHERE NOT sent")
		}
		// The same by a condition, for who does not want to write to all rows.
		db.do(t, "UPDATE receivers SET status = 0, token = 0, next_attempt = NULL")
		tab.Where = "NOT sent"
		c, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		assert.Len(t, drain(t, c, nil).keys(), 6)
	})
}

// Where a boolean is an integer, it can itself be the status: 0 is pending and 1
// is done.
func TestAdoptTinyint(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		if db.d != claim.MySQL {
			t.Skip("a boolean is no integer here")
		}
		tab := claim.Table{Name: "receivers", Columns: claim.Columns{Status: "sent"}, States: states(0, 2, 3, 1, 4, 5, 6)}
		db.ready(t, tab, "CREATE TABLE receivers (id {serial}, address varchar(50), sent boolean NOT NULL DEFAULT 0)", "INSERT INTO receivers (address, sent) VALUES ('a', 1), ('b', 0)")
		c, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		assert.Equal(t, map[any]int{int64(2): 1}, drain(t, c, nil).keys())
		assert.Equal(t, []string{"2"}, db.column(t, "SELECT COUNT(*) FROM receivers WHERE sent = 1"))
	})
}

// A table with a status of texts, of which some are the application's own, and a
// time of its own for what was done.
func TestAdoptStatusAndProcessedAt(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{
			Name: "outbox", States: states("NEW", "TAKEN", "SENDING", "PROCESSED", "FAILED", "SKIPPED", "DOUBTFUL"),
			Columns: claim.Columns{Status: "state", DoneAt: "processed_at", LastError: "error"},
		}
		db.ready(t, tab, "CREATE TABLE outbox (id {serial}, address varchar(50), state varchar(12) NOT NULL DEFAULT 'NEW', processed_at {time} NULL, error varchar(10))",
			"INSERT INTO outbox (address, state, processed_at) VALUES ('old', 'PROCESSED', '2020-01-01 00:00:00'), ('x', 'ON_HOLD', NULL)",
			"INSERT INTO outbox (address) VALUES ('ok'), ('bad')")
		for name, c := range claimers[mail](t, db, tab) {
			got := drain(t, c, func(it sendonce.Item[mail]) error {
				if it.Value.Address == "bad" {
					return sendonce.Permanent(fmt.Errorf("größer als erlaubt"))
				}
				return nil
			})
			assert.Equal(t, map[any]int{int64(3): 1, int64(4): 1}, got.keys(), name)
			assert.Equal(t, []string{"PROCESSED", "ON_HOLD", "PROCESSED", "FAILED"}, db.column(t, "SELECT state FROM outbox ORDER BY id"))
			assert.Equal(t, []string{"1", "3"}, db.column(t, "SELECT id FROM outbox WHERE processed_at IS NOT NULL ORDER BY id"))
			assert.Equal(t, []string{"größer als"}, db.column(t, "SELECT substr(error, 1, 10) FROM outbox WHERE id = 4"), "cut to the column, by characters")
			db.do(t, "UPDATE outbox SET state = 'NEW', token = 0, processed_at = NULL, error = NULL WHERE id > 2")
		}
	})
}

// A status of an enumeration must have all the states.
func TestAdoptEnum(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		values := "('pending', 'claimed', 'sending', 'done', 'dead', 'skipped')"
		define := "enum" + values
		switch db.d {
		case claim.SQLite:
			t.Skip("SQLite has no enumerations")
		case claim.Postgres:
			db.do(t, "CREATE TYPE mail_state AS ENUM "+values)
			define = "mail_state"
		}
		db.do(t, "CREATE TABLE receivers (id {serial}, address varchar(50), status "+define+" NOT NULL DEFAULT 'pending')")
		tab := claim.Table{Name: "receivers", States: claim.StringStates}
		require.NoError(t, claim.Migrate(t.Context(), db.DB, db.d, tab, nil))
		err := claim.Check(t.Context(), db.DB, db.d, tab, nil)
		require.ErrorContains(t, err, "unknown")
		require.ErrorContains(t, err, "States")
		tab.States.Unknown = "stuck"
		if db.d == claim.MySQL {
			db.do(t, "ALTER TABLE receivers MODIFY COLUMN status enum('pending', 'claimed', 'sending', 'done', 'dead', 'skipped', 'stuck') NOT NULL DEFAULT 'pending'")
		} else {
			db.do(t, "ALTER TYPE mail_state ADD VALUE 'stuck'")
		}
		db.do(t, "INSERT INTO receivers (address) VALUES ('x'), ('y')")
		for name, c := range claimers[mail](t, db, tab) {
			assert.Len(t, drain(t, c, nil).keys(), 2, name)
			db.do(t, "UPDATE receivers SET status = 'pending', token = 0")
		}
	})
}

// A business key of several columns: a number of its own beside it, which the
// database fills in.
func TestAdoptCompositeKey(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		db.do(t, "CREATE TABLE receivers (tenant varchar(20) NOT NULL, no int NOT NULL, address varchar(50), PRIMARY KEY (tenant, no))",
			"INSERT INTO receivers (tenant, no, address) VALUES ('a', 1, 'x'), ('a', 2, 'y'), ('b', 1, 'z')")
		tab := claim.Table{Name: "receivers", Columns: claim.Columns{Key: "tenant"}}
		require.ErrorContains(t, claim.Check(t.Context(), db.DB, db.d, tab, nil), `"tenant" is not unique by itself`)
		switch db.d {
		case claim.Postgres:
			db.do(t, "ALTER TABLE receivers ADD COLUMN seq bigserial NOT NULL UNIQUE")
		case claim.MySQL:
			db.do(t, "ALTER TABLE receivers ADD COLUMN seq bigint NOT NULL AUTO_INCREMENT UNIQUE")
		case claim.SQLite: // which can't add one to a table that is there
			db.do(t, "CREATE TABLE new (seq integer PRIMARY KEY, tenant text NOT NULL, no int NOT NULL, address text, UNIQUE (tenant, no))",
				"INSERT INTO new (tenant, no, address) SELECT tenant, no, address FROM receivers", "DROP TABLE receivers", "ALTER TABLE new RENAME TO receivers")
		}
		tab.Columns.Key = "seq"
		db.ready(t, tab)
		db.do(t, "INSERT INTO receivers (tenant, no, address) VALUES ('c', 1, 'later')")
		type row struct {
			Tenant string `db:"tenant"`
			No     int    `db:"no"`
		}
		for name, c := range claimers[row](t, db, tab) {
			seen := map[row]bool{}
			for _, it := range drain(t, c, nil).items {
				seen[it.Value] = true
			}
			assert.Equal(t, map[row]bool{{"a", 1}: true, {"a", 2}: true, {"b", 1}: true, {"c", 1}: true}, seen, name)
			db.do(t, "UPDATE receivers SET status = 0, token = 0")
		}
	})
}

// Keys that the database makes at random, in a table that is in use.
func TestAdoptUUIDKeys(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers"}
		fresh := map[claim.Dialect]string{claim.Postgres: "gen_random_uuid()", claim.MySQL: "uuid()", claim.SQLite: "lower(hex(randomblob(16)))"}[db.d]
		db.ready(t, tab, "CREATE TABLE receivers (id {uuid} PRIMARY KEY, address varchar(50))")
		insert := func(n int) {
			for range n {
				db.do(t, "INSERT INTO receivers (id, address) VALUES ("+fresh+", 'x')")
			}
		}
		for name, c := range claimers[mail](t, db, tab) {
			insert(50)
			got := drain(t, c, nil).keys()
			assert.Len(t, got, 50, name)
			insert(20) // between those that were there
			got = drain(t, c, nil).keys()
			assert.Len(t, got, 20, name)
		}
	})
}
