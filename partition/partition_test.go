package partition

import (
	"crypto/md5"
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFault19_EveryKeyHasOnePartition(t *testing.T) {
	var keys []any
	for i := int64(-7); i <= 8; i++ {
		keys = append(keys, i)
	}
	for _, i := range []int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64, math.MaxInt64 - 1} {
		keys = append(keys, i)
	}
	for _, u := range []uint64{0, 1, 1 << 63, 1<<63 + 1, math.MaxUint64} {
		keys = append(keys, u)
	}
	for _, s := range []string{"", "a", "A", "0", "-7", "ä", "日本", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "\xff"} {
		keys = append(keys, s)
	}
	for _, n := range []int{1, 2, 3, 4, 7, 1000, MaxCount} {
		for _, key := range keys {
			k, err := Of(key, n)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, k, 0, "%v of %d", key, n)
			assert.Less(t, k, n, "%v of %d", key, n)
		}
	}
}

func TestIntIsTheRemainder(t *testing.T) {
	for key, want := range map[int64]int{-7: 1, -4: 0, -1: 3, 0: 0, 1: 1, 7: 3, 8: 0, math.MinInt64: 0, math.MaxInt64: 3} {
		assert.Equal(t, want, Int(key, 4), "%d", key)
	}
	assert.Equal(t, 3, Uint(math.MaxUint64, 4))
	assert.Equal(t, 2, Uint(1<<63, 3))
	for key := int64(0); key < 100; key++ {
		assert.Equal(t, Int(key, 7), Uint(uint64(key), 7))
	}
}

// Rows stay where they are when the library is updated.
func TestTextNeverChanges(t *testing.T) {
	for key, want := range map[string]int{"": 393, "a": 177, "1b4e28ba-2fa1-11d2-883f-0016d3cca427": 484, "日本": 462} {
		assert.Equal(t, want, Text(key, 1000), "%q", key)
		first, err := strconv.ParseUint(fmt.Sprintf("%x", md5.Sum([]byte(key)))[:8], 16, 32)
		require.NoError(t, err)
		assert.Equal(t, int(first%1000), Text(key, 1000))
	}
	counts := make([]int, 8)
	for i := range 8000 {
		counts[Text(fmt.Sprint("user-", i), 8)]++
	}
	for k, n := range counts {
		assert.InDelta(t, 1000, n, 150, "partition %d", k)
	}
}

func TestOfRefuses(t *testing.T) {
	for _, key := range []any{nil, 1, 1.5, true, []byte("a"), int32(3)} {
		_, err := Of(key, 4)
		assert.ErrorContains(t, err, fmt.Sprintf("%T", key))
	}
	for _, n := range []int{0, -1, MaxCount + 1} {
		_, err := Of(int64(1), n)
		assert.ErrorContains(t, err, fmt.Sprint(n))
		assert.Panics(t, func() { Int(1, n) })
		assert.Panics(t, func() { Uint(1, n) })
		assert.Panics(t, func() { Text("1", n) })
	}
}

func TestStatic(t *testing.T) {
	p, err := Static(2, 4)
	require.NoError(t, err)
	a, err := p.Assignment(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Assignment{Count: 4, Mine: []int{2}}, a)
	assert.True(t, a.Has(2))
	assert.False(t, a.Has(0))
	for _, bad := range [][2]int{{4, 4}, {-1, 4}, {0, 0}, {0, -1}, {0, MaxCount + 1}} {
		_, err := Static(bad[0], bad[1])
		assert.Error(t, err, "%v", bad)
	}
}

func TestValidate(t *testing.T) {
	assert.NoError(t, Assignment{Count: 4}.Validate())
	assert.NoError(t, Assignment{Count: 4, Mine: []int{0, 1, 3}}.Validate())
	for _, a := range []Assignment{{}, {Count: 4, Mine: []int{4}}, {Count: 4, Mine: []int{1, 1}}, {Count: 4, Mine: []int{2, 1}}, {Count: 4, Mine: []int{-1}}} {
		assert.Error(t, a.Validate(), "%v", a)
	}
}

