package sendonce

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sender sends. Send is called from up to Config.Concurrency goroutines at
// once. It gets one item, or up to Config.GroupSize of them, and owns the slice
// until it returns. ctx ends at SendTimeout, before the lease could end (its
// cause is then ErrLost) and when a stopping Dispatcher runs out of patience
// (ErrStopping): a Sender that ignores it keeps its slot, and its rows are not
// handed out meanwhile.
//
// A nil error means that all items were sent. An ItemErrors answers each item by
// itself. Any other error is the answer for all of them. Wrap an error with
// Permanent, RetryAfter, Throttled, Skip, NotSent or Ambiguous to say more; what an untyped
// error means depends on Config.Delivery. A panic costs its items, not the
// process.
type Sender[T any] interface {
	Send(ctx context.Context, items []Item[T]) error
}

// Reconciler is a Sender that can ask the provider what became of an earlier send,
// by the row's idempotency key. The Dispatcher asks before it sends an item that
// is InDoubt, within the same SendTimeout; and, if the Claimer is an Examiner,
// now and then about rows that are unknown: first when Run has gone on for a
// lease, so that no send of theirs can still be running. Wrap a Sender with
// WithReconcile to make one.
type Reconciler[T any] interface {
	// Reconcile gets up to Config.GroupSize items and answers like Send. Nil: it
	// was accepted, and the row is done without another send. NotSent: it surely
	// was not, and can't be any more; the item is sent now, or, if it was
	// unknown, put back to pending. Permanent and Skip: as from Send. Any other
	// error: nothing is known; the item is sent again with the same key under
	// AtLeastOnce, and what is unknown stays so.
	Reconcile(ctx context.Context, items []Item[T]) error
}

// WithReconcile makes a Sender a Reconciler. f answers for one item; several are
// asked about one after the other.
func WithReconcile[T any](s Sender[T], f func(ctx context.Context, item Item[T]) error) Sender[T] {
	return reconciled[T]{s, f}
}

type reconciled[T any] struct {
	Sender[T]
	ask SenderFunc[T]
}

func (r reconciled[T]) Reconcile(ctx context.Context, items []Item[T]) error {
	// Not SenderFunc.Send: its NotSent at the end of ctx would be taken for an
	// answer.
	errs := make(ItemErrors, len(items))
	for i, item := range items {
		if errs[i] = context.Cause(ctx); errs[i] == nil {
			errs[i] = r.ask(ctx, item)
		}
	}
	return errs
}

// SenderFunc is a Sender of one item at a time. Given several, it sends them in
// order and answers each by itself.
type SenderFunc[T any] func(ctx context.Context, item Item[T]) error

// Send calls f for each item. It stops at the end of ctx: the items left are
// answered as NotSent.
func (f SenderFunc[T]) Send(ctx context.Context, items []Item[T]) error {
	if len(items) == 1 {
		return f(ctx, items[0])
	}
	errs := make(ItemErrors, len(items))
	for i, item := range items {
		if ctx.Err() != nil {
			errs[i] = NotSent(context.Cause(ctx))
			continue
		}
		errs[i] = f(ctx, item)
	}
	return errs
}

// BatchSenderFunc is a Sender of up to Config.GroupSize items in one call.
type BatchSenderFunc[T any] func(ctx context.Context, items []Item[T]) error

// Send calls f.
func (f BatchSenderFunc[T]) Send(ctx context.Context, items []Item[T]) error { return f(ctx, items) }

// ItemErrors answers each item of a Send by itself, by position: nil for one
// that was sent. Items beyond its end have no answer: they count as Ambiguous.
type ItemErrors []error

// Error names the first failure and the number of them.
func (e ItemErrors) Error() string {
	n, first := 0, error(nil)
	for _, err := range e {
		if err == nil {
			continue
		}
		if n++; first == nil {
			first = err
		}
	}
	return fmt.Sprintf("sendonce: %d of %d items failed, the first: %v", n, len(e), first)
}

// verdict is an error with what it means for the row.
type verdict struct {
	kind  verdictKind
	after time.Duration
	err   error
}

type verdictKind uint8

const (
	untyped verdictKind = iota
	permanent
	retryAfter
	throttled
	skip
	notSent
	ambiguous
	expired  // in doubt for longer than the provider remembers
	sentKind // no error
)

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

func newVerdict(kind verdictKind, after time.Duration, err error) error {
	if err == nil {
		err = errors.New("no reason given")
	}
	return &verdict{kind: kind, after: after, err: err}
}

// Permanent says that no retry can help: the row becomes dead.
func Permanent(err error) error { return newVerdict(permanent, 0, err) }

// RetryAfter says that this row was refused for now, and for how long. Nothing
// was sent. It is not charged as an attempt. Other rows go on: see Throttled.
func RetryAfter(d time.Duration, err error) error { return newVerdict(retryAfter, max(d, 0), err) }

// Throttled says that the provider refused for now and wants nobody to send for
// d: like RetryAfter, and the Dispatcher begins no send until then. If
// Config.Limiter is a Pauser, all who share it wait.
func Throttled(d time.Duration, err error) error { return newVerdict(throttled, max(d, 0), err) }

// Skip says that the row is not to be sent: it becomes skipped.
func Skip(reason string) error { return newVerdict(skip, 0, errors.New(reason)) }

// NotSent says that nothing reached the provider, so that a retry is safe under
// any Delivery.
func NotSent(err error) error { return newVerdict(notSent, 0, err) }

// Ambiguous says that the message may or may not have been accepted (written,
// and no answer came). It is retried with the same idempotency key under
// AtLeastOnce; under AtMostOnce the row becomes unknown.
func Ambiguous(err error) error { return newVerdict(ambiguous, 0, err) }
