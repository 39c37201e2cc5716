package claim

import (
	"sync"
	"sync/atomic"
	"time"
)

// sightings is the second witness: what this process itself has seen of the
// claims of others (docs/semantics.md, section 4). The database's clock, the
// first witness, can be stepped; and while the database is out of reach, nobody
// can renew. So a claim is ripe only if it was also seen unchanged for two
// thirds of its lease without a gap.
type sightings struct {
	mu   sync.Mutex
	seen map[int64]sighting
	last time.Time // of the last complete scan

	// What this process's own claims are like.
	lease      atomic.Int64 // nanoseconds
	atMostOnce atomic.Bool
}

type sighting struct {
	until int64 // as the claims table had it
	since time.Time
}

// seenClaim is one row of a scan.
type seenClaim struct {
	token, until int64
	owner        string
	mode         int64
	alone        bool
	lease        time.Duration
	over         bool // by the database's clock
	made         time.Time
}

// look takes a complete scan that began and ended at these times, and returns
// the claims that may be taken from their owners.
func (s *sightings) look(began, ended time.Time, claims []seenClaim, clockOnly bool) (ripe []seenClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[int64]sighting, len(claims))
	for _, c := range claims {
		renewal := c.lease / 3
		old, known := s.seen[c.token]
		gap := elapsed(s.last, began) > renewal || elapsed(began, ended) > renewal/2
		if !known || old.until != c.until || gap {
			// What a slow scan saw may be old by now, so it counts from its end.
			old = sighting{until: c.until, since: ended}
		}
		next[c.token] = old
		watched := elapsed(old.since, began)
		// The escape heals a clock that was stepped back.
		if c.over && (clockOnly || watched >= 2*renewal) || watched > 2*c.lease+time.Second {
			ripe = append(ripe, c)
		}
	}
	s.seen, s.last = next, ended
	return ripe
}

// forget drops all that was seen: there is a gap in the view.
func (s *sightings) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.last = nil, time.Time{}
}

// elapsed is the time from one moment to another on the monotonic clock or the
// wall clock, whichever advanced more: the monotonic one stands still while a
// machine is suspended, and a suspension is a gap.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
