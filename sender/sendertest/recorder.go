package sendertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sendonce/sendonce"
)

// Recorder is a sendonce.Sender that records each send and asks another Sender
// for the answer. It may be used from any number of goroutines and Dispatchers.
// The questions of Log are about what this process has sent.
type Recorder[T any] struct {
	*Log
	inner  sendonce.Sender[T]
	worker string
	file   *os.File
}

// New makes a Recorder. inner does the sending and decides the answer; nil
// answers each send with nil at once.
func New[T any](inner sendonce.Sender[T]) *Recorder[T] {
	return &Recorder[T]{Log: newLog(), inner: inner}
}

// NewFile makes a Recorder that also appends what happens to a file, which is
// made if it isn't there. Each event is one write to a file opened for
// appending, and the beginning of a send is written before it begins: what was
// written survives when the process is killed, and several processes may share a
// file. While the file can't be written nothing is sent, and the answer is
// NotSent.
func NewFile[T any](path string, inner sendonce.Sender[T]) (*Recorder[T], error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("sendertest: cannot record: %w", err)
	}
	r := New(inner)
	r.file = f
	return r, nil
}

// As returns a Recorder with the same record that writes this name as
// Send.Worker. The file, if there is one, is shared too.
func (r *Recorder[T]) As(worker string) *Recorder[T] {
	named := *r
	named.worker = worker
	return &named
}

// Close closes the file. Without one it does nothing.
func (r *Recorder[T]) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// errExited is the record of a send that ended without an answer.
var errExited = errors.New("sendertest: the goroutine exited in mid-send")

// Send implements sendonce.Sender. A panic is recorded and goes on.
func (r *Recorder[T]) Send(ctx context.Context, items []sendonce.Item[T]) (err error) {
	sends := make([]*Send, len(items))
	begins := make([]event, len(items))
	start := time.Now()
	for i, it := range items {
		sends[i] = &Send{Key: it.Key, IdempotencyKey: it.IdempotencyKey, Attempt: it.Attempt, Worker: r.worker, Start: start}
		begins[i] = beginEvent(r.nextID(), sends[i])
	}
	if err := r.append(begins); err != nil {
		return sendonce.NotSent(err)
	}
	r.begin(sends)

	answered := false
	defer func() {
		p := recover()
		switch {
		case p != nil:
			err = fmt.Errorf("sendertest: panic: %v", p)
		case !answered:
			err = errExited
		}
		recordErr := r.record(sends, begins, err)
		if p != nil {
			panic(p)
		}
		if recordErr != nil {
			err = sendonce.Ambiguous(recordErr)
		}
	}()
	if r.inner != nil {
		err = r.inner.Send(ctx, items)
	}
	answered = true
	return err
}

// record notes the end of sends with their answers.
func (r *Recorder[T]) record(sends []*Send, begins []event, err error) error {
	end := time.Now()
	ends := make([]event, len(sends))
	answers := make([]error, len(sends))
	for i := range sends {
		answers[i] = answerOf(err, i)
		ends[i] = endEvent(begins[i], end, answers[i])
	}
	r.end(sends, end, answers)
	return r.append(ends)
}

// answerOf is what an answer to several items says of one of them.
func answerOf(err error, i int) error {
	var each sendonce.ItemErrors
	if !errors.As(err, &each) {
		return err
	}
	if i < len(each) {
		return each[i]
	}
	return errors.New("sendertest: no answer for this item")
}

func (r *Recorder[T]) append(events []event) error {
	if r.file == nil {
		return nil
	}
	for _, e := range events {
		if _, err := r.file.Write(e.line()); err != nil {
			return fmt.Errorf("sendertest: cannot record: %w", err)
		}
	}
	return nil
}
