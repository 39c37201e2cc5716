package strategies

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/partition"
)

// oddKeys are keys that are not small positive integers, by the column's type.
func oddKeys() map[string][]sendonce.Key {
	var ints, uints, uuids, texts []sendonce.Key
	for i := int64(-7); i <= 8; i++ {
		ints = append(ints, i)
	}
	ints = append(ints, int64(math.MinInt64), int64(math.MinInt64+1), int64(math.MaxInt64-1), int64(math.MaxInt64))
	for _, u := range []uint64{0, 1, math.MaxInt64, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64} {
		uints = append(uints, u)
	}
	for i := range 12 {
		uuids = append(uuids, fmt.Sprintf("%08x-2fa1-41d2-883f-0016d3cca4%02x", uint32(i)*2654435761, i))
		texts = append(texts, fmt.Sprint("user-", i))
	}
	texts = append(texts, "", "a", "0", "-7", "12abc", "ä", "日本", "👍", `a\b`, "%", "a b")
	return map[string][]sendonce.Key{
		"bigint": ints, "bigint unsigned": uints, "uuid": uuids, "text": texts,
		"varchar(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin": texts,
	}
}

// kindsOf are the types that a key may have.
var kindsOf = map[claim.Dialect][]string{
	claim.Postgres: {"bigint", "uuid", "text"},
	claim.MySQL:    {"bigint", "bigint unsigned", "uuid", "varchar(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"},
	claim.SQLite:   {"bigint", "text"},
}

// docs/faults.md, 19: every row is handed out once by workers that own a third of
// the partitions each, whatever its key; or the constructor refuses the type.
func TestFault19_OddKeys(t *testing.T) {
	for _, d := range combo.Databases() {
		for _, s := range d.Strategies() {
			for _, kind := range kindsOf[d.Dialect] {
				if s != combo.Atomic && s != combo.Partitioned && kind != "bigint" {
					continue // the kind of lock has nothing to do with that of the key
				}
				t.Run(d.Name+"/"+string(s)+"/"+kind, func(t *testing.T) {
					tb := combo.Combo{Strategy: s, Database: d, Key: kind}.Start(t).Table(t, 0)
					tb.Keys = oddKeys()[kind]
					tb.Insert(t, tb.Keys...)
					if s == combo.Partitioned && d.Dialect == claim.SQLite && kind == "text" {
						refusesText(t, tb)
						return
					}
					var claimers []combo.Claimer
					for i := range 3 {
						spec := tb.Spec()
						spec.Partitions = combo.Share(i, 3)
						c, _ := spec.Open(t)
						claimers = append(claimers, c)
					}
					first := func(key sendonce.Key) bool { return oneInTwenty(key) }
					exactlyOnce(t, tb, drain(t, once, claimers...), first)
				})
			}
		}
	}
}

func refusesText(t *testing.T, tb *combo.Table) {
	l, err := tb.Spec().Dial()
	require.NoError(t, err)
	t.Cleanup(l.Close)
	_, err = tb.Spec().Claimer(t.Context(), l)
	require.ErrorContains(t, err, "SQLite")
	require.ErrorContains(t, err, `"id"`)
}

// docs/faults.md, 19: each worker gets the rows of its own partitions, all of them,
// and no other: the SQL divides as Go does.
func TestFault19_EachGetsItsOwn(t *testing.T) {
	for _, d := range combo.Databases() {
		for _, kind := range kindsOf[d.Dialect] {
			if d.Dialect == claim.SQLite && kind == "text" {
				continue
			}
			t.Run(d.Name+"/"+kind, func(t *testing.T) {
				tb := combo.Combo{Strategy: combo.Partitioned, Database: d, Key: kind}.Start(t).Table(t, 0)
				tb.Keys = oddKeys()[kind]
				tb.Insert(t, tb.Keys...)
				for i := range 3 {
					spec := tb.Spec()
					spec.Partitions = combo.Share(i, 3)
					c, _ := spec.Open(t)
					var got, want []sendonce.Key
					for more := true; more; {
						b, err := c.Claim(t.Context(), ask())
						require.NoError(t, err)
						for _, item := range b.Items {
							got = append(got, item.Key)
						}
						more = b.More || len(b.Items) > 0
					}
					for _, key := range tb.Keys {
						k, err := partition.Of(key, spec.Partitions.Count)
						require.NoError(t, err)
						if spec.Partitions.Has(k) {
							want = append(want, key)
						}
					}
					assert.ElementsMatch(t, want, got, "worker %d", i)
				}
			})
		}
	}
}
