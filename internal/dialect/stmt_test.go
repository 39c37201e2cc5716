package dialect

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var everyDialect = []Dialect{Postgres, MySQL, SQLite}

// hostile are texts that break out of a careless quotation.
var hostile = []string{
	"", "plain", `"`, `""`, "`", "``", "'", "''", `\`, `\\`, `\'`, `\"`, "a'; DROP TABLE x; --", `a"; DROP TABLE x; --`, "a`; DROP TABLE x; --",
	"new\nline", "tab\t", "nul\x00byte", "größe", "日本語", "🙂", "‘’", "\u02bc", "$1", "?", "??", ":name", "::", "/*", "*/", "--", "#", "%s", "\xff\xfe", "\u2028", "$$", "E'",
}

// closes says where the quotation that a text begins with ends, by the rules of
// the database itself.
func closes(text string, quote byte, backslash bool) int {
	for i := 1; i < len(text); i++ {
		switch {
		case backslash && text[i] == '\\':
			i++
		case text[i] == quote && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i
		}
	}
	return -1
}

func checkIdent(t *testing.T, d Dialect, s string) {
	t.Helper()
	q := d.Quote(s)
	mark := q[0]
	require.Equal(t, len(q)-1, closes(q, mark, false), "%s: %q ends where it should", d.Name(), q)
	assert.Equal(t, s, strings.ReplaceAll(q[1:len(q)-1], string([]byte{mark, mark}), string([]byte{mark})))
	text, args := d.Compile("SELECT " + q + " FROM t WHERE x = :x").Bind(Args{"x": int64(1)})
	assert.True(t, strings.HasPrefix(text, "SELECT "+q+" FROM"), "nothing in a name is an argument: %s", text)
	assert.LessOrEqual(t, len(args), 1)
}

func FuzzQuote(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range everyDialect {
			checkIdent(t, d, s)
		}
	})
}

