package sqllock

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sendonce/sendonce/internal/dialect"
	"github.com/sendonce/sendonce/internal/kit"
	"github.com/sendonce/sendonce/internal/leases"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/internal/lockkit"
)

// Sight is how a lock stands.
type Sight struct {
	// Free: nobody holds it, and whoever did has released it. Acquire takes it.
	Free bool

	// Over: the lease of who holds it is over, by the database's clock, and was
	// not released: its holder may have died, be paused, or have been cut off.
	// Acquire takes it all the same; look for a while before, if its holder is
	// to have a chance to come back.
	Over bool

	// Fence and Until change whenever the lock is taken or the lease extended.
	// Until is on the database's clock, in microseconds since 1970.
	Fence, Until int64
}

// Look says how a lock stands, without touching it.
func (l *Locker) Look(ctx context.Context, key string) (Sight, error) {
	if err := lockkit.CheckName(key, lock.NewToken()); err != nil {
		return Sight{}, err
	}
	return run(ctx, l, "look at", key, func(q dialect.Querier) (Sight, error) {
		var s Sight
		var over int64
		found, err := one(ctx, q, l.looking, dialect.Args{"name": kit.Escape(key, "")}, &s.Fence, &s.Until, &over)
		s.Over = over != 0 && s.Until > 0
		s.Free = !found || s.Until == 0
		return s, err
	})
}

// Table is the name of the table with the locks, as it stands in statements:
// quoted, and with its schema if Options has one.
func (l *Locker) Table() string { return l.quoted }

// Queryer is the part of *sql.Tx, and of its wrappers, that Verify needs.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Verify makes a transaction of yours one that only the holder of the lock can
// commit: it returns nil if nobody has taken the lock since the lease was granted,
// and keeps others from taking it until the transaction ends, so what it writes
// is written under the lock. It is the fence, for writes in the database that the
// locks are in. It does not mind a lease that is over, as long as nobody has
// taken the lock; else it returns an error that is lock.ErrLost, and the
// transaction should be rolled back.
//
// It reads the lock's row FOR SHARE, which a renewal waits for too: keep the
// transaction short.
func (l *Locker) Verify(ctx context.Context, tx Queryer, le lock.Lease) error {
	text, args := l.verifying.Bind(leases.Args(le))
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return dialect.Wrap(l.d, fmt.Sprintf("verify lock %q", le.Key), err)
	}
	defer rows.Close()
	found := rows.Next()
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		return dialect.Wrap(l.d, fmt.Sprintf("verify lock %q", le.Key), err)
	}
	if !found {
		return &lock.LostError{Key: le.Key, Fence: le.Fence, Reason: lock.Taken}
	}
	return nil
}