func TestFromEnv(t *testing.T) {
	type env = map[string]string
	for _, c := range []struct {
		env  env
		host string
		want int    // the partition, of 4
		err  string // or what the error names
	}{
		{env: env{"WORKER_PARTITION": "2", "WORKER_COUNT": "4"}, host: "mailer-3", want: 2},
		{env: env{"WORKER_PARTITION": " 0\n", "WORKER_COUNT": " 4 "}, want: 0},
		{env: env{"WORKER_COUNT": "4"}, host: "mailer-3", want: 3},
		{env: env{"WORKER_PARTITION": "", "WORKER_COUNT": "4"}, host: "a-b-0.mailer.default.svc.cluster.local", want: 0},
		{env: env{"WORKER_PARTITION": "2"}, err: "WORKER_COUNT is not set"},
		{env: env{"WORKER_PARTITION": "2", "WORKER_COUNT": ""}, err: "WORKER_COUNT is not set"},
		{env: env{"WORKER_PARTITION": "4", "WORKER_COUNT": "4"}, err: `WORKER_PARTITION is "4"`},
		{env: env{"WORKER_PARTITION": "-1", "WORKER_COUNT": "4"}, err: `WORKER_PARTITION is "-1"`},
		{env: env{"WORKER_PARTITION": "two", "WORKER_COUNT": "4"}, err: `WORKER_PARTITION is "two"`},
		{env: env{"WORKER_PARTITION": "1.0", "WORKER_COUNT": "4"}, err: `WORKER_PARTITION is "1.0"`},
		{env: env{"WORKER_PARTITION": "1", "WORKER_COUNT": "four"}, err: `WORKER_COUNT is "four"`},
		{env: env{"WORKER_PARTITION": "1", "WORKER_COUNT": "0"}, err: `WORKER_COUNT is "0"`},
		{env: env{"WORKER_PARTITION": "1", "WORKER_COUNT": "-4"}, err: `WORKER_COUNT is "-4"`},
		{env: env{"WORKER_PARTITION": "1", "WORKER_COUNT": "99999999999999999999"}, err: `WORKER_COUNT is "99999999999999999999"`},
		{env: env{"WORKER_COUNT": "4"}, host: "mailer-4", err: `host's name "mailer-4"`},
		{env: env{"WORKER_COUNT": "4"}, host: "mailer", err: `host's name "mailer"`},
		{env: env{"WORKER_COUNT": "4"}, host: "mailer-", err: "WORKER_PARTITION is not set"},
		{env: env{"WORKER_COUNT": "4"}, host: "mailer-x3", err: "WORKER_PARTITION is not set"},
		{env: env{"WORKER_COUNT": "4"}, host: "mailer-03", err: "WORKER_PARTITION is not set"},
		{env: env{"WORKER_COUNT": "4"}, host: "mailer-+3", err: "WORKER_PARTITION is not set"},
		{env: env{"WORKER_COUNT": "4"}, host: "-3", err: "WORKER_PARTITION is not set"},
		{env: env{"WORKER_COUNT": "4"}, host: "?", err: "no name"},
	} {
		p, err := fromEnv(
			func(name string) (string, bool) { v, ok := c.env[name]; return v, ok },
			func() (string, error) {
				if c.host == "?" {
					return "", errors.New("no name")
				}
				return c.host, nil
			})
		if c.err != "" {
			assert.ErrorContains(t, err, c.err, "%v", c)
			continue
		}
		if assert.NoError(t, err, "%v", c) {
			a, err := p.Assignment(t.Context())
			require.NoError(t, err)
			assert.Equal(t, Assignment{Count: 4, Mine: []int{c.want}}, a, "%v", c)
		}
	}
}

func TestSQLRefuses(t *testing.T) {
	for _, f := range []func(string, Kind, int) (string, error){Postgres, MySQL, SQLite} {
		for _, n := range []int{0, -1, MaxCount + 1} {
			_, err := f(`"id"`, KindInt, n)
			assert.ErrorContains(t, err, fmt.Sprint(n))
		}
		_, err := f(" ", KindInt, 4)
		assert.ErrorContains(t, err, "column")
		_, err = f(`"id"`, 0, 4)
		assert.Error(t, err)
	}
	_, err := Postgres(`"id"`, KindUint, 4)
	assert.ErrorContains(t, err, "unsigned")
	_, err = SQLite(`"id"`, KindUint, 4)
	assert.ErrorContains(t, err, "unsigned")
	_, err = SQLite(`"id"`, KindText, 4)
	assert.ErrorContains(t, err, "MD5")
	_, err = SQLite(`"id"`, KindUUID, 4)
	assert.ErrorContains(t, err, "MD5")
}
