package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
)

// Mail is what is sent.
type Mail struct{ Address string }

// The states of a row. A row in any other is left alone.
const (
	pending = "pending"
	claimed = "claimed"
	done    = "done"
	dead    = "dead"
	skipped = "skipped"
	unknown = "unknown"
)

var finals = map[sendonce.Outcome]string{sendonce.Done: done, sendonce.Dead: dead, sendonce.Skipped: skipped, sendonce.Unknown: unknown}

type row struct {
	mail     Mail
	status   string
	token    int64 // of the claim that has the row, or had it last
	attempts int
	due      time.Time
	reason   string
}

// Queue is a sendonce.Claimer and a sendonce.Counter over a slice. The key of a
// row is its index. Several goroutines may use it at once.
type Queue struct {
	mu         sync.Mutex
	rows       []row
	freshFirst bool
}

// Add appends a row that is due at once, and returns its key.
func (q *Queue) Add(m Mail) sendonce.Key {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rows = append(q.rows, row{mail: m, status: pending, due: time.Now()})
	return int64(len(q.rows) - 1)
}

// Claim marks rows and returns them: with the lock held, which is this store's
// transaction. The lease means nothing here: see the package comment.
func (q *Queue) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[Mail], error) {
	var b sendonce.Batch[Mail]
	if ctx.Err() != nil {
		return b, context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := q.due(time.Now())
	if len(keys) == 0 {
		return b, nil
	}
	for b.Token == 0 { // which means "no token"
		b.Token = rand.Int64()
	}
	for _, key := range keys[:min(req.Limit, len(keys))] {
		r := &q.rows[key]
		r.status, r.token = claimed, b.Token
		r.attempts++
		b.Items = append(b.Items, sendonce.Item[Mail]{
			Key: key, Value: r.mail, Attempt: r.attempts, IdempotencyKey: fmt.Sprintf("example-custom-%d", key),
		})
	}
	return b, nil
}

// due returns the keys of what can be claimed, in order. Rows that were never
// tried and rows that come back take turns to be first, so that neither starves
// the other.
func (q *Queue) due(now time.Time) []int64 {
	var keys []int64
	for i, r := range q.rows {
		if r.status == pending && !r.due.After(now) {
			keys = append(keys, int64(i))
		}
	}
	q.freshFirst = !q.freshFirst
	slices.SortStableFunc(keys, func(i, j int64) int {
		a, b := q.rows[i], q.rows[j]
		switch fresh := a.attempts == 0; {
		case fresh == (b.attempts == 0):
			return a.due.Compare(b.due)
		case fresh == q.freshFirst:
			return -1
		}
		return 1
	})
	return keys
}

// Extend finds the claims that are still there: those with a row. As leases have
// no end here, there is nothing else to do.
func (q *Queue) Extend(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
	var ext sendonce.Extension
	if ctx.Err() != nil {
		return ext, context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, token := range tokens {
		if !slices.ContainsFunc(q.rows, func(r row) bool { return r.status == claimed && r.token == token }) {
			ext.Lost = append(ext.Lost, token)
		}
	}
	return ext, nil
}

// Settle records results, and says of each that it doesn't record why.
func (q *Queue) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []sendonce.Exception
	for _, res := range rs {
		key, ok := res.Key.(int64)
		if !ok || key < 0 || key >= int64(len(q.rows)) {
			out = append(out, sendonce.Exception{Result: res, Cause: sendonce.Missing})
			continue
		}
		r := &q.rows[key]
		write, cause := r.judge(res)
		if cause != 0 {
			out = append(out, sendonce.Exception{Result: res, Cause: cause, Status: r.status})
		}
		if write {
			r.write(res)
		}
	}
	return out, nil
}

// judge says whether a result may be written, and what is unusual about it.
func (r *row) judge(res sendonce.Result) (write bool, cause sendonce.Cause) {
	mine, back := r.token == res.Token, res.Outcome == sendonce.Retry || res.Outcome == sendonce.Released
	switch {
	case !slices.Contains([]string{pending, claimed, done, dead, skipped, unknown}, r.status):
		return false, sendonce.Foreign
	case back && r.status == pending && r.token == 0, mine && r.status == finals[res.Outcome]:
		return false, 0 // it was written before, and the answer was lost
	case !mine:
		return false, sendonce.Overtaken
	case r.status == claimed:
		return true, 0
	case res.Outcome == sendonce.Done && r.status != skipped:
		return true, sendonce.Late // that it was sent is a fact
	}
	return false, sendonce.NotHeld // and everything else an opinion
}

func (r *row) write(res sendonce.Result) {
	if res.Reason != "" {
		r.reason = res.Reason
	}
	if final := finals[res.Outcome]; final != "" {
		r.status = final // the token stays, and tells whose result it is
		return
	}
	r.status, r.token, r.due = pending, 0, time.Now().Add(res.After)
	if res.Outcome == sendonce.Released || res.Uncharged {
		r.attempts--
	}
}

// Counts counts the rows, so that Drain knows when nothing is left.
func (q *Queue) Counts(ctx context.Context) (sendonce.Counts, error) {
	var c sendonce.Counts
	if ctx.Err() != nil {
		return c, context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	counters := map[string]*int64{pending: &c.Pending, claimed: &c.Claimed, done: &c.Done, dead: &c.Dead, skipped: &c.Skipped, unknown: &c.Unknown}
	for _, r := range q.rows {
		counter := counters[r.status]
		if counter == nil {
			counter = &c.Other
		}
		*counter++
	}
	return c, nil
}
