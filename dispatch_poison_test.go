package sendonce_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// nastyError's text can't be had.
type nastyError struct{}

func (nastyError) Error() string { panic("no text") }

// What a Sender can do to itself costs its row, not the worker.
func TestFault12_PoisonRows(t *testing.T) {
	for name, c := range map[string]struct {
		poison func() error
		reason string
	}{
		"panic":           {func() error { panic("boom") }, "panicked: boom"},
		"nil dereference": {func() error { var p *int; *p = 1; return nil }, "nil pointer"},
		"Goexit":          {func() error { runtime.Goexit(); return nil }, "runtime.Goexit"},
		"panicking error": {func() error { return nastyError{} }, "whose Error method panicked"},
	} {
		for _, mode := range []sendonce.Delivery{sendonce.AtLeastOnce, sendonce.AtMostOnce} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				inFakeTime(t, 50, func(w *world) {
					d := w.dispatcher(w.store(), func(_ context.Context, m sendonce.Item[string]) error {
						if m.Key.(int64)%10 == 0 {
							return c.poison()
						}
						return nil
					}, sendonce.Config{Concurrency: 3, MaxAttempts: 3, Delivery: mode, Backoff: func(int) time.Duration { return time.Second }})
					w.drain(d)
					put, sends := memclaim.Dead, 3
					if mode == sendonce.AtMostOnce {
						put, sends = memclaim.Unknown, 1
					}
					assert.Equal(t, map[string]int{memclaim.Done: 45, put: 5}, w.states())
					assert.Contains(t, w.row(10).Reason, c.reason)
					assert.Len(t, w.log.Sends(10), sends)
				})
			})
		}
	}
}

// Recording a failure can't fail for its text.
func TestFault11_ReasonsAreFitToBeStored(t *testing.T) {
	for name, text := range map[string]string{
		"long":          strings.Repeat("é", 100_000),
		"not UTF-8":     "caf\xe9 \xff\xfe",
		"NUL":           "a\x00b",
		"cut in a rune": strings.Repeat("x", 1999) + "é",
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 1, func(w *world) {
				w.drain(w.dispatcher(w.store(), func(context.Context, sendonce.Item[string]) error { return sendonce.Permanent(errors.New(text)) }, sendonce.Config{}))
				reason := w.row(1).Reason
				assert.True(t, utf8.ValidString(reason))
				assert.NotContains(t, reason, "\x00")
				assert.LessOrEqual(t, len(reason), 2000)
				assert.NotEmpty(t, reason)
			})
		})
	}
}

// docs/faults.md, 10: a row that kills its worker is dead within MaxAttempts
// restarts (one more at the most), and no neighbour is charged to death.
func TestFault10_RowThatKillsItsWorker(t *testing.T) {
	inFakeTime(t, 30, func(w *world) {
		restarts := 0
		for ; restarts < 12 && w.row(13).Status != memclaim.Dead; restarts++ {
			s := w.store()
			killed := make(chan struct{})
			r := w.start(w.dispatcher(s, func(ctx context.Context, m sendonce.Item[string]) error {
				if m.Key == int64(13) {
					close(killed)
					s.all(hangs) // nothing that this process does reaches the table any more
					<-ctx.Done()
				}
				return nil
			}, sendonce.Config{Concurrency: 4, BatchSize: 30, MaxAttempts: 4}))
			select {
			case <-killed:
			case <-time.After(5 * time.Minute):
			}
			_ = r.stop()
		}
		assert.LessOrEqual(t, restarts, 5)
		assert.Equal(t, map[string]int{memclaim.Done: 29, memclaim.Dead: 1}, w.states())
		assert.NotEmpty(t, w.row(13).Reason)
	})
}

// A row that is sent alone waits until all is quiet, and nothing begins beside it.
func TestAlone(t *testing.T) {
	inFakeTime(t, 20, func(w *world) {
		// Row 21 has come back from a vanished worker and is on its last attempt.
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 21, Token: 5, Attempts: 4, NextAttempt: time.Now().Add(500 * time.Millisecond)}))
		d := w.dispatcher(w.store(), func(ctx context.Context, m sendonce.Item[string]) error {
			return pause(ctx, time.Second+time.Duration(m.Key.(int64))*10*time.Millisecond)
		}, sendonce.Config{Concurrency: 4, MaxAttempts: 5})
		w.drain(d)
		assert.Equal(t, map[string]int{memclaim.Done: 21}, w.states())
		alone := w.log.Sends(21)
		require.Len(t, alone, 1)
		for _, s := range w.log.All() {
			if s.Key != int64(21) {
				assert.True(t, !s.End.After(alone[0].Start) || !s.Start.Before(alone[0].End), "beside the row that is alone: %v", s)
			}
		}
	})
}

// Waiting for quiet is bounded: a stuck send is not waited for.
func TestAloneBesideAStuckSend(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		release := make(chan struct{})
		r := w.start(w.dispatcher(w.store(), func(_ context.Context, m sendonce.Item[string]) error {
			if m.Key == int64(1) {
				<-release
			}
			return nil
		}, sendonce.Config{Concurrency: 4}))
		after(time.Second)
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 2, Token: 5, Attempts: 4, NextAttempt: time.Now()}))
		after(20 * time.Second)
		assert.Equal(t, memclaim.Done, w.row(2).Status)
		close(release)
		after(time.Second)
		assert.NoError(t, r.stop())
	})
}

// The application takes a row back while it is sent: it is left alone, and the
// hooks are told.
func TestForeignState(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		var c tally
		r := w.start(w.dispatcher(w.store(), slow(2*time.Second), sendonce.Config{Hooks: sendonce.Hooks{
			Excepted: func(e sendonce.Exception) { c.add(e.Cause.String() + " " + e.Status) },
		}}))
		after(time.Second)
		w.table.SetStatus(1, "cancelled")
		w.table.Delete(2)
		after(2 * time.Second)
		assert.Equal(t, map[string]int{"cancelled": 1}, w.states())
		assert.Equal(t, 1, c.of("foreign state cancelled"))
		assert.Equal(t, 1, c.of("missing "))
		assert.NoError(t, r.stop())
		assert.Zero(t, r.Stats().Sent)
	})
}

// A row that is sent alone is so also when rows that waited, short of time, could
// begin again because their claim was renewed.
func TestFault10_NothingBeginsBesideARowSentAlone(t *testing.T) {
	inFakeTime(t, 7, func(w *world) {
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 9, Token: 1, Attempts: 3, NextAttempt: time.Now().Add(2800 * time.Millisecond)}))
		s := w.store()
		on(&s.onExtend, fails(errGone))
		r := w.start(w.dispatcher(s, slow(960*time.Millisecond), sendonce.Config{
			Concurrency: 2, BatchSize: 8, MaxAttempts: 4, SendTimeout: time.Second, Lease: 4300 * time.Millisecond, PollInterval: 20 * time.Millisecond,
		}))
		after(3200 * time.Millisecond)
		assert.Empty(t, w.log.Sends(int64(7)), "it waits, short of time")
		require.Len(t, w.log.Sends(int64(9)), 1, "it is being sent")
		s.onExtend.Store(nil)
		after(time.Minute)
		assert.NoError(t, r.stop())
		w.sentOnce(8)
		alone, waited := w.log.Sends(int64(9))[0], w.log.Sends(int64(7))[0]
		assert.False(t, waited.Start.Before(alone.End), "%v beside %v", waited, alone)
	})
}
