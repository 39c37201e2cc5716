package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/claim/claimtest"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/lock/sqllock"
	"github.com/sendonce/sendonce/partition"
)

var locksIn = map[claim.Dialect]sqllock.Dialect{claim.Postgres: sqllock.Postgres, claim.MySQL: sqllock.MySQL, claim.SQLite: sqllock.SQLite}

// A partition has one owner, so the handles of a store are goroutines of one
// process; package unmarked tests what happens between processes.
func TestUnmarkedConformance(t *testing.T) {
	for _, c := range []combo.Combo{
		{Strategy: combo.Partitioned, Database: combo.Postgres, Key: "bigint"},
		{Strategy: combo.Partitioned, Database: combo.MariaDB, Key: "bigint"},
		{Strategy: combo.Partitioned, Database: combo.SQLite, Key: "bigint"},
		{Strategy: combo.Partitioned, Database: combo.Postgres, Key: "uuid"},
		{Strategy: combo.Partitioned, Database: combo.FoundRows, Key: "varchar(60)"},
	} {
		name := c.Database.Name + "/Unmarked/" + c.Key
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers.Ran(t, name)
			claimtest.Run(t, unmarkedHarness(t, c.Start(t)))
		})
	}
}

func unmarkedHarness(t testing.TB, p *combo.Place) claimtest.Harness[combo.Mail] {
	admin := p.At.Open(t, p.Database.Driver, p.Database.Params...)
	admin.SetMaxOpenConns(8)
	return claimtest.Harness[combo.Mail]{
		New: func(t testing.TB, rows, handles int) *claimtest.Store[combo.Mail] {
			var tb *combo.Table
			if p.Database.Dialect == claim.SQLite {
				tb = p.Combo.Start(t).Table(t, rows)
			} else {
				tb = p.TableOn(t, admin, rows)
			}
			require.NoError(t, sqllock.Migrate(t.Context(), tb.Admin.DB, locksIn[p.Database.Dialect], nil))
			all, err := partition.Static(0, 1)
			require.NoError(t, err)
			u, err := claim.NewUnmarked[combo.Mail](t.Context(), tb.Admin, p.Database.Dialect, tb.Mapping, all, nil)
			require.NoError(t, err)
			s := &claimtest.Store[combo.Mail]{Keys: tb.Keys}
			for range handles {
				s.Claimers = append(s.Claimers, u)
			}
			hooks(t, s, tb)
			s.Requeue = func(key sendonce.Key) error {
				n, err := u.Requeue(t.Context(), claim.Requeue{
					From: []sendonce.Outcome{sendonce.Dead, sendonce.Unknown, sendonce.Skipped}, Keys: []sendonce.Key{key},
				})
				if err == nil && n != 1 {
					err = fmt.Errorf("%d rows were requeued", n)
				}
				return err
			}
			return s
		},
		Caps: claimtest.Caps{
			Unmarked: true, NoBeginner: true, NoLateFacts: true, NoSuspects: true, NoVanished: true, NoPatrol: true,
			NoDelivery: true, NoReaper: true,
		},
		Parallel: 8,
	}
}
