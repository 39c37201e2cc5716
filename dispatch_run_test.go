package sendonce_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

func TestDrainSendsEachRowOnce(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 2500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inFakeTime(t, n, func(w *world) {
				d := w.dispatcher(w.store(), sent, sendonce.Config{})
				stats := w.drain(d)
				assert.EqualValues(t, n, stats.Sent)
				assert.EqualValues(t, n, stats.Claimed)
				w.sentOnce(n)
			})
		})
	}
}

func TestWorkersShareTheRows(t *testing.T) {
	inFakeTime(t, 3000, func(w *world) {
		var wg sync.WaitGroup
		var busy atomic.Int64
		for range 5 {
			d := w.dispatcher(w.store(), slow(10*time.Millisecond), sendonce.Config{Concurrency: 4, BatchSize: 50})
			wg.Go(func() {
				if w.drain(d).Sent > 0 {
					busy.Add(1)
				}
			})
		}
		wg.Wait()
		w.sentOnce(3000)
		assert.EqualValues(t, 5, busy.Load(), "workers that had something to do")
	})
}

func TestDrainWaitsForWhatIsDueLater(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		w.table.Schedule(2, time.Now().Add(time.Hour))
		began := time.Now()
		w.drain(w.dispatcher(w.store(), sent, sendonce.Config{}))
		w.sentOnce(3)
		took := time.Since(began)
		assert.GreaterOrEqual(t, took, time.Hour)
		assert.Less(t, took, time.Hour+3*time.Second)
	})
}

func TestDrainWaitsForAnotherWorkersRows(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		first := w.start(w.dispatcher(w.store(), slow(5*time.Second), sendonce.Config{}))
		after(time.Second)
		began := time.Now()
		stats := w.drain(w.dispatcher(w.store(), sent, sendonce.Config{}))
		assert.Zero(t, stats.Claimed)
		assert.GreaterOrEqual(t, time.Since(began), 4*time.Second)
		assert.NoError(t, first.stop())
		w.sentOnce(1)
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.table.Schedule(1, time.Now().Add(time.Hour))
		why := errors.New("no time left")
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Minute, why)
		defer cancel()
		_, err := w.dispatcher(w.store(), sent, sendonce.Config{}).Drain(ctx)
		assert.ErrorIs(t, err, why)
	})
}

func TestOneRunAtATime(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		d := w.dispatcher(w.store(), sent, sendonce.Config{})
		r := w.start(d)
		after(time.Second)
		assert.ErrorIs(t, d.Run(w.Context()), sendonce.ErrRunning)
		assert.NoError(t, r.stop())
		assert.EqualValues(t, 1, d.Stats().Sent)
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 2}))
		assert.EqualValues(t, 2, w.drain(d).Sent, "a Dispatcher that has stopped can be started again, and its Stats go on")
	})
}

// Each answer of a Sender and what it makes of the row, under both promises.
func TestOutcomes(t *testing.T) {
	cause := errors.New("why it failed")
	for _, c := range []struct {
		name     string
		err      error
		once     string // the row's state under AtLeastOnce, after one send
		most     string // and under AtMostOnce
		attempts int    // charged
		delay    time.Duration
	}{
		{"nil", nil, memclaim.Done, memclaim.Done, 1, 0},
		{"untyped", cause, memclaim.Pending, memclaim.Unknown, 1, 7 * time.Second},
		{"Permanent", sendonce.Permanent(cause), memclaim.Dead, memclaim.Dead, 1, 0},
		{"wrapped", fmt.Errorf("sending: %w", sendonce.Permanent(cause)), memclaim.Dead, memclaim.Dead, 1, 0},
		{"RetryAfter", sendonce.RetryAfter(time.Minute, cause), memclaim.Pending, memclaim.Pending, 0, time.Minute},
		{"RetryAfter of less than nothing", sendonce.RetryAfter(-time.Minute, cause), memclaim.Pending, memclaim.Pending, 0, 0},
		{"Skip", sendonce.Skip("why it failed"), memclaim.Skipped, memclaim.Skipped, 1, 0},
		{"NotSent", sendonce.NotSent(cause), memclaim.Pending, memclaim.Pending, 1, 7 * time.Second},
		{"Ambiguous", sendonce.Ambiguous(cause), memclaim.Pending, memclaim.Unknown, 1, 7 * time.Second},
	} {
		for _, mode := range []sendonce.Delivery{sendonce.AtLeastOnce, sendonce.AtMostOnce} {
			t.Run(fmt.Sprintf("%s/%v", c.name, mode), func(t *testing.T) {
				inFakeTime(t, 1, func(w *world) {
					d := w.dispatcher(w.store(), func(context.Context, sendonce.Item[string]) error {
						if w.log.Count() > 1 {
							return pause(w.Context(), time.Second) // a second send is not looked at
						}
						return c.err
					}, sendonce.Config{Delivery: mode, Backoff: func(int) time.Duration { return 7 * time.Second }})
					began := time.Now()
					r := w.start(d)
					after(10 * time.Millisecond)
					want := c.once
					if mode == sendonce.AtMostOnce {
						want = c.most
					}
					row := w.row(1)
					if c.delay == 0 && want == memclaim.Pending {
						assert.Equal(t, 2, w.log.Count(), "due at once")
					} else {
						assert.Equal(t, want, row.Status)
						assert.Equal(t, c.attempts, row.Attempts)
					}
					if want == memclaim.Pending && c.delay > 0 {
						assert.WithinDuration(t, began.Add(c.delay), row.NextAttempt, 20*time.Millisecond)
						assert.Zero(t, row.Token, "no late fact of an attempt that has been judged")
					}
					if c.err != nil && c.delay > 0 {
						assert.Contains(t, row.Reason, "why it failed")
					}
					assert.NoError(t, r.stop())
				})
			})
		}
	}
}

