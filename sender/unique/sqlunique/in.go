package sqlunique

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sendonce/sendonce/internal/dialect"
	"github.com/sendonce/sendonce/internal/kit"
	"github.com/sendonce/sendonce/sender/unique"
)

// Querier is the part of *sql.Tx, and of its wrappers, that In needs.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// In returns the Reserve and Release of the store within a transaction of yours, on
// the same database: what they do counts when that is committed, and is undone when
// it is rolled back, with the INSERT that it belongs to.
//
//	err := once.ReserveIn(ctx, keys.In(tx), address, id)
//
// The key is locked until the transaction ends, and sends of rows with the key wait
// for that. Keep it short, and take several keys in one order. After an error,
// other than that the key is taken, the transaction should be rolled back.
func (s *Store) In(tx Querier) unique.Reserver { return inTx{s.table, tx} }

type inTx struct {
	*table
	q Querier
}

func (t inTx) act(ctx context.Context, what, key string, f func(e *unique.Entry, now int64) *unique.Standing) (*unique.Standing, error) {
	if key == "" {
		return nil, errors.New("sendonce: the unique key is empty")
	}
	st, err := t.change(ctx, t.q, kit.Name(key, ""), f)
	return st, dialect.Wrap(t.d, what+" a unique key", err)
}

// Reserve implements unique.Reserver.
func (t inTx) Reserve(ctx context.Context, key string, o unique.Owner, d time.Duration, over string) (*unique.Standing, error) {
	return t.act(ctx, "reserve", key, func(e *unique.Entry, now int64) *unique.Standing { return e.Reserve(now, o, d, over) })
}

// Release implements unique.Reserver.
func (t inTx) Release(ctx context.Context, key, row string) error {
	_, err := t.act(ctx, "release", key, func(e *unique.Entry, _ int64) *unique.Standing {
		e.Release(row)
		return nil
	})
	return err
}