func checkText(t *testing.T, d Dialect, s string) {
	t.Helper()
	q := d.Text(s)
	text, args := d.Compile("SELECT " + q + ", :x").Bind(Args{"x": int64(1)})
	assert.True(t, strings.HasPrefix(text, "SELECT "+q+", "), "nothing in a text is an argument: %s", text)
	assert.LessOrEqual(t, len(args), 1)
	switch {
	case strings.HasPrefix(q, "_utf8mb4 X'"):
		assert.Regexp(t, "^_utf8mb4 X'([0-9a-f]{2})*'$", q)
	case strings.HasPrefix(q, "E'"):
		require.Equal(t, len(q)-2, closes(q[1:], '\'', true), q)
		assert.Equal(t, s, strings.NewReplacer(`\\`, `\`, `''`, `'`).Replace(q[2:len(q)-1]))
	default:
		// Here a backslash must mean nothing, whatever the settings.
		require.Equal(t, len(q)-1, closes(q, '\'', false), q)
		assert.Equal(t, s, strings.ReplaceAll(q[1:len(q)-1], "''", "'"))
		if d != SQLite { // which knows no backslashes
			require.Equal(t, len(q)-1, closes(q, '\'', true), q)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range everyDialect {
			checkText(t, d, s)
		}
	})
}

// What the claims table holds comes back as it was, whatever the keys.
func FuzzJSONKeys(f *testing.F) {
	for i, s := range hostile {
		f.Add(s, int64(i)*math.MaxInt64/3, uint64(math.MaxUint64)-uint64(i))
	}
	f.Fuzz(func(t *testing.T, s string, i int64, u uint64) {
		if !utf8.ValidString(s) {
			return // no column of text holds that
		}
		for _, x := range []struct {
			kind KeyKind
			keys Keys
		}{{KeyInt, Keys{i, -i, int64(0)}}, {KeyUint, Keys{u, uint64(0)}}, {KeyText, Keys{s, "", s + s}}, {KeyUUID, Keys{s}}, {KeyInt, Keys{}}} {
			text := JSONKeys(x.keys)
			require.True(t, json.Valid([]byte(text)), text)
			got, err := ParseKeys(text, x.kind)
			require.NoError(t, err)
			require.Equal(t, x.keys, got)
		}
	})
}

func TestParseKeysOfOthers(t *testing.T) {
	ks, err := ParseKeys(`[1, 9007199254740993, -9223372036854775808]`, KeyInt) // as PostgreSQL writes them
	require.NoError(t, err)
	assert.Equal(t, Keys{int64(1), int64(9007199254740993), int64(math.MinInt64)}, ks)
	ks, err = ParseKeys(`[18446744073709551615]`, KeyUint)
	require.NoError(t, err)
	assert.Equal(t, Keys{uint64(math.MaxUint64)}, ks)
	for _, bad := range []string{"", "{}", "[1.5]", "[true]", "[null]", "[[1]]", "[18446744073709551615]", "[1"} {
		_, err := ParseKeys(bad, KeyInt)
		require.ErrorContains(t, err, "sendonce: the keys of a claim", bad)
	}
}

func TestPostgresArrays(t *testing.T) {
	for _, x := range []struct {
		keys Keys
		want string
	}{
		{Keys{}, `{}`},
		{Keys{int64(1), int64(-2)}, `{1,-2}`},
		{Keys{"a", "", "NULL", `b"c\d`, "e,f", "{g}", " h "}, `{"a","","NULL","b\"c\\d","e,f","{g}"," h "}`},
	} {
		text, args := Postgres.Compile("SELECT :keys::text").Bind(Args{"keys": x.keys})
		assert.Equal(t, "SELECT $1::text", text)
		assert.Equal(t, []any{x.want}, args)
	}
}

func TestBind(t *testing.T) {
	args := Args{
		"keys": Keys{int64(1), int64(2)}, "tokens": Tokens{7, 8}, "pairs": Pairs{Keys{"a'", "b"}, Tokens{7, 8}},
		"s": `it's \`, "n": int64(5), "u": uint64(math.MaxUint64), "nil": nil, "b": true, "u0": "user's", "u1": 3.5,
	}
	for _, x := range []struct {
		text     string
		pg, lite string
		bound    int // arguments of the two above
		my       string
		myArgs   []any
	}{
		{"a = :n AND b = :s AND c = :n", "a = $1 AND b = $2 AND c = $1", "a = ? AND b = ? AND c = ?", 2, "a = 5 AND b = _utf8mb4 X'69742773205c' AND c = 5", nil},
		{"k IN (:keys) OR t IN (:tokens)", "k IN ($1) OR t IN ($2)", "k IN (?) OR t IN (?)", 2, "k IN (1,2) OR t IN (7,8)", nil},
		{"(k, t) IN (:pairs)", "(k, t) IN ($1)", "(k, t) IN (?)", 1, "(k, t) IN ((_utf8mb4 X'6127',7),('b',8))", nil},
		{"x = :u0 AND y = :u1 AND z = :n", "x = $1 AND y = $2 AND z = $3", "x = ? AND y = ? AND z = ?", 3, "x = ? AND y = ? AND z = 5", []any{"user's", 3.5}},
		{"x::int = ':n' AND \":n\" = `:n`", "x::int = ':n' AND \":n\" = `:n`", "x::int = ':n' AND \":n\" = `:n`", 0, "x::int = ':n' AND \":n\" = `:n`", nil},
		{"'it''s :n' = :n", "'it''s :n' = $1", "'it''s :n' = ?", 1, "'it''s :n' = 5", nil},
		{":u :nil :b", "$1 $2 $3", "? ? ?", 3, "18446744073709551615 NULL true", nil},
		{"a[1:2] = : n", "a[1:2] = : n", "a[1:2] = : n", 0, "a[1:2] = : n", nil},
		{"x = ':n", "x = ':n", "x = ':n", 0, "x = ':n", nil},
	} {
		text, _ := Postgres.Compile(x.text).Bind(args)
		assert.Equal(t, x.pg, text)
		text, bound := SQLite.Compile(x.text).Bind(args)
		assert.Equal(t, x.lite, text)
		assert.Len(t, bound, strings.Count(x.lite, "?"))
		text, bound = MySQL.Compile(x.text).Bind(args)
		assert.Equal(t, x.my, text)
		assert.Equal(t, x.myArgs, bound)
		assert.Equal(t, x.text, MySQL.Compile(x.text).Text())
	}
	assert.PanicsWithValue(t, `sendonce: no argument "x" for: SELECT :x`, func() { Postgres.Compile("SELECT :x").Bind(Args{}) })
}

func TestSQLitePairs(t *testing.T) {
	_, args := SQLite.Compile(":pairs").Bind(Args{"pairs": Pairs{Keys{int64(1), "a\"\n"}, Tokens{7, 8}}})
	assert.Equal(t, []any{"[[1,7],[\"a\\\"\\u000a\",8]]"}, args)
}

func TestCondition(t *testing.T) {
	for _, x := range []struct {
		cond      string
		backslash bool
		want      string
		n         int
	}{
		{"a = ? AND b = ?", false, "a = :u2 AND b = :u3", 2},
		{"a ?? 'x' AND b = ?", false, "a ? 'x' AND b = :u2", 1},
		{"a = '?' AND \"?\" = `?` AND b = ?", false, "a = '?' AND \"?\" = `?` AND b = :u2", 1},
		{`a = 'it\'s ?' AND b = ?`, true, `a = 'it\'s ?' AND b = :u2`, 1},
		{`a = '\' AND b = ?`, false, `a = '\' AND b = :u2`, 1},
		{"a = 'open ?", false, "a = 'open ?", 0},
		{"", false, "", 0},
		{"a=?and b=?or c", false, "a=:u2 and b=:u3 or c", 2},
		{"a :?", false, "a : :u2", 1},
	} {
		text, n := Condition(x.cond, x.backslash, 2)
		assert.Equal(t, x.want, text)
		assert.Equal(t, x.n, n)
	}
	assert.True(t, isUserArg(UserArg(0)))
	assert.True(t, isUserArg(UserArg(12)))
	for _, ours := range []string{"until", "u", "uuid", "keys", "x0"} {
		assert.False(t, isUserArg(ours))
	}
}

func TestFlaw(t *testing.T) {
	for _, x := range []struct {
		text      string
		backslash bool
		want      string
	}{
		{"a = ? AND b::int = 1", false, ""},
		{"a = 'it''s :x' AND \":y\" = `:z`", false, ""},
		{`a = 'it\'s :x'`, true, ""},
		{`a = '\'`, false, ""},
		{"", false, ""},
		{`a = '\'`, true, "no end"},
		{"a = 'x", false, "no end"},
		{"a = 'x''", false, "no end"},
		{"a = '", false, "no end"},
		{"a = 1 -- don't", false, "leave quotes out"},
		{"a = :b", false, `":b": write ?`},
		{"a[1:n]", false, `":n"`},
		{"a[1: n]", false, ""},
	} {
		got := Flaw(x.text, x.backslash)
		if x.want == "" {
			assert.Empty(t, got, x.text)
		}
		assert.Contains(t, got, x.want, x.text)
	}
}

// A condition without a flaw swallows nothing that stands around it.
func FuzzCondition(f *testing.F) {
	for _, s := range hostile {
		f.Add("a = ? AND b = " + s)
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cond string) {
		for _, d := range everyDialect {
			backslash := d == MySQL
			if Flaw(cond, backslash) != "" {
				continue
			}
			text, n := Condition(cond, backslash, 0)
			args := Args{"before": int64(11), "after": int64(22)}
			for i := range n {
				args[UserArg(i)] = "user's"
			}
			sql, bound := d.Compile("SELECT :before WHERE (" + text + "\n) AND :after").Bind(args)
			switch d {
			case Postgres:
				require.True(t, strings.HasSuffix(sql, "\n) AND $"+strconv.Itoa(n+2)), sql)
				require.Len(t, bound, n+2)
			case MySQL:
				require.True(t, strings.HasSuffix(sql, "\n) AND 22"), sql)
				require.Len(t, bound, n)
			default:
				require.True(t, strings.HasSuffix(sql, "\n) AND ?"), sql)
				require.Equal(t, int64(22), bound[n+1])
			}
		}
	})
}