func TestBackoffAndMaxAttempts(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		var delays []int
		d := w.dispatcher(w.store(), func(context.Context, sendonce.Item[string]) error { return errFlaky }, sendonce.Config{
			MaxAttempts: 4,
			Backoff: func(attempt int) time.Duration {
				delays = append(delays, attempt)
				return time.Duration(attempt) * time.Minute
			},
		})
		stats := w.drain(d)
		assert.EqualValues(t, 1, stats.Dead)
		assert.EqualValues(t, 3, stats.Retried)
		row := w.row(1)
		assert.Equal(t, memclaim.Dead, row.Status)
		assert.Equal(t, 4, row.Attempts)
		assert.Equal(t, "attempt 4 of 4: the provider is busy", row.Reason)
		assert.Equal(t, []int{1, 2, 3}, delays)
		sends := w.log.Sends(1)
		require.Len(t, sends, 4)
		for i := 1; i < 4; i++ {
			gap := sends[i].Start.Sub(sends[i-1].End)
			assert.GreaterOrEqual(t, gap, time.Duration(i)*time.Minute)
			assert.Less(t, gap, time.Duration(i)*time.Minute+2*time.Second, "a poll later at most")
			assert.Equal(t, sends[0].IdempotencyKey, sends[i].IdempotencyKey)
			assert.Equal(t, i+1, sends[i].Attempt)
		}
		assert.NotEmpty(t, sends[0].IdempotencyKey)
	})
}

// The default backoff grows, is capped, and differs between rows.
func TestDefaultBackoff(t *testing.T) {
	inFakeTime(t, 40, func(w *world) {
		d := w.dispatcher(w.store(), func(context.Context, sendonce.Item[string]) error { return errFlaky }, sendonce.Config{MaxAttempts: 12})
		w.drain(d)
		gaps := map[int]map[time.Duration]bool{}
		for key := 1; key <= 40; key++ {
			sends := w.log.Sends(key)
			require.Len(t, sends, 12)
			for i := 1; i < 12; i++ {
				gap := sends[i].Start.Sub(sends[i-1].End)
				whole := min(time.Second<<(i-1), 5*time.Minute)
				assert.GreaterOrEqual(t, gap, whole/2)
				assert.Less(t, gap, whole+2*time.Second)
				if gaps[i] == nil {
					gaps[i] = map[time.Duration]bool{}
				}
				gaps[i][gap] = true
			}
		}
		assert.Greater(t, len(gaps[8]), 10, "rows that failed together don't come back together")
	})
}

func TestUnreadableRowIsDeadAndNeverSent(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 4, Err: errors.New("column name: NULL")}))
		stats := w.drain(w.dispatcher(w.store(), sent, sendonce.Config{}))
		assert.EqualValues(t, 3, stats.Sent)
		assert.EqualValues(t, 1, stats.Dead)
		assert.Equal(t, memclaim.Dead, w.row(4).Status)
		assert.Contains(t, w.row(4).Reason, "column name: NULL")
		assert.Empty(t, w.log.Sends(4))
	})
}

