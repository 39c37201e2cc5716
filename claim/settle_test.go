package claim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

var everyOutcome = []sendonce.Outcome{sendonce.Done, sendonce.Retry, sendonce.Released, sendonce.Dead, sendonce.Skipped, sendonce.Unknown}

// The whole truth about a result that the first statement did not write: each
// outcome on each state, under its own token, another's, and none
// (docs/semantics.md, section 3).
func TestCauses(t *testing.T) {
	const asked, late, notHeld, overtaken, alien = "", "late", "not held", "overtaken", "foreign state"
	table := map[sendonce.Outcome]string{
		// A row of each is: the token mine; another's; none.
		sendonce.Done: `
			pending  late     overtaken overtaken
			claimed  held     overtaken overtaken
			sending  held     overtaken overtaken
			done     asked    overtaken overtaken
			dead     late     overtaken overtaken
			skipped  held     overtaken overtaken
			unknown  late     overtaken overtaken
			foreign  alien    alien     alien`,
		sendonce.Retry: `
			pending  held     overtaken asked
			claimed  held     overtaken overtaken
			sending  held     overtaken overtaken
			done     held     overtaken overtaken
			dead     held     overtaken overtaken
			skipped  held     overtaken overtaken
			unknown  held     overtaken overtaken
			foreign  alien    alien     alien`,
		sendonce.Dead: `
			pending  held     overtaken overtaken
			claimed  held     overtaken overtaken
			sending  held     overtaken overtaken
			done     held     overtaken overtaken
			dead     asked    overtaken overtaken
			skipped  held     overtaken overtaken
			unknown  held     overtaken overtaken
			foreign  alien    alien     alien`,
	}
	table[sendonce.Released] = table[sendonce.Retry]
	table[sendonce.Skipped] = strings.NewReplacer("dead     asked", "dead     held", "skipped  held", "skipped  asked").Replace(table[sendonce.Dead])
	table[sendonce.Unknown] = strings.NewReplacer("dead     asked", "dead     held", "unknown  held", "unknown  asked").Replace(table[sendonce.Dead])
	states := map[string]state{"pending": pending, "claimed": claimed, "sending": sending, "done": done, "dead": dead, "skipped": skipped, "unknown": unknown, "foreign": foreign}
	causes := map[string]string{"asked": asked, "late": late, "held": notHeld, "overtaken": overtaken, "alien": alien}
	cases := 0
	for _, o := range everyOutcome {
		for line := range strings.SplitSeq(strings.TrimSpace(table[o]), "\n") {
			words := strings.Fields(line)
			for i, token := range []int64{7, 8, 0} {
				cases++
				got := causeOf(sendonce.Result{Key: int64(1), Token: 7, Outcome: o}, standing{state: states[words[0]], proof: token}, true, false)
				text := ""
				if got != 0 {
					text = got.String()
				}
				assert.Equal(t, causes[words[i+1]], text, "%s on a %s row with token %d", o, words[0], token)
			}
		}
		got := causeOf(sendonce.Result{Token: 7, Outcome: o}, standing{}, false, false)
		assert.Equal(t, sendonce.Missing, got, o)
		got = causeOf(sendonce.Result{Token: 7, Outcome: o}, standing{}, false, true)
		if o == sendonce.Done {
			assert.Zero(t, got, "where done rows are deleted, a row that is gone is done")
		} else {
			assert.Equal(t, sendonce.Missing, got, o)
		}
	}
	assert.Equal(t, 6*8*3, cases)
}

// Groups are of one outcome, in the order of the key, and no larger than a
// statement takes; no result is lost.
func TestGroups(t *testing.T) {
	s := newStore(nil, mapped(t, MySQL, fullTable, nil))
	var rs []sendonce.Result
	for i := range 300 {
		rs = append(rs, sendonce.Result{Key: int64(1000 - i), Token: 1, Outcome: everyOutcome[i%2]})
	}
	seen := map[sendonce.Key]bool{}
	for _, g := range s.group(rs) {
		if g.outcome == sendonce.Retry {
			assert.LessOrEqual(t, len(g.rs), 64)
		}
		for i, r := range g.rs {
			assert.Equal(t, g.outcome, r.Outcome)
			assert.False(t, seen[r.Key])
			seen[r.Key] = true
			assert.True(t, i == 0 || compareKeys(g.rs[i-1].Key, r.Key) < 0)
		}
	}
	assert.Len(t, seen, 300)
	assert.Equal(t, int64(1000), rs[0].Key, "the caller's slice is as it was")
	assert.Empty(t, s.group(nil))
}

