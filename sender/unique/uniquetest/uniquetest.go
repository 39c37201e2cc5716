// Package uniquetest is the suite that every unique.Store must pass.
//
//	func TestMyStore(t *testing.T) {
//		uniquetest.Run(t, uniquetest.Harness{
//			Open: func(t testing.TB) uniquetest.Store {
//				server := startServer(t)
//				return uniquetest.Store{New: func() unique.Store { return mystore.New(server.Addr) }}
//			},
//		})
//	}
//
// Each case checks one sentence of the contract, and prints it when it fails. All
// that a case asks of time is one-sided: a slow machine makes it prove less, and does
// not make it fail.
package uniquetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/sender/unique"
)

// Harness is how the suite gets at what it tests.
type Harness struct {
	// Open returns a new store without keys. It is called for each case, and may
	// register clean-up with t.
	Open func(t testing.TB) Store

	// Span is the time that cases let pass. Default: 300 ms.
	Span time.Duration

	// Synctest runs each case in a bubble of testing/synctest, in virtual time: for
	// stores in memory. Default: false.
	Synctest bool
}

// Store is one store, and what can be done to it. Only New is needed.
type Store struct {
	// New returns the Store of one more process.
	New func() unique.Store

	// Forget makes the store lose all that it knows of a key. nil: cases that need
	// it are skipped.
	Forget func(key string)
}

// testCase is one sentence of the contract.
type testCase struct {
	name     string
	contract string
	forgets  bool
	run      func(e *env)
}

// env is what a case works with: the stores of two processes.
type env struct {
	testing.TB
	ctx  context.Context
	open Store
	s, o unique.Store
	span time.Duration
}

// Run runs the suite, each case as a subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if h.Synctest {
				synctest.Test(t, func(t *testing.T) { runCase(t, h, c) })
			} else {
				runCase(t, h, c)
			}
		})
	}
}

func runCase(t testing.TB, h Harness, c testCase) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the contract says: %s", c.contract)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	e := &env{TB: t, ctx: ctx, open: h.Open(t), span: h.Span}
	if e.span == 0 {
		e.span = 300 * time.Millisecond
	}
	if c.forgets && e.open.Forget == nil {
		t.Skipf("SKIPPED, the store can't be made to forget: %s", c.contract)
	}
	e.s, e.o = e.open.New(), e.open.New()
	c.run(e)
}

func cases() []testCase {
	return slices.Concat(leaseCases(), staleCases(), markCases(), lateMarkCases(), reserveCases(), takeOverCases())
}

// key is the one that most cases use.
const key = "ann@example.com"

// long is a time that no case lives through.
const long = time.Hour

// who are the owners: with one token each.
func who(row string) unique.Owner {
	return unique.Owner{Row: row, ID: "id of " + row, Token: string(lock.NewToken())}
}

// sleep lets at least d pass.
func (e *env) sleep(d time.Duration) { time.Sleep(d + time.Millisecond) }

// granted checks that a call did what it was asked.
func (e *env) granted(what string, st *unique.Standing, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
	if st != nil {
		e.Fatalf("%s: refused, the key is %v by row %s", what, st.How, st.Row)
	}
}

// refused checks that the row is in the way of a call.
func (e *env) refused(what, row string, how unique.How, st *unique.Standing, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
	if st == nil {
		e.Fatalf("%s: granted, and the key was to be %v by row %s", what, how, row)
	}
	if st.Row != row || st.How != how {
		e.Fatalf("%s: the key is %v by row %q, and was to be %v by %q", what, st.How, st.Row, how, row)
	}
	if st.Left <= 0 || st.Age < 0 || st.Left > long || st.Age > 2*time.Minute {
		e.Fatalf("%s: the key is taken since %v and for %v", what, st.Age, st.Left)
	}
}

// stands checks how the key stands, as another process sees it.
func (e *env) stands(what, row string, how unique.How) *unique.Standing {
	e.Helper()
	st, err := e.o.Look(e.ctx, key)
	e.refused("Look "+what, row, how, st, err)
	return st
}

// free checks that nobody has the key.
func (e *env) free(what string) {
	e.Helper()
	st, err := e.o.Look(e.ctx, key)
	if err != nil || st != nil {
		e.Fatalf("Look %s: %+v, %v; and the key was to be free", what, st, err)
	}
}

func (e *env) hold(o unique.Owner, ttl time.Duration) {
	e.Helper()
	st, err := e.s.Hold(e.ctx, key, o, ttl, "")
	e.granted("Hold by row "+o.Row, st, err)
}

func (e *env) cannotHold(o unique.Owner, row string, how unique.How) {
	e.Helper()
	st, err := e.o.Hold(e.ctx, key, o, long, "")
	e.refused("Hold by row "+o.Row, row, how, st, err)
}

func (e *env) reserve(row string, d time.Duration) {
	e.Helper()
	st, err := e.s.Reserve(e.ctx, key, unique.Owner{Row: row}, d, "")
	e.granted("Reserve by row "+row, st, err)
}

func (e *env) mark(o unique.Owner, d time.Duration) {
	e.Helper()
	st, err := e.s.Mark(e.ctx, key, o, d)
	e.granted("Mark by row "+o.Row, st, err)
}

func (e *env) ok(what string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

func (e *env) lost(what string, err error) {
	e.Helper()
	if !errors.Is(err, lock.ErrLost) {
		e.Fatalf("%s: %v, which is not lock.ErrLost", what, err)
	}
}