func TestGroups(t *testing.T) {
	inFakeTime(t, 100, func(w *world) {
		var sizes sync.Map
		d := w.dispatcherOf(w.store(), sendonce.BatchSenderFunc[string](func(_ context.Context, items []sendonce.Item[string]) error {
			sizes.Store(len(items), true)
			errs := make(sendonce.ItemErrors, len(items))
			for i, m := range items {
				switch key := m.Key.(int64); {
				case m.Attempt == 1 && key%10 == 0:
					errs[i] = errFlaky
				case key%25 == 1:
					errs[i] = sendonce.Permanent(errors.New("no such mailbox"))
				}
				items[i] = sendonce.Item[string]{} // the slice is the Sender's until it returns
			}
			return fmt.Errorf("the provider's answer: %w", errs)
		}), sendonce.Config{GroupSize: 8, BatchSize: 30, Concurrency: 2})
		stats := w.drain(d)
		assert.EqualValues(t, 96, stats.Sent)
		assert.EqualValues(t, 4, stats.Dead)
		assert.EqualValues(t, 10, stats.Retried)
		_, full := sizes.Load(8)
		assert.True(t, full)
		_, more := sizes.Load(9)
		assert.False(t, more)
		assert.Equal(t, map[string]int{memclaim.Done: 96, memclaim.Dead: 4}, w.states())
	})
}

// Too few answers are no answer for the rest; one error is the answer for all.
func TestGroupAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want map[string]int
	}{
		"too few":             {sendonce.ItemErrors{nil, nil}, map[string]int{memclaim.Done: 2, memclaim.Unknown: 2}},
		"none":                {sendonce.ItemErrors{}, map[string]int{memclaim.Unknown: 4}},
		"too many":            {make(sendonce.ItemErrors, 9), map[string]int{memclaim.Done: 4}},
		"one for all":         {sendonce.Permanent(errFlaky), map[string]int{memclaim.Dead: 4}},
		"one for all, nil":    {nil, map[string]int{memclaim.Done: 4}},
		"one for all, doubts": {errFlaky, map[string]int{memclaim.Unknown: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 4, func(w *world) {
				d := w.dispatcherOf(w.store(), sendonce.BatchSenderFunc[string](func(context.Context, []sendonce.Item[string]) error { return c.err }),
					sendonce.Config{GroupSize: 4, Delivery: sendonce.AtMostOnce})
				w.drain(d)
				assert.Equal(t, c.want, w.states())
			})
		})
	}
}

// A SenderFunc that is given a group sends one after the other, and what it did
// not come to is not sent.
func TestSenderFuncOfAGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := sendonce.SenderFunc[string](func(_ context.Context, m sendonce.Item[string]) error {
		if m.Key == int64(2) {
			cancel()
		}
		return nil
	})
	err := f.Send(ctx, []sendonce.Item[string]{{Key: int64(1)}, {Key: int64(2)}, {Key: int64(3)}})
	var each sendonce.ItemErrors
	require.ErrorAs(t, err, &each)
	assert.NoError(t, each[0])
	assert.NoError(t, each[1])
	assert.ErrorIs(t, each[2], context.Canceled)
	assert.Contains(t, err.Error(), "1 of 3 items failed")
}

func TestPolling(t *testing.T) {
	inFakeTime(t, 0, func(w *world) {
		s := w.store()
		r := w.start(w.dispatcher(s, sent, sendonce.Config{PollInterval: 2 * time.Second}))
		after(10 * time.Second)
		settled := s.claims.Load()
		after(100 * time.Second)
		polls := s.claims.Load() - settled
		assert.GreaterOrEqual(t, polls, int64(50))
		assert.LessOrEqual(t, polls, int64(100), "jitter shortens a wait by half at most")
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 1}))
		after(2 * time.Second)
		assert.Equal(t, memclaim.Done, w.row(1).Status, "within one poll")
		assert.NoError(t, r.stop())
	})
}

func TestWake(t *testing.T) {
	inFakeTime(t, 0, func(w *world) {
		s, wake := w.store(), make(chan struct{}, 1)
		r := w.start(w.dispatcher(s, sent, sendonce.Config{PollInterval: time.Hour, Wake: wake}))
		after(10 * time.Hour)
		for key := 1; key <= 3; key++ {
			require.NoError(t, w.table.Add(memclaim.Row[string]{Key: key}))
			wake <- struct{}{}
			after(10 * time.Millisecond)
			assert.Equal(t, memclaim.Done, w.row(key).Status)
			after(time.Hour)
		}
		close(wake)
		after(time.Hour)
		before := s.claims.Load()
		after(10 * time.Hour)
		assert.LessOrEqual(t, s.claims.Load()-before, int64(20), "a closed channel is no hint")
		assert.NoError(t, r.stop())
	})
}