// Every group finds a statement, with all its arguments, whatever its size.
func TestOpinionsOfEverySize(t *testing.T) {
	for _, d := range everyDialect {
		s := newStore(nil, mapped(t, d, fullTable, nil))
		for size := 1; size <= 64; size++ {
			for _, o := range everyOutcome {
				if o == sendonce.Done || o == sendonce.Released {
					continue
				}
				g := settleGroup{outcome: o}
				for i := range size {
					g.rs = append(g.rs, sendonce.Result{Key: int64(i + 1), Token: 7, Outcome: o, After: time.Duration(i) * time.Second, Reason: fmt.Sprint("why ", i), Uncharged: i%2 == 1})
				}
				for _, reason := range []bool{true, false} {
					st, args := s.bindOpinion(g, reason)
					require.NotNil(t, st, "%d %s", size, o)
					text, _ := st.Bind(args)
					assert.Equal(t, reason, strings.Contains(text, s.lastError))
				}
			}
		}
	}
}

// Nothing that is written is fit to be read as SQL.
func TestHostileReasons(t *testing.T) {
	s := newStore(nil, mapped(t, MySQL, fullTable, nil))
	evil := `x\'; DROP TABLE receivers; -- ` + "`\"\n?:k0"
	g := settleGroup{sendonce.Dead, []sendonce.Result{{Key: int64(1), Token: 7, Outcome: sendonce.Dead, Reason: evil}}}
	st, args := s.bindOpinion(g, true)
	text, bound := st.Bind(args)
	assert.Empty(t, bound)
	assert.NotContains(t, text, "DROP")
	assert.Contains(t, text, "X'785c273b2044524f50")
}

func TestFit(t *testing.T) {
	s := newStore(nil, mapped(t, Postgres, fullTable, nil))
	assert.Equal(t, "größer", s.fit("größer"))
	s.maxReason = 3
	assert.Equal(t, "grö", s.fit("größer"))
	assert.Equal(t, "abc", s.fit("abc"))
	assert.Empty(t, cut("x", 0))
}

func TestRoundLimit(t *testing.T) {
	for n, want := range map[int]int{1: 1, 9: 9, 10: 10, 99: 99, 100: 100, 101: 100, 119: 110, 1234: 1200, 99_999: 99_000} {
		assert.Equal(t, want, roundLimit(n), n)
	}
	assert.Equal(t, int64(4), lastBefore(5))
	assert.Greater(t, lastBefore(0), int64(1<<30))
}

// The kinds of rows that come back take turns, and suspects are held to their
// number; one on its last attempt comes alone.
func TestChoose(t *testing.T) {
	c := claimerFor(t, Postgres, fullTable, "")
	var cands []candidate
	for i := range int64(30) {
		x := candidate{key: i}
		switch i % 3 {
		case 1:
			x.token, x.attempts = 9, 1
		case 2:
			x.token, x.attempts = 9, 4
		}
		cands = append(cands, x)
	}
	req := sendonce.ClaimRequest{Limit: 6, Suspects: 2, MaxAttempts: 5}
	for range 5 {
		for i, want := range []struct {
			kind pickKind
			n    int
		}{{returningRows, 6}, {suspectRows, 2}, {lastTryRows, 1}} {
			kind, rows := c.choose(cands, req)
			assert.Equal(t, want.kind, kind)
			assert.Len(t, rows, want.n)
			for _, r := range rows {
				assert.Equal(t, int64(i), r.key.(int64)%3)
			}
		}
	}
	kind, rows := c.choose(cands[1:2], req)
	assert.Equal(t, suspectRows, kind, "only what there is")
	assert.Equal(t, dialect.Keys{int64(1)}, keysOf(rows))
	req.Suspects = 0
	c.rotate = 1
	_, rows = c.choose(cands, req)
	assert.Len(t, rows, 6, "no limit of their own: that of the claim")
}
