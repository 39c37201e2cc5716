package claim

import (
	"database/sql"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

type base struct {
	Address string `db:"address"`
	Name    string `db:"name"`
}

type Base struct {
	Address string `db:"address"`
}

func shapeOf[T any](t *testing.T) (*shape[T], error) {
	t.Helper()
	return newShape[T](mapped(t, Postgres, Table{Name: "receivers"}, nil))
}

func TestShapes(t *testing.T) {
	s, err := shapeOf[struct {
		Name    string  `db:"name,omitempty"`
		Address *string `db:"address"`
		Ignored string  `db:"-"`
		Plain   string
		address string //nolint:unused // one without a tag is nobody's business
	}](t)
	require.NoError(t, err)
	assert.Equal(t, []string{"address", "name"}, s.columns, "in the order of their names, whatever the order of the fields")
	assert.Equal(t, [][]int{{1}, {0}}, s.index)
	assert.Equal(t, `"id" AS c0, "attempts" AS c1, "address" AS c2, "name" AS c3`, s.list())
	assert.Equal(t, 2, s.firstColumn())

	e, err := shapeOf[struct {
		base
		*Base
		Name string `db:"name"`
	}](t)
	require.ErrorContains(t, err, "both have the tag")
	assert.Nil(t, e)

	outer, err := shapeOf[struct {
		base
		Name string `db:"name"`
	}](t)
	require.NoError(t, err)
	assert.Equal(t, [][]int{{0, 0}, {1}}, outer.index, "the outer field hides the embedded one")

	pointer, err := shapeOf[struct{ *Base }](t)
	require.NoError(t, err)
	assert.Equal(t, []string{"address"}, pointer.columns)

	// A field without a tag does not hide a column of its name.
	n := mapped(t, Postgres, Table{Name: "receivers"}, liveTable(dialect.Postgres, dialect.KindInt, "Name"))
	hidden, err := newShape[struct {
		Name string
		N    string `db:"Name"`
	}](n)
	require.NoError(t, err)
	assert.Equal(t, [][]int{{1}}, hidden.index)

	gen, err := newShape[base](mapped(t, Postgres, fullTable, nil))
	require.NoError(t, err)
	assert.Equal(t, `"id" AS c0, "attempts" AS c1, "generation" AS c2, `+
		`(extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5`, gen.list())
	assert.Equal(t, 4, gen.firstColumn())
}

func TestBadShapes(t *testing.T) {
	says := func(err error, parts ...string) {
		t.Helper()
		require.Error(t, err)
		for _, p := range parts {
			assert.Contains(t, err.Error(), p)
		}
	}
	_, err := shapeOf[string](t)
	says(err, "string", "no struct")
	_, err = shapeOf[*base](t)
	says(err, "no struct")
	_, err = shapeOf[struct{}](t)
	says(err, "`db` tag")
	_, err = shapeOf[struct{ Address string }](t)
	says(err, "`db` tag", `db:"address"`)
	_, err = shapeOf[struct {
		Address string `db:"address"`
		name    string `db:"name"` //nolint:unused // the mistake that is tested
	}](t)
	says(err, "name", "not exported")
	_, err = shapeOf[struct {
		A string `db:"name"`
		B string `db:"name"`
	}](t)
	says(err, "A and B", "name")
	_, err = shapeOf[struct{ *base }](t)
	says(err, "embeds a pointer", "base")
	_, err = shapeOf[struct {
		A string `db:"adress"`
	}](t)
	says(err, `"adress"`, "remove the tag, or add the column")
	_, err = shapeOf[struct {
		A string `db:"Address"`
	}](t)
	says(err, `"Address"`, `there is "address"`)
}

// These keys were handed to providers: they must never change.
func TestIdempotencyKeysAreStable(t *testing.T) {
	for _, x := range []struct {
		namespace  string
		key        sendonce.Key
		generation int64
		want       string
	}{
		{"receivers", int64(1), 0, "5c87b7669397771d6bcf4aae70a5a349"},
		{"receivers", uint64(1), 0, "5c87b7669397771d6bcf4aae70a5a349"},
		{"receivers", "1", 0, "5c87b7669397771d6bcf4aae70a5a349"},
		{"receivers", int64(1), 1, "7854a4c20da049ca3acbb1e349947850"},
		{"receivers", int64(math.MinInt64), 0, "cd64c0497fb426cc6d550797bacaf4d3"},
		{"receivers", uint64(math.MaxUint64), 0, "e9607211fd1672493969b74eacc058b1"},
		{"receivers", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", 0, "d0faba2d54a97a7112951fad65a149b0"},
		{"app.receivers", int64(1), 0, "8cfe02e8aa47fc29207185ee99b9ce90"},
		{"", "", 0, "b7253e58e2d26fc2ceb4d2e9353b212c"},
		{"größe", "ключ\n", 7, "60768e8f0c89b20a75a5c1fc0b4f2a4b"},
	} {
		ids := newIdempotency(x.namespace)
		got := ids.key(x.key, x.generation)
		assert.Regexp(t, "^[0-9a-f]{32}$", got)
		assert.Equal(t, x.want, got, "%q %v %d", x.namespace, x.key, x.generation)
		_ = ids.key("something much longer than before, so that the buffer moves", 3)
		assert.Equal(t, got, ids.key(x.key, x.generation), "one key leaves nothing behind for the next")
	}
}

// No two of (namespace, key, generation) run together.
func TestIdempotencyKeysDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, namespace := range []string{"a", "a:", "a:0", "1:a", "", ":"} {
		for _, key := range []string{"", "1", ":1", "0:1", "1:1"} {
			for _, generation := range []int64{0, 1, 10} {
				ids := newIdempotency(namespace)
				k := ids.key(key, generation)
				assert.Empty(t, seen[k])
				seen[k] = namespace + "|" + key
			}
		}
	}
}

func TestKeys(t *testing.T) {
	ks := dialect.Keys{int64(5), int64(math.MinInt64), int64(math.MaxInt64), int64(0)}
	sortKeys(ks)
	assert.Equal(t, dialect.Keys{int64(math.MinInt64), int64(0), int64(5), int64(math.MaxInt64)}, ks)
	us := dialect.Keys{uint64(math.MaxUint64), uint64(1)}
	sortKeys(us)
	assert.Equal(t, dialect.Keys{uint64(1), uint64(math.MaxUint64)}, us)
	assert.Negative(t, compareKeys("a", "b"))
	assert.Zero(t, compareKeys("a", int64(1)), "no order, and no panic")

	seen := map[int64]bool{0: true}
	for range 1000 {
		token := newToken()
		assert.Positive(t, token)
		assert.False(t, seen[token])
		seen[token] = true
	}
	for kind, of := range map[dialect.KeyKind]map[sendonce.Key][]any{
		dialect.KeyInt:  {int64(300): {int64(300), "300", []byte("300"), uint64(300)}},
		dialect.KeyUint: {uint64(300): {int64(300), uint64(300), []byte("300")}, uint64(math.MaxUint64): {uint64(math.MaxUint64), []byte("18446744073709551615")}},
		dialect.KeyText: {"k": {"k", []byte("k")}},
		dialect.KeyUUID: {"k": {"k", []byte("k")}},
		dialect.KeyChar: {"k": {"k", []byte("k")}},
	} {
		cell := keyCell{kind: kind}
		for want, srcs := range of {
			for _, src := range srcs {
				require.NoError(t, cell.Scan(src))
				assert.Equal(t, want, cell.key)
			}
		}
		require.ErrorContains(t, cell.Scan(nil), "NULL")
	}
	cell := keyCell{kind: dialect.KeyInt}
	require.Error(t, cell.Scan("x"))
	assert.Equal(t, map[int64]dialect.Keys{1: {int64(2), int64(3)}, 2: {int64(1)}},
		byToken([]sendonce.Ref{{Key: int64(3), Token: 1}, {Key: int64(1), Token: 2}, {Key: int64(2), Token: 1}}))
	assert.Regexp(t, "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", randomUUID())
}

// An operator may give keys as they come to hand.
func TestKeysOfAnOperator(t *testing.T) {
	as := func(kind dialect.KeyKind, keys ...sendonce.Key) (dialect.Keys, error) {
		n := mapped(t, MySQL, Table{Name: "receivers"}, nil)
		n.keyKind = kind
		return newStore(nil, n).keysAs(keys)
	}
	ks, err := as(dialect.KeyInt, 3, int32(2), int64(1))
	require.NoError(t, err)
	assert.Equal(t, dialect.Keys{int64(1), int64(2), int64(3)}, ks)
	ks, err = as(dialect.KeyUint, 3, uint8(2), uint64(math.MaxUint64))
	require.NoError(t, err)
	assert.Equal(t, dialect.Keys{uint64(2), uint64(3), uint64(math.MaxUint64)}, ks)
	type id string
	ks, err = as(dialect.KeyText, "b", id("a"))
	require.NoError(t, err)
	assert.Equal(t, dialect.Keys{"a", "b"}, ks)
	for kind, bad := range map[dialect.KeyKind]sendonce.Key{dialect.KeyInt: "1", dialect.KeyUint: -1, dialect.KeyText: 1, dialect.KeyUUID: nil} {
		_, err := as(kind, bad)
		require.ErrorContains(t, err, "Requeue.Keys")
	}
}

func TestNoNulls(t *testing.T) {
	type when time.Time
	for want, types := range map[bool][]reflect.Type{
		true:  {reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[bool](), reflect.TypeFor[time.Time](), reflect.TypeFor[when]()},
		false: {reflect.TypeFor[*string](), reflect.TypeFor[[]byte](), reflect.TypeFor[any](), reflect.TypeFor[sql.NullString](), reflect.TypeFor[sql.Null[int]](), reflect.TypeFor[json.RawMessage]()},
	} {
		for _, typ := range types {
			assert.Equal(t, want, noNulls(typ), typ)
		}
	}
}
