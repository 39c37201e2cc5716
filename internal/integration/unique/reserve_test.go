package unique

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/sender/unique"
	"github.com/sendonce/sendonce/sender/unique/sqlunique"
)

// A reservation in the transaction of the INSERT is there if that is committed, and
// not if it is rolled back.
func TestReservationIsOneWithItsInsert(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			at := d.open(t)
			db := at.Open(t, d.driver, d.params...)
			alive := notify(t, db, claim.Dialect(d.dialect))
			require.NoError(t, sqlunique.Migrate(t.Context(), db.DB, d.dialect, nil))
			keys := d.store(t, at, nil)
			u, err := unique.New(sendonce.SenderFunc[mail](nil), unique.Store(keys), unique.Options[mail]{
				Key: byRecipient, For: time.Hour, Alive: alive, Grace: time.Millisecond,
			})
			require.NoError(t, err)
			insert := func(id int64, commit bool) error {
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				defer func() { _ = tx.Rollback() }()
				_, err = tx.Exec(db.Rebind("INSERT INTO notify (id, recipient) VALUES (?, 'bob')"), id)
				require.NoError(t, err)
				if err := u.ReserveIn(t.Context(), keys.In(tx), "bob", id); err != nil {
					return err
				}
				if !commit {
					return nil
				}
				return tx.Commit()
			}
			require.NoError(t, insert(2, false))
			st, err := u.Look(t.Context(), "bob")
			require.NoError(t, err)
			require.Nil(t, st, "rolled back")
			require.NoError(t, insert(3, true))
			time.Sleep(5 * time.Millisecond)
			var taken *unique.TakenError
			require.ErrorAs(t, insert(4, true), &taken)
			assert.Equal(t, sendonce.Key(int64(3)), taken.Row)
			_, err = db.Exec("DELETE FROM notify WHERE id = 3")
			require.NoError(t, err)
			require.NoError(t, insert(5, true), "taken over from a row that is gone")
			require.ErrorAs(t, u.Reserve(t.Context(), "bob", 6), &taken)
			assert.Equal(t, sendonce.Key(int64(5)), taken.Row)
		})
	}
}

// Many insert rows of one receiver at once: one row is there.
func TestReserveRace(t *testing.T) {
	onEach(t, func(s *scene) {
		u, err := s.app.unique(unique.Options[mail]{}, sendonce.SenderFunc[mail](nil))
		require.NoError(s, err)
		var inserted atomic.Int32
		var goroutines sync.WaitGroup
		for id := range int64(20) {
			goroutines.Go(func() {
				err := u.Reserve(s.Context(), "ann", id)
				switch {
				case err == nil:
					inserted.Add(1)
				case !errors.Is(err, unique.ErrTaken):
					assert.NoError(s, err)
				}
			})
		}
		goroutines.Wait()
		assert.Equal(s, int32(1), inserted.Load())
	})
}

// docs/faults.md, 14: a transaction that has the pool's only connection, as is usual
// on SQLite, is told so in time, and goes on if nothing has to be asked.
func TestReserveInOnOneConnection(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db := d.open(t).Open(t, d.driver, d.params...)
			alive := notify(t, db, claim.Dialect(d.dialect))
			db.SetMaxOpenConns(1)
			require.NoError(t, sqlunique.Migrate(t.Context(), db.DB, d.dialect, nil))
			keys, err := sqlunique.New(t.Context(), db.DB, d.dialect, nil)
			require.NoError(t, err)
			u, err := unique.New(sendonce.SenderFunc[mail](nil), unique.Store(keys), unique.Options[mail]{
				Key: byRecipient, For: time.Hour, Alive: alive, Grace: time.Millisecond,
			})
			require.NoError(t, err)
			require.NoError(t, u.Reserve(t.Context(), "ann", int64(7))) // and its row never comes
			time.Sleep(5 * time.Millisecond)
			reserve := func(key string) error {
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				defer func() { _ = tx.Rollback() }()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := u.ReserveIn(ctx, keys.In(tx), key, int64(8)); err != nil {
					return err
				}
				return tx.Commit()
			}
			require.NoError(t, reserve("bob"), "nobody is in the way")
			err = reserve("ann")
			require.ErrorContains(t, err, "raise SetMaxOpenConns")
			require.NoError(t, u.Reserve(t.Context(), "ann", int64(8)), "without a transaction it is taken over")
			db.SetMaxOpenConns(2)
			require.NoError(t, reserve("ann"))
		})
	}
}
