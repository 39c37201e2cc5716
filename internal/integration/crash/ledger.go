// Package crash kills, stops and cuts off real worker processes while a real
// provider keeps the account of what it has accepted, and judges by that account
// alone: the database is one of the accused.
package crash

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// The kinds of events. The provider writes accepted, before it answers; workers
// write the others about sends; faults are the injector's.
const (
	begun    = "begun"    // a Send begins
	accepted = "accepted" // the provider has taken the message
	answered = "answered" // the Send returns
	marked   = "marked"   // the row's Done is recorded
	fault    = "fault"
	noted    = "noted" // what a run must have met to say anything
)

// event is a line of the ledger.
type event struct {
	Kind   string `json:"kind"`
	At     int64  `json:"at"` // nanoseconds since 1970
	Worker string `json:"worker,omitempty"`
	Key    int64  `json:"key,omitempty"`
	Send   string `json:"send,omitempty"` // names one Send
	Idem   string `json:"idem,omitempty"`
	OK     bool   `json:"ok,omitempty"`    // answered: the provider said yes
	Until  int64  `json:"until,omitempty"` // fault: its end
	What   string `json:"what,omitempty"`  // fault: killed, paused, cut or outage; noted: what
	N      int    `json:"n,omitempty"`     // noted: how often
}

// ledger is a file that many processes append to.
type ledger struct{ f *os.File }

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &ledger{f}, err
}

// write appends an event by one write, which a kill can't tear.
func (l *ledger) write(e event) error {
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = l.f.Write(append(line, '\n'))
	return err
}

func (l *ledger) close() error { return l.f.Close() }

// readLedger returns all events in the order of their times.
func readLedger(path string) ([]event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []event
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d of the ledger is torn: %w", len(out)+1, err)
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b event) int { return int(a.At - b.At) })
	return out, lines.Err()
}
