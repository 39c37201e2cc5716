package unique

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sendonce/sendonce"
)

// ErrTaken says that another row has the key: see TakenError.
var ErrTaken = errors.New("sendonce: the unique key is taken by another row")

// TakenError is an ErrTaken that names the row in the way.
type TakenError struct {
	Key string
	// Row is the row in the way: an int64, a uint64 if it is larger than that, or a
	// string, whatever type of integer Reserve was given. It is nil if the row is of
	// another table, or its key is too long to be kept.
	Row sendonce.Key
	// Name is that row as the store has it: after its table, if Options.Table is used.
	Name  string
	How   How
	Since time.Time // the row has had the key
	Until time.Time // at the most, unless that is prolonged; Since and Until are on this process's clock
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("sendonce: unique key %s is taken by row %s, %s, since %s and until %s at the latest", short(e.Key), e.Name, e.How,
		e.Since.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
}

// Is makes it an ErrTaken.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

// Reserve takes a key for a row that is about to be there, so that no second row
// with the key is even inserted. It returns a *TakenError if another row has the
// key. The reservation ends as the Scope says, at the latest after Options.For, and
// before that as soon as its row is found not to be alive by somebody who wants
// the key.
//
// Where the row's key is known beforehand, call it before the INSERT, which must be
// committed within Options.Grace, and Release if that fails. A process that dies in
// between leaves a reservation that is taken over after Grace. Where the database
// makes the row's key, see ReserveIn, or call Reserve in the transaction after the
// INSERT, and roll back at an error.
func (s *Sender[T]) Reserve(ctx context.Context, key string, row sendonce.Key) error {
	return s.reserve(ctx, s.store, s.o.Alive, key, row)
}

// ReserveIn is Reserve by another way to the same store: in a transaction of yours,
// which sqlunique.Store.In makes one of.
//
//	res, err := tx.ExecContext(ctx, "INSERT INTO receivers ...")
//	id, err := res.LastInsertId()
//	if err := once.ReserveIn(ctx, keys.In(tx), address, id); err != nil {
//		return err // the deferred Rollback takes back the row and the reservation
//	}
//	return tx.Commit()
//
// To take over a reservation whose row is gone it asks Options.Alive, which reads
// that row on a second connection, for 2 s at the most. A pool of one connection,
// SQLite's say, that the transaction has can't give it another: the answer is then
// an error that says so. Let the pool have more, or call Reserve before the
// transaction.
func (s *Sender[T]) ReserveIn(ctx context.Context, r Reserver, key string, row sendonce.Key) error {
	return s.reserve(ctx, r, s.aliveSoon, key, row)
}

// asking bounds the question about a row while a transaction of the caller's is
// open: nobody else may be able to use the database meanwhile.
const asking = 2 * time.Second

type aliveFunc = func(ctx context.Context, row sendonce.Key) (bool, error)

// aliveSoon is Options.Alive for those who hold a connection.
func (s *Sender[T]) aliveSoon(ctx context.Context, row sendonce.Key) (bool, error) {
	short, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	alive, err := s.o.Alive(short, row)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %v (if the transaction has the pool's only connection, raise SetMaxOpenConns, or call Reserve before the transaction): %w", asking, err)
	}
	return alive, err
}

func (s *Sender[T]) reserve(ctx context.Context, r Reserver, alive aliveFunc, key string, row sendonce.Key) error {
	switch {
	case key == "":
		return nil
	case s.o.Alive == nil:
		return errors.New("sendonce: Reserve needs unique.Options.Alive: a reservation must not outlive its row")
	case s.o.For < time.Millisecond:
		return fmt.Errorf("sendonce: Reserve for %v: set unique.Options.For", s.o.For)
	}
	o := Owner{Row: nameRow(s.o.Table, row)}
	st, err := s.insist(ctx, alive, func(over string) (*Standing, error) { return r.Reserve(ctx, key, o, s.o.For, over) })
	if err != nil {
		return fmt.Errorf("sendonce: reserve unique key %s: %w", short(key), err)
	}
	if st == nil {
		return nil
	}
	now := time.Now()
	taken := &TakenError{Key: key, Name: st.Row, How: st.How, Since: now.Add(-st.Age), Until: now.Add(st.Left)}
	taken.Row, _ = rowKey(s.o.Table, st.Row)
	return taken
}

// Release ends the reservation of a row that will not be there after all.
func (s *Sender[T]) Release(ctx context.Context, key string, row sendonce.Key) error {
	if key == "" {
		return nil
	}
	if err := s.store.Release(ctx, key, nameRow(s.o.Table, row)); err != nil {
		return fmt.Errorf("sendonce: release unique key %s: %w", short(key), err)
	}
	return nil
}

// Look says how a key stands, for operators; nil: it is free.
func (s *Sender[T]) Look(ctx context.Context, key string) (*Standing, error) {
	return s.store.Look(ctx, key)
}
