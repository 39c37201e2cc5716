package sendonce_test

import (
	"slices"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// stopped stops a worker that meets no faults any more.
func (m *sim) stopped(p *simWorker) {
	if err := m.stop(p); err != nil && !m.excused(p, err) {
		m.problem("worker %s, when there were no faults any more: %v", p.name, err)
	}
	m.released(p)
	m.accounts(p)
	m.kill(p)
}

// excused: the error names rows that are still being sent by a Sender that ignores
// its context, and no others.
func (m *sim) excused(p *simWorker, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	stopped, ok := err.(*sendonce.StoppedError)
	if !ok || len(stopped.Unrecorded) > 0 {
		return false
	}
	for _, key := range stopped.Stuck {
		if !slices.ContainsFunc(p.stubborn, func(e *simEntry) bool { return sendonce.Key(e.key) == key }) {
			return false
		}
	}
	return true
}

func (m *sim) idle(p *simWorker) bool {
	h := p.run.Health()
	return h.OK && h.InFlight == 0 && h.Unrecorded == 0
}

// accounts checks a worker's Stats once it has stopped: no row is counted twice.
func (m *sim) accounts(p *simWorker) {
	s := p.run.Stats()
	if n := s.Sent + s.Retried + s.Dead + s.Skipped + s.Unknown + s.Released; n > s.Claimed {
		m.problem("worker %s counts %d results of %d rows: %+v", p.name, n, s.Claimed, s)
	}
}

// healthy checks a worker that has nothing left to do.
func (m *sim) healthy(p *simWorker) {
	if h := p.run.Health(); !h.OK || h.Stuck > 0 || h.Unrecorded > 0 || h.InFlight > 0 {
		m.problem("worker %s at its end: %+v", p.name, h)
	}
}

// released checks that a worker which says that it has recorded all is right.
func (m *sim) released(p *simWorker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.table.Holders() {
		if h.Owner == p.name && h.Unmarked > 0 && !m.claims[h.Token].known.IsZero() && len(p.stubborn) == 0 {
			m.wrong("worker %s has stopped without an error and holds %d rows", p.name, h.Unmarked)
		}
	}
}

// judge checks what must hold at the end of a schedule.
func (m *sim) judge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.keys {
		m.same("all", key)
		m.judgeRow(key, m.rows[key], m.log[key])
		m.judgeOverlaps(m.log[key])
		m.judgeSecond(m.rows[key], m.log[key])
	}
}

// judgeRow: it came to an end, for a reason.
func (m *sim) judgeRow(key int64, row *simRow, sends []*simEntry) {
	accepted, permanent, charged := 0, !row.requeued.IsZero(), 0
	for _, e := range sends {
		if !e.free {
			charged++
		}
		if !e.accepted.IsZero() {
			accepted++
		}
		permanent = permanent || e.permanent
	}
	for _, c := range m.claimsOf[key] {
		if c.marks[key].IsZero() {
			charged++
		}
	}
	switch row.status {
	case memclaim.Done:
		if accepted == 0 {
			m.wrong("row %d is done, and nobody has accepted it", key)
		}
	case memclaim.Dead:
		if m.rare != rareSuspects && m.rare != rareRenewals && !permanent && charged < m.attempts {
			m.wrong("row %d is dead after %d attempts", key, charged)
		}
	case memclaim.Unknown:
		if m.delivery == sendonce.AtLeastOnce {
			m.wrong("row %d is unknown", key)
		}
	case memclaim.Skipped, "archived":
	default:
		if m.liveness {
			m.wrong("row %d is lost: %+v", key, *row)
		}
	}
}

// judgeOverlaps: no two sends of a row at one time, but for Senders that ignore
// their context, and processes that stood still. A send of a killed worker has
// ended with it.
func (m *sim) judgeOverlaps(sends []*simEntry) {
	for i, a := range sends {
		for _, b := range sends[i+1:] {
			together := b.began.Before(a.end()) && a.began.Before(b.end())
			if together && (a.by == b.by || !a.ignorance && !a.by.stoodStill(a.began, a.end()) && !m.blind(a, b)) {
				m.wrong("row %d is sent by %s from %v to %v and by %s from %v", a.key,
					a.by.name, a.began.Sub(m.born), a.end().Sub(m.born), b.by.name, b.began.Sub(m.born))
			}
		}
	}
}

// end: that of a killed worker's send that did not return comes with the kill.
func (a *simEntry) end() time.Time {
	if !a.by.killed.IsZero() && (a.ended.IsZero() || a.ended.After(a.by.killed)) {
		return a.by.killed
	}
	return a.ended
}

func (p *simWorker) stoodStill(from, to time.Time) bool {
	return slices.ContainsFunc(p.pauses, func(s [2]time.Time) bool { return s[0].Before(to) && s[1].After(from) })
}

// cutOff: a's claim could not be renewed for d before b began.
func (m *sim) cutOff(a, b *simEntry, d time.Duration) bool {
	from := b.began.Add(-m.lease - d)
	return !a.claim.renewed.Add(d).After(b.began) && (a.by.stoodStill(from, b.began) ||
		slices.ContainsFunc(a.by.faults, func(t time.Time) bool { return t.After(from) && t.Before(b.began) }))
}

// blind: two faults at once. The claim could not be renewed, and the store's clock
// was stepped or the claim was deleted, so that it was over before its time.
func (m *sim) blind(a, b *simEntry) bool {
	return m.stepped && m.cutOff(a, b, m.lease*2/3) || a.claim.deleted && m.cutOff(a, b, 0)
}

// judgeSecond: a row that was accepted twice has met a fault that explains it.
func (m *sim) judgeSecond(row *simRow, sends []*simEntry) {
	var accepted []*simEntry
	for _, e := range sends {
		if !e.accepted.IsZero() {
			accepted = append(accepted, e)
		}
	}
	slices.SortStableFunc(accepted, func(a, b *simEntry) int { return a.accepted.Compare(b.accepted) })
	for i := 1; i < len(accepted); i++ {
		m.power.Second++
		a, b := accepted[i-1], accepted[i]
		if row.requeued.After(a.began) || row.requeued.After(b.began) {
			continue
		}
		if m.delivery == sendonce.AtMostOnce {
			m.wrong("row %d was accepted twice under AtMostOnce: by %s and %s", a.key, a.by.name, b.by.name)
		}
		if !m.explains(a, b) {
			m.wrong("row %d was accepted from %s at %v and again from %s at %v, and nothing explains it", a.key,
				a.by.name, a.accepted.Sub(m.born), b.by.name, b.accepted.Sub(m.born))
		}
	}
}

// explains reports whether a fault fell between a's acceptance and its mark, or
// between b's last check and its first byte.
func (m *sim) explains(a, b *simEntry) bool {
	mark := a.claim.marks[a.key]
	switch {
	case a.ignorance, b.ignorance, !a.said: // the Sender itself did not say that it was sent
		return true
	case b.by.stoodStill(b.began, b.accepted):
		return true
	case !a.by.killed.IsZero() && (mark.IsZero() || !mark.Before(a.by.killed)):
		return true
	case !mark.IsZero() && mark.Before(b.began):
		return false
	}
	// Its worker was cut off, or stood still, until the lease was over; or the
	// claim was deleted by hand.
	return a.claim.deleted || m.cutOff(a, b, m.lease) || m.blind(a, b)
}
