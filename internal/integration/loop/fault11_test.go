package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// texts are errors that no column takes as they are, by row.
var texts = []string{
	strings.Repeat("x", 20<<20),
	"a NUL: \x00 and more",
	"a byte: \xf8 and more",
	strings.Repeat("x", 99) + "äöü", // VARCHAR(100) ends within them
	strings.Repeat("x", 1999) + "äöü",
	strings.Repeat("日", 3000),
	"\x00\xf8" + strings.Repeat("\xff", 500),
	"😀 is four bytes", // and none of them fits into latin1
}

// docs/faults.md, 11.
func TestFault11_FailuresAreRecordedWhateverTheirText(t *testing.T) {
	t.Parallel()
	type column struct {
		name, postgres, mariadb string
		empty                   bool // no text fits
		some                    bool // some don't
	}
	for _, col := range []column{
		{name: "text", postgres: "text", mariadb: "text"},
		{name: "varchar", postgres: "varchar(100)", mariadb: "varchar(100)"},
		// Nothing can be known of these beforehand: the database refuses.
		{name: "a check", postgres: "text CHECK (last_error = '')", mariadb: "text CHECK (last_error = '')", empty: true},
		{name: "latin1", mariadb: "varchar(3000) CHARACTER SET latin1", some: true},
	} {
		t.Run(col.name, func(t *testing.T) {
			each(t, one, func(t *testing.T, c combo.Combo) {
				change := "ALTER COLUMN last_error TYPE " + col.postgres
				if c.Database.Dialect == claim.MySQL {
					change = "MODIFY last_error " + col.mariadb
				} else if sort, check, ok := strings.Cut(col.postgres, " "); ok {
					change = "ALTER COLUMN last_error TYPE " + sort + ", ADD " + check
				} else if sort == "" {
					t.Skip("PostgreSQL has one character set in a database")
				}
				s := on(t, c, nil, 2*len(texts)) // every other row is a good one
				s.Exec(t, "ALTER TABLE "+s.Name+" "+change)
				failuresAreRecorded(t, s, col.empty, col.some)
			})
		})
	}
}

func failuresAreRecorded(t *testing.T, s *scene, empty, some bool) {
	text := map[sendonce.Key]string{}
	for i := range texts {
		text[s.Keys[2*i]] = texts[i]
	}
	w := s.start(t, post{
		name: "A", tune: func(cfg *sendonce.Config) { cfg.Backoff = func(int) time.Duration { return time.Hour } },
		answer: func(_ context.Context, m item) error { // the record would hold 20 MiB of text
			if bad, ok := text[m.Key]; ok {
				return errors.New(bad)
			}
			return nil
		},
	})
	await(t, 20*time.Second, "every result is recorded", func() bool { return s.sends(t).Count() == len(s.Keys) && s.count(t, claimed) == 0 })
	await(t, 5*time.Second, "Health is OK", func() bool { return w.Health().OK })
	for key, r := range s.rows(t) {
		bad, ok := text[key]
		if !ok {
			assert.Equal(t, done, r.Status, "the good row %v", key)
			continue
		}
		assert.Equal(t, pending, r.Status, "the bad row %v", key)
		assert.Equal(t, 1, r.Attempts)
		assert.True(t, r.Due)
		assert.True(t, utf8.ValidString(r.Reason) && !strings.ContainsAny(r.Reason, "\x00"), "%q", r.Reason)
		if empty {
			assert.Empty(t, r.Reason)
			continue
		}
		if !some {
			assert.NotEmpty(t, r.Reason, "of %.20q", bad)
		}
		if bad[0] == 'x' {
			assert.GreaterOrEqual(t, len(r.Reason), 99)
			assert.True(t, strings.HasPrefix(bad, strings.TrimRight(r.Reason, "\uFFFD")), "%.120q", r.Reason)
		}
	}
	var soonest float64
	seconds := "TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), next_attempt)"
	if s.Place.Database.Dialect == claim.Postgres {
		seconds = "EXTRACT(EPOCH FROM next_attempt - now())"
	}
	require.NoError(t, s.Admin.Get(&soonest, "SELECT MIN("+seconds+") FROM "+s.Name+" WHERE status = 0"))
	assert.InDelta(t, time.Hour.Seconds(), soonest, 60, "seconds until the next attempt")
	s.judge(t, allowed{})
}
