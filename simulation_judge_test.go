package sendonce_test

import (
	"slices"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// accounts checks a worker's Stats once it has stopped: no row is counted twice.
func (m *sim) accounts(p *simWorker) {
	s := p.run.Stats()
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := s.Sent + s.Retried + s.Dead + s.Skipped + s.Unknown + s.Released; n > s.Claimed {
		m.wrong("worker %s counts %d results of %d rows: %+v", p.name, n, s.Claimed, s)
	}
}

// healthy checks a worker that has nothing left to do.
func (m *sim) healthy(p *simWorker) {
	if h := p.run.Health(); !h.OK || h.Stuck > 0 || h.Unrecorded > 0 || h.InFlight > 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.wrong("worker %s at its end: %+v", p.name, h)
	}
}

// released checks that a worker which says that it has recorded all is right.
func (m *sim) released(p *simWorker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.table.Holders() {
		if h.Owner == p.name && h.Unmarked > 0 && m.claims[h.Token].known {
			m.wrong("worker %s has stopped without an error and holds %d rows", p.name, h.Unmarked)
		}
	}
}

// judge checks what must hold at the end of a schedule.
func (m *sim) judge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.table.Holders(); len(h) > 0 {
		m.wrong("claims that did not end: %+v", h)
	}
	by := map[sendonce.Key][]*simEntry{}
	for _, e := range m.log {
		by[e.key] = append(by[e.key], e)
	}
	for _, row := range m.table.Rows() {
		m.judgeRow(row, by[row.Key])
		m.judgeOverlaps(by[row.Key])
		m.judgeSecond(row.Key, by[row.Key])
	}
}

// judgeRow: it came to an end, for a reason, and only sends and claims that were
// lost have cost attempts.
func (m *sim) judgeRow(row memclaim.Row[string], sends []*simEntry) {
	charged, accepted, permanent := 0, 0, false
	for _, e := range sends {
		if !e.free {
			charged++
		}
		if !e.accepted.IsZero() {
			accepted++
		}
		permanent = permanent || e.permanent
	}
	for _, c := range m.tokens[row.Key] {
		if c.marks[row.Key].IsZero() {
			charged++
		}
	}
	if row.Attempts > charged {
		m.wrong("row %v counts %d attempts; sends and lost claims: %d", row.Key, row.Attempts, charged)
	}
	switch row.Status {
	case memclaim.Done:
		if accepted == 0 {
			m.wrong("row %v is done, and nobody has accepted it", row.Key)
		}
	case memclaim.Dead:
		if !permanent && charged < simAttempts {
			m.wrong("row %v is dead after %d attempts: %s", row.Key, charged, row.Reason)
		}
	case memclaim.Unknown:
		if m.delivery == sendonce.AtLeastOnce {
			m.wrong("row %v is unknown", row.Key)
		}
	case memclaim.Skipped:
	default:
		m.wrong("row %v is lost: %+v", row.Key, row)
	}
}

// judgeOverlaps: no two sends of a row at one time, but for Senders that ignore
// their context. A send of a killed worker has ended with it.
func (m *sim) judgeOverlaps(sends []*simEntry) {
	for i, a := range sends {
		for _, b := range sends[i+1:] {
			if (!a.ignorance || a.by == b.by) && b.began.Before(a.ended) && a.began.Before(b.ended) {
				m.wrong("row %v is sent by %s from %v to %v and by %s from %v", a.key, a.by.name, a.began, a.ended, b.by.name, b.began)
			}
		}
	}
}

// judgeSecond: a row that was accepted twice has met a fault that explains it.
func (m *sim) judgeSecond(key sendonce.Key, sends []*simEntry) {
	var accepted []*simEntry
	for _, e := range sends {
		if !e.accepted.IsZero() {
			accepted = append(accepted, e)
		}
	}
	slices.SortFunc(accepted, func(a, b *simEntry) int { return a.accepted.Compare(b.accepted) })
	for i := 1; i < len(accepted); i++ {
		m.power.second++
		a, b := accepted[i-1], accepted[i]
		if m.delivery == sendonce.AtMostOnce && !a.ignorance {
			m.wrong("row %v was accepted twice under AtMostOnce: by %s and %s", key, a.by.name, b.by.name)
		}
		if !a.explains(b) {
			m.wrong("row %v was accepted from %s at %v and again from %s at %v, and nothing explains it", key, a.by.name, a.accepted, b.by.name, b.accepted)
		}
	}
}

// explains reports whether a fault fell between a's acceptance and its mark.
func (a *simEntry) explains(b *simEntry) bool {
	mark := a.claim.marks[a.key]
	switch {
	case a.ignorance, b.ignorance, !a.said: // the Sender itself did not say that it was sent
		return true
	case !a.by.killed.IsZero() && (mark.IsZero() || !mark.Before(a.by.killed)):
		return true
	case !mark.IsZero() && mark.Before(b.began):
		return false
	}
	// Its worker was cut off until the lease was over.
	return !a.claim.until.After(b.began) && slices.ContainsFunc(a.by.faults, func(t time.Time) bool {
		return t.After(a.began.Add(-simLease)) && t.Before(b.began)
	})
}
