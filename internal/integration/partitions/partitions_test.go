// Package partitions tests that package partition and real servers put every key
// into the same partition.
package partitions

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/partition"
)

func TestMain(m *testing.M) { servers.Main(m) }

func ints() (keys []any) {
	for i := int64(-7); i <= 8; i++ {
		keys = append(keys, i)
	}
	for _, i := range []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt64 + 2, math.MaxInt64 - 1, math.MaxInt64, -1 << 32, 1<<32 + 1} {
		keys = append(keys, i)
	}
	return keys
}

func uints() []any {
	return []any{uint64(0), uint64(1), uint64(math.MaxInt64), uint64(1 << 63), uint64(1<<63 + 1), uint64(1<<63 + 2), uint64(math.MaxUint64 - 1), uint64(math.MaxUint64)}
}

func uuids() (keys []any) {
	for i := range 64 {
		keys = append(keys, fmt.Sprintf("%08x-2fa1-11d2-883f-0016d3cca4%02x", uint32(i)*2654435761, i))
	}
	return append(keys, "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
}

func texts() (keys []any) {
	for i := range 64 {
		keys = append(keys, fmt.Sprint("user-", i))
	}
	return append(keys, "", "a", "A", "0", "-7", "12abc", "a b", "ä", "Ä", "ß", "€", "日本", "👍", "a\u0308", "it's", `a\b`, "%", strings.Repeat("日", 80))
}

// Every row is in one of the partitions, in the same as in Go, whether the
// expression is selected or compared.
func TestFault19_EqualInGoAndInSQL(t *testing.T) {
	type column struct {
		name, kind string
		of         partition.Kind
		keys       []any
	}
	bigint := column{"bigint", "bigint", partition.KindInt, ints()}
	small := column{"smallint", "smallint", partition.KindInt, ints()[:16]}
	text := column{"text", "varchar(255)", partition.KindText, texts()}
	latin := column{"latin1", "varchar(255) CHARACTER SET latin1", partition.KindText, []any{"ä", "ß", "a", "Ä é"}}
	for _, db := range []struct {
		name    string
		open    func(testing.TB) *servers.Database
		quote   string
		expr    func(string, partition.Kind, int) (string, error)
		columns []column
	}{
		{"Postgres", servers.Postgres, `"`, partition.Postgres, []column{bigint, small, text, {"text", "text", partition.KindText, texts()}, {"uuid", "uuid", partition.KindUUID, uuids()}}},
		{"MariaDB", servers.MariaDB, "`", partition.MySQL, []column{
			bigint, small,
			{"unsigned", "bigint unsigned", partition.KindUint, uints()},
			{"text", "varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", partition.KindText, texts()},
			latin,
			{"uuid", "uuid", partition.KindUUID, uuids()},
			{"uuid as text", "char(36)", partition.KindText, uuids()},
		}},
		{"SQLite", servers.SQLite, `"`, partition.SQLite, []column{bigint}},
	} {
		for i, c := range db.columns {
			t.Run(db.name+"/"+c.name, func(t *testing.T) {
				at := db.open(t)
				sql := at.Open(t, "")
				table, col := fmt.Sprint("keys", i), db.quote+"order"+db.quote
				sql.MustExec("CREATE TABLE " + table + " (n integer PRIMARY KEY, " + col + " " + c.kind + " NOT NULL)")
				for n, key := range c.keys {
					sql.MustExec(sql.Rebind("INSERT INTO "+table+" VALUES (?, ?)"), n, key)
				}
				for _, parts := range []int{1, 2, 3, 4, 7, 1000, partition.MaxCount} {
					expr, err := db.expr(col, c.of, parts)
					require.NoError(t, err)
					for n, key := range c.keys {
						want, err := partition.Of(key, parts)
						require.NoError(t, err)
						var got int
						require.NoError(t, sql.Get(&got, sql.Rebind("SELECT "+expr+" FROM "+table+" WHERE n = ?"), n))
						require.Equal(t, want, got, "%v of %d, by %s", key, parts, expr)
					}
					if parts > 10 {
						continue
					}
					total := 0
					for k := range parts {
						var rows int
						require.NoError(t, sql.Get(&rows, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s = %d", table, expr, k)))
						total += rows
					}
					require.Equal(t, len(c.keys), total, "rows in one of %d partitions", parts)
				}
			})
		}
	}
}

// On MySQL the expression can also stand in an UPDATE, where a text that is taken
// for a number is an error.
func TestFault19_UpdateByTextPartition(t *testing.T) {
	db := servers.MariaDB(t).Open(t, "")
	db.MustExec("CREATE TABLE k (id varchar(50) PRIMARY KEY, done int NOT NULL DEFAULT 0)")
	for i := range 40 {
		db.MustExec("INSERT INTO k (id) VALUES (?)", fmt.Sprintf("u%d", i))
	}
	expr, err := partition.MySQL("`id`", partition.KindText, 4)
	require.NoError(t, err)
	var updated int64
	for k := range 4 {
		result, err := db.Exec(fmt.Sprintf("UPDATE k SET done = done + 1 WHERE %s = %d", expr, k))
		require.NoError(t, err)
		n, err := result.RowsAffected()
		require.NoError(t, err)
		updated += n
	}
	require.EqualValues(t, 40, updated)
}