// While a batch is sent the next one is claimed, and no more than that.
func TestClaimsAhead(t *testing.T) {
	inFakeTime(t, 10000, func(w *world) {
		var most atomic.Int64
		d := w.dispatcher(w.store(), slow(time.Millisecond), sendonce.Config{Concurrency: 10, BatchSize: 100, Hooks: sendonce.Hooks{
			Claimed: func(int, time.Duration, error) {
				most.Store(max(most.Load(), int64(w.held())))
			},
		}})
		began := time.Now()
		w.drain(d)
		assert.Less(t, time.Since(began), 1200*time.Millisecond, "10,000 sends of 1 ms, 10 at once: the slots are never idle")
		assert.Less(t, most.Load(), int64(350), "rows that are held: a batch that is being sent, one that waits, and what is not yet recorded")
		w.sentOnce(10000)
	})
}

// docs/semantics.md, section 2: no more is claimed than can be begun in half a
// lease, so that a slow sender never sits on rows.
func TestClaimSizeFollowsThePace(t *testing.T) {
	inFakeTime(t, 400, func(w *world) {
		r := w.start(w.dispatcher(w.store(), slow(5*time.Second), sendonce.Config{Concurrency: 2, BatchSize: 1000}))
		after(30 * time.Second)
		assert.LessOrEqual(t, w.held(), 2*6+4, "two at once, 5 s each: 6 can be begun in 15 s")
		assert.NoError(t, r.stop())
		for _, row := range w.table.Rows() {
			if row.Status == memclaim.Pending {
				assert.Zero(t, row.Attempts)
			}
		}
	})
}

func TestHooksAndTheirPanics(t *testing.T) {
	inFakeTime(t, 10, func(w *world) {
		var c tally
		note := func(name string) { c.add(name); panic("a hook must not hurt") }
		log := &lines{}
		d := w.dispatcher(w.store(), func(_ context.Context, m sendonce.Item[string]) error {
			if m.Attempt == 1 && m.Key == int64(3) {
				return errFlaky
			}
			return nil
		}, sendonce.Config{Logger: slog.New(slog.NewTextHandler(log, nil)), Hooks: sendonce.Hooks{
			Claimed: func(n int, _ time.Duration, err error) { note(fmt.Sprintf("claimed %d %v", min(n, 1), err)) },
			Sent: func(key sendonce.Key, o sendonce.Outcome, attempt int, _ time.Duration, err error) {
				note(fmt.Sprintf("sent %v %v", o, err))
			},
			Settled: func(int, time.Duration, error) { note("settled") },
		}})
		w.drain(d)
		assert.Equal(t, 10, c.of("sent done <nil>"))
		assert.Equal(t, 1, c.of("sent retry the provider is busy"))
		assert.Positive(t, c.of("claimed 1 <nil>"))
		assert.Positive(t, c.of("claimed 0 <nil>"))
		assert.Positive(t, c.of("settled"))
		assert.Contains(t, log.String(), "a hook panicked")
		assert.Equal(t, map[string]int{memclaim.Done: 10}, w.states())
	})
}

func TestMarksAreGrouped(t *testing.T) {
	inFakeTime(t, 1000, func(w *world) {
		s := w.store()
		w.drain(w.dispatcher(s, slow(time.Millisecond), sendonce.Config{Concurrency: 50, BatchSize: 500}))
		w.sentOnce(1000)
		assert.Less(t, s.settles.Load(), int64(40), "1,000 results, each recorded within a few milliseconds")
	})
}

// A result is recorded soon after its send, not when its batch is over.
func TestEachSendIsRecordedAtOnce(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		r := w.start(w.dispatcher(w.store(), func(ctx context.Context, m sendonce.Item[string]) error {
			if m.Key == int64(1) {
				return nil
			}
			return pause(ctx, 9*time.Second)
		}, sendonce.Config{}))
		after(5 * time.Millisecond)
		assert.Equal(t, memclaim.Done, w.row(1).Status)
		assert.Equal(t, memclaim.Claimed, w.row(2).Status)
		after(10 * time.Second)
		assert.NoError(t, r.stop())
		w.sentOnce(2)
	})
}

// lines is a log to be read.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

// searching has a part of the table still to look at after every second claim.
type searching struct{ *store }

func (s searching) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[string], error) {
	b, err := s.store.Claim(ctx, req)
	b.More = b.More || s.claims.Load()%2 == 1
	return b, err
}

// A Claimer that searches again and again and finds nothing is polled as rarely as
// one that says at once that there is nothing.
func TestPollingSlowsDownWhileNothingIsFound(t *testing.T) {
	inFakeTime(t, 0, func(w *world) {
		s := searching{w.store()}
		r := w.start(w.dispatcher(s, sent, sendonce.Config{PollInterval: 10 * time.Second}))
		after(10 * time.Minute)
		assert.Less(t, s.claims.Load(), int64(250))
		assert.Greater(t, s.claims.Load(), int64(100))
		assert.NoError(t, r.stop())
	})
}
