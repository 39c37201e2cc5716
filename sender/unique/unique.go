package unique

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/lock"
)

// Scope is for how long a row has its key.
type Scope uint8

const (
	// Window: from the reservation, or else the begin of the send, until
	// Options.For after the send was accepted. The zero value.
	Window Scope = iota
	// UntilDone: until the send was accepted.
	UntilDone
	// UntilBegin: from the reservation until the send begins. Without Reserve it
	// does nothing.
	UntilBegin
)

// Conflict is what becomes of a row whose key another row has.
type Conflict uint8

const (
	// Skip: the row is skipped, with a reason that names the other row; also if
	// that one then fails. The zero value.
	Skip Conflict = iota
	// Wait: the row is tried again later, and not charged.
	Wait
	// SkipSent: the row is skipped if the other one was sent, and waits if that is
	// not yet sure. Nobody is skipped in favour of a row that then fails.
	SkipSent
)

// Options say what is unique. Key is needed, and For where something lasts for it.
type Options[T any] struct {
	// Key is what no two rows may share: a receiver, say. An empty one is not
	// unique. It depends on the item alone.
	Key func(sendonce.Item[T]) string

	// For is how long a key stays taken after the send under Window, and how long
	// a reservation lasts at the most: longer than rows wait in the table.
	For time.Duration

	Scope    Scope
	Conflict Conflict

	// WaitFor is how long a row waits whose key is taken, if it waits, and one
	// whose key can't be had because the store does not answer. Default: 5 s.
	WaitFor time.Duration

	// Lease is how long a key stays held after its worker is gone. It is renewed
	// every third of it while the send runs. Default: 30 s; at least lock.MinTTL.
	Lease time.Duration

	// Alive says whether a row of the table may still be sent: it is pending,
	// claimed or sending. The strategies of package claim have such a method.
	// Reserve needs it: a reservation whose row is not alive is taken over.
	Alive func(ctx context.Context, row sendonce.Key) (bool, error)

	// Grace is how long a new reservation is good before Alive is asked about its
	// row, which may be in a transaction that is not committed yet. Default: 30 s.
	Grace time.Duration

	// Table tells apart rows of several tables that share their unique keys in one
	// store. Alive is asked about rows of this one only; those of others count as
	// alive. Default: "".
	Table string

	// Logger gets what an operator should know: a key that could not be marked.
	// Default: slog.Default().
	Logger *slog.Logger
}

func (o *Options[T]) complete() error {
	for d, or := range map[*time.Duration]time.Duration{&o.WaitFor: 5 * time.Second, &o.Lease: 30 * time.Second, &o.Grace: 30 * time.Second} {
		if *d == 0 {
			*d = or
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Key == nil:
		return errors.New("sendonce: unique.Options.Key is nil: say what no two rows may share")
	case o.Scope > UntilBegin:
		return fmt.Errorf("sendonce: unique.Options.Scope is %d: it is none of Window, UntilDone, UntilBegin", o.Scope)
	case o.Conflict > SkipSent:
		return fmt.Errorf("sendonce: unique.Options.Conflict is %d: it is none of Skip, Wait, SkipSent", o.Conflict)
	case o.Scope == Window && o.For < time.Millisecond:
		return fmt.Errorf("sendonce: unique.Options.For is %v: a Window must last for a millisecond at least", o.For)
	case o.For < 0 || o.WaitFor < 0 || o.Grace < 0:
		return fmt.Errorf("sendonce: unique.Options has a negative time: For %v, WaitFor %v, Grace %v", o.For, o.WaitFor, o.Grace)
	case o.Lease < lock.MinTTL:
		return fmt.Errorf("sendonce: unique.Options.Lease is %v: it must be at least %v", o.Lease, lock.MinTTL)
	}
	return nil
}

// Sender is a sendonce.Sender whose rows are unique by a key. It is a
// sendonce.Reconciler too: it knows of a row that is in doubt that it was accepted,
// if it is marked under its key; about others it asks the inner Sender, if that is a
// Reconciler.
type Sender[T any] struct {
	inner sendonce.Sender[T]
	asks  sendonce.Reconciler[T] // nil: nobody can be asked
	store Store
	o     Options[T]
}

var _ interface {
	sendonce.Sender[struct{}]
	sendonce.Reconciler[struct{}]
} = &Sender[struct{}]{}

// New returns inner with keys that are unique among all who use the same store.
func New[T any](inner sendonce.Sender[T], store Store, o Options[T]) (*Sender[T], error) {
	if inner == nil {
		return nil, errors.New("sendonce: the Sender is nil")
	}
	if store == nil {
		return nil, errors.New("sendonce: the store of unique keys is nil")
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Sender[T]{inner: inner, store: store, o: o}
	s.asks, _ = inner.(sendonce.Reconciler[T])
	return s, nil
}

// Reconcile implements sendonce.Reconciler. A row that is marked under its key was
// accepted, because the mark is written after that and never before.
func (s *Sender[T]) Reconcile(ctx context.Context, items []sendonce.Item[T]) error {
	answers := make(sendonce.ItemErrors, len(items))
	var left []sendonce.Item[T]
	var at []int
	for i, item := range items {
		sent, err := s.marked(ctx, item)
		if answers[i] = err; !sent {
			left, at = append(left, item), append(at, i)
		}
	}
	if s.asks == nil || len(left) == 0 {
		return answers
	}
	err := s.asks.Reconcile(ctx, left)
	for i, item := range left {
		if answers[at[i]] = answerFor(err, i); answers[at[i]] == nil {
			s.mark(ctx, s.o.Key(item), s.owner(item))
		}
	}
	return answers
}

// errNotMarked is no answer: nothing is known of the row.
var errNotMarked = errors.New("the row is not marked under its key")

func (s *Sender[T]) marked(ctx context.Context, item sendonce.Item[T]) (bool, error) {
	key := s.o.Key(item)
	if key == "" || s.o.Scope != Window {
		return false, errNotMarked
	}
	st, err := s.store.Look(ctx, key)
	if err != nil {
		return false, fmt.Errorf("sendonce: look at unique key %s: %w", short(key), err)
	}
	if st != nil && s.own(st, s.owner(item)) {
		return true, nil
	}
	return false, errNotMarked
}

// own: the row itself was sent.
func (s *Sender[T]) own(st *Standing, o Owner) bool {
	return st.How == Marked && st.Row == o.Row && st.ID == o.ID
}

func (s *Sender[T]) owner(item sendonce.Item[T]) Owner {
	return Owner{Row: nameRow(s.o.Table, item.Key), ID: item.IdempotencyKey, Token: string(lock.NewToken())}
}

// answerFor is the answer to one item of a call, as the Dispatcher reads it.
func answerFor(err error, i int) error {
	var each sendonce.ItemErrors
	switch {
	case !errors.As(err, &each):
		return err
	case i >= len(each):
		return sendonce.Ambiguous(errors.New("sendonce: the Sender gave no answer for this item"))
	}
	return each[i]
}

// short is a key as messages show it.
func short(key string) string {
	if len(key) > 100 {
		return fmt.Sprintf("%.100q...", key)
	}
	return fmt.Sprintf("%q", key)
}
