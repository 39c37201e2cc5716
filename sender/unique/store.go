package unique

import (
	"context"
	"fmt"
	"time"
)

// Store keeps who has which key. Package uniquetest is the suite that every Store
// must pass; redisunique and sqlunique are two, and NewMemory makes one in memory.
// Whoever writes another may keep an Entry for each key, and let it decide.
//
// A key is taken by one row at a time, in one or more of three ways: the row has
// reserved it, holds it by a lease while it is sent, or was sent and is marked
// under it for a while. Each way has an end, by the store's clock alone. The same
// row is never in its own way.
//
// Methods that answer with a Standing return nil if they did what they were asked,
// and otherwise what is in the way; then nothing was changed. Methods are called by
// several goroutines at once, and return when ctx ends. An error says that the
// outcome is not known: the call may have acted, and may be repeated.
//
// A key is any string but the empty one. Rows, IDs and tokens are printable, of at
// most 255 bytes.
type Store interface {
	Reserver

	// Hold takes the key for a lease of ttl that the owner's token proves. A row
	// that has the key already gets a new lease, and who held it by another token
	// has lost it. It is refused, with a Standing that is its own, if the row is
	// marked under the owner's ID. over is as for Reserve.
	Hold(ctx context.Context, key string, o Owner, ttl time.Duration, over string) (*Standing, error)

	// Extend makes the lease of this token last for ttl again. If it is not there
	// any more the error is lock.ErrLost, and nothing is made anew.
	Extend(ctx context.Context, key, token string, ttl time.Duration) error

	// Mark says that the owner's row was sent under its ID: nobody else has the
	// key for d. The lease of the owner's token, and a reservation, end. It needs
	// no lease: it is a fact, and only another row that has the key is in its way.
	Mark(ctx context.Context, key string, o Owner, d time.Duration) (*Standing, error)

	// Free ends the lease of this token, and if all is set what its row has
	// reserved too. If the lease is not there any more it does nothing.
	Free(ctx context.Context, key, token string, all bool) error

	// Look says how the key stands, nil if it is free.
	Look(ctx context.Context, key string) (*Standing, error)
}

// Reserver is what Reserve needs of a Store.
type Reserver interface {
	// Reserve takes the key for the owner's row for d, counted from now, whether
	// or not it had it before. If over is the Version of a Standing that is
	// Reserved, and the key still stands like that, it is taken over.
	Reserve(ctx context.Context, key string, o Owner, d time.Duration, over string) (*Standing, error)

	// Release ends what the row has reserved, and nothing else.
	Release(ctx context.Context, key, row string) error
}

// Owner is who wants a key.
type Owner struct {
	Row   string // the row, printable, the same over attempts and processes
	ID    string // the idempotency key of its send
	Token string // names one lease, and proves it
}

// How is how a key is taken.
type How uint8

// The ways, from the weakest.
const (
	Reserved How = iota + 1 // by Reserve, at the row's INSERT
	Held                    // by a send that runs
	Marked                  // by a send that was accepted
)

// String returns the way in words.
func (h How) String() string {
	switch h {
	case Reserved:
		return "reserved"
	case Held:
		return "being sent"
	case Marked:
		return "sent"
	}
	return fmt.Sprintf("How(%d)", uint8(h))
}

// Standing is how a taken key stands.
type Standing struct {
	Row     string        // who has it
	ID      string        // under which it is Marked
	How     How           // the strongest way in which it is taken
	Age     time.Duration // since the row took the key
	Left    time.Duration // until the last way ends, unless that is prolonged
	Version string        // what the key can be taken over by, if it is Reserved
}
