package mapping

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
)

// Keys of every kind are claimed, kept, marked, given back and requeued.
func TestKeyKinds(t *testing.T) {
	for _, x := range []struct {
		name, key string // the column's definition
		keys      []string
		first     any
		on        claim.Dialect // 0: all
	}{
		{"bigint", "bigint PRIMARY KEY", []string{"-9223372036854775808", "-1", "0", "9007199254740993", "9223372036854775807"}, int64(-1), 0},
		{"smallint", "smallint PRIMARY KEY", []string{"-5", "0", "32767"}, int64(0), 0},
		{"unsigned", "bigint unsigned PRIMARY KEY", []string{"0", "1", "9223372036854775808", "18446744073709551615"}, uint64(1), claim.MySQL},
		{"text", "varchar(60) PRIMARY KEY", []string{"'a'", "'B'", "'größe'", "'it''s'", "'x; --'", "'[1,2]'", "'{\"a\"}'", "''", "'NULL'", "'\"'"}, "a", 0},
		{"backslash", "varchar(60) PRIMARY KEY", []string{`'a\b'`, `'\'`}, `a\b`, claim.Postgres},
		{"padded", "char(10) PRIMARY KEY", []string{"'a'", "'ab'", "'abcdefghij'"}, nil, 0},
		{"uuid", "{uuid} PRIMARY KEY", []string{"'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-4fff-bfff-ffffffffffff'"}, "6ba7b810-9dad-11d1-80b4-00c04fd430c8", 0},
		{"native uuid", "uuid PRIMARY KEY", []string{"'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "'00000000-0000-0000-0000-000000000001'"}, "6ba7b810-9dad-11d1-80b4-00c04fd430c8", claim.MySQL},
		{"beside a business key", "varchar(20) NOT NULL UNIQUE, tenant int DEFAULT 1, no int DEFAULT 2, n {serialless}", []string{"'t1-7'", "'t1-8'"}, "t1-7", 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db target) {
				if x.on != 0 && x.on != db.d {
					t.Skip("not a type of this database")
				}
				tab := claim.Table{Name: "receivers"}
				db.ready(t, tab, "CREATE TABLE receivers (id "+strings.ReplaceAll(x.key, "n {serialless}", "extra int")+", address varchar(50) DEFAULT 'x')")
				for _, k := range x.keys {
					db.do(t, "INSERT INTO receivers (id) VALUES ("+k+")")
				}
				for name, c := range claimers[mail](t, db, tab) {
					b := take(t, c, 100)
					require.NotEmpty(t, b.Items, name)
					assert.Empty(t, settle(t, c, b, sendonce.Retry), name)
					require.NoError(t, c.End(t.Context(), []int64{b.Token}))
					got := drain(t, c, func(it sendonce.Item[mail]) error {
						if it.Attempt == 1 {
							return errors.New("not yet")
						}
						return nil
					})
					assert.Len(t, got.keys(), len(x.keys), name)
					if x.first != nil {
						assert.Contains(t, got.keys(), x.first, name)
					}
					counts, err := c.Counts(t.Context())
					require.NoError(t, err)
					assert.Equal(t, sendonce.Counts{Done: int64(len(x.keys))}, counts, name)
					db.do(t, "UPDATE receivers SET status = 4")
					for k := range got.keys() {
						n, err := c.Requeue(t.Context(), claim.Requeue{From: []sendonce.Outcome{sendonce.Dead}, Keys: []sendonce.Key{k}})
						require.NoError(t, err)
						assert.Equal(t, int64(1), n, "%s: %v", name, k)
					}
					db.do(t, "UPDATE receivers SET next_attempt = NULL")
				}
			})
		})
	}
}

// The claim of a vanished worker comes back whatever the key, by its entry in
// the claims table, and at last by the patrol alone.
func TestKeysComeBack(t *testing.T) {
	for _, key := range []string{"bigint", "varchar(30)", "char(12)", "{uuid}"} {
		t.Run(key, func(t *testing.T) {
			onEach(t, func(t *testing.T, db target) {
				tab := claim.Table{Name: "receivers"}
				db.ready(t, tab, "CREATE TABLE receivers (id "+key+" PRIMARY KEY, address varchar(50) DEFAULT 'x')")
				value := map[bool]string{true: "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", false: "'77'"}[key == "{uuid}"]
				db.do(t, "INSERT INTO receivers (id) VALUES ("+value+")")
				c := claimers[mail](t, db, tab)["atomic"]
				claimShort := func() {
					b, err := c.Claim(t.Context(), sendonce.ClaimRequest{Limit: 1, Lease: 30 * time.Millisecond, MaxAttempts: 50})
					require.NoError(t, err)
					require.Len(t, b.Items, 1)
				}
				back := func() {
					for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
						_, err := c.Reap(t.Context(), sendonce.ReapRequest{MaxAttempts: 50, ClockOnly: true})
						require.NoError(t, err)
						if db.column(t, "SELECT status FROM receivers")[0] == "0" {
							return
						}
					}
					t.Fatal("the row did not come back")
				}
				claimShort()
				back()
				claimShort()
				db.do(t, "DELETE FROM sendonce_claims")
				back()
			})
		})
	}
}

