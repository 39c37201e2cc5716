package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// The mail server's answers, as its log has them.
const (
	accepted = "accepted"
	deferred = "deferred" // 4xx: later, perhaps
	refused  = "refused"  // 5xx: never
)

// ledger is the mail server's log. It is the truth about what was sent: it is
// written by the receiving side, before the sender can know, and no worker's
// death can touch it.
type ledger struct{ file *os.File }

// entry is a line of the log.
type entry struct {
	answer    string
	worker    string
	address   string
	messageID string // empty for deferred and refused: those came before DATA
}

func openLedger(path string) (*ledger, error) {
	// O_APPEND and one write per line: lines of several connections never mix.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot write the mail server's log: %w: name a folder that can be written with -dir", err)
	}
	return &ledger{file}, nil
}

func (l *ledger) add(e entry) error {
	line := strings.Join([]string{time.Now().UTC().Format(time.RFC3339Nano), e.answer, e.worker, e.address, e.messageID}, "\t")
	_, err := l.file.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n")
	return err
}

// readLedger reads a log back. A last line without its end is none: its writer
// had not answered yet.
func readLedger(r io.Reader) ([]entry, error) {
	var entries []entry
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 5 {
			return nil, fmt.Errorf("line %d of the mail server's log is not one of ours: %q", len(entries)+1, line)
		}
		entries = append(entries, entry{fields[1], fields[2], fields[3], fields[4]})
	}
}

// tally is what the log comes to, compared with what was expected.
type tally struct {
	expected    int // mails: one for each receiver
	received    int // mails, second ones included
	twice       int // Message-IDs that were received more than once
	extra       int // mails received beyond the first of their Message-ID
	unexplained int // of twice: not in flight on the killed worker
	never       int // receivers who got nothing and were not refused for good
	refused     int // receivers whom the server refused for good
	deferred    int // answers, not receivers
	strangers   int // mails to addresses that nobody expected
	byWorker    map[string]int
	missing     []string // some of never
}

// count compares the log with the receivers: expected is how many mails each
// address is to get. inFlight are the Message-IDs that a killed worker had begun
// to send and had not recorded: those, and no others, may come twice. The worker
// announced each mail before it began to send it, and told of its record after
// the database had confirmed it, so the set errs only towards too many. To look
// for each second mail in it is stricter than to compare the two numbers.
func count(entries []entry, expected map[string]int, inFlight map[string]bool) tally {
	t := tally{byWorker: map[string]int{}}
	mails := map[string]int{}           // by Message-ID
	got := map[string]map[string]bool{} // Message-IDs by address
	refusedForGood := map[string]bool{} // by address
	for _, e := range entries {
		switch e.answer {
		case accepted:
			t.received++
			t.byWorker[e.worker]++
			mails[e.messageID]++
			if got[e.address] == nil {
				got[e.address] = map[string]bool{}
			}
			got[e.address][e.messageID] = true
			if expected[e.address] == 0 {
				t.strangers++
			}
		case deferred:
			t.deferred++
		case refused:
			refusedForGood[e.address] = true
		}
	}
	for id, n := range mails {
		if n > 1 {
			t.twice++
			t.extra += n - 1
			if !inFlight[id] {
				t.unexplained++
			}
		}
	}
	for address, n := range expected {
		t.expected += n
		missing := n - len(got[address])
		switch {
		case refusedForGood[address]:
			t.refused += missing
		case missing > 0:
			t.never += missing
			if len(t.missing) < 5 {
				t.missing = append(t.missing, address)
			}
		}
	}
	return t
}

// failed says why a run was not as promised; empty if it was.
func (t tally) failed() string {
	switch {
	case t.never > 0:
		return fmt.Sprintf("%d receivers got nothing, for example %s", t.never, strings.Join(t.missing, ", "))
	case t.unexplained > 0:
		return fmt.Sprintf("%d mails were received twice that no killed worker had in flight", t.unexplained)
	case t.strangers > 0:
		return fmt.Sprintf("%d mails went to addresses that nobody expected", t.strangers)
	}
	return ""
}
