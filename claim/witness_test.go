package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// looks plays scans at given moments and tells when a claim is ripe.
type looks struct {
	s     sightings
	start time.Time
}

func newLooks() *looks { return &looks{start: time.Unix(1_700_000_000, 0)} }

// at looks once, in no time, and returns the tokens of ripe claims.
func (l *looks) at(after time.Duration, claims ...seenClaim) []int64 {
	return l.slow(after, after, claims...)
}

func (l *looks) slow(began, ended time.Duration, claims ...seenClaim) []int64 {
	return tokensOf(l.s.look(l.start.Add(began), l.start.Add(ended), claims, false))
}

func tokensOf(claims []seenClaim) (tokens []int64) {
	for _, c := range claims {
		tokens = append(tokens, c.token)
	}
	return tokens
}

const second = time.Second

func over(token int64, lease time.Duration) seenClaim {
	return seenClaim{token: token, until: 1000, lease: lease, over: true}
}

func running(token int64, lease time.Duration) seenClaim {
	c := over(token, lease)
	c.over = false
	return c
}

// W is two thirds of the lease of the claim (docs/semantics.md, section 4).
func TestRipeAfterTwoThirdsOfItsLease(t *testing.T) {
	l := newLooks()
	c := over(1, 30*second)
	for s := time.Duration(0); s < 20; s += 5 {
		assert.Empty(t, l.at(s*second, c), s)
	}
	assert.Equal(t, []int64{1}, l.at(20*second, c))
	assert.Equal(t, []int64{1}, l.at(21*second, c), "and stays so until it is taken")
}

// L and R are those of the claim, not of the process that looks.
func TestWindowIsEachClaimsOwn(t *testing.T) {
	l := newLooks()
	short, long := over(1, 3*second), over(2, 60*second)
	l.s.lease.Store(int64(300 * second))
	assert.Empty(t, l.at(0, short, long))
	assert.Empty(t, l.at(second, short, long))
	assert.Equal(t, []int64{1}, l.at(2*second, short, long))
	var ripe []int64
	for s := time.Duration(3); s <= 40; s++ {
		assert.Empty(t, ripe, s)
		ripe = l.at(s*second, long)
	}
	assert.Equal(t, []int64{2}, ripe)
}

// A claim that is renewed is never ripe; nor is one that the database's clock
// says goes on.
func TestNotRipe(t *testing.T) {
	l := newLooks()
	c := over(1, 3*second)
	for s := range time.Duration(20) {
		c.until += 1 // renewed since
		assert.Empty(t, l.at(s*second, c))
	}
	l = newLooks()
	for s := range time.Duration(7) {
		assert.Empty(t, l.at(s*second, running(1, 3*second)), s)
	}
}

// One way round the first witness: unchanged for 2L + 1 s, and a moment.
func TestEscape(t *testing.T) {
	l := newLooks()
	c := running(1, 3*second)
	for s := time.Duration(0); s <= 7; s++ {
		assert.Empty(t, l.at(s*second, c), s)
	}
	assert.Equal(t, []int64{1}, l.at(7*second+time.Millisecond, c))
}

// A pause between scans that is longer than R forgets; R itself does not.
func TestPauseForgets(t *testing.T) {
	const r = 10 * second
	l := newLooks()
	c := over(1, 3*r)
	assert.Empty(t, l.at(0, c))
	assert.Empty(t, l.at(r, c))
	assert.Equal(t, []int64{1}, l.at(2*r, c))

	l = newLooks()
	assert.Empty(t, l.at(0, c))
	assert.Empty(t, l.at(r+time.Millisecond, c), "forgotten")
	assert.Empty(t, l.at(2*r, c))
	assert.Empty(t, l.at(3*r, c))
	assert.Equal(t, []int64{1}, l.at(3*r+time.Millisecond, c), "counted anew from the end of the pause")
}

// So does it where the claims are of several leases: each has its own R.
func TestPauseForgetsShortLeasesFirst(t *testing.T) {
	l := newLooks()
	short, long := over(1, 3*second), over(2, 30*second)
	for _, s := range []time.Duration{0, 5, 10, 15} {
		assert.Empty(t, l.at(s*second, short, long))
	}
	assert.Equal(t, []int64{2}, l.at(20*second, short, long))
}

// A scan that takes longer than R/2 forgets, and what it saw counts from its end.
func TestSlowScanForgets(t *testing.T) {
	const r = 10 * second
	c := over(1, 3*r)
	l := newLooks()
	assert.Empty(t, l.at(0, c))
	assert.Empty(t, l.at(r, c))
	assert.Empty(t, l.slow(2*r, 2*r+r/2+time.Millisecond, c), "slow: not ripe, though seen for 2R")
	assert.Empty(t, l.at(3*r, c))
	assert.Empty(t, l.at(4*r, c))
	assert.Equal(t, []int64{1}, l.at(4*r+r/2+time.Millisecond, c))

	l = newLooks()
	assert.Empty(t, l.at(0, c))
	assert.Empty(t, l.slow(r, r+r/2, c), "not slow")
	assert.Equal(t, []int64{1}, l.at(2*r, c))
}

func TestErrorForgets(t *testing.T) {
	l := newLooks()
	c := over(1, 30*second)
	assert.Empty(t, l.at(0, c))
	assert.Empty(t, l.at(10*second, c))
	l.s.forget()
	assert.Empty(t, l.at(20*second, c))
	assert.Empty(t, l.at(30*second, c))
	assert.Equal(t, []int64{1}, l.at(40*second, c))
}

// A claim that was away in between was ended; if its token is there again, it is
// watched from then.
func TestGoneAndBack(t *testing.T) {
	l := newLooks()
	c := over(1, 30*second)
	assert.Empty(t, l.at(0, c))
	assert.Empty(t, l.at(10*second))
	assert.Empty(t, l.at(20*second, c))
	assert.Empty(t, l.at(30*second, c))
	assert.Equal(t, []int64{1}, l.at(40*second, c))
	assert.Len(t, l.s.seen, 1)
	l.at(41 * second)
	assert.Empty(t, l.s.seen, "what is gone is not remembered")
}

// With the clock alone the first look takes what is over, and nothing else.
func TestClockOnly(t *testing.T) {
	l := newLooks()
	got := l.s.look(l.start, l.start, []seenClaim{over(1, 30*second), running(2, 30*second)}, true)
	assert.Equal(t, []int64{1}, tokensOf(got))
}

// A suspended machine's monotonic clock stands still, and its wall clock does
// not: whichever advanced more counts.
func TestElapsed(t *testing.T) {
	now := time.Now()
	assert.Equal(t, 5*second, elapsed(now, now.Add(5*second)))
	wall := now.Round(0)
	assert.Equal(t, 5*second, elapsed(wall, wall.Add(5*second)))
	assert.Equal(t, time.Duration(0), max(0, elapsed(now.Add(second), now)))
	assert.Greater(t, elapsed(time.Time{}, now), 1000*time.Hour, "no scan yet is a gap")
}
