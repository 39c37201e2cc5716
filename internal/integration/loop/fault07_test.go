package loop

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/sender/sendertest"
)

// These are the figures of docs/faults.md, 7: 20 rows in one batch, 4 at a time, 1 s
// each; the signal comes at 0.5 s, and all must be over 3 s after it. Run takes a
// second more than StopTimeout for sends that ignore their context.
const (
	stopAfter = 500 * time.Millisecond
	stopSend  = time.Second
	grace     = 3 * time.Second
	stopLease = 6 * time.Second
)

func stopTune(cfg *sendonce.Config) {
	cfg.SendTimeout, cfg.Lease, cfg.StopTimeout, cfg.PollInterval = 1200*time.Millisecond, stopLease, 1500*time.Millisecond, 200*time.Millisecond
}

// stopping is 20 rows, of which a worker A has claimed all and begun 4; B is idle
// beside it.
type stopping struct {
	*scene
	b      *worker
	signal time.Time
	gone   time.Time // A has stopped
}

// allHeld adds the rows, which the one worker that waits for some claims together.
func (s *scene) allHeld(t *testing.T) {
	t.Helper()
	s.Add(t, 20)
	await(t, 10*time.Second, "A holds all rows", func() bool { return s.count(t, claimed) == len(s.Keys) })
}

// docs/faults.md, 7.
func TestFault07_FinishedIsRecordedAndUnstartedIsGivenBack(t *testing.T) {
	each(t, []combo.Strategy{combo.Atomic, combo.SkipLocked}, func(t *testing.T, c combo.Combo) {
		s := stopping{scene: on(t, c, nil, 0)}
		a := s.start(t, post{name: "A", sender: takes(stopSend), tune: stopTune})
		a.idle(t)
		s.allHeld(t)
		s.b = s.start(t, post{name: "B", sender: takes(stopSend), tune: stopTune})
		s.beforeSignal(t)
		assert.NoError(t, a.stop(t))
		s.gone = time.Now()
		s.afterStop(t)
		assert.Empty(t, a.calls(claiming, s.signal, time.Now()), "claims after the signal")
		s.judge(t, allowed{})
	})
}

// beforeSignal waits for the moment of it.
func (s *stopping) beforeSignal(t *testing.T) {
	t.Helper()
	time.Sleep(stopAfter - time.Since(s.sends(t).All()[0].Start))
	await(t, time.Second, "four sends are in flight", func() bool { return s.sends(t).Count() >= 4 })
	s.signal = time.Now()
}

// afterStop checks who has sent what, and when.
func (s *stopping) afterStop(t *testing.T) {
	t.Helper()
	assert.Less(t, s.gone.Sub(s.signal), grace)
	s.allDone(t, 15*time.Second)
	var inFlight, later []sendertest.Send
	for _, send := range s.sends(t).All() {
		if send.Worker == "A" {
			inFlight = append(inFlight, send)
		} else {
			later = append(later, send)
		}
		assert.Equal(t, 1, send.Attempt, "an attempt is charged for a row that was given back: %v", send)
	}
	require.NotEmpty(t, later, "sends of B")
	assert.Len(t, append(inFlight, later...), 20)
	for _, send := range inFlight { // a signal takes a moment to arrive
		assert.Less(t, send.Start.Sub(s.signal), stopSend/2, "%v begins after the signal", send)
	}
	// Four, unless the signal was late: the machine has other things to do.
	assert.LessOrEqual(t, len(inFlight), 4*(1+int(s.signal.Sub(inFlight[0].Start)/stopSend)), "sends of A")
	// Within one poll, and the time of the statements: the sends of A go on.
	poll := s.b.cfg.PollInterval
	assert.Less(t, later[0].Start.Sub(s.signal), poll+stopSend-stopAfter-100*time.Millisecond+200*time.Millisecond)
	for _, r := range s.rows(t) {
		assert.Equal(t, 1, r.Attempts)
	}
}

// Nobody else is there: what was given back is pending at once, as it was.
func TestFault07_GivenBackAsItWas(t *testing.T) {
	each(t, one, func(t *testing.T, c combo.Combo) {
		s := on(t, c, nil, 0)
		a := s.start(t, post{name: "A", sender: takes(stopSend), tune: stopTune})
		a.idle(t)
		s.allHeld(t)
		await(t, stopSend, "four sends are in flight", func() bool { return s.sends(t).Count() == 4 })
		a.end()
		await(t, stopSend, "what was not begun is pending", func() bool { return s.count(t, pending) == 16 })
		assert.Positive(t, s.count(t, claimed), "the sends go on meanwhile")
		for key, r := range s.rows(t) {
			if r.Status == pending {
				assert.Zero(t, r.Attempts, "row %v", key)
				assert.True(t, r.Due, "row %v", key)
				assert.Zero(t, r.Token, "row %v", key)
			}
		}
		<-a.done
		assert.NoError(t, a.err)
		assert.Equal(t, 4, s.sends(t).Count())
		assert.Equal(t, 4, s.count(t, done))
		s.judge(t, allowed{})
	})
}

