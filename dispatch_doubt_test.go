package sendonce_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// provider remembers what it has accepted, by idempotency key.
type provider struct {
	mu       sync.Mutex
	accepted map[string]int
	asked    map[sendonce.Key]int
	mute     bool // it can't be asked
}

func newProvider() *provider {
	return &provider{accepted: map[string]int{}, asked: map[sendonce.Key]int{}}
}

func (p *provider) accept(m sendonce.Item[string]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted[m.IdempotencyKey]++
}

func (p *provider) ask(_ context.Context, m sendonce.Item[string]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[m.Key]++
	switch {
	case p.mute:
		return errors.New("503")
	case p.accepted[m.IdempotencyKey] > 0:
		return nil
	}
	return sendonce.NotSent(errors.New("404"))
}

// vanishes takes rows as a process that dies in mid-send: some are accepted.
func (w *world) vanishes(p *provider, delivery sendonce.Delivery, n int, accepted func(i int) bool) {
	w.Helper()
	c := w.table.Process()
	b, err := c.Claim(w.Context(), sendonce.ClaimRequest{Limit: n, Lease: 30 * time.Second, MaxAttempts: 5, Owner: "the dead", Delivery: delivery})
	require.NoError(w, err)
	require.Len(w, b.Items, n)
	for i, item := range b.Items {
		if delivery == sendonce.AtMostOnce {
			lost, err := c.Begin(w.Context(), []sendonce.Ref{{Key: item.Key, Token: b.Token}})
			require.NoError(w, err)
			require.Empty(w, lost)
		}
		if accepted(i) {
			p.accept(item)
		}
	}
}

func odd(i int) bool { return i%2 == 1 }

// Rows of a vanished worker: those that the provider knows are done without
// another send, the others are sent.
func TestReconcileRowsTakenOver(t *testing.T) {
	inFakeTime(t, 10, func(w *world) {
		p := newProvider()
		w.vanishes(p, sendonce.AtLeastOnce, 6, odd)
		var reconciled []sendonce.Key
		s := sendonce.SenderFunc[string](sent)
		d, err := sendonce.New(w.store(), sendonce.WithReconcile[string](sendonce.BatchSenderFunc[string](func(ctx context.Context, items []sendonce.Item[string]) error {
			return w.log.Send(context.WithValue(ctx, senderOf{}, s), items)
		}), p.ask), sendonce.Config{Concurrency: 1, Hooks: sendonce.Hooks{
			Reconciled: func(key sendonce.Key, o sendonce.Outcome, err error) {
				reconciled = append(reconciled, key)
				assert.Equal(w, sendonce.Done, o)
				assert.NoError(w, err)
			},
		}})
		require.NoError(w, err)
		stats := w.drain(d)
		assert.ElementsMatch(w, []sendonce.Key{int64(2), int64(4), int64(6)}, reconciled)
		assert.EqualValues(w, 3, stats.Reconciled)
		assert.EqualValues(w, 10, stats.Sent)
		assert.Equal(w, 7, w.log.Count())
		assert.Len(w, p.asked, 6, "only rows whose fate is not known are asked about")
		assert.Equal(w, 10, w.states()[memclaim.Done])
	})
}

// Without an answer, rows are sent again with the same key under AtLeastOnce.
func TestReconcileWithoutAnAnswer(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		p := newProvider()
		p.mute = true
		w.vanishes(p, sendonce.AtLeastOnce, 4, odd)
		d, err := sendonce.New(w.store(), sendonce.WithReconcile[string](sendonce.SenderFunc[string](func(_ context.Context, m sendonce.Item[string]) error {
			assert.True(w, m.InDoubt)
			assert.GreaterOrEqual(w, m.DoubtAge, 30*time.Second)
			p.accept(m)
			return nil
		}), p.ask), sendonce.Config{})
		require.NoError(w, err)
		w.drain(d)
		assert.Len(w, p.accepted, 4)
		assert.Equal(w, 4, w.states()[memclaim.Done])
	})
}

