package locktest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/internal/lockkit"
)

// fault is one way to be wrong.
type fault string

const (
	none                  fault = ""
	releaseNoCompare      fault = "release without compare"
	extendNoCompare       fault = "extend without compare"
	extendRecreates       fault = "extend makes a missing lease anew"
	extendByTokenOnly     fault = "extend of an earlier tenure with the same token"
	extendAfterRelease    fault = "extend of a lease that was released"
	fenceConstant         fault = "the fence is constant"
	fenceForgets          fault = "the fence starts again after a loss of memory"
	fenceOnExtend         fault = "extend changes the fence"
	acquireNotIdempotent  fault = "acquire refuses its own token"
	acquireNewFence       fault = "acquire again gives another fence"
	acquireKeepsOldEnd    fault = "acquire again does not prolong the lease, and says so"
	countedFromReply      fault = "the lease is counted from the reply"
	grantsWhileHeld       fault = "grants while held"
	releaseNotIdempotent  fault = "release again is a loss"
	releaseForgetsRivals  fault = "release again succeeds after somebody else's tenure"
	neverExpires          fault = "leases never end"
	foldsCase             fault = "keys differ by case only for people"
	trimsSpace            fault = "keys lose their last blanks"
	takesAnything         fault = "any argument is good"
	heldIsPlainError      fault = "held is an error like any other"
	lostIsSilent          fault = "a loss is not told"
	actsOnEndedContext    fault = "acts on a context that has ended"
	ignoresContext        fault = "waits for an answer for longer than its context"
	compareThenActInTwo   fault = "release compares and deletes in two commands"
	acquireChecksThenActs fault = "acquire looks and takes in two commands"
)

// fake is a store with a fault, and a Locker on it with a line of its own.
type fake struct {
	*fakeStore
	hole, losing atomic.Bool
	delay        atomic.Int64 // nanoseconds
	pause        func()
}

type fakeStore struct {
	fault  fault
	mu     sync.Mutex
	leases map[string]*fakeLease
}

type fakeLease struct {
	token, before lock.Token
	fence         int64
	until         time.Time
	released      bool
}

func (f *fake) BlackHole()             { f.hole.Store(true) }
func (f *fake) LoseReplies()           { f.losing.Store(true) }
func (f *fake) Delay(by time.Duration) { f.delay.Store(int64(by)) }

func (f *fake) Heal() {
	f.hole.Store(false)
	f.losing.Store(false)
	f.delay.Store(0)
}

// call is one command on its way to the store and back.
func (f *fake) call(ctx context.Context, act func() error) error {
	f.pause()
	if ctx.Err() != nil && f.fault != actsOnEndedContext {
		return ctx.Err()
	}
	patience := ctx
	if f.fault == ignoresContext {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
	}
	if f.hole.Load() {
		<-patience.Done()
		return patience.Err()
	}
	f.mu.Lock()
	err := act()
	f.mu.Unlock()
	time.Sleep(time.Duration(f.delay.Load()))
	if f.losing.Load() {
		<-patience.Done()
		return patience.Err()
	}
	return err
}

func (f *fake) name(key string) string {
	switch f.fault {
	case foldsCase:
		return strings.ToLower(key)
	case trimsSpace:
		for len(key) > 1 && key[len(key)-1] == ' ' {
			key = key[:len(key)-1]
		}
	}
	return key
}

func (f *fake) check(key string, token lock.Token, ttl time.Duration) error {
	if f.fault == takesAnything {
		return nil
	}
	if err := lockkit.CheckName(key, token); err != nil {
		return err
	}
	_, err := lockkit.CheckTTL(ttl, 1)
	return err
}

