package redisclaim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/kit"
)

func TestEscapeIsReversibleAndClean(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{"", "a", "a b", "{a}", "a|b", "%", "%41", "A", "\x00", "\xff", "\xc3", "é", "日本", "\u2028", "a}|{%7B"} {
		s := kit.Escape(key, "{}|")
		assert.NotContains(t, s, "|")
		assert.False(t, strings.ContainsAny(s, "{}\x00"), s)
		assert.Equal(t, key, unescape(s))
		if other, twice := seen[s]; twice {
			t.Errorf("%q and %q are both written as %q", key, other, s)
		}
		seen[s] = key
	}
}

func TestNewRefuses(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer client.Close()
	for name, c := range map[string]struct {
		client redis.UniversalClient
		queue  string
		o      *Options
		want   string
	}{
		"no client":       {nil, "q", nil, "nil"},
		"no name":         {client, "", nil, "name of a queue"},
		"a long name":     {client, strings.Repeat("q", 600), nil, "name of a queue"},
		"a brace":         {client, "q", &Options{Prefix: "{x}:"}, "brace"},
		"nobody is there": {client, "q", nil, "read the settings"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New[int](t.Context(), c.client, c.queue, c.o)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestStampsSortAsTheirTimes(t *testing.T) {
	last := ""
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(0, 1000), time.Unix(9, 0), time.Unix(10, 0), time.Date(2255, 1, 1, 0, 0, 0, 0, time.UTC)} {
		stamp, err := Item[int]{At: at}.check()
		require.NoError(t, err)
		assert.Len(t, stamp, 16)
		assert.Greater(t, stamp, last)
		last = stamp
	}
	for _, it := range []Item[int]{
		{At: time.Unix(-1, 0)},
		{At: time.Date(2256, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Key: strings.Repeat("k", 600)},
		{Unique: "u", UniqueFor: -1},
	} {
		_, err := it.check()
		assert.Error(t, err)
	}
}

func TestTakenErrorNamesTheItem(t *testing.T) {
	err := error(&TakenError{Unique: "u", ID: "0000000000000001", State: "claimed", Since: time.Unix(0, 0).UTC()})
	assert.EqualError(t, err, `sendonce: the unique key "u" is taken by item 0000000000000001, which is claimed since 1970-01-01T00:00:00Z`)
	assert.True(t, errors.Is(err, ErrTaken))
}

// The second witness (docs/semantics.md, section 4).
func TestWitnessForgetsAtAGap(t *testing.T) {
	const lease = 30 * time.Second
	start := time.Now()
	w := &witness{}
	look := func(at, took time.Duration, until string) time.Duration {
		w.look(start.Add(at), start.Add(at+took))
		return w.watched(sight{token: "1"}, until, lease)
	}
	assert.Zero(t, look(0, 0, "a"))
	assert.Equal(t, 9*time.Second, look(9*time.Second, 0, "a"))
	assert.Equal(t, 18*time.Second, look(18*time.Second, 0, "a"))
	assert.Zero(t, look(20*time.Second, 0, "b"), "it was renewed")
	assert.Equal(t, 5*time.Second, look(25*time.Second, 0, "b"))
	assert.Zero(t, max(look(36*time.Second, 0, "b"), 0), "a pause longer than a third")
	assert.LessOrEqual(t, look(40*time.Second, 6*time.Second, "b"), time.Duration(0), "a slow look counts from its end")
	assert.Equal(t, 4*time.Second, look(50*time.Second, 0, "b"))
	w.forget()
	assert.LessOrEqual(t, look(51*time.Second, 0, "b"), time.Duration(0), "an error")
}

func TestLostClaimsAreBounded(t *testing.T) {
	l := &lostClaims{}
	l.add(1, -time.Second)
	assert.Empty(t, l.appendTo(nil), "their lease is over")
	for i := range int64(200) {
		l.add(i, time.Hour)
	}
	args := l.appendTo(nil)
	assert.Len(t, args, maxLost)
	assert.Equal(t, int64(199), args[len(args)-1])
}
