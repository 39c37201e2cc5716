package unique

import (
	"strconv"
	"time"
)

// Entry is one key in a store, and the rules for it. Times are in microseconds
// since 1970 on the store's clock; 0 is never. The zero Entry is a free key. Its
// methods change it as the methods of Store of the same name say, and are to run
// alone: in a transaction, or under a lock.
type Entry struct {
	Row   string // whose it is; empty: nobody's
	ID    string // what Row is marked under
	Token string // of the lease

	Since    int64 // Row has it
	Reserved int64 // until then
	Held     int64 // until then
	Marked   int64 // until then
}

// Expires is when the key is free at the latest; 0 if it is already.
func (e *Entry) Expires() int64 { return max(e.Reserved, e.Held, e.Marked) }

// Look says how the key stands now, nil if it is free.
func (e *Entry) Look(now int64) *Standing {
	s := &Standing{Row: e.Row}
	switch {
	case e.Marked > now:
		s.How, s.ID = Marked, e.ID
	case e.Held > now:
		s.How = Held
	case e.Reserved > now:
		s.How = Reserved
	default:
		return nil
	}
	s.Age = time.Duration(max(now-e.Since, 0)) * time.Microsecond
	s.Left = time.Duration(e.Expires()-now) * time.Microsecond
	s.Version = strconv.FormatInt(e.Since, 10) + " " + strconv.FormatInt(e.Reserved, 10) + " " + e.Row
	return s
}

// take makes the entry the row's, unless somebody else is in the way.
func (e *Entry) take(now int64, row, over string) *Standing {
	s := e.Look(now)
	switch {
	case s != nil && e.Row == row:
		return nil
	case s != nil && (over == "" || s.How != Reserved || s.Version != over):
		return s
	}
	*e = Entry{Row: row, Since: now}
	return nil
}

// Reserve takes the key for d.
func (e *Entry) Reserve(now int64, o Owner, d time.Duration, over string) *Standing {
	if s := e.take(now, o.Row, over); s != nil {
		return s
	}
	e.Reserved = now + d.Microseconds()
	return nil
}

// Hold takes the key for a lease of ttl.
func (e *Entry) Hold(now int64, o Owner, ttl time.Duration, over string) *Standing {
	if s := e.Look(now); s != nil && s.How == Marked && s.Row == o.Row && s.ID == o.ID {
		return s
	}
	if s := e.take(now, o.Row, over); s != nil {
		return s
	}
	e.Token, e.Held = o.Token, now+ttl.Microseconds()
	return nil
}

// Extend reports whether the lease is there. One that is over, and that nobody has
// taken, goes on.
func (e *Entry) Extend(now int64, token string, ttl time.Duration) bool {
	if token == "" || e.Token != token {
		return false
	}
	e.Held = now + ttl.Microseconds()
	return true
}

// Mark says that the row was sent.
func (e *Entry) Mark(now int64, o Owner, d time.Duration) *Standing {
	if s := e.take(now, o.Row, ""); s != nil {
		return s
	}
	e.ID, e.Marked, e.Reserved = o.ID, now+d.Microseconds(), 0
	if e.Token == o.Token {
		e.Token, e.Held = "", 0
	}
	return nil
}

// Free ends the lease of this token.
func (e *Entry) Free(token string, all bool) {
	if token == "" || e.Token != token {
		return
	}
	e.Token, e.Held = "", 0
	if all {
		e.Reserved = 0
	}
}

// Release ends what the row has reserved.
func (e *Entry) Release(row string) {
	if e.Row == row {
		e.Reserved = 0
	}
}
