package sendonce_test

import (
	"slices"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// What the table must do, by docs/semantics.md, section 3 and 4: the model does
// each call too, and what the table says and holds afterwards must be the same.
// Its methods are called with sim.mu held.

// simRow is a row as it must stand.
type simRow struct {
	status   string
	token    int64
	attempts int
	due      time.Time // on the store's clock
	requeued time.Time // the last time, by an operator
}

// simClaim is a claim, and what its owner knows of it.
type simClaim struct {
	token    int64
	by       *simWorker
	rows     []int64
	lease    time.Duration
	until    time.Time // on the store's clock
	renewed  time.Time // when that was set
	alone    bool
	over     bool                // it is not in the table any more
	deleted  bool                // by an operator
	heard    time.Time           // when the owner learned of since
	known    time.Time           // to its owner; zero: the reply was lost
	since    time.Time           // the owner's lease counts from here
	answered int                 // rows whose result the owner knows to be recorded
	told     time.Time           // when its owner noticed that it is lost
	marks    map[int64]time.Time // when a result of a row was written
}

func (m *sim) storeNow() time.Time { return time.Now().Add(time.Duration(m.offset.Load())) }

// same checks that a row stands as it must.
func (m *sim) same(what string, key int64) {
	row, _ := m.table.Row(key)
	want := m.rows[key]
	if row.Status != want.status || row.Token != want.token || row.Attempts != want.attempts || !row.NextAttempt.Equal(want.due) {
		m.wrong("after %s row %d is %s, token %d, attempts %d, due %v; it must be %s, %d, %d, %v", what, key,
			row.Status, row.Token, row.Attempts, row.NextAttempt, want.status, want.token, want.attempts, want.due)
	}
}

// held: claimed or sending.
func (r *simRow) held() bool { return r.status == memclaim.Claimed || r.status == memclaim.Sending }

// claimed is transition 1.
func (m *sim) claimed(p *simWorker, req sendonce.ClaimRequest, b sendonce.Batch[string], began time.Time) {
	p.lease = req.Lease
	if len(b.Items) == 0 {
		return
	}
	m.power.Claims++
	now := m.storeNow()
	c := &simClaim{
		token: b.Token, by: p, lease: req.Lease, until: now.Add(req.Lease), renewed: time.Now(), since: began, alone: b.Alone,
		marks: map[int64]time.Time{},
	}
	if m.claims[b.Token] != nil {
		m.wrong("the token %d was there before", b.Token)
	}
	suspects := 0
	for _, item := range b.Items {
		key := item.Key.(int64)
		r := m.rows[key]
		if r.status != memclaim.Pending || r.due.After(now) {
			m.wrong("row %d was claimed; it was %s and due at %v, %v from now", key, r.status, r.due, r.due.Sub(now))
		}
		last := r.attempts >= req.MaxAttempts-1
		if r.token != 0 {
			suspects++
			if last != b.Alone {
				m.wrong("row %d is a suspect with %d attempts, and claimed alone: %v", key, r.attempts, b.Alone)
			}
		}
		r.status, r.token, r.due = memclaim.Claimed, b.Token, time.Time{}
		r.attempts++
		if item.Attempt != r.attempts {
			m.wrong("row %d is handed out as attempt %d of %d", key, item.Attempt, r.attempts)
		}
		c.rows = append(c.rows, key)
		p.holds[key] = c
		m.claimsOf[key] = append(m.claimsOf[key], c)
		m.same("a claim", key)
	}
	if len(b.Items) > req.Limit || suspects > 0 && (suspects != len(b.Items) || suspects > req.Suspects) || b.Alone && len(b.Items) != 1 {
		m.wrong("a claim of %d rows (%d suspects) gave %d, of which %d are suspects (alone: %v)", req.Limit, req.Suspects, len(b.Items), suspects, b.Alone)
	}
	m.claims[b.Token] = c
	m.live = append(m.live, c)
}

// extended is transition 2.
func (m *sim) extended(tokens []int64, ext sendonce.Extension) {
	for _, t := range tokens {
		c, lost := m.claims[t], slices.Contains(ext.Lost, t)
		if lost != c.over {
			m.wrong("a renewal says that a claim is lost: %v; it is not there: %v", lost, c.over)
		}
		if !c.over {
			c.until, c.renewed = m.storeNow().Add(c.lease), time.Now()
		}
	}
}

// intended is transition 3.
func (m *sim) intended(refs, lost []sendonce.Ref) {
	for _, ref := range refs {
		key := ref.Key.(int64)
		r, c := m.rows[key], m.claims[ref.Token]
		may := r.held() && r.token == ref.Token && !c.over && c.until.After(m.storeNow())
		if said := slices.Contains(lost, ref); said == may {
			m.wrong("the intent to send row %d, %s, is refused: %v", key, r.status, said)
		}
		if may {
			r.status = memclaim.Sending
		}
		m.same("an intent", key)
	}
}

var simFinals = map[sendonce.Outcome]string{
	sendonce.Done: memclaim.Done, sendonce.Dead: memclaim.Dead, sendonce.Skipped: memclaim.Skipped, sendonce.Unknown: memclaim.Unknown,
}

// settled is transitions 4 to 8.
func (m *sim) settled(rs []sendonce.Result, es []sendonce.Exception) {
	now := m.storeNow()
	for i, res := range rs {
		key := res.Key.(int64)
		r := m.rows[key]
		var said sendonce.Cause
		for _, e := range es {
			if e.Result.Key == res.Key {
				said = e.Cause
			}
		}
		for _, other := range rs[:i] {
			if other.Key == res.Key {
				m.wrong("row %d stands twice in one Settle", key)
			}
		}
		for _, e := range m.log[key] {
			if m.delivery == sendonce.AtMostOnce && res.Outcome == sendonce.Retry && e.claim.token == res.Token && !e.accepted.IsZero() {
				m.wrong("row %d was accepted and is to be tried again under AtMostOnce", key)
			}
		}
		write, cause := r.judge(res)
		if said != cause {
			m.wrong("the result %v of row %d, %s, is %v; it must be %v", res.Outcome, key, r.status, said, cause)
		}
		if cause == sendonce.Late {
			m.power.Late++
		} else if cause != 0 && res.Outcome != sendonce.Done {
			m.power.Refused++
		}
		if write {
			if c := m.claims[res.Token]; c != nil && c.marks[key].IsZero() {
				c.marks[key] = time.Now()
			}
			r.write(res, now)
		}
		m.same("a result", key)
	}
}

// judge says whether a result is written, and what is said of it.
func (r *simRow) judge(res sendonce.Result) (write bool, cause sendonce.Cause) {
	mine, fact := r.token == res.Token, res.Outcome == sendonce.Done
	final := simFinals[res.Outcome]
	back := res.Outcome == sendonce.Retry || res.Outcome == sendonce.Released
	switch {
	case r.status == "archived":
		return false, sendonce.Foreign
	case mine && r.status == memclaim.Claimed, mine && r.status == memclaim.Sending && res.Outcome != sendonce.Released:
		return true, 0
	case mine && fact && (r.status == memclaim.Pending || r.status == memclaim.Dead || r.status == memclaim.Unknown):
		return true, sendonce.Late
	case back && r.status == memclaim.Pending && r.token == 0, !back && mine && r.status == final:
		return false, 0 // it stands as wanted
	case mine:
		return false, sendonce.NotHeld
	}
	return false, sendonce.Overtaken
}

func (r *simRow) write(res sendonce.Result, now time.Time) {
	r.due = time.Time{}
	switch res.Outcome {
	case sendonce.Retry, sendonce.Released:
		r.status, r.token, r.due = memclaim.Pending, 0, now.Add(res.After)
		if res.Uncharged || res.Outcome == sendonce.Released {
			r.attempts--
		}
	default:
		r.status = simFinals[res.Outcome]
	}
}

// ended is transition 10.
func (m *sim) ended(tokens []int64) {
	for _, t := range tokens {
		c := m.claims[t]
		for _, key := range c.rows {
			if r := m.rows[key]; r.held() && r.token == t {
				m.wrong("a claim was ended and its row %d is %s", key, r.status)
			}
		}
		m.drop(c)
	}
}

// drop takes a claim out of the table.
func (m *sim) drop(c *simClaim) {
	c.over = true
	if i := slices.Index(m.live, c); i >= 0 {
		m.live = slices.Delete(m.live, i, i+1)
	}
}

// sight is a claim as a process has seen it, or a row without one.
type sight struct {
	token, key int64
}

type sighting struct {
	until, since time.Time
}

// looked is transitions 9 and 11: by two witnesses.
func (m *sim) looked(p *simWorker, req sendonce.ReapRequest, said sendonce.Reaped) {
	var out sendonce.Reaped
	now, gap := time.Now(), time.Since(p.lastScan)
	seen := map[sight]sighting{}
	watched := func(s sight, until time.Time, lease time.Duration) time.Duration {
		old, ok := p.seen[s]
		if !ok || !old.until.Equal(until) || gap > lease/3 {
			old = sighting{until: until, since: now}
		}
		seen[s] = old
		return now.Sub(old.since)
	}
	for _, c := range slices.Clone(m.live) {
		w := watched(sight{token: c.token}, c.until, c.lease)
		if !c.until.After(m.storeNow()) && w >= 2*(c.lease/3) || w > 2*c.lease+time.Second {
			m.drop(c)
			for _, key := range c.rows {
				m.giveBack(key, c, req, &out)
			}
		}
	}
	for _, key := range m.keys {
		if r := m.rows[key]; r.held() && m.claims[r.token].over {
			if watched(sight{r.token, key}, time.Time{}, p.lease) >= 2*(p.lease/3) {
				m.power.Orphans++
				m.giveBack(key, &simClaim{token: r.token}, req, &out)
			}
		}
	}
	p.seen, p.lastScan = seen, now
	if out.Returned != said.Returned || out.Dead != said.Dead || out.Unknown != said.Unknown {
		m.wrong("a look for vanished workers gave %d rows back, %d dead, %d unknown; it must be %d, %d, %d",
			said.Returned, said.Dead, said.Unknown, out.Returned, out.Dead, out.Unknown)
	}
	m.power.Reclaimed += out.Returned + out.Dead + out.Unknown
}

// giveBack is for a row of a claim that is over, or of one that is not known.
func (m *sim) giveBack(key int64, c *simClaim, req sendonce.ReapRequest, out *sendonce.Reaped) {
	r := m.rows[key]
	if !r.held() || r.token != c.token {
		return
	}
	switch {
	case r.status == memclaim.Sending:
		out.Unknown++
		r.status = memclaim.Unknown
	case m.delivery == sendonce.AtLeastOnce && c.alone && r.attempts >= req.MaxAttempts:
		out.Dead++
		r.status = memclaim.Dead
	default:
		out.Returned++
		if m.delivery == sendonce.AtMostOnce && c.by != nil {
			r.attempts--
		}
		r.status, r.due, r.attempts = memclaim.Pending, m.storeNow(), max(min(r.attempts, req.MaxAttempts-1), 0)
	}
	m.same("a look for vanished workers", key)
}
