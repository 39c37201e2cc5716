package unique_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/sender/sendertest"
	"github.com/sendonce/sendonce/sender/unique"
)

type item = sendonce.Item[string]

// byValue makes a row's value its key.
func byValue(m item) string { return m.Value }

func options(o unique.Options[string]) unique.Options[string] {
	if o.Key == nil {
		o.Key = byValue
	}
	if o.For == 0 {
		o.For = time.Hour
	}
	return o
}

// scene is a table in memory, keys in memory, and what was sent.
type scene struct {
	*testing.T
	rows *memclaim.Claimer[string]
	keys unique.Store
	log  *sendertest.Log
}

// inBubble runs f in virtual time.
func inBubble(t *testing.T, f func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&scene{T: t, rows: memclaim.New[string](nil), keys: unique.NewMemory()})
	})
}

func (s *scene) add(values ...string) {
	s.Helper()
	for _, v := range values {
		require.NoError(s, s.rows.Add(memclaim.Row[string]{Key: 1 + len(s.rows.Rows()), Value: v}))
	}
}

// drain sends what is there with one Dispatcher.
func (s *scene) drain(o unique.Options[string], cfg sendonce.Config, send sendonce.Sender[string]) {
	s.Helper()
	rec := sendertest.New[string](send)
	s.log = rec.Log
	u, err := unique.New[string](rec, s.keys, options(o))
	require.NoError(s, err)
	cfg.Logger = slog.New(slog.DiscardHandler)
	if cfg.Backoff == nil {
		cfg.Backoff = func(int) time.Duration { return time.Second }
	}
	d, err := sendonce.New[string](s.rows, u, cfg)
	require.NoError(s, err)
	_, err = d.Drain(s.Context())
	require.NoError(s, err)
}

func (s *scene) row(key int) memclaim.Row[string] {
	s.Helper()
	r, ok := s.rows.Row(key)
	require.True(s, ok)
	return r
}

func ok(ctx context.Context, _ item) error {
	select {
	case <-time.After(100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func send(f sendonce.SenderFunc[string]) sendonce.Sender[string] { return f }

func TestSecondRowIsSkippedAndNamesTheFirst(t *testing.T) {
	for _, concurrency := range []int{1, 8} {
		inBubble(t, func(s *scene) {
			s.add("ann", "bob", "ann", "", "", "ann")
			s.drain(unique.Options[string]{}, sendonce.Config{Concurrency: concurrency}, send(ok))
			sent := map[string]int{}
			for _, r := range s.rows.Rows() {
				if r.Status == memclaim.Done {
					sent[r.Value]++
					continue
				}
				assert.Equal(t, memclaim.Skipped, r.Status)
				assert.Contains(t, r.Reason, `unique key "ann" is taken by row `)
			}
			assert.Equal(t, map[string]int{"ann": 1, "bob": 1, "": 2}, sent)
		})
	}
}

func TestKeyIsFreeAfterItsWindow(t *testing.T) {
	inBubble(t, func(s *scene) {
		s.add("ann")
		s.drain(unique.Options[string]{For: time.Hour}, sendonce.Config{}, send(ok))
		time.Sleep(59 * time.Minute)
		s.add("ann")
		s.drain(unique.Options[string]{}, sendonce.Config{}, send(ok))
		assert.Equal(t, memclaim.Skipped, s.row(2).Status)
		assert.Contains(t, s.row(2).Reason, "is taken by row 1, sent (since ")
		time.Sleep(2 * time.Minute)
		s.add("ann")
		s.drain(unique.Options[string]{}, sendonce.Config{}, send(ok))
		assert.Equal(t, memclaim.Done, s.row(3).Status)
	})
}

// Under UntilDone and Wait rows with one key are sent one after the other, and none
// is charged for waiting.
func TestRowsWaitForEachOther(t *testing.T) {
	inBubble(t, func(s *scene) {
		s.add("ann", "ann", "ann", "bob")
		var now, most atomic.Int32
		o := unique.Options[string]{Scope: unique.UntilDone, Conflict: unique.Wait, WaitFor: time.Second}
		s.drain(o, sendonce.Config{Concurrency: 4}, send(func(ctx context.Context, m item) error {
			if m.Value != "ann" {
				return nil
			}
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return ok(ctx, m)
		}))
		for key := range 4 {
			assert.Equal(t, memclaim.Done, s.row(1+key).Status)
			assert.Equal(t, 1, s.row(1+key).Attempts)
		}
		assert.Equal(t, int32(1), most.Load(), "sent at once")
		st, err := s.keys.Look(s.Context(), "ann")
		require.NoError(t, err)
		assert.Nil(t, st, "the key is free")
	})
}

// Nobody is skipped in favour of a row that then fails.
func TestSkipSentWaitsForWhatIsNotSure(t *testing.T) {
	for name, first := range map[string]error{"fails": sendonce.Permanent(errors.New("no")), "is sent": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scene) {
				s.add("ann")
				o := unique.Options[string]{Conflict: unique.SkipSent, WaitFor: time.Second}
				cfg := sendonce.Config{Concurrency: 2, PollInterval: time.Second}
				s.drain(o, cfg, send(func(ctx context.Context, m item) error {
					if m.Key != int64(1) {
						return ok(ctx, m)
					}
					s.add("ann")
					time.Sleep(5 * time.Second)
					return first
				}))
				if first == nil {
					assert.Equal(t, memclaim.Skipped, s.row(2).Status)
				} else {
					assert.Equal(t, memclaim.Dead, s.row(1).Status)
					assert.Equal(t, memclaim.Done, s.row(2).Status)
				}
			})
		})
	}
}

