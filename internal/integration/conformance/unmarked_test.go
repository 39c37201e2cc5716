package conformance

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/claim/claimtest"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/partition"
)

// A partition has one owner, so the handles of a store are goroutines of one
// process; package unmarked tests what happens between processes.
func TestUnmarkedConformance(t *testing.T) {
	for _, c := range append(combo.AllUnmarked(),
		combo.Combo{Strategy: combo.Unmarked, Database: combo.Postgres, Key: "uuid"},
		combo.Combo{Strategy: combo.Unmarked, Database: combo.FoundRows, Key: "varchar(60)"},
	) {
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			servers.Ran(t, c.Name())
			claimtest.Run(t, harness(t, c.Start(t), goroutines, claimtest.Caps{
				Unmarked: true, NoBeginner: true, NoLateFacts: true, NoSuspects: true, NoVanished: true, NoPatrol: true,
				NoDelivery: true, NoReaper: true, NoDoubtKeeper: true, NoExaminer: true,
			}))
		})
	}
}

// goroutines share the Claimer of the only partition.
func goroutines(t testing.TB, tb *combo.Table, n int) []sendonce.Claimer[combo.Mail] {
	all, err := partition.Static(0, 1)
	require.NoError(t, err)
	u, err := claim.NewUnmarked[combo.Mail](t.Context(), tb.Admin, tb.Database.Dialect, tb.Mapping, all, nil)
	require.NoError(t, err)
	return slices.Repeat([]sendonce.Claimer[combo.Mail]{u}, n)
}
