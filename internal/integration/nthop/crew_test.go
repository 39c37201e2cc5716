package nthop

import (
	"sync"
	"testing"
	"time"
)

// again is how often a run is tried that the machine has disturbed.
const again = 4

// crew runs many runs at a time.
type crew struct {
	working chan struct{} // runs that compute now and then
	alive   chan struct{} // those, and the ones that hang
	watch   *stopwatch
	wg      sync.WaitGroup

	mu                            sync.Mutex
	runs, fired, repeated, failed int
}

func newCrew(t *testing.T, working, alive int) *crew {
	return &crew{working: make(chan struct{}, working), alive: make(chan struct{}, alive), watch: newStopwatch(t)}
}

// told is how many failed runs are told in full.
const told = 10

// start starts a run when there is room. One that hangs makes room for another.
// over is told when it has ended.
func (c *crew) start(t *testing.T, st *stage, f Fault, over func(*run)) {
	t.Helper()
	c.alive <- struct{}{}
	c.working <- struct{}{}
	free := sync.OnceFunc(func() { <-c.working })
	c.wg.Go(func() {
		defer func() { free(); <-c.alive }()
		r := c.try(t, st, f, free)
		over(r)
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.inj.Fired() != "" {
			c.fired++
		}
		if len(r.problems) == 0 {
			return
		}
		if c.failed++; c.failed <= told {
			t.Error(r)
		}
	})
}

// try runs it, and again if all that was wrong can come of a machine that stood
// still, as it did meanwhile: leases are short here. What hangs takes up to half a
// second of a lease already, so there is no need for a proof.
func (c *crew) try(t *testing.T, st *stage, f Fault, hanging func()) (r *run) {
	for i := range again {
		c.mu.Lock()
		c.runs++
		if i > 0 {
			c.repeated++
		}
		r = &run{stage: st, field: st.field(t, c.runs), fault: f, inj: New(f)}
		c.mu.Unlock()
		r.inj.Hanging = hanging
		began := time.Now()
		r.play(t.Context())
		r.close()
		if !r.slowness || !r.slow && !f.Kind.hangs() && !c.watch.stoodStill(began) {
			break
		}
	}
	return r
}

// wait waits for all runs and tells how many there were.
func (c *crew) wait(t *testing.T) {
	t.Helper()
	c.wg.Wait()
	t.Logf("%d runs, %d of them again; in %d something failed by plan; %d were wrong", c.runs, c.repeated, c.fired, c.failed)
	if c.failed > told {
		t.Errorf("and %d more", c.failed-told)
	}
}

// stopwatch notices when goroutines don't get their turn.
type stopwatch struct {
	mu   sync.Mutex
	late time.Time // when that was noticed last
}

const (
	tick  = 5 * time.Millisecond
	still = lease / 15 // less than the margin that the loop keeps
)

func newStopwatch(t *testing.T) *stopwatch {
	w, ctx := &stopwatch{}, t.Context()
	go func() {
		for last := time.Now(); ctx.Err() == nil; {
			time.Sleep(tick)
			now := time.Now()
			if now.Sub(last) > still {
				w.mu.Lock()
				w.late = now
				w.mu.Unlock()
			}
			last = now
		}
	}()
	return w
}

func (w *stopwatch) stoodStill(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late.After(since)
}
