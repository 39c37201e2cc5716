package mapping

import (
	"testing"

	"github.com/sendonce/sendonce/claim"
	"github.com/stretchr/testify/assert"
)

// Rows whose status is NULL are the application's own: they are left alone, and
// keep nobody from claiming others.
func TestNullStates(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers"}
		db.ready(t, tab, "CREATE TABLE receivers (id {serial}, address varchar(50), status int NULL)")
		db.do(t, "INSERT INTO receivers (address) VALUES ('x')")
		for range 13 {
			db.do(t, "INSERT INTO receivers (address) SELECT address FROM receivers")
		}
		db.do(t, "UPDATE receivers SET status = 0 WHERE id % 1000 = 0")
		for name, c := range claimers[mail](t, db, tab) {
			var want []int64
			assert.NoError(t, db.Select(&want, "SELECT id FROM receivers WHERE status = 0 ORDER BY id"))
			got := drain(t, c, nil).keys()
			assert.Len(t, got, len(want), "%s: %v", name, want)
			db.do(t, "UPDATE receivers SET status = 0, token = 0 WHERE status = 3")
		}
	})
}