// Only rows that meet Where are claimed, also when they come back.
func TestWhere(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{
			Name: "receivers", Where: "campaign = ? AND name <> 'who?' AND due_day <= ? -- only this one",
			Args: []any{`it's "7"\`, time.Date(2025, 5, 1, 12, 0, 0, 0, time.UTC)},
		}
		if db.d == claim.SQLite {
			tab.Args[1] = "2025-05-01 12:00:00"
		}
		db.ready(t, tab, "CREATE TABLE receivers (id {serial}, address varchar(50), name varchar(50) DEFAULT 'x', campaign varchar(50), due_day {time})")
		seven := `'it''s "7"\'`
		if db.d == claim.MySQL {
			seven = `'it''s "7"\\'`
		}
		db.do(t, "INSERT INTO receivers (address, name, campaign, due_day) VALUES ('yes', 'x', "+seven+", '2025-04-01 00:00:00'), ('no', 'who?', "+seven+", '2025-04-01 00:00:00'), ('no', 'x', '8', '2025-04-01 00:00:00'), ('no', 'x', "+seven+", '2025-06-01 00:00:00')")
		for _, c := range claimers[mail](t, db, tab) {
			got := drain(t, c, func(it sendonce.Item[mail]) error {
				assert.Equal(t, "yes", it.Value.Address)
				if it.Attempt == 1 {
					return errors.New("once more")
				}
				return sendonce.Permanent(errors.New("no"))
			})
			assert.Equal(t, map[any]int{int64(1): 2}, got.keys())
			counts, err := c.Counts(t.Context())
			require.NoError(t, err)
			assert.Equal(t, sendonce.Counts{Dead: 1}, counts, "rows that don't meet Where are not counted")
			db.do(t, "UPDATE receivers SET status = 4, next_attempt = NULL")
			n, err := c.Requeue(t.Context(), claim.Requeue{From: []sendonce.Outcome{sendonce.Dead}, Where: "id < ?", Args: []any{100}})
			require.NoError(t, err)
			assert.Equal(t, int64(1), n, "Table.Where holds for a requeue as well")
			db.do(t, "UPDATE receivers SET status = 0, next_attempt = NULL")
		}
	})
}

func TestOrder(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers", Order: "prio DESC, id -- the largest first"}
		db.ready(t, tab, "CREATE TABLE receivers (id {serial}, address varchar(50), prio int)")
		for i := range 30 {
			db.do(t, fmt.Sprintf("INSERT INTO receivers (address, prio) VALUES ('x', %d)", i%3))
		}
		for name, c := range claimers[mail](t, db, tab) {
			var keys []int
			for len(keys) < 30 {
				b := take(t, c, 7)
				require.NotEmpty(t, b.Items, name)
				for _, it := range b.Items {
					keys = append(keys, int(it.Key.(int64)))
				}
				require.Empty(t, settle(t, c, b, sendonce.Done))
			}
			assert.True(t, sort.SliceIsSorted(keys, func(i, j int) bool {
				a, b := (keys[i]-1)%3, (keys[j]-1)%3
				return a > b || a == b && keys[i] < keys[j]
			}), "%s: %v", name, keys)
			db.do(t, "UPDATE receivers SET status = 0, token = 0")
		}
	})
}

type strict struct {
	Address string    `db:"address"`
	Age     int       `db:"age"`
	Born    time.Time `db:"born"`
	Note    *string   `db:"note"`
}

// A row that doesn't fit into T is dead with the reason; its neighbours are sent,
// and a worker that starts later isn't kept from starting by it.
func TestRowsThatDoNotFit(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers", Columns: claim.Columns{LastError: "last_error"}}
		db.ready(t, tab, "CREATE TABLE receivers (id {serial}, address varchar(50), age int, born {time}, note varchar(50))")
		for range 8 {
			db.do(t, "INSERT INTO receivers (address, age, born) VALUES ('bad', NULL, '2000-01-02 03:04:05')")
		}
		db.do(t, "INSERT INTO receivers (address, age, born) VALUES ('good', 5, '2000-01-02 03:04:05')", "INSERT INTO receivers (address, age, born) VALUES (NULL, 5, '2000-01-02 03:04:05')")
		for name, c := range claimers[strict](t, db, tab) {
			got := drain(t, c, nil)
			require.Equal(t, map[any]int{int64(9): 1}, got.keys(), name)
			v := got.items[0].Value
			assert.Equal(t, []any{"good", 5, 2000, (*string)(nil)}, []any{v.Address, v.Age, v.Born.Year(), v.Note})
			counts, err := c.Counts(t.Context())
			require.NoError(t, err)
			assert.Equal(t, sendonce.Counts{Done: 1, Dead: 9}, counts, name)
			for _, why := range db.column(t, "SELECT last_error FROM receivers WHERE status = 4") {
				assert.Contains(t, why, "does not fit into")
			}
			db.do(t, "UPDATE receivers SET status = 0, token = 0, attempts = 0")
		}
	})
}

