// Package claimtest is the suite that every sendonce.Claimer passes, and a
// benchmark for Claimers. A store's test says how to make one:
//
//	func TestConformance(t *testing.T) {
//		claimtest.Run(t, claimtest.Harness[Mail]{
//			New:      func(t testing.TB, rows, handles int) *claimtest.Store[Mail] { ... },
//			Parallel: 8,
//		})
//	}
//
// Each case checks one sentence of the contract and prints it when it fails. The
// sections that messages name are those of docs/semantics.md. What a store can't
// promise is a field of Caps; its cases are skipped, and the skip says so.
//
// No case fails because a machine is slow: times are only ever compared in the
// direction that a delay can't spoil.
package claimtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sendonce/sendonce"
)

// The states that Row.Status tells apart. A store that calls them otherwise
// translates them.
const (
	Pending = "pending"
	Claimed = "claimed"
	Sending = "sending"
	Done    = "done"
	Dead    = "dead"
	Skipped = "skipped"
	Unknown = "unknown"
)

// Harness says how to make stores of one kind. Only New must be set.
type Harness[T any] struct {
	// New makes a store of its own with so many pending rows, never tried and
	// due at once, and opens so many handles on it, as so many processes would:
	// independent, and each able to claim all rows. It cleans up by t.Cleanup
	// and fails by t.Fatal.
	New func(t testing.TB, rows, handles int) *Store[T]

	// Caps is what the stores can't promise. Default: they promise all.
	Caps Caps

	// Lease is what cases use that wait for the end of one. A call of Reap must
	// usually take less than a sixth of it. Default: 900 ms.
	Lease time.Duration

	// Patience is how long a case waits for what must happen. Default: 30 s.
	Patience time.Duration

	// Parallel is how many cases run side by side, each with a store of its own.
	// Most of them wait most of the time, so that eight suit a small machine.
	// It does not depend on the -parallel flag. Default: 1.
	Parallel int

	// Virtual runs each case in a bubble of testing/synctest. It is for stores
	// that take all time from package time and wait for nothing outside.
	Virtual bool
}

// Caps is what a store can't promise. The zero value promises all.
type Caps struct {
	NoEnder       bool // not a sendonce.Ender
	NoBeginner    bool // not a sendonce.Beginner
	NoReaper      bool // not a sendonce.Reaper: leases never end
	NoCounter     bool // not a sendonce.Counter
	NoDoubtKeeper bool // not a sendonce.DoubtKeeper, or it doesn't keep it
	NoExaminer    bool // not a sendonce.Examiner

	NoLateFacts bool // a Done is refused once the row has gone back
	NoSuspects  bool // rows of vanished workers come back like others, and never Alone
	NoVanished  bool // the attempt of a vanished worker isn't counted
	NoPatrol    bool // a row whose claim is gone stays claimed
	NoDelivery  bool // live claims of the other Delivery aren't noticed
	NoReasons   bool // reasons aren't kept
	NoFairness  bool // fresh rows or rows that come back may starve
	Unmarked    bool // a row that is claimed stands as pending in the table
	DeletesDone bool // rows that are done are deleted
}

// Store is one store, with what only its owner can do. Fields that are functions
// and nil, other than Row, are what can't be done: cases that need them are
// skipped. They may be called while claims are live, from one goroutine.
type Store[T any] struct {
	// Claimers are the handles.
	Claimers []sendonce.Claimer[T]

	// Keys are the keys of the rows in ascending order, of the type that items
	// have.
	Keys []sendonce.Key

	// Row reads a row as it stands. It must be set.
	Row func(key sendonce.Key) (Row, error)

	// Check says whether an item has the value of its row.
	Check func(item sendonce.Item[T]) error

	// SetStatus does what an application does that sets the status alone.
	SetStatus func(key sendonce.Key, status string) error

	// Delete deletes a row.
	Delete func(key sendonce.Key) error

	// Schedule makes a pending row that was never tried due after that time,
	// on the store's clock.
	Schedule func(key sendonce.Key, after time.Duration) error

	// InsertBefore inserts a pending row whose key sorts before all others.
	InsertBefore func() (sendonce.Key, error)

	// Spoil makes a pending row one that can't be read as a T.
	Spoil func(key sendonce.Key) error

	// Requeue puts back a row that was put aside.
	Requeue func(key sendonce.Key) error
}

// Row is a row as it stands in the store.
type Row struct {
	Found    bool // false: it isn't there, and the rest means nothing
	Status   string
	Attempts int
	Reason   string // of the last outcome that had one
}

