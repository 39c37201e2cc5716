package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
)

// event is what a worker tells its parent: one line of JSON, in one write to a
// pipe. What was written before a SIGKILL is still in the pipe after it.
type event struct {
	Event   string   `json:"event"`
	Key     string   `json:"key,omitempty"`     // sending
	ID      string   `json:"id,omitempty"`      // sending: the Message-ID
	Outcome string   `json:"outcome,omitempty"` // marked
	Keys    []string `json:"keys,omitempty"`    // marked
	N       int      `json:"n,omitempty"`       // claimed, returned
	Text    string   `json:"text,omitempty"`    // excepted: the cause
}

// The events.
const (
	evClaimed  = "claimed"  // N rows were claimed
	evSending  = "sending"  // the mail of a row is about to be sent
	evMarked   = "marked"   // the outcome of rows is recorded in the database
	evExcepted = "excepted" // a row's result did not go as usual
	evReturned = "returned" // N rows of a vanished worker were given back
)

// diary writes a worker's events. Several goroutines may use it.
type diary struct {
	mu sync.Mutex
	w  io.Writer
}

// tell ignores errors: if the parent is gone, the worker is about to stop.
func (d *diary) tell(e event) {
	line, _ := json.Marshal(e)
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = d.w.Write(append(line, '\n'))
}

// announce tells of each mail before it is sent.
func (d *diary) announce(send sendonce.SenderFunc[Mail]) sendonce.SenderFunc[Mail] {
	return func(ctx context.Context, item sendonce.Item[Mail]) error {
		d.tell(event{Event: evSending, Key: fmt.Sprint(item.Key), ID: messageID(item)})
		return send(ctx, item)
	}
}

func (d *diary) hooks() sendonce.Hooks {
	return sendonce.Hooks{
		Claimed: func(n int, _ time.Duration, err error) {
			if err == nil && n > 0 {
				d.tell(event{Event: evClaimed, N: n})
			}
		},
		Reaped: func(r sendonce.Reaped) {
			if n := r.Returned + r.Dead + r.Unknown; n > 0 {
				d.tell(event{Event: evReturned, N: n})
			}
		},
		Excepted: func(e sendonce.Exception) {
			d.tell(event{Event: evExcepted, Key: fmt.Sprint(e.Result.Key), Text: e.Cause.String()})
		},
	}
}

// watch tells of each row whose outcome is recorded.
func (d *diary) watch(c *claim.Atomic[Mail]) sendonce.Claimer[Mail] {
	return watched{c, d}
}

// watched is the strategy with one method seen from outside. The others, those
// of Reaper and the like too, are the strategy's own.
type watched struct {
	*claim.Atomic[Mail]
	diary *diary
}

func (w watched) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	exceptions, err := w.Atomic.Settle(ctx, rs)
	if err != nil {
		return exceptions, err // not known: it will be repeated
	}
	unwritten := map[sendonce.Key]bool{}
	for _, e := range exceptions {
		unwritten[e.Result.Key] = e.Cause != sendonce.Late
	}
	keys := map[sendonce.Outcome][]string{}
	for _, r := range rs {
		if !unwritten[r.Key] {
			keys[r.Outcome] = append(keys[r.Outcome], fmt.Sprint(r.Key))
		}
	}
	for outcome, ks := range keys {
		w.diary.tell(event{Event: evMarked, Outcome: outcome.String(), Keys: ks})
	}
	return exceptions, nil
}