func (f *fake) Acquire(ctx context.Context, key string, token lock.Token, ttl time.Duration) (lock.Lease, error) {
	if err := f.check(key, token, ttl); err != nil {
		return lock.Lease{}, err
	}
	start := time.Now()
	if f.fault == acquireChecksThenActs {
		if err := f.call(ctx, func() error { return f.free(key, token) }); err != nil {
			return lock.Lease{}, err
		}
	}
	var lease lock.Lease
	err := f.call(ctx, func() error {
		if f.fault != acquireChecksThenActs {
			if err := f.free(key, token); err != nil {
				return err
			}
		}
		lease = f.grant(key, token, start, ttl)
		return nil
	})
	if f.fault == countedFromReply {
		lease.Until = time.Now().Add(ttl)
	}
	return lease, err
}

func (f *fake) free(key string, token lock.Token) error {
	l := f.leases[f.name(key)]
	over := l == nil || l.released || !time.Now().Before(l.until) && f.fault != neverExpires
	mine := l != nil && l.token == token && f.fault != acquireNotIdempotent
	if over || mine || f.fault == grantsWhileHeld {
		return nil
	}
	if f.fault == heldIsPlainError {
		return fmt.Errorf("lock %q is busy", key)
	}
	return &lock.HeldError{Key: key, For: time.Until(l.until)}
}

func (f *fake) grant(key string, token lock.Token, start time.Time, ttl time.Duration) lock.Lease {
	l := f.leases[f.name(key)]
	if l == nil {
		l = &fakeLease{released: true}
		if f.fault != fenceForgets {
			l.fence = time.Now().UnixMicro()
		}
	}
	next := &fakeLease{token: token, before: l.token, fence: l.fence + 1, until: time.Now().Add(ttl)}
	if l.token == token && !l.released {
		next.before = l.before
		if f.fault != acquireNewFence {
			next.fence = l.fence
		}
		if f.fault == acquireKeepsOldEnd {
			next.until = l.until
		}
	}
	if f.fault == fenceConstant {
		next.fence = 1
	}
	f.leases[f.name(key)] = next
	return lock.Lease{Key: key, Token: token, Fence: next.fence, Until: start.Add(ttl)}
}

func (f *fake) Extend(ctx context.Context, le lock.Lease, ttl time.Duration) (lock.Lease, error) {
	if err := f.check(le.Key, le.Token, ttl); err != nil {
		return le, err
	}
	start := time.Now()
	err := f.call(ctx, func() error {
		l := f.leases[f.name(le.Key)]
		if l == nil && f.fault == extendRecreates {
			l = &fakeLease{token: le.Token, fence: le.Fence}
			f.leases[f.name(le.Key)] = l
		}
		switch {
		case l == nil:
			return f.lost(le, lock.Expired)
		case f.fault == extendNoCompare:
		case l.token != le.Token || l.fence != le.Fence && f.fault != extendByTokenOnly:
			return f.lost(le, lock.Taken)
		case l.released && f.fault != extendAfterRelease:
			return f.lost(le, lock.Expired)
		}
		l.until, l.released = time.Now().Add(ttl), false
		if f.fault == fenceOnExtend {
			l.fence++
			le.Fence = l.fence
		}
		return nil
	})
	le.Until = start.Add(ttl)
	if f.fault == countedFromReply {
		le.Until = time.Now().Add(ttl)
	}
	return le, err
}

func (f *fake) Release(ctx context.Context, le lock.Lease) error {
	if err := f.check(le.Key, le.Token, time.Second); err != nil {
		return err
	}
	compare := func() error {
		l := f.leases[f.name(le.Key)]
		switch {
		case f.fault == releaseNoCompare:
		case l == nil:
			return f.lost(le, lock.Expired)
		case l.token != le.Token && (f.fault != releaseForgetsRivals || l.before != le.Token):
			return f.lost(le, lock.Taken)
		case l.released && f.fault == releaseNotIdempotent:
			return f.lost(le, lock.Expired)
		}
		return nil
	}
	act := func() error {
		if l := f.leases[f.name(le.Key)]; l != nil && (l.token == le.Token || f.fault != releaseForgetsRivals) {
			l.released = true
		}
		return nil
	}
	if f.fault == compareThenActInTwo {
		if err := f.call(ctx, compare); err != nil {
			return err
		}
		return f.call(ctx, act)
	}
	return f.call(ctx, func() error {
		if err := compare(); err != nil {
			return err
		}
		return act()
	})
}

