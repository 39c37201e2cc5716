package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// watched is a Claimer whose calls are written down.
type watched struct {
	combo.Claimer
	renewer combo.Claimer // asked for renewals: the same, or one with a line of its own

	mu   sync.Mutex
	made []call
}

// call is what a Dispatcher asked of its Claimer.
type call struct {
	what       string
	began, end time.Time
	err        error
	rows       []attempt // of a Claim
	tokens     []int64   // of a Claim that returned rows, and of an Extend those that were not lost
}

// attempt names one send.
type attempt struct {
	key sendonce.Key
	n   int
}

func (c call) String() string {
	return fmt.Sprintf("%s %s took %v: %d rows, %v", c.began.Format("15:04:05.000"), c.what, c.end.Sub(c.began).Round(time.Millisecond), len(c.rows), c.err)
}

func (w *watched) note(c call) {
	c.end = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = append(w.made, c)
}

// calls returns those of one kind that began within a time.
func (w *watched) calls(what string, from, to time.Time) (out []call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.made {
		if c.what == what && !c.began.Before(from) && c.began.Before(to) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b call) int { return a.began.Compare(b.began) })
	return out
}

func (w *watched) all(what string) []call {
	return w.calls(what, time.Time{}, time.Now().Add(time.Hour))
}

// String lists the last calls.
func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, c := range w.made[max(0, len(w.made)-60):] {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}

// sure is the last moment up to which the rows of an attempt were surely this
// worker's, if one asks at a time: a lease after the begin of the claim, or of the
// last renewal that was confirmed by then.
func (w *watched) sure(a attempt, lease time.Duration, at time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var token int64
	var since time.Time
	for _, c := range w.made {
		if c.what == claiming && slices.Contains(c.rows, a) {
			token, since = c.tokens[0], c.began
		}
	}
	for _, c := range w.made {
		if c.what == renewing && c.err == nil && !c.end.After(at) && slices.Contains(c.tokens, token) && c.began.After(since) {
			since = c.began
		}
	}
	return since.Add(lease)
}

// The kinds of calls.
const (
	claiming = "Claim"
	renewing = "Extend"
	settling = "Settle"
	ending   = "End"
	reaping  = "Reap"
)

func (w *watched) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[combo.Mail], error) {
	c := call{what: claiming, began: time.Now()}
	b, err := w.Claimer.Claim(ctx, req)
	c.err = err
	for _, m := range b.Items {
		c.rows, c.tokens = append(c.rows, attempt{m.Key, m.Attempt}), []int64{b.Token}
	}
	w.note(c)
	return b, err
}

func (w *watched) Extend(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
	c := call{what: renewing, began: time.Now()}
	e, err := w.renewer.Extend(ctx, tokens)
	c.err = err
	c.tokens = slices.DeleteFunc(slices.Clone(tokens), func(token int64) bool { return slices.Contains(e.Lost, token) })
	w.note(c)
	return e, err
}

func (w *watched) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	c := call{what: settling, began: time.Now()}
	es, err := w.Claimer.Settle(ctx, rs)
	c.err = err
	w.note(c)
	return es, err
}

func (w *watched) End(ctx context.Context, tokens []int64) error {
	c := call{what: ending, began: time.Now()}
	c.err = w.Claimer.End(ctx, tokens)
	w.note(c)
	return c.err
}

func (w *watched) Reap(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
	c := call{what: reaping, began: time.Now()}
	r, err := w.Claimer.Reap(ctx, req)
	c.err = err
	w.note(c)
	return r, err
}
