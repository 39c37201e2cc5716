package unique

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/sender/unique"
	"github.com/sendonce/sendonce/sender/unique/sqlunique"
)

// Eight workers and 1,000 rows of 100 receivers: of each receiver's rows exactly one
// is sent, and the others are skipped and name it.
func TestOneRowOfEachKeyIsSent(t *testing.T) {
	const workers, rows, receivers = 8, 1000, 100
	onEach(t, func(s *scene) {
		var values []string
		for id := range rows {
			values = append(values, fmt.Sprintf("(%d, 'receiver %d')", id, id%receivers))
		}
		s.exec("INSERT INTO notify (id, recipient) VALUES " + strings.Join(values, ", "))
		var stops []func()
		for range workers {
			stops = append(stops, s.run(unique.Options[mail]{Lease: 20 * time.Second}, func(context.Context, item) error { return nil }))
		}
		var left int
		assert.Eventually(s, func() bool {
			require.NoError(s, s.admin.Get(&left, "SELECT count(*) FROM notify WHERE status IN ('pending', 'claimed', 'sending')"))
			return left == 0
		}, 90*time.Second, 50*time.Millisecond)
		for _, stop := range stops {
			stop()
		}
		var all []struct {
			ID        int64   `db:"id"`
			Recipient string  `db:"recipient"`
			Status    string  `db:"status"`
			Reason    *string `db:"last_error"`
		}
		require.NoError(s, s.admin.Select(&all, "SELECT id, recipient, status, last_error FROM notify ORDER BY id"))
		require.Len(s, all, rows)
		sent := map[string]int64{}
		for _, r := range all {
			if r.Status == "done" {
				require.NotContains(s, sent, r.Recipient, "sent twice")
				sent[r.Recipient] = r.ID
			}
		}
		assert.Len(s, sent, receivers)
		assert.Equal(s, receivers, s.rec.Log.Count())
		named := regexp.MustCompile(`is taken by row (\d+), `)
		for _, r := range all {
			if r.Status == "done" {
				continue
			}
			require.Equal(s, "skipped", r.Status)
			require.NotNil(s, r.Reason)
			match := named.FindStringSubmatch(*r.Reason)
			require.Len(s, match, 2, *r.Reason)
			require.Equal(s, fmt.Sprint(sent[r.Recipient]), match[1], *r.Reason)
		}
	})
}

// Alive says of a row in each state what the states mean, on every database.
func TestAlive(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			at := d.open(t)
			db := at.Open(t, d.driver, d.params...)
			alive := notify(t, db, claim.Dialect(d.dialect))
			for status, want := range map[string]bool{
				"pending": true, "claimed": true, "sending": true,
				"done": false, "dead": false, "skipped": false, "unknown": false, "cancelled": false,
			} {
				_, err := db.Exec("UPDATE notify SET status = '" + status + "' WHERE id = 1")
				require.NoError(t, err)
				got, err := alive(t.Context(), int64(1))
				require.NoError(t, err)
				assert.Equal(t, want, got, status)
			}
			got, err := alive(t.Context(), int64(2))
			require.NoError(t, err)
			assert.False(t, got, "a row that is not there")
			_, err = alive(t.Context(), "one")
			require.ErrorContains(t, err, "row one of table notify")
		})
	}
}

// notify makes a table of one row, and returns the Alive of a strategy on it.
func notify(t *testing.T, db *sqlx.DB, d claim.Dialect) func(context.Context, sendonce.Key) (bool, error) {
	t.Helper()
	_, err := db.Exec("CREATE TABLE notify (id bigint PRIMARY KEY, recipient varchar(100) NOT NULL)")
	require.NoError(t, err)
	require.NoError(t, claim.Migrate(t.Context(), db, d, table(), nil))
	_, err = db.Exec("INSERT INTO notify (id, recipient) VALUES (1, 'ann')")
	require.NoError(t, err)
	c, err := claim.NewAtomic[mail](t.Context(), db, d, table(), nil)
	require.NoError(t, err)
	return c.Alive
}

// Rows of keys that are over are deleted now and then, and those of others stay.
func TestOldRowsOfTheTableAreDeleted(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			at := d.open(t)
			db := at.Open(t, d.driver, d.params...)
			require.NoError(t, sqlunique.Migrate(t.Context(), db.DB, d.dialect, nil))
			s := d.store(t, at, nil)
			for i := range 30 {
				_, err := s.Mark(t.Context(), fmt.Sprint("over ", i), unique.Owner{Row: "1", ID: "x"}, time.Hour)
				require.NoError(t, err)
			}
			// As if two hours had passed.
			_, err := db.Exec("UPDATE sendonce_unique SET marked = marked - 7200000000, expires = expires - 7200000000")
			require.NoError(t, err)
			_, err = s.Mark(t.Context(), "stays", unique.Owner{Row: "2", ID: "x"}, time.Hour)
			require.NoError(t, err)
			for range 400 {
				_, err := s.Look(t.Context(), "stays")
				require.NoError(t, err)
			}
			var names []string
			require.NoError(t, db.Select(&names, "SELECT name FROM sendonce_unique"))
			assert.Equal(t, []string{"stays"}, names)
		})
	}
}

// A table that can't hold keys is refused, with all that is wrong and the cure.
func TestTableIsChecked(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			at := d.open(t)
			db := at.Open(t, d.driver, d.params...)
			_, err := sqlunique.New(t.Context(), db.DB, d.dialect, nil)
			require.ErrorContains(t, err, "it does not exist")
			require.True(t, sendonce.IsFatal(err))
			_, err = db.Exec("CREATE TABLE other (name varchar(100), holder integer, id text)")
			require.NoError(t, err)
			_, err = sqlunique.New(t.Context(), db.DB, d.dialect, &sqlunique.Options{Table: "other"})
			for _, want := range []string{"no column marked", "not unique by itself", "column holder is", "CREATE TABLE"} {
				require.ErrorContains(t, err, want)
			}
			_, err = sqlunique.New(t.Context(), db.DB, 0, nil)
			require.ErrorContains(t, err, "Dialect(0)")
			_, err = sqlunique.New(t.Context(), nil, d.dialect, nil)
			require.ErrorContains(t, err, "nil")
		})
	}
	for _, d := range []sqlunique.Dialect{sqlunique.Postgres, sqlunique.MySQL, sqlunique.SQLite} {
		texts, err := sqlunique.Schema(d, &sqlunique.Options{Table: "app.keys"})
		require.NoError(t, err)
		require.Contains(t, texts[0], "app")
	}
}