// A row is tried again under its key, which is free meanwhile.
func TestRetriesOfARowAreNotInItsWay(t *testing.T) {
	inBubble(t, func(s *scene) {
		s.add("ann")
		s.drain(unique.Options[string]{}, sendonce.Config{}, send(func(_ context.Context, m item) error {
			if m.Attempt < 3 {
				return errors.New("not yet")
			}
			return nil
		}))
		assert.Equal(t, memclaim.Done, s.row(1).Status)
		assert.Equal(t, 3, s.row(1).Attempts)
	})
}

// A row whose own mark is there was accepted: it is done without a second send.
func TestOwnMarkIsAnAnswer(t *testing.T) {
	for _, delivery := range []sendonce.Delivery{sendonce.AtLeastOnce, sendonce.AtMostOnce} {
		inBubble(t, func(s *scene) {
			s.add("ann")
			s.drain(unique.Options[string]{}, sendonce.Config{Delivery: delivery}, send(ok))
			require.True(t, s.rows.SetStatus(1, memclaim.Unknown))
			require.Equal(t, 1, s.rows.Requeue(1))
			s.drain(unique.Options[string]{}, sendonce.Config{Delivery: delivery}, send(func(context.Context, item) error {
				return errors.New("a second send")
			}))
			assert.Equal(t, memclaim.Done, s.row(1).Status)
			assert.Empty(t, s.log.All())
		})
	}
}

// Items of one group whose key is taken are answered by themselves.
func TestGroups(t *testing.T) {
	inBubble(t, func(s *scene) {
		var calls [][]string
		inner := sendonce.BatchSenderFunc[string](func(_ context.Context, items []item) error {
			errs := make(sendonce.ItemErrors, len(items))
			var call []string
			for i, m := range items {
				call = append(call, m.Value)
				if m.Value == "bad" {
					errs[i] = sendonce.Permanent(errors.New("no"))
				}
			}
			calls = append(calls, call)
			return errs
		})
		u, err := unique.New[string](inner, s.keys, options(unique.Options[string]{}))
		require.NoError(t, err)
		var items []item
		for i, v := range []string{"ann", "bob", "ann", "", "bad", "", "bad", "cid"} {
			items = append(items, item{Key: int64(i), Value: v, IdempotencyKey: fmt.Sprint(i)})
		}
		_, err = s.keys.Mark(s.Context(), "cid", unique.Owner{Row: "77", ID: "x"}, time.Hour)
		require.NoError(t, err)
		var each sendonce.ItemErrors
		require.ErrorAs(t, u.Send(s.Context(), items), &each)
		assert.Equal(t, [][]string{{"ann", "bob", "", "bad", ""}}, calls)
		require.Len(t, each, 8)
		for i, want := range []string{"", "", "by row 0, being sent", "", "no", "", "by row 4, being sent", "by row 77, sent"} {
			if want == "" {
				assert.NoError(t, each[i])
			} else {
				assert.ErrorContains(t, each[i], want)
			}
		}
		st, err := s.keys.Look(s.Context(), "bad")
		require.NoError(t, err)
		assert.Nil(t, st, "the key of a row that was refused is free")
		for key, row := range map[string]string{"ann": "0", "bob": "1", "cid": "77"} {
			st, err := s.keys.Look(s.Context(), key)
			require.NoError(t, err)
			assert.Equal(t, row, st.Row)
			assert.Equal(t, unique.Marked, st.How)
		}
		require.NoError(t, u.Send(s.Context(), items[:1]), "its own mark")
		require.ErrorContains(t, u.Send(s.Context(), items[2:3]), "by row 0, sent")
		assert.Len(t, calls, 1, "nothing is left to send")
	})
}

// The lease is renewed while a long send runs, and free at once when it panics or ends
// its goroutine.
func TestKeyIsHeldWhileTheSendRuns(t *testing.T) {
	inBubble(t, func(s *scene) {
		u, err := unique.New(send(func(_ context.Context, m item) error {
			time.Sleep(10 * time.Minute)
			panic("oops")
		}), s.keys, options(unique.Options[string]{Lease: 3 * time.Second}))
		require.NoError(t, err)
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			_ = u.Send(s.Context(), []item{{Key: int64(1), Value: "ann"}})
		}()
		for range 9 {
			time.Sleep(time.Minute)
			st, err := s.keys.Look(s.Context(), "ann")
			require.NoError(t, err)
			require.NotNil(t, st)
			assert.LessOrEqual(t, st.Left, 3*time.Second)
		}
		assert.Equal(t, "oops", <-done)
		st, err := s.keys.Look(s.Context(), "ann")
		require.NoError(t, err)
		assert.Nil(t, st)
	})
}

