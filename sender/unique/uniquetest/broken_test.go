package uniquetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/sender/unique"
)

// fault is one way to be wrong.
type fault string

const (
	none               fault = ""
	holdAnyway         fault = "holds while held"
	holdNotAgain       fault = "hold refuses its own row"
	holdKeepsOldToken  fault = "hold keeps the old token of its row"
	neverExpires       fault = "leases never end"
	extendNoCompare    fault = "extend without compare"
	extendRecreates    fault = "extend makes a missing lease anew"
	extendAfterFree    fault = "extend of a lease that was freed"
	freeNoCompare      fault = "free without compare"
	freeDropsReserved  fault = "free ends the reservation as well"
	freeKeepsReserved  fault = "free of all keeps the reservation"
	markOverwrites     fault = "mark takes the key of another row"
	markNeedsLease     fault = "mark needs a lease"
	markKeepsLease     fault = "mark leaves the lease"
	markKeepsReserved  fault = "mark leaves the reservation"
	markEndsOtherLease fault = "mark ends the lease of a later token"
	ownMarkIgnored     fault = "a marked row may go again"
	ownMarkRefuses     fault = "a marked row may not go again under another ID"
	releaseNoCompare   fault = "release by any row"
	releaseFrees       fault = "release ends the lease"
	takeOverAnything   fault = "any version takes over"
	takeOverHeld       fault = "what is held is taken over"
	takeOverNever      fault = "nothing is taken over"
	foldsCase          fault = "keys differ by case only for people"
	cutsKeys           fault = "long keys are cut"
	takesEmptyKey      fault = "the empty key is a key"
	ignoresContext     fault = "acts on a context that has ended"
	looksThenActs      fault = "looks and acts in two commands"
)

// fake is a store with a fault.
type fake struct {
	fault   fault
	mu      sync.Mutex
	entries map[string]*unique.Entry
}

func (f *fake) act(ctx context.Context, key string, act func(e *unique.Entry, now int64) *unique.Standing) (*unique.Standing, error) {
	if ctx.Err() != nil && f.fault != ignoresContext {
		return nil, ctx.Err()
	}
	if key == "" && f.fault != takesEmptyKey {
		return nil, errors.New("empty")
	}
	switch {
	case f.fault == foldsCase:
		key = strings.ToLower(key)
	case f.fault == cutsKeys && len(key) > 255:
		key = key[:255]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entries[key]
	if e == nil {
		e = &unique.Entry{}
		f.entries[key] = e
	}
	now := time.Now().UnixMicro()
	if f.fault == neverExpires && e.Held > 0 {
		e.Held = now + int64(time.Hour/time.Microsecond)
	}
	return act(e, now), nil
}

// over is what a caller's version counts for.
func (f *fake) over(e *unique.Entry, now int64, version string) string {
	st := e.Look(now)
	switch {
	case f.fault == takeOverNever || version == "" || st == nil:
		return ""
	case f.fault == takeOverAnything:
		return st.Version
	case f.fault == takeOverHeld && st.How == unique.Held:
		*e = unique.Entry{}
	}
	return version
}

func (f *fake) Reserve(ctx context.Context, key string, o unique.Owner, d time.Duration, over string) (*unique.Standing, error) {
	return f.act(ctx, key, func(e *unique.Entry, now int64) *unique.Standing { return e.Reserve(now, o, d, f.over(e, now, over)) })
}

func (f *fake) Hold(ctx context.Context, key string, o unique.Owner, ttl time.Duration, over string) (*unique.Standing, error) {
	if f.fault == looksThenActs {
		st, err := f.Look(ctx, key)
		if err != nil || st != nil && st.Row != o.Row && over == "" {
			return st, err
		}
		time.Sleep(time.Millisecond)
		if st == nil {
			_, _ = f.act(ctx, key, func(e *unique.Entry, _ int64) *unique.Standing {
				*e = unique.Entry{}
				return nil
			})
		}
	}
	return f.act(ctx, key, func(e *unique.Entry, now int64) *unique.Standing {
		st := e.Look(now)
		switch {
		case f.fault == holdAnyway:
			*e = unique.Entry{}
		case f.fault == holdNotAgain && st != nil && st.How == unique.Held:
			return st
		case f.fault == ownMarkIgnored:
			e.ID = ""
		case f.fault == ownMarkRefuses && st != nil && st.How == unique.Marked:
			return st
		case f.fault == holdKeepsOldToken && st != nil && st.How == unique.Held && st.Row == o.Row:
			o.Token = e.Token
		}
		return e.Hold(now, o, ttl, f.over(e, now, over))
	})
}

func (f *fake) Extend(ctx context.Context, key, token string, ttl time.Duration) error {
	kept := false
	_, err := f.act(ctx, key, func(e *unique.Entry, now int64) *unique.Standing {
		missing := e.Expires() == 0
		switch {
		case f.fault == extendNoCompare && e.Held > 0, f.fault == extendRecreates && missing, f.fault == extendAfterFree && e.Token == "" && !missing:
			e.Token, e.Row = token, "1"
		}
		kept = e.Extend(now, token, ttl)
		return nil
	})
	if err == nil && !kept {
		err = lock.ErrLost
	}
	return err
}

func (f *fake) Mark(ctx context.Context, key string, o unique.Owner, d time.Duration) (*unique.Standing, error) {
	return f.act(ctx, key, func(e *unique.Entry, now int64) *unique.Standing {
		before := *e
		switch {
		case f.fault == markOverwrites && e.Row != o.Row:
			*e = unique.Entry{}
		case f.fault == markNeedsLease && e.Held <= now:
			return &unique.Standing{Row: "nobody", How: unique.Held}
		}
		st := e.Mark(now, o, d)
		switch {
		case f.fault == markKeepsLease && st == nil:
			e.Token, e.Held = before.Token, before.Held
		case f.fault == markKeepsReserved && st == nil:
			e.Reserved = before.Reserved
		case f.fault == markEndsOtherLease && st == nil:
			e.Token, e.Held = "", 0
		}
		return st
	})
}

func (f *fake) Free(ctx context.Context, key, token string, all bool) error {
	_, err := f.act(ctx, key, func(e *unique.Entry, _ int64) *unique.Standing {
		if f.fault == freeNoCompare {
			token = e.Token
		}
		e.Free(token, all && f.fault != freeKeepsReserved || f.fault == freeDropsReserved)
		return nil
	})
	return err
}

func (f *fake) Release(ctx context.Context, key, row string) error {
	_, err := f.act(ctx, key, func(e *unique.Entry, _ int64) *unique.Standing {
		switch {
		case f.fault == releaseNoCompare:
			row = e.Row
		case f.fault == releaseFrees:
			e.Token, e.Held = "", 0
		}
		e.Release(row)
		return nil
	})
	return err
}

func (f *fake) Look(ctx context.Context, key string) (*unique.Standing, error) {
	return f.act(ctx, key, func(e *unique.Entry, now int64) *unique.Standing { return e.Look(now) })
}

// recorder is a test that fails without failing the one around it.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	failed  bool
	cleanup []func()
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Cleanup(f func())    { r.cleanup = append(r.cleanup, f) }

func (r *recorder) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}
func (r *recorder) Errorf(string, ...any) { r.fail() }