// docs/faults.md, 7: one send ignores its context.
func TestFault07_TheStubbornRowIsNamedAndKept(t *testing.T) {
	each(t, one, func(t *testing.T, c combo.Combo) {
		s := on(t, c, nil, 0)
		stubborn, letGo := s.KeyOf(1002), make(chan struct{})
		tune := func(cfg *sendonce.Config) { cfg.StopTimeout = 500 * time.Millisecond; cfg.Lease = 4 * time.Second }
		a := s.start(t, post{name: "A", tune: tune, sender: func(ctx context.Context, m item) error {
			if m.Key == stubborn {
				<-letGo
				return nil
			}
			return takes(300*time.Millisecond)(ctx, m)
		}})
		a.idle(t)
		s.allHeld(t)
		await(t, 10*time.Second, "the stubborn row is being sent", func() bool { return len(s.sends(t).Sends(stubborn)) > 0 })
		b := s.start(t, post{name: "B", tune: tune, sender: takes(300 * time.Millisecond)})
		signal := time.Now()
		err := isStopped(t, a.stop(t))
		assert.Less(t, time.Since(signal), a.cfg.StopTimeout+2*time.Second)
		assert.Equal(t, []sendonce.Key{stubborn}, err.Stuck)
		assert.Empty(t, err.Unrecorded)
		assert.ErrorContains(t, err, "whose send would not end")
		await(t, 10*time.Second, "the others are done", func() bool { return s.count(t, done) == 19 })
		r := s.rows(t)[stubborn]
		assert.Equal(t, claimed, r.Status, "it is not given back while it may still be sent")
		assert.Equal(t, 20, s.sends(t).Count())
		close(letGo)
		s.allDone(t, 2*b.cfg.Lease+5*time.Second)
		// Its end could not be recorded any more: the claim's end is all that is known.
		s.judge(t, allowed{accepted: 2, sends: func(key sendonce.Key) int {
			if key == stubborn {
				return 2
			}
			return 1
		}})
	})
}

// docs/faults.md, 7: a process gets SIGTERM, and would get SIGKILL a second after its
// grace time.
func TestFault07_SIGTERM(t *testing.T) {
	for name, stubborn := range map[string]bool{"all sends end": false, "one send ignores its context": true} {
		t.Run(name, func(t *testing.T) {
			each(t, one, func(t *testing.T, c combo.Combo) { sigterm(t, c, stubborn) })
		})
	}
}

func sigterm(t *testing.T, c combo.Combo, stubborn bool) {
	s := stopping{scene: on(t, c, nil, 0)}
	cfg := config("")
	stopTune(&cfg)
	o := order{
		Name: "A", Concurrency: 4, BatchSize: 20, Timeout: cfg.SendTimeout, Lease: cfg.Lease, StopTimeout: cfg.StopTimeout, MaxAttempts: 5,
		Takes: stopSend,
	}
	if stubborn {
		o.Stubborn = s.KeyOf(1001).(int64)
	}
	a := s.spawn(t, o)
	s.idle(t)
	s.allHeld(t)
	s.b = s.start(t, post{name: "B", sender: takes(stopSend), tune: stopTune})
	s.beforeSignal(t)
	require.NoError(t, a.cmd.Process.Signal(syscall.SIGTERM))
	kill := time.AfterFunc(grace+time.Second, func() { _ = a.cmd.Process.Kill() })
	defer kill.Stop()
	code := a.wait(t, grace+5*time.Second)
	s.gone = time.Now()
	if !stubborn {
		assert.Zero(t, code, "A has stopped by itself")
		s.afterStop(t)
		s.judge(t, allowed{})
		return
	}
	assert.Equal(t, 1, code, "A has stopped by itself, with an error")
	assert.Contains(t, a.stderr.String(), "1 rows whose send would not end: [1001]")
	await(t, 15*time.Second, "the others are done", func() bool { return s.count(t, done) == 19 })
	assert.Equal(t, claimed, s.rows(t)[o.Stubborn].Status)
	assert.Equal(t, 20, s.sends(t).Count())
	s.allDone(t, 3*stopLease)
	s.judge(t, allowed{sends: func(key sendonce.Key) int {
		if key == o.Stubborn { // its process has ended in mid-send
			return 2
		}
		return 1
	}})
}