// flaky is a store that does not answer while it is down.
type flaky struct {
	unique.Store
	down atomic.Bool
}

var errDown = errors.New("the store is down")

func (f *flaky) Hold(ctx context.Context, key string, o unique.Owner, ttl time.Duration, over string) (*unique.Standing, error) {
	if f.down.Load() {
		return nil, errDown
	}
	return f.Store.Hold(ctx, key, o, ttl, over)
}

func (f *flaky) Extend(ctx context.Context, key, token string, ttl time.Duration) error {
	if f.down.Load() {
		return errDown
	}
	return f.Store.Extend(ctx, key, token, ttl)
}

func (f *flaky) Mark(ctx context.Context, key string, o unique.Owner, d time.Duration) (*unique.Standing, error) {
	if f.down.Load() {
		return nil, errDown
	}
	return f.Store.Mark(ctx, key, o, d)
}

// While the store is down nothing is sent, and no row is charged for that.
func TestStoreThatIsDownSendsNothing(t *testing.T) {
	inBubble(t, func(s *scene) {
		keys := &flaky{Store: s.keys}
		s.keys = keys
		keys.down.Store(true)
		time.AfterFunc(time.Hour, func() { keys.down.Store(false) })
		s.add("ann", "bob")
		start := time.Now()
		s.drain(unique.Options[string]{}, sendonce.Config{}, send(ok))
		for key := range 2 {
			assert.Equal(t, memclaim.Done, s.row(1+key).Status)
			assert.Equal(t, 1, s.row(1+key).Attempts)
		}
		assert.GreaterOrEqual(t, time.Since(start), time.Hour)
	})
}

// A lease that can't be confirmed ends the send's context before it is over; the
// answer is then that nobody knows.
func TestLostLeaseEndsTheSend(t *testing.T) {
	inBubble(t, func(s *scene) {
		keys := &flaky{Store: s.keys}
		var took time.Duration
		var cause error
		u, err := unique.New(send(func(ctx context.Context, _ item) error {
			start := time.Now()
			keys.down.Store(true)
			<-ctx.Done()
			took, cause = time.Since(start), context.Cause(ctx)
			return fmt.Errorf("post: %w", ctx.Err())
		}), unique.Store(keys), options(unique.Options[string]{Lease: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)}))
		require.NoError(t, err)
		err = u.Send(s.Context(), []item{{Key: int64(1), Value: "ann"}})
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorIs(t, cause, lock.ErrLost)
		assert.Less(t, took, 10*time.Second)
	})
}

// A mark that can't be written changes nothing about the row: it was sent.
func TestMarkThatFailsIsLogged(t *testing.T) {
	inBubble(t, func(s *scene) {
		keys := &flaky{Store: s.keys}
		var log bytes.Buffer
		o := options(unique.Options[string]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		u, err := unique.New(send(func(context.Context, item) error {
			keys.down.Store(true)
			return nil
		}), unique.Store(keys), o)
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, u.Send(s.Context(), []item{{Key: int64(7), Value: "ann"}}))
		assert.Less(t, time.Since(start), 5*time.Second)
		assert.Contains(t, log.String(), "could not be marked")
		assert.Contains(t, log.String(), "row=7")
	})
}

func TestEndedContextIsNotSent(t *testing.T) {
	inBubble(t, func(s *scene) {
		u, err := unique.New(send(func(context.Context, item) error { return nil }), s.keys, options(unique.Options[string]{}))
		require.NoError(t, err)
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(enough)
		require.ErrorIs(t, u.Send(ctx, []item{{Key: int64(1), Value: "ann"}}), enough)
	})
}

func TestOptionsAreChecked(t *testing.T) {
	good := options(unique.Options[string]{})
	for want, change := range map[string]func(o *unique.Options[string]){
		"Key":      func(o *unique.Options[string]) { o.Key = nil },
		"For":      func(o *unique.Options[string]) { o.For = 0 },
		"Lease":    func(o *unique.Options[string]) { o.Lease = time.Millisecond },
		"Scope":    func(o *unique.Options[string]) { o.Scope = 9 },
		"Conflict": func(o *unique.Options[string]) { o.Conflict = 9 },
		"negative": func(o *unique.Options[string]) { o.WaitFor = -1 },
	} {
		o := good
		change(&o)
		_, err := unique.New(send(ok), unique.NewMemory(), o)
		require.ErrorContains(t, err, want)
	}
	_, err := unique.New[string](nil, unique.NewMemory(), good)
	require.ErrorContains(t, err, "Sender is nil")
	_, err = unique.New(send(ok), nil, good)
	require.ErrorContains(t, err, "store")
	assert.True(t, strings.HasPrefix(err.Error(), "sendonce: "))
}
