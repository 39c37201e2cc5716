package memclaim

import (
	"context"
	"fmt"
	"time"

	"github.com/sendonce/sendonce"
)

// Settle implements sendonce.Claimer (transitions 4 to 8).
func (t *table[T]) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, r := range rs {
		if r.Outcome < sendonce.Done || r.Outcome > sendonce.Unknown {
			return nil, fmt.Errorf("sendonce: the result of row %v has no outcome: %v", r.Key, r.Outcome)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	var out []sendonce.Exception
	for _, res := range rs {
		r := t.rows[normal(res.Key)]
		cause := t.judge(r, res)
		if cause == 0 || cause == sendonce.Late {
			t.write(r, res, now)
		}
		if cause != 0 && cause != asWanted {
			e := sendonce.Exception{Result: res, Cause: cause}
			if r != nil {
				e.Status = r.Status
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// asWanted: the row stands as the result wants it, from an earlier Settle whose
// reply was lost.
const asWanted sendonce.Cause = 255

// judge says whether a result may be written: 0 and Late may. A fact needs its
// token and no more, an opinion a row that is still claimed by it.
func (t *table[T]) judge(r *row[T], res sendonce.Result) sendonce.Cause {
	if r == nil {
		if res.Outcome == sendonce.Done && t.forget {
			return asWanted
		}
		return sendonce.Missing
	}
	mine := r.Token == res.Token
	switch r.Status {
	case Claimed:
		if mine {
			return 0
		}
	case Sending:
		if mine && res.Outcome != sendonce.Released {
			return 0
		}
	case Pending, Dead, Unknown:
		if mine && res.Outcome == sendonce.Done {
			return sendonce.Late
		}
	case Done, Skipped:
	default:
		return sendonce.Foreign
	}
	switch {
	case stands(r, res):
		return asWanted
	case mine:
		return sendonce.NotHeld
	}
	return sendonce.Overtaken
}

// stands reports whether a row is as the result wants it.
func stands[T any](r *row[T], res sendonce.Result) bool {
	switch res.Outcome {
	case sendonce.Retry, sendonce.Released:
		return r.Status == Pending && r.Token == 0
	default:
		return r.Status == finals[res.Outcome] && r.Token == res.Token
	}
}

var finals = map[sendonce.Outcome]string{
	sendonce.Done: Done, sendonce.Dead: Dead, sendonce.Skipped: Skipped, sendonce.Unknown: Unknown,
}

func (t *table[T]) write(r *row[T], res sendonce.Result, now time.Time) {
	r.NextAttempt = time.Time{}
	if res.Doubt > 0 && res.Outcome != sendonce.Done {
		r.doubt(now.Add(-res.Doubt))
	}
	switch res.Outcome {
	case sendonce.Done:
		if t.forget {
			t.drop(r)
			return
		}
		r.DoneAt = now
		t.move(r, Done)
	case sendonce.Retry:
		r.Reason = res.Reason
		t.putBack(r, now.Add(max(res.After, 0)), res.Uncharged)
	case sendonce.Released:
		t.putBack(r, now, true)
	default:
		r.Reason = res.Reason
		t.move(r, finals[res.Outcome])
	}
}

// putBack returns a row because its owner asked for it: no token stays.
func (t *table[T]) putBack(r *row[T], due time.Time, uncharged bool) {
	r.Token, r.NextAttempt = 0, due
	if uncharged && r.Attempts > 0 {
		r.Attempts--
	}
	t.move(r, Pending)
}

// doubt notes that a send which began then may have been accepted.
func (r *row[T]) doubt(since time.Time) {
	if r.DoubtSince.IsZero() {
		r.DoubtSince = since
	}
}
