package claim

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
)

// Atomic claims by a conditional UPDATE: rows are picked without a lock, and
// marked only where they are still pending. It works on every database. Claims
// of several workers that pick the same rows collide: one gets them, the others
// look elsewhere, so workers start at different places of the table. It
// implements sendonce.Claimer, Ender, Beginner, Reaper and Counter; its methods
// may be called from several goroutines, and any number of processes may each
// have their own.
type Atomic[T any] struct{ *claimer[T] }

var _ interface {
	sendonce.Claimer[struct{}]
	sendonce.Ender
	sendonce.Beginner
	sendonce.Reaper
	sendonce.Counter
} = Atomic[struct{}]{}

// NewAtomic checks the table as Check does and makes the strategy. T is a struct
// with `db` tags; exactly those columns are selected. db stays yours: close it
// after Run has returned. A nil o means the defaults.
//
// Errors name what is missing and the SQL that mends it (see CheckError); they
// change nothing.
func NewAtomic[T any](ctx context.Context, db *sqlx.DB, d Dialect, t Table, o *Options) (*Atomic[T], error) {
	c, err := open[T](ctx, db, d, t, o, "")
	if err != nil {
		return nil, err
	}
	return &Atomic[T]{c}, nil
}

// open is what all constructors do. The strategies differ in how the rows that a
// claim picks are locked.
func open[T any](ctx context.Context, db *sqlx.DB, d Dialect, t Table, o *Options, locking string) (*claimer[T], error) {
	n, err := inspected(ctx, db, d, t, o)
	if err != nil {
		return nil, err
	}
	sh, err := newShape[T](n)
	if err != nil {
		return nil, err
	}
	if err := sh.check(ctx, db.DB); err != nil {
		return nil, err
	}
	return newClaimer(newStore(db.DB, n), sh, locking), nil
}
