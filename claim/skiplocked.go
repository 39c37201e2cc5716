package claim

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
)

// SkipLocked claims by SELECT ... FOR UPDATE SKIP LOCKED: rows that another
// claim is taking at this moment are passed over, so claims never wait for each
// other and rarely come back short. The lock lasts for the claim alone: the rows
// are marked, the transaction commits, and nothing is open during the send. It
// implements the same interfaces as Atomic.
type SkipLocked[T any] struct{ *claimer[T] }

var _ interface {
	sendonce.Claimer[struct{}]
	sendonce.Ender
	sendonce.Beginner
	sendonce.Reaper
	sendonce.Counter
} = SkipLocked[struct{}]{}

// NewSkipLocked checks the table as Check does and makes the strategy; compare
// NewAtomic. It needs PostgreSQL 9.5, MySQL 8.0.1 or MariaDB 10.6, and refuses
// older servers and SQLite, which has one writer at a time and no such locks:
// use NewAtomic there.
func NewSkipLocked[T any](ctx context.Context, db *sqlx.DB, d Dialect, t Table, o *Options) (*SkipLocked[T], error) {
	impl, err := d.impl()
	if err != nil {
		return nil, err
	}
	if !impl.Caps().SkipLocked {
		return nil, fmt.Errorf("sendonce: %s has no SELECT ... FOR UPDATE SKIP LOCKED: use claim.NewAtomic", d)
	}
	c, err := open[T](ctx, db, d, t, o, " FOR UPDATE SKIP LOCKED")
	if err != nil {
		return nil, err
	}
	if need := impl.SkipLockedSince(c.live.Version); need != "" {
		return nil, fmt.Errorf("sendonce: this server is %s %s, and SKIP LOCKED needs %s: use claim.NewAtomic", d, c.live.Version, need)
	}
	return &SkipLocked[T]{c}, nil
}
