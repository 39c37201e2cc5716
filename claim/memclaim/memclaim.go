package memclaim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
)

// The states of a row. Any other is the application's own: no method but
// SetStatus and Delete touches a row that has one.
const (
	Pending = "pending"
	Claimed = "claimed"
	Sending = "sending"
	Done    = "done"
	Dead    = "dead"
	Skipped = "skipped"
	Unknown = "unknown"
)

// Options tune New. The zero value works, and so does nil.
type Options struct {
	// Now is the clock of the store, as a database has one: leases and due
	// times are counted on it, and tests may step it. What a handle has itself
	// seen of others' claims is counted on time.Now. It is called with a lock
	// held. Default: time.Now.
	Now func() time.Time

	// Namespace is what idempotency keys are derived from, besides a row's key.
	// Default: "memclaim".
	Namespace string

	// ForgetDone deletes rows that are done, so that a queue that runs for long
	// doesn't grow. Default: they stay, and are counted.
	ForgetDone bool
}

// Row is a row of the table. Given to Add, Key and Value are enough.
type Row[T any] struct {
	// Key is an int64, a uint64 or a string. An int is taken for an int64,
	// wherever a key is passed in.
	Key   sendonce.Key
	Value T

	// Status is one of this package's constants or the application's own. Empty
	// means Pending to Add.
	Status string

	// Token is that of the claim that holds the row, or of the last one that
	// did and has neither released it nor settled it for a retry; 0 if there is
	// none. A pending row with a token came back from a vanished worker.
	Token int64

	// Attempts counts the tries that were begun, or may have been.
	Attempts int

	// NextAttempt is when a pending row is due, on the store's clock. Zero, for
	// a row that was never tried and is not scheduled: at once.
	NextAttempt time.Time

	// DoubtSince is when the first send began, at the earliest, that may have
	// been accepted although the row is not done, on the store's clock. Zero:
	// there is none.
	DoubtSince time.Time

	// Reason is why the row was put aside or put back.
	Reason string

	// Added is when Add was called, and DoneAt when the row was recorded as
	// done: zero until then. Add sets both itself.
	Added, DoneAt time.Time

	// Err, if not nil, makes a row that can't be read: it is handed out with
	// Item.Err and without its Value.
	Err error
}

// Holder is a live claim.
type Holder struct {
	Owner    string
	Token    int64
	Rows     int // taken by the claim
	Unmarked int // of them not yet settled
	Delivery sendonce.Delivery
	Alone    bool
	Lease    time.Duration
	Until    time.Time // on the store's clock
}

// Claimer is one process's handle on a table in memory. It implements
// sendonce.Claimer, Ender, Beginner, Reaper, Counter, DoubtKeeper and Examiner. All its methods may be
// called from several goroutines at once. Make it with New or Process.
type Claimer[T any] struct {
	*table[T]
	eyes witness
}

// table is what all handles share.
type table[T any] struct {
	mu        sync.Mutex
	now       func() time.Time
	namespace string
	forget    bool

	rows   map[sendonce.Key]*row[T]
	held   map[sendonce.Key]*row[T] // those that are claimed or sending
	claims map[int64]*liveClaim     // by token: the claims table

	fresh, back, suspects queue[T] // pending rows, three kinds
	arrivals              int64
	lastAdded             time.Time
	turn                  int // which kind of rows the next claim looks for first
	backFirst             bool
}

// row is a Row with its place in the order.
type row[T any] struct {
	Row[T]
	arrival int64
	version int64 // grows with each change: entries of queues with another one are void
}

// liveClaim is a row of the claims table.
type liveClaim struct {
	Holder
	keys  []sendonce.Key
	since time.Time
}

// New makes an empty table and returns the first handle on it. Options may be
// nil.
func New[T any](o *Options) *Claimer[T] {
	t := &table[T]{
		now: time.Now, namespace: "memclaim",
		rows: map[sendonce.Key]*row[T]{}, held: map[sendonce.Key]*row[T]{}, claims: map[int64]*liveClaim{},
	}
	if o != nil {
		t.forget = o.ForgetDone
		if o.Now != nil {
			t.now = o.Now
		}
		if o.Namespace != "" {
			t.namespace = o.Namespace
		}
	}
	return &Claimer[T]{table: t}
}

// Process returns another handle on the same table, as another process would
// have. Claimers of one Dispatcher each need one of their own, because what a
// process has seen of others' claims belongs to the process.
func (c *Claimer[T]) Process() *Claimer[T] { return &Claimer[T]{table: c.table} }

// Add inserts rows, all or none. It returns an error if a key is of a wrong type
// or is there already.
func (t *table[T]) Add(rows ...Row[T]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := make(map[sendonce.Key]bool, len(rows))
	for _, r := range rows {
		key, err := checkKey(r.Key)
		if err != nil {
			return err
		}
		if t.rows[key] != nil || news[key] {
			return fmt.Errorf("sendonce: there is a row with key %v already", key)
		}
		news[key] = true
	}
	// A clock that is stepped back must not turn the order round.
	if now := t.now(); now.After(t.lastAdded) {
		t.lastAdded = now
	}
	for _, in := range rows {
		t.arrivals++
		r := &row[T]{Row: in, arrival: t.arrivals}
		r.Key, r.Added, r.DoneAt = normal(in.Key), t.lastAdded, time.Time{}
		t.rows[r.Key] = r
		status := r.Status
		if status == "" {
			status = Pending
		}
		t.move(r, status)
	}
	return nil
}

