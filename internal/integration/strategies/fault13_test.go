package strategies

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// docs/faults.md, 13: stricter isolation than the library needs, set for all of
// the connection's transactions.
func TestFault13_StrictIsolation(t *testing.T) {
	for level, params := range map[string]map[claim.Dialect]string{
		"repeatable read": {claim.Postgres: "default_transaction_isolation=repeatable read", claim.MySQL: "transaction_isolation='REPEATABLE-READ'"},
		"serializable":    {claim.Postgres: "default_transaction_isolation=serializable", claim.MySQL: "transaction_isolation='SERIALIZABLE'"},
	} {
		for _, d := range []combo.Database{combo.Postgres, combo.MariaDB} {
			for _, s := range d.Strategies() {
				if level == "repeatable read" && s != combo.Atomic && s != combo.SkipLocked {
					continue // serializable is the stricter one
				}
				t.Run(d.Name+"/"+string(s)+"/"+level, func(t *testing.T) {
					param := params[d.Dialect]
					if d.Dialect == claim.MySQL {
						// MariaDB 10.11 has it under this name only.
						param = "tx_isolation=" + param[len("transaction_isolation="):]
					}
					tb := combo.Combo{Strategy: s, Database: d, Key: "bigint"}.Start(t).Table(t, 300)
					exactlyOnce(t, tb, drain(t, once, fleet(t, tb, 4, param)...), oneInTwenty)
				})
			}
		}
	}
}

// fleet is so many Claimers with pools of their own.
func fleet(t *testing.T, tb *combo.Table, n int, params ...string) (claimers []combo.Claimer) {
	for range n {
		c, _ := tb.Spec(params...).Open(t)
		claimers = append(claimers, c)
	}
	return claimers
}

// docs/faults.md, 13: an index on the status, and some workers that claim in the
// opposite order.
func TestFault13_IndexAndOrderThatDeadlock(t *testing.T) {
	for _, d := range []combo.Database{combo.MariaDB, combo.FoundRows, combo.Postgres} {
		for _, s := range d.Strategies() {
			t.Run(d.Name+"/"+string(s), func(t *testing.T) {
				tb := combo.Combo{Strategy: s, Database: d, Key: "bigint"}.Start(t).Table(t, 300)
				tb.Exec(t, "CREATE INDEX by_status ON "+tb.Name+" (status, attempts, next_attempt)")
				reversed := *tb
				reversed.Mapping.Order = "id DESC"
				claimers := append(fleet(t, tb, 2), fleet(t, &reversed, 2)...)
				exactlyOnce(t, tb, drain(t, once, claimers...), oneInTwenty)
			})
		}
	}
}

// docs/faults.md, 13: a session of somebody else's holds rows for longer than the
// server lets a statement wait, while they are claimed and while they are marked.
func TestFault13_RowsHeldForLongerThanTheLockWait(t *testing.T) {
	for _, d := range []combo.Database{combo.MariaDB, combo.Postgres} {
		for _, s := range d.Strategies() {
			t.Run(d.Name+"/"+string(s), func(t *testing.T) {
				tb := combo.Combo{Strategy: s, Database: d, Key: "bigint"}.Start(t).Table(t, 100)
				param, hold := "innodb_lock_wait_timeout=1", 1500*time.Millisecond
				if d.Dialect == claim.Postgres {
					param, hold = "lock_timeout=200", 500*time.Millisecond
				}
				release := holdRows(t, tb, tb.Keys[7], tb.Keys[50])
				time.AfterFunc(hold, release)
				exactlyOnce(t, tb, drain(t, once, fleet(t, tb, 3, param)...), oneInTwenty)

				// A mark: the row is held from the moment that its send begins.
				tb = tb.Place.Table(t, 20)
				slow := *tb
				sender := sendonce.SenderFunc[combo.Mail](func(_ context.Context, item sendonce.Item[combo.Mail]) error {
					if item.Key == slow.Keys[3] {
						time.AfterFunc(hold, holdRows(t, &slow, item.Key))
					}
					return nil
				})
				exactlyOnce(t, tb, drain(t, sender, fleet(t, tb, 2, param)...), never)
			})
		}
	}
}

// holdRows locks rows and returns what lets go of them.
func holdRows(t *testing.T, tb *combo.Table, keys ...sendonce.Key) (release func()) {
	t.Helper()
	tx, err := tb.Admin.Beginx()
	require.NoError(t, err)
	for _, key := range keys {
		_, err = tx.Exec(tb.Admin.Rebind("UPDATE "+tb.Name+" SET value = value WHERE id = ?"), key)
		require.NoError(t, err)
		_, err = tx.Exec(tb.Admin.Rebind("SELECT id FROM "+tb.Name+" WHERE id = ? FOR UPDATE"), key)
		require.NoError(t, err)
	}
	return func() { _ = tx.Rollback() }
}
