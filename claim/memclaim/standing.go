package memclaim

import (
	"context"

	"github.com/sendonce/sendonce"
)

// Alive reports whether the row may still be sent by itself: it is there, and is
// pending, claimed or sending. It is what unique.Options.Alive asks for.
func (t *table[T]) Alive(ctx context.Context, key sendonce.Key) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	r, found := t.Row(key)
	return found && (r.Status == Pending || r.Status == Claimed || r.Status == Sending), nil
}
