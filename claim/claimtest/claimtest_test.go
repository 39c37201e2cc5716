package claimtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/sendonce/sendonce"
)

func allBroken() []broken {
	return slices.Concat(brokenClaims, brokenSettles, brokenLeases, brokenDoubts)
}

func TestSuiteFailsBrokenClaimers(t *testing.T) {
	for _, b := range allBroken() {
		t.Run(b.name, func(t *testing.T) {
			for _, name := range b.fails {
				c := caseNamed(t, name)
				r := watch(t, world(b.spoil), c)
				if !r.failed {
					t.Errorf("case %s does not see a Claimer that %s: %s", name, b.name, r.text())
				} else if !strings.Contains(r.text(), c.says) {
					t.Errorf("case %s does not say what it checks: %s", name, r.text())
				}
			}
		})
	}
}

func TestEachCaseCanFail(t *testing.T) {
	var seen []string
	for _, b := range allBroken() {
		seen = append(seen, b.fails...)
	}
	names := map[string]bool{}
	for _, c := range allCases[string]() {
		if names[c.name] {
			t.Errorf("two cases are called %s", c.name)
		}
		names[c.name] = true
		if !slices.Contains(seen, c.name) {
			t.Errorf("no broken Claimer shows that case %s can fail", c.name)
		}
	}
}

// What the fakes are made of passes, so that it is the fault that is seen.
func TestSuitePassesWhatFakesAreMadeOf(t *testing.T) {
	for _, c := range allCases[string]() {
		if r := watch(t, world(func(*rig, *fake) {}), c); r.failed || r.skipped {
			t.Errorf("%s: %s", c.name, r.text())
		}
	}
}

// plain is a Claimer and nothing more.
type plain struct{ sendonce.Claimer[string] }

func plainWorld(caps Caps, hooks bool) Harness[string] {
	h := world(func(*rig, *fake) {})
	made := h.New
	h.Caps = caps
	h.New = func(t testing.TB, rows, handles int) *Store[string] {
		s := made(t, rows, handles)
		for i, c := range s.Claimers {
			s.Claimers[i] = plain{c}
		}
		if !hooks {
			return &Store[string]{Claimers: s.Claimers, Keys: s.Keys, Row: s.Row}
		}
		return s
	}
	return h
}

func TestWhatIsNotPromisedIsSkippedAloud(t *testing.T) {
	caps := Caps{NoEnder: true, NoBeginner: true, NoReaper: true, NoCounter: true, NoDoubtKeeper: true, NoExaminer: true}
	skipped := 0
	for _, c := range allCases[string]() {
		r := watch(t, plainWorld(caps, false), c)
		if r.failed {
			t.Errorf("%s: %s", c.name, r.text())
		}
		if r.skipped {
			skipped++
			if !strings.Contains(r.text(), c.says) || !strings.Contains(r.text(), "SKIPPED") {
				t.Errorf("%s is skipped in silence: %q", c.name, r.text())
			}
		}
	}
	if ran := len(allCases[string]()) - skipped; ran < 15 || skipped < 30 {
		t.Errorf("%d cases ran and %d were skipped", ran, skipped)
	}
}

// A store that loses an interface by mistake must not pass for that.
func TestWhatIsPromisedAndMissingFails(t *testing.T) {
	for name, kind := range map[string]string{"VanishedWorker": "Reaper", "Begin": "Beginner", "EndIsIdempotent": "Ender", "Counts": "Counter", "DoubtIsKept": "DoubtKeeper", "Resume": "Examiner"} {
		r := watch(t, plainWorld(Caps{}, true), caseNamed(t, name))
		if !r.failed || !strings.Contains(r.text(), "Caps.No"+kind) {
			t.Errorf("%s: %s", name, r.text())
		}
	}
}

func TestHarnessThatMakesTheWrongStoreFails(t *testing.T) {
	h := world(func(*rig, *fake) {})
	made := h.New
	h.New = func(t testing.TB, rows, handles int) *Store[string] { return made(t, rows+1, handles) }
	if r := watch(t, h, caseNamed(t, "Done")); !r.failed {
		t.Error("a store with one row more is accepted")
	}
}