func (r *recorder) Fatalf(string, ...any) {
	r.fail()
	runtime.Goexit()
}
func (r *recorder) Fatal(...any) { r.Fatalf("") }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// failures runs all cases on a store and returns the names of those that fail.
func failures(t *testing.T, broken fault) (names []string) {
	h := Harness{Synctest: true, Open: func(testing.TB) Store {
		f := &fake{fault: broken, entries: map[string]*unique.Entry{}}
		return Store{New: func() unique.Store { return f }, Forget: func(key string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.entries, key)
		}}
	}}
	for _, c := range cases() {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{TB: t}
			var done sync.WaitGroup
			done.Go(func() { runCase(r, h, c) }) // apart: Fatal ends its goroutine
			done.Wait()
			for _, f := range slices.Backward(r.cleanup) {
				f()
			}
			if r.Failed() {
				names = append(names, c.name)
			}
		})
	}
	return names
}

// Each fault is found, by the case that is there for it.
func TestBrokenStoresFail(t *testing.T) {
	for f, want := range map[fault]string{
		holdAnyway:         "Held",
		holdNotAgain:       "HoldAgain",
		holdKeepsOldToken:  "SameRow",
		neverExpires:       "Expiry",
		extendNoCompare:    "StaleExtend",
		extendRecreates:    "ExtendForgotten",
		extendAfterFree:    "ExtendFreed",
		freeNoCompare:      "StaleFree",
		freeDropsReserved:  "Reserve",
		freeKeepsReserved:  "FreeAll",
		markOverwrites:     "MarkTaken",
		markNeedsLease:     "LateMark",
		markKeepsLease:     "Mark",
		markKeepsReserved:  "MarkEndsReservation",
		markEndsOtherLease: "MarkByOldToken",
		ownMarkIgnored:     "OwnMark",
		ownMarkRefuses:     "OwnMark",
		releaseNoCompare:   "Release",
		releaseFrees:       "Release",
		takeOverAnything:   "TakeOver",
		takeOverHeld:       "NoTakeOver",
		takeOverNever:      "TakeOver",
		foldsCase:          "Keys",
		cutsKeys:           "Keys",
		takesEmptyKey:      "Arguments",
		ignoresContext:     "Context",
		looksThenActs:      "Race",
	} {
		t.Run(string(f), func(t *testing.T) {
			names := failures(t, f)
			assert.Contains(t, names, want)
			t.Logf("found by %v", names)
		})
	}
}

func TestSoundStorePasses(t *testing.T) {
	require.Empty(t, failures(t, none))
}
