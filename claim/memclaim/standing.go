package memclaim

import (
	"context"
	"math"

	"github.com/sendonce/sendonce"
)

// Alive reports whether the row may still be sent by itself: it is there, and is
// pending, claimed or sending. It is what unique.Options.Alive asks for, which knows
// an integer and not of which type the row's key is.
func (t *table[T]) Alive(ctx context.Context, key sendonce.Key) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	r, found := t.Row(key)
	if !found {
		r, found = t.Row(otherInteger(key))
	}
	return found && (r.Status == Pending || r.Status == Claimed || r.Status == Sending), nil
}

// otherInteger is the same number as the other type of integer; nil if there is none.
func otherInteger(key sendonce.Key) sendonce.Key {
	switch key := normal(key).(type) {
	case int64:
		if key >= 0 {
			return uint64(key)
		}
	case uint64:
		if key <= math.MaxInt64 {
			return int64(key)
		}
	}
	return nil
}
