package loop

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sendonce/sendonce"
)

// allowed is what a scenario allows. The zero value: each row is sent once.
type allowed struct {
	sends    func(sendonce.Key) int // the most of one row; nil: 1
	accepted int                    // the most of one row that were answered with nil; 0: 1
	within   time.Duration          // until no row is claimed; 0: the time of section 4
	busy     bool                   // rows come all the time: the workers are stopped first
}

// judge asserts what every scenario asks for besides its own (docs/faults.md): the
// six things, and that no connection is in use. It stops the workers that run.
func (s *scene) judge(t *testing.T, a allowed) {
	t.Helper()
	if !a.busy {
		s.nothingHeld(t, a.within)
	}
	for _, w := range s.workers {
		select {
		case <-w.done:
			if w.end == nil {
				t.Errorf("%s was never started", w.cfg.Owner)
			}
		default:
			assert.NoError(t, w.stop(t), "Run of %s", w.cfg.Owner)
		}
	}
	if a.busy {
		s.nothingHeld(t, a.within)
	}
	s.sentAsAllowed(t, a)
	for key, r := range s.rows(t) {
		touched := r.Attempts > 0 || r.Token != 0
		if ended := r.Status >= done; !ended && (r.Status != pending || touched && !r.Due) {
			t.Errorf("row %v has neither ended nor a time when it is due: %+v", key, r)
		}
	}
	for _, w := range s.workers {
		for _, l := range w.links {
			assert.Zero(t, l.DB.Stats().InUse, "connections in use after Run of %s", w.cfg.Owner)
		}
	}
}

// nothingHeld waits until no row is claimed, and no claim is recorded.
func (s *scene) nothingHeld(t *testing.T, within time.Duration) {
	t.Helper()
	if within == 0 {
		within = 10 * time.Second
		for _, w := range s.workers {
			// The lease, two thirds of it for the second witness, and a look.
			within = max(within, 2*w.cfg.Lease+5*time.Second)
		}
	}
	await(t, within, "no row is claimed", func() bool {
		rows, err := s.look()
		for _, r := range rows {
			if r.Status == claimed || r.Status == sending {
				return false
			}
		}
		claims := 1
		return err == nil && s.Admin.Get(&claims, "SELECT COUNT(*) FROM sendonce_claims") == nil && claims == 0
	})
}

func (s *scene) sentAsAllowed(t *testing.T, a allowed) {
	t.Helper()
	log := s.sends(t)
	assert.Empty(t, log.Overlaps(), "sends of one row that overlap")
	sends := map[sendonce.Key]int{}
	for _, send := range log.All() {
		sends[send.Key]++
	}
	for key, n := range sends {
		most := 1
		if a.sends != nil {
			most = a.sends(key)
		}
		if n > most {
			t.Errorf("row %v was sent %d times, and not %d at the most: %v", key, n, most, log.Sends(key))
		}
	}
	for key, twice := range log.MoreThanOnce() {
		if len(twice) > max(a.accepted, 1) {
			t.Errorf("row %v was accepted %d times: %v", key, len(twice), twice)
		}
	}
}

// label marks the goroutines of a test: those that they start have it too, so that
// tests that run beside each other can tell theirs.
const label = "scene"

// marked runs f so that the goroutines that it starts are the test's.
func marked(t *testing.T, f func()) {
	t.Helper()
	pprof.Do(context.Background(), pprof.Labels(label, t.Name()), func(context.Context) { f() })
}

// noneLeft fails the test if a goroutine of it is there when it has ended, and what
// it opened from now on is closed.
func noneLeft(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		mine := []byte(fmt.Sprintf("%q:%q", label, t.Name()))
		var left []string
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			var b bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
			left = left[:0]
			for _, block := range bytes.Split(b.Bytes(), []byte("\n\n")) {
				if bytes.Contains(block, mine) {
					left = append(left, string(block))
				}
			}
			if len(left) == 0 {
				return
			}
			if time.Now().After(end) {
				t.Errorf("goroutines that are left:\n%s", strings.Join(left, "\n\n"))
				return
			}
		}
	})
}
