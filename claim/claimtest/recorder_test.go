package claimtest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recorder stands for the testing.TB of a case, so that a case that fails can be
// looked at.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	log     []string
	failed  bool
	skipped bool
}

func (r *recorder) note(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.log = append(r.log, text)
}

func (r *recorder) Helper()                      {}
func (r *recorder) Failed() bool                 { return r.failed }
func (r *recorder) Error(args ...any)            { r.note(true, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, args ...any) { r.note(true, fmt.Sprintf(f, args...)) }
func (r *recorder) Fatal(args ...any)            { r.note(true, fmt.Sprint(args...)); runtime.Goexit() }

func (r *recorder) Fatalf(f string, args ...any) {
	r.note(true, fmt.Sprintf(f, args...))
	runtime.Goexit()
}
func (r *recorder) FailNow()                    { r.note(true, "FailNow"); runtime.Goexit() }
func (r *recorder) Log(args ...any)             { r.note(false, fmt.Sprint(args...)) }
func (r *recorder) Logf(f string, args ...any)  { r.note(false, fmt.Sprintf(f, args...)) }
func (r *recorder) Skip(args ...any)            { r.skip(fmt.Sprint(args...)) }
func (r *recorder) Skipf(f string, args ...any) { r.skip(fmt.Sprintf(f, args...)) }
func (r *recorder) skip(text string)            { r.note(false, text); r.skipped = true; runtime.Goexit() }
func (r *recorder) text() string                { return strings.Join(r.log, "\n") }

// watch runs one case in virtual time and returns what became of it.
func watch(t *testing.T, h Harness[string], c testCase[string]) *recorder {
	t.Helper()
	var r *recorder
	synctest.Test(t, func(t *testing.T) {
		r = &recorder{TB: t}
		var wg sync.WaitGroup
		wg.Go(func() { runCase(r, h.withDefaults(), c) })
		wg.Wait()
	})
	return r
}

func caseNamed(t *testing.T, name string) testCase[string] {
	t.Helper()
	for _, c := range allCases[string]() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no case %s", name)
	panic("unreachable")
}

// world is a harness whose handles are spoiled.
func world(spoil func(w *rig, f *fake)) Harness[string] {
	return Harness[string]{
		Virtual: true, Lease: 3 * time.Second,
		New: func(t testing.TB, rows, handles int) *Store[string] {
			w := newRig()
			s := w.store(t, rows)
			for range handles {
				f := newFake(w.c.Process())
				spoil(w, f)
				s.Claimers = append(s.Claimers, f)
			}
			return s
		},
	}
}