func (f *fake) lost(le lock.Lease, reason lock.Reason) error {
	if f.fault == lostIsSilent {
		return nil
	}
	return &lock.LostError{Key: le.Key, Fence: le.Fence, Reason: reason}
}

// harness runs the suite on stores with this fault.
func harness(f fault) Harness {
	return Harness{
		TTL: time.Second, Caps: Caps{Fenced: true}, Synctest: true, Interleavings: 100,
		Open: func(testing.TB) Store {
			store := &fakeStore{fault: f, leases: map[string]*fakeLease{}}
			one := func(pause func()) *fake { return &fake{fakeStore: store, pause: pause} }
			return Store{
				New:     func() lock.Locker { return one(func() {}) },
				Pausing: func(pause func()) lock.Locker { return one(pause) },
				Line: func() (lock.Locker, Line) {
					f := one(func() {})
					return f, f
				},
				Forget: func(key string) {
					store.mu.Lock()
					defer store.mu.Unlock()
					delete(store.leases, key)
				},
			}
		},
	}
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
func (r *recorder) Log(...any)          {}
func (r *recorder) Skip(...any)         { runtime.Goexit() }
func (r *recorder) Cleanup(f func())    { r.cleanup = append(r.cleanup, f) }
func (r *recorder) FailNow()            { r.Fail(); runtime.Goexit() }

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}
func (r *recorder) Errorf(string, ...any) { r.Fail() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// failures runs all cases on a store and returns the names of those that fail.
func failures(t *testing.T, f fault) (names []string) {
	h := harness(f)
	for _, c := range cases() {
		if c.needs != nil && !c.needs(h.Caps) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{TB: t}
			var done sync.WaitGroup
			done.Go(func() { runCase(r, h, c) }) // apart: FailNow ends its goroutine
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
		releaseNoCompare:      "StaleRelease",
		extendNoCompare:       "StaleExtend",
		extendRecreates:       "ExtendForgotten",
		extendByTokenOnly:     "StaleFence",
		extendAfterRelease:    "ExtendReleased",
		fenceConstant:         "Fences",
		fenceForgets:          "FencesForgotten",
		fenceOnExtend:         "Extend",
		acquireNotIdempotent:  "AcquireAgain",
		acquireNewFence:       "AcquireAgain",
		acquireKeepsOldEnd:    "AcquireAgain",
		countedFromReply:      "SlowReply",
		grantsWhileHeld:       "Held",
		releaseNotIdempotent:  "ReleaseAgain",
		releaseForgetsRivals:  "ReleaseAgain",
		neverExpires:          "Expiry",
		foldsCase:             "Keys",
		trimsSpace:            "Keys",
		takesAnything:         "Arguments",
		heldIsPlainError:      "Held",
		lostIsSilent:          "StaleExtend",
		actsOnEndedContext:    "Context",
		ignoresContext:        "Context",
		compareThenActInTwo:   "Interleavings",
		acquireChecksThenActs: "Interleavings",
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

// MemLine breaks as a line does.
func TestMemLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(harness(none).Open(t).New())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Delay(time.Minute)
		_, err := l.Acquire(ctx, "k", lock.NewToken(), time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		l.Heal()
		_, err = l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
		require.ErrorIs(t, err, lock.ErrHeld, "the call whose answer was late has acted")
		l.BlackHole()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.Acquire(ctx, "other", lock.NewToken(), time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		l.Heal()
		_, err = l.Acquire(t.Context(), "other", lock.NewToken(), time.Hour)
		require.NoError(t, err, "the call that was swallowed has not acted")
	})
}
