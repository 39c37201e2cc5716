package sendertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sendonce/sendonce"
)

// event is one line of a file.
type event struct {
	ID             string  `json:"id"`            // process.serial
	Key            string  `json:"key,omitempty"` // of a beginning; see keyText
	IdempotencyKey string  `json:"idempotency_key,omitempty"`
	Attempt        int     `json:"attempt,omitempty"`
	Worker         string  `json:"worker,omitempty"`
	At             int64   `json:"at"`               // nanoseconds since 1970
	Answer         *string `json:"answer,omitempty"` // of an end; empty: sent
}

func beginEvent(id string, s *Send) event {
	return event{ID: id, Key: keyText(s.Key), IdempotencyKey: s.IdempotencyKey, Attempt: s.Attempt, Worker: s.Worker, At: s.Start.UnixNano()}
}

func endEvent(begin event, at time.Time, err error) event {
	answer := ""
	if err != nil {
		answer = "error: " + errorText(err)
	}
	return event{ID: begin.ID, At: at.UnixNano(), Answer: &answer}
}

// errorText copes with errors that can't say what they are.
func errorText(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("%T, which panics when asked", err)
		}
	}()
	return err.Error()
}

func (e event) line() []byte {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // there is nothing in it that could fail
	}
	return append(line, '\n')
}

// Read reads files that Recorders have written and merges them. A file that is
// not there has no sends in it: its process may have been killed before it began
// one.
func Read(paths ...string) (*Log, error) {
	l := newLog()
	open := map[string]*Send{}
	alive := map[string]time.Time{} // by process
	for _, path := range paths {
		err := eachLine(path, func(e event) error {
			at := time.Unix(0, e.At)
			process, _, _ := strings.Cut(e.ID, ".")
			if at.After(alive[process]) {
				alive[process] = at
			}
			if e.Answer == nil {
				key, err := parseKey(e.Key)
				s := &Send{Key: key, IdempotencyKey: e.IdempotencyKey, Attempt: e.Attempt, Worker: e.Worker, Start: at}
				open[e.ID] = s
				l.sends = append(l.sends, s)
				return err
			}
			s := open[e.ID]
			if s == nil {
				return errors.New("the end of a send that did not begin")
			}
			delete(open, e.ID)
			if s.End = at; *e.Answer != "" {
				s.Err = errors.New(strings.TrimPrefix(*e.Answer, "error: "))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("sendertest: %w", err)
		}
	}
	for id, s := range open {
		process, _, _ := strings.Cut(id, ".")
		s.alive = alive[process]
	}
	return l, nil
}

func eachLine(path string, f func(event) error) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20) // answers may be long
	for n := 1; lines.Scan(); n++ {
		var e event
		err := json.Unmarshal(lines.Bytes(), &e)
		if err == nil {
			err = f(e)
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
	}
	return lines.Err()
}

// keyText writes a key with its type, so that it is read back as it was.
func keyText(key sendonce.Key) string {
	switch key := normal(key).(type) {
	case int64:
		return "int64:" + strconv.FormatInt(key, 10)
	case uint64:
		return "uint64:" + strconv.FormatUint(key, 10)
	case string:
		return "string:" + strconv.QuoteToASCII(key) // it may be no UTF-8
	}
	return fmt.Sprintf("%T", key)
}

func parseKey(text string) (sendonce.Key, error) {
	kind, value, _ := strings.Cut(text, ":")
	switch kind {
	case "int64":
		return strconv.ParseInt(value, 10, 64)
	case "uint64":
		return strconv.ParseUint(value, 10, 64)
	case "string":
		return strconv.Unquote(value)
	}
	return nil, fmt.Errorf("a key of type %s", text)
}