// A field that can hold no row at all is found before all rows are dead for it.
func TestFieldOfTheWrongType(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers"}
		db.ready(t, tab, receivers, "INSERT INTO receivers (address) VALUES ('a'), ('b')")
		_, err := claim.NewAtomic[struct {
			Address time.Time `db:"address"`
		}](t.Context(), db.DB, db.d, tab, nil)
		require.ErrorContains(t, err, "does not fit into")
		_, err = claim.NewAtomic[struct {
			Adress string `db:"adress"`
		}](t.Context(), db.DB, db.d, tab, nil)
		require.ErrorContains(t, err, `column "adress"`)
	})
}

// A status of the application's own is left alone, also in the middle of a send,
// whatever the outcome.
func TestForeignStates(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers", States: claim.StringStates, Columns: claim.Columns{DoneAt: "done_at", LastError: "last_error"}}
		db.ready(t, tab, receivers)
		for range 6 {
			db.do(t, "INSERT INTO receivers (address) VALUES ('x')")
		}
		db.do(t, "INSERT INTO receivers (address, status) VALUES ('x', 'cancelled')")
		for name, c := range claimers[mail](t, db, tab) {
			for _, o := range []sendonce.Outcome{sendonce.Done, sendonce.Retry, sendonce.Released, sendonce.Dead, sendonce.Skipped, sendonce.Unknown} {
				b := take(t, c, 1)
				require.Len(t, b.Items, 1, name)
				before := "UPDATE receivers SET status = 'cancelled' WHERE id = " + fmt.Sprint(b.Items[0].Key)
				db.do(t, before)
				es := settle(t, c, b, o)
				require.Len(t, es, 1)
				assert.Equal(t, []any{sendonce.Foreign, "cancelled"}, []any{es[0].Cause, es[0].Status}, "%s %s", name, o)
				require.NoError(t, c.End(t.Context(), []int64{b.Token}))
			}
			assert.Empty(t, take(t, c, 100).Items)
			n, err := c.Requeue(t.Context(), claim.Requeue{From: []sendonce.Outcome{sendonce.Dead, sendonce.Unknown, sendonce.Skipped}})
			require.NoError(t, err)
			assert.Zero(t, n)
			counts, err := c.Counts(t.Context())
			require.NoError(t, err)
			assert.Equal(t, sendonce.Counts{Other: 7}, counts)
			assert.Equal(t, []string{"7"}, db.column(t, "SELECT COUNT(*) FROM receivers WHERE done_at IS NULL AND last_error IS NULL"))
			db.do(t, "UPDATE receivers SET status = 'pending', token = 0, next_attempt = NULL WHERE id < 7")
		}
	})
}

// Outbox tables: rows are gone when they are done, and only then.
func TestDeleteDone(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers", DeleteDone: true}
		db.ready(t, tab, receivers)
		for name, c := range claimers[mail](t, db, tab) {
			db.do(t, "DELETE FROM receivers", "INSERT INTO receivers (address) VALUES ('ok'), ('bad'), ('ok'), ('skip')")
			drain(t, c, func(it sendonce.Item[mail]) error {
				switch it.Value.Address {
				case "bad":
					return sendonce.Permanent(errors.New("no"))
				case "skip":
					return sendonce.Skip("twice")
				}
				return nil
			})
			counts, err := c.Counts(t.Context())
			require.NoError(t, err)
			assert.Equal(t, sendonce.Counts{Dead: 1, Skipped: 1}, counts, name)
			n, err := c.Requeue(t.Context(), claim.Requeue{From: []sendonce.Outcome{sendonce.Dead}})
			require.NoError(t, err)
			assert.Equal(t, int64(1), n)
			b := take(t, c, 1)
			require.Len(t, b.Items, 1)
			assert.Empty(t, settle(t, c, b, sendonce.Done))
			assert.Empty(t, settle(t, c, b, sendonce.Done), "a repeated mark of a row that is gone is no news")
			require.NoError(t, c.End(t.Context(), []int64{b.Token}))
		}
	})
}