// Unknown rows: accepted ones become done, others are sent, and those that nobody
// knows of stay unknown and are asked about again.
func TestReconcileUnknownRows(t *testing.T) {
	inFakeTime(t, 250, func(w *world) {
		p := newProvider()
		w.vanishes(p, sendonce.AtMostOnce, 240, odd)
		p.mute = true
		r := w.start(must(sendonce.New(w.store(), sendonce.WithReconcile[string](sendonce.SenderFunc[string](func(_ context.Context, m sendonce.Item[string]) error {
			assert.False(w, m.InDoubt)
			p.accept(m)
			return nil
		}), p.ask), sendonce.Config{Delivery: sendonce.AtMostOnce, GroupSize: 7})))
		after(3 * time.Minute)
		assert.Equal(w, 240, w.states()[memclaim.Unknown])
		p.mu.Lock()
		assert.Positive(w, p.asked[int64(1)])
		p.mute = false
		p.mu.Unlock()
		after(11 * time.Minute)
		assert.Equal(w, 250, w.states()[memclaim.Done])
		for key, n := range p.accepted {
			assert.Equal(w, 1, n, key)
		}
		assert.Len(w, p.accepted, 250)
		assert.EqualValues(w, 120, r.Stats().Reconciled)
		require.NoError(w, r.stop())
	})
}

// A row in doubt for longer than the provider remembers becomes unknown, and an
// operator's requeue sends it.
func TestIdempotencyWindow(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		times := map[sendonce.Key]int{}
		var mu sync.Mutex
		send := func(_ context.Context, m sendonce.Item[string]) error {
			mu.Lock()
			defer mu.Unlock()
			times[m.Key]++
			switch {
			case m.Key == int64(1):
				return sendonce.Ambiguous(errors.New("no answer"))
			case m.Key == int64(2) && times[m.Key] < 4:
				return sendonce.NotSent(errors.New("refused"))
			}
			return nil
		}
		d := w.dispatcher(w.store(), send, sendonce.Config{
			IdempotencyWindow: 20 * time.Minute, MaxAttempts: 100,
			Backoff: func(int) time.Duration { return 8 * time.Minute },
		})
		stats := w.drain(d)
		assert.Equal(w, 3, times[int64(1)], "at 0, 8 and 16 minutes")
		assert.Equal(w, 4, times[int64(2)], "one that surely wasn't sent has all the time")
		assert.EqualValues(w, 1, stats.Unknown)
		row := w.row(1)
		assert.Equal(w, memclaim.Unknown, row.Status)
		assert.Contains(w, row.Reason, "IdempotencyWindow")

		assert.Equal(w, 1, w.table.Requeue(1))
		mu.Lock()
		times[int64(1)] = 0
		mu.Unlock()
		w.drain(d)
		assert.Equal(w, 3, times[int64(1)])
	})
}

func TestIdempotencyWindowNeedsADoubtKeeper(t *testing.T) {
	type plain struct{ sendonce.Claimer[string] }
	_, err := sendonce.New[string](plain{memclaim.New[string](nil)}, sendonce.SenderFunc[string](sent), sendonce.Config{IdempotencyWindow: time.Hour})
	assert.ErrorContains(t, err, "IdempotencyWindow")
	_, err = sendonce.New[string](memclaim.New[string](nil), sendonce.SenderFunc[string](sent), sendonce.Config{IdempotencyWindow: time.Second})
	assert.ErrorContains(t, err, "no longer than one send")
}

// A Reconciler that panics, or ends its goroutine, knows nothing.
func TestReconcileThatPanics(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		p := newProvider()
		w.vanishes(p, sendonce.AtLeastOnce, 4, odd)
		d, err := sendonce.New(w.store(), sendonce.WithReconcile[string](sendonce.SenderFunc[string](func(_ context.Context, m sendonce.Item[string]) error {
			p.accept(m)
			return nil
		}), func(context.Context, sendonce.Item[string]) error { panic("no client") }), sendonce.Config{})
		require.NoError(w, err)
		w.drain(d)
		assert.Equal(w, 4, w.states()[memclaim.Done])
	})
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