// move gives a row its new status. All changes of a row end here.
func (t *table[T]) move(r *row[T], status string) {
	r.Status = status
	r.version++
	delete(t.held, r.Key)
	switch status {
	case Claimed, Sending:
		t.held[r.Key] = r
	case Pending:
		t.enqueue(r)
	}
}

// Row returns the row with this key, and whether there is one.
func (t *table[T]) Row(key sendonce.Key) (Row[T], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.rows[normal(key)]; r != nil {
		return r.Row, true
	}
	return Row[T]{}, false
}

// Rows returns all rows, in the order in which they were added.
func (t *table[T]) Rows() []Row[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Row[T], 0, len(t.rows))
	for _, r := range t.inOrder() {
		out = append(out, r.Row)
	}
	return out
}

// SetStatus does what the application does to a row of its table when it sets
// the status and nothing else. It reports whether there is such a row.
func (t *table[T]) SetStatus(key sendonce.Key, status string) bool {
	return t.change(key, func(r *row[T]) { t.move(r, status) })
}

// Schedule sets when a pending row is due; zero: at once, as if it had never
// been tried. It reports whether there is such a row, and it is pending.
func (t *table[T]) Schedule(key sendonce.Key, due time.Time) bool {
	pending := false
	t.change(key, func(r *row[T]) {
		if pending = r.Status == Pending; pending {
			r.NextAttempt = due
			t.move(r, Pending)
		}
	})
	return pending
}

// Delete deletes a row. It reports whether there was one.
func (t *table[T]) Delete(key sendonce.Key) bool {
	return t.change(key, t.drop)
}

func (t *table[T]) drop(r *row[T]) {
	r.version++
	delete(t.held, r.Key)
	delete(t.rows, r.Key)
}

func (t *table[T]) change(key sendonce.Key, f func(*row[T])) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[normal(key)]
	if r != nil {
		f(r)
	}
	return r != nil
}

// Requeue puts rows that are dead, unknown or skipped back to pending, due at
// once, with no attempts charged. Their token is cleared, so that a late result
// of an old attempt can't swallow the new order; the idempotency key stays.
// Other rows are left alone. It returns the number of rows put back. It is for
// operators: nothing else brings a row back from these states.
func (t *table[T]) Requeue(keys ...sendonce.Key) int {
	n := 0
	for _, key := range keys {
		t.change(key, func(r *row[T]) {
			if r.Status != Dead && r.Status != Unknown && r.Status != Skipped {
				return
			}
			n++
			r.Attempts, r.Token, r.NextAttempt, r.DoubtSince = 0, 0, t.now(), time.Time{}
			t.move(r, Pending)
		})
	}
	return n
}

// Holders returns the live claims, the oldest first.
func (t *table[T]) Holders() []Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Holder
	for _, c := range t.claimsInOrder() {
		h := c.Holder
		for _, key := range c.keys {
			if r := t.held[key]; r != nil && r.Token == c.Token {
				h.Unmarked++
			}
		}
		out = append(out, h)
	}
	return out
}

// Counts implements sendonce.Counter.
func (t *table[T]) Counts(ctx context.Context) (sendonce.Counts, error) {
	var c sendonce.Counts
	if ctx.Err() != nil {
		return c, context.Cause(ctx)
	}
	into := map[string]*int64{
		Pending: &c.Pending, Claimed: &c.Claimed, Sending: &c.Sending, Done: &c.Done,
		Dead: &c.Dead, Skipped: &c.Skipped, Unknown: &c.Unknown,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		n := into[r.Status]
		if n == nil {
			n = &c.Other
		}
		*n++
	}
	return c, nil
}

// checkKey returns a key as the table holds it.
func checkKey(key sendonce.Key) (sendonce.Key, error) {
	switch key := normal(key).(type) {
	case int64, uint64, string:
		return key, nil
	}
	return nil, fmt.Errorf("sendonce: a key of type %T: it must be an int64, a uint64 or a string", key)
}

func normal(key sendonce.Key) sendonce.Key {
	if k, ok := key.(int); ok {
		return int64(k)
	}
	return key
}

// idempotencyKey has nothing in it that changes from one attempt to the next
// (docs/semantics.md, section 9). It is what package claim makes of the same
// namespace and key in a table without a generation.
func (t *table[T]) idempotencyKey(key sendonce.Key) string {
	b := append(strconv.AppendInt(make([]byte, 0, 64), int64(len(t.namespace)), 10), ':')
	b = append(append(b, t.namespace...), ":0:"...)
	switch key := key.(type) {
	case int64:
		b = strconv.AppendInt(b, key, 10)
	case uint64:
		b = strconv.AppendUint(b, key, 10)
	case string:
		b = append(b, key...)
	}
	sum := sha256.Sum256(b)
	var text [32]byte
	hex.Encode(text[:], sum[:16])
	return string(text[:])
}
