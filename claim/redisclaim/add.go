package redisclaim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sendonce/sendonce/internal/kit"
)

// Item is what Add takes.
type Item[T any] struct {
	// Key is the ordering key: items of one Key are handed out one at a time, by
	// At and then in the order in which Add returned. Items without one have no
	// order and go side by side.
	Key string

	// At is the item's place among those of its Key, from 1970 to 2255, in
	// microseconds. It is nothing to wait for. Zero: the server's time, and, for
	// items that both leave it, strictly the order in which Add returned.
	At time.Time

	Value T

	// Unique, if not empty, refuses the item while another one with the same
	// Unique has not come to its end.
	Unique string

	// UniqueFor refuses others for so long after this one is done, too. Without
	// Unique, which often comes from a header that may be missing, it means nothing.
	UniqueFor time.Duration
}

// ErrTaken is what a *TakenError is, for errors.Is.
var ErrTaken = errors.New("sendonce: the unique key is taken")

// TakenError says that an item was refused, and which one is in its way.
type TakenError struct {
	Unique string
	ID     string    // of the item in the way
	State  string    // pending, claimed, sending, unknown; or done, if it was that within its UniqueFor
	Since  time.Time // when it was added, or was done
	Until  time.Time // if it is done: the end of its UniqueFor
}

func (e *TakenError) Error() string {
	s := fmt.Sprintf("sendonce: the unique key %q is taken by item %s, which is %s", e.Unique, e.ID, e.State)
	if !e.Since.IsZero() {
		s += " since " + e.Since.Format(time.RFC3339Nano)
	}
	return s
}

// Is makes errors.Is(err, ErrTaken) true.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

const (
	// maxKey is how long keys may be, in bytes.
	maxKey = 512

	// remember is for how long a repeat of an Add is known. The client makes
	// such repeats itself, when it has lost a reply.
	remember = time.Minute
)

// Add puts an item into the queue and returns its id, which is its sendonce.Key.
// Ids sort by arrival, and none is ever used again. Equal items are two items. An
// item whose Unique is taken is refused with a *TakenError. After any other error
// it is not known whether the item was added.
func (q *Queue[T]) Add(ctx context.Context, item Item[T]) (id string, err error) {
	stamp, err := item.check()
	if err != nil {
		return "", err
	}
	value, err := q.options.Encode(item.Value)
	if err != nil {
		return "", fmt.Errorf("sendonce: encode an item of queue %s: %w", q.base, err)
	}
	var call [12]byte
	_, _ = rand.Read(call[:]) // never fails
	reply, err := q.run(ctx, "add an item", addScript, []any{
		kit.Escape(item.Key, "{}|"), stamp, kit.Escape(item.Unique, ""), item.UniqueFor.Microseconds(), value, remember.Milliseconds(),
	}, q.base+":added:"+hex.EncodeToString(call[:]))
	if err != nil {
		return "", err
	}
	switch {
	case len(reply) == 2 && reply[0] == "added":
		return str(reply[1]), nil
	case len(reply) == 5 && reply[0] == "taken":
		return "", &TakenError{Unique: item.Unique, ID: str(reply[1]), State: str(reply[2]), Since: at(reply[3]), Until: at(reply[4])}
	}
	return "", fmt.Errorf("sendonce: add an item in queue %s: its answer is %v", q.base, reply)
}

// check returns the time stamp as the lanes have it, in digits that sort.
func (item Item[T]) check() (stamp string, err error) {
	if len(item.Key) > maxKey || len(item.Unique) > maxKey {
		return "", fmt.Errorf("sendonce: the key and the unique key of an item may have %d bytes, and have %d and %d", maxKey, len(item.Key), len(item.Unique))
	}
	if item.UniqueFor < 0 {
		return "", fmt.Errorf("sendonce: an item has UniqueFor %v", item.UniqueFor)
	}
	if item.At.IsZero() {
		return "", nil
	}
	micros := item.At.UnixMicro()
	if item.At.Before(time.Unix(0, 0)) || item.At.Year() > 2255 {
		return "", fmt.Errorf("sendonce: an item's time stamp is %v: it must be between 1970 and 2255", item.At)
	}
	return fmt.Sprintf("%016s", strconv.FormatInt(micros, 10)), nil
}
