package sendertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce"
)

// Send is one attempt to send one row.
type Send struct {
	Key            sendonce.Key
	IdempotencyKey string
	Attempt        int
	Worker         string // as given to Recorder.As

	// Start is before the Sender was asked, and End after it has answered. End
	// is zero if it has not: it runs, or its process was killed in mid-send.
	Start, End time.Time

	// Err is the answer: nil if the row was sent, or if there is no End. Read
	// from a file it is the text alone.
	Err error

	// alive is the last moment at which the process of a send without an End is
	// known to have lived. Zero: it lives.
	alive time.Time
}

// Accepted reports whether the send was answered, and with nil.
func (s Send) Accepted() bool { return !s.End.IsZero() && s.Err == nil }

// String tells the send in one line.
func (s Send) String() string {
	answer := "no end"
	if !s.End.IsZero() {
		answer = fmt.Sprintf("%v, %v", s.End.Sub(s.Start), s.Err)
	}
	return fmt.Sprintf("row %v, attempt %d by %q at %s (%s)", s.Key, s.Attempt, s.Worker, s.Start.Format("15:04:05.000000"), answer)
}

// Log is a record of sends, with questions. Its methods may be called from any
// number of goroutines, also while sends go on. Keys may be given as int where
// the table has int64.
type Log struct {
	mu    sync.Mutex
	sends []*Send

	process string
	serial  atomic.Int64
}

func newLog() *Log { return &Log{process: fmt.Sprintf("%016x", rand.Uint64())} }

// nextID names a send: no two have one name, also over processes.
func (l *Log) nextID() string { return fmt.Sprintf("%s.%d", l.process, l.serial.Add(1)) }

func (l *Log) begin(sends []*Send) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sends = append(l.sends, sends...)
}

func (l *Log) end(sends []*Send, at time.Time, answers []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range sends {
		s.End, s.Err = at, answers[i]
	}
}

// All returns all sends, by their start.
func (l *Log) All() []Send {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Send, len(l.sends))
	for i, s := range l.sends {
		out[i] = *s
	}
	slices.SortStableFunc(out, func(a, b Send) int { return a.Start.Compare(b.Start) })
	return out
}

// Count returns the number of sends, whatever their answer.
func (l *Log) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sends)
}

// Sends returns the sends of one row, by their start.
func (l *Log) Sends(key sendonce.Key) []Send { return l.byKey()[normal(key)] }

func (l *Log) byKey() map[sendonce.Key][]Send {
	out := map[sendonce.Key][]Send{}
	for _, s := range l.All() {
		out[normal(s.Key)] = append(out[normal(s.Key)], s)
	}
	return out
}

// Overlaps returns the pairs of sends of one row that went on at one time. A
// send without an End lasts until now, or as long as its process is known to
// have lived. Sends of several processes are compared by the machine's clock.
func (l *Log) Overlaps() [][2]Send {
	now := time.Now()
	var out [][2]Send
	for _, sends := range l.byKey() {
		for i, a := range sends {
			for _, b := range sends[i+1:] {
				if b.Start.Before(a.until(now)) {
					out = append(out, [2]Send{a, b})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b [2]Send) int { return a[1].Start.Compare(b[1].Start) })
	return out
}

func (s Send) until(now time.Time) time.Time {
	switch {
	case !s.End.IsZero():
		return s.End
	case !s.alive.IsZero():
		return s.alive
	}
	return now
}

// MoreThanOnce returns the sends of each row that was accepted more than once.
// Attempts that failed don't count, nor do sends without an End.
func (l *Log) MoreThanOnce() map[sendonce.Key][]Send {
	out := map[sendonce.Key][]Send{}
	for key, sends := range l.byKey() {
		accepted := slices.DeleteFunc(sends, func(s Send) bool { return !s.Accepted() })
		if len(accepted) > 1 {
			out[key] = accepted
		}
	}
	return out
}

// Missing returns those of the keys that were never accepted.
func (l *Log) Missing(keys []sendonce.Key) []sendonce.Key {
	accepted := map[sendonce.Key]bool{}
	for _, s := range l.All() {
		if s.Accepted() {
			accepted[normal(s.Key)] = true
		}
	}
	var out []sendonce.Key
	for _, key := range keys {
		if !accepted[normal(key)] {
			out = append(out, key)
		}
	}
	return out
}

func normal(key sendonce.Key) sendonce.Key {
	if k, ok := key.(int); ok {
		return int64(k)
	}
	return key
}