// Run runs all cases as subtests.
func Run[T any](t *testing.T, h Harness[T]) {
	t.Helper()
	h = h.withDefaults()
	cases := make(chan testCase[T])
	var wg sync.WaitGroup
	for range h.Parallel {
		wg.Go(func() {
			for c := range cases {
				t.Run(c.name, func(t *testing.T) {
					if h.Virtual {
						synctest.Test(t, func(t *testing.T) { runCase(t, h, c) })
						return
					}
					runCase(t, h, c)
				})
			}
		})
	}
	for _, c := range allCases[T]() {
		cases <- c
	}
	close(cases)
	wg.Wait()
}

func (h Harness[T]) withDefaults() Harness[T] {
	if h.Lease <= 0 {
		h.Lease = 900 * time.Millisecond
	}
	h.Parallel = max(h.Parallel, 1)
	if h.Patience <= 0 {
		h.Patience = 30 * time.Second
	}
	// In virtual time waiting costs nothing, but must outlast the waits.
	if h.Virtual {
		h.Patience = max(h.Patience, 20*h.Lease)
	}
	return h
}

// testCase checks one sentence of the contract.
type testCase[T any] struct {
	name    string
	says    string // the sentence
	rows    int
	handles int
	needs   []need
	run     func(e *env[T])
}

func allCases[T any]() []testCase[T] {
	return slices.Concat(
		claimCases[T](), settleCases[T](), factCases[T](), ownerCases[T](), leaseCases[T](), witnessCases[T](),
		suspectCases[T](), beginCases[T](), doubtCases[T](), fairCases[T](), raceCases[T](),
	)
}

func runCase[T any](t testing.TB, h Harness[T], c testCase[T]) {
	for _, n := range c.needs {
		if why := n.lacking(h.Caps); why != "" {
			t.Skipf("SKIPPED, not promised by this store (%s): %s", why, c.says)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e := &env[T]{t: t, h: h, says: c.says, ctx: ctx, s: h.New(t, c.rows, c.handles)}
	if len(e.s.Keys) != c.rows || len(e.s.Claimers) != c.handles || e.s.Row == nil {
		t.Fatalf("the harness made %d rows and %d handles, not %d and %d, or no Row", len(e.s.Keys), len(e.s.Claimers), c.rows, c.handles)
	}
	for _, n := range c.needs {
		if hook := missingHook(n, e.s); hook != "" {
			t.Skipf("SKIPPED, the harness has no Store.%s: %s", hook, c.says)
		}
	}
	c.run(e)
}

// need is what a case asks of the store or its harness.
type need int

const (
	ender need = iota
	beginner
	reaper
	counter
	doubt
	examiner
	lateFacts
	suspects
	vanished
	patrol
	delivery
	fairness
	setStatus
	deleteRow
	schedule
	insertBefore
	spoil
	requeue
	check
)

// lacking names the field of Caps that speaks against a need, or is empty.
func (n need) lacking(c Caps) string {
	fields := map[need]struct {
		name string
		set  bool
	}{
		ender: {"NoEnder", c.NoEnder}, beginner: {"NoBeginner", c.NoBeginner}, reaper: {"NoReaper", c.NoReaper}, counter: {"NoCounter", c.NoCounter},
		doubt: {"NoDoubtKeeper", c.NoDoubtKeeper}, examiner: {"NoExaminer", c.NoExaminer},
		lateFacts: {"NoLateFacts", c.NoLateFacts}, suspects: {"NoSuspects", c.NoSuspects}, vanished: {"NoVanished", c.NoVanished},
		patrol: {"NoPatrol", c.NoPatrol}, delivery: {"NoDelivery", c.NoDelivery}, fairness: {"NoFairness", c.NoFairness},
	}
	if f := fields[n]; f.set {
		return "Caps." + f.name
	}
	return ""
}

// missingHook names the function of the store that a need is for, if it is nil.
func missingHook[T any](n need, s *Store[T]) string {
	hooks := map[need]struct {
		name string
		null bool
	}{
		setStatus: {"SetStatus", s.SetStatus == nil}, deleteRow: {"Delete", s.Delete == nil}, schedule: {"Schedule", s.Schedule == nil},
		insertBefore: {"InsertBefore", s.InsertBefore == nil}, spoil: {"Spoil", s.Spoil == nil}, requeue: {"Requeue", s.Requeue == nil}, check: {"Check", s.Check == nil},
	}
	if h := hooks[n]; h.null {
		return h.name
	}
	return ""
}

// unknownKey is one that no row has, of the type that rows have.
func unknownKey(like sendonce.Key) sendonce.Key {
	switch k := like.(type) {
	case int64:
		return int64(1) << 40
	case uint64:
		return uint64(1) << 40
	case string:
		if len(k) == 36 && strings.Count(k, "-") == 4 {
			return "00000000-0000-4000-8000-00000000dead"
		}
		return "no such row"
	}
	panic(fmt.Sprintf("claimtest: a key of type %T", like))
}
