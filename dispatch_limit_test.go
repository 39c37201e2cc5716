package sendonce_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// metronome lets one row go each period, for all who share it.
type metronome struct {
	every time.Duration

	mu     sync.Mutex
	next   time.Time
	resume time.Time
	asked  int
	rows   int
	pauses []time.Duration
	fail   atomic.Pointer[error]
}

func (m *metronome) WaitN(ctx context.Context, n int) error {
	if err := m.fail.Load(); err != nil {
		return *err
	}
	m.mu.Lock()
	m.asked++
	m.rows += n
	at := time.Now()
	if m.next.After(at) {
		at = m.next
	}
	next := at.Add(time.Duration(n) * m.every)
	m.next = next
	m.mu.Unlock()
	err := pause(ctx, time.Until(at))
	m.mu.Lock()
	if err != nil && m.next.Equal(next) {
		m.next = at // nothing was spent
	}
	late := m.resume // a pause that came meanwhile moves the turns, in order
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if late.After(at) {
		return m.WaitN(ctx, n)
	}
	return nil
}

// sharedMetronome can also be paused.
type sharedMetronome struct{ metronome }

func (m *sharedMetronome) Pause(_ context.Context, d time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pauses = append(m.pauses, d)
	m.resume = time.Now().Add(d)
	m.next = m.resume
	return nil
}

func (m *metronome) calls() (int, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked, m.rows
}

func TestFault22_LimiterIsAskedOncePerSend(t *testing.T) {
	for _, delivery := range []sendonce.Delivery{sendonce.AtLeastOnce, sendonce.AtMostOnce} {
		inFakeTime(t, 60, func(w *world) {
			m := &metronome{every: 100 * time.Millisecond}
			d := w.dispatcher(w.store(), sent, sendonce.Config{Limiter: m, Delivery: delivery})
			began := time.Now()
			r := w.start(d)
			after(time.Minute) // and polls that find nothing
			require.NoError(w, r.stop())
			w.sentOnce(60)
			asked, rows := m.calls()
			assert.Equal(w, 60, asked, "once per Send, and never per poll")
			assert.Equal(w, 60, rows)
			sends := w.log.All()
			for i, s := range sends {
				assert.GreaterOrEqual(w, s.Start.Sub(began), time.Duration(i)*m.every)
			}
			assert.LessOrEqual(w, sends[len(sends)-1].Start.Sub(began), 61*m.every)
		})
	}
}

func TestLimiterCountsGroups(t *testing.T) {
	inFakeTime(t, 25, func(w *world) {
		m := &metronome{every: 10 * time.Millisecond}
		s := sendonce.BatchSenderFunc[string](func(context.Context, []sendonce.Item[string]) error { return nil })
		w.drain(w.dispatcherOf(w.store(), s, sendonce.Config{Limiter: m, GroupSize: 10}))
		asked, rows := m.calls()
		assert.Equal(w, 3, asked)
		assert.Equal(w, 25, rows)
	})
}

// A limit far below what Concurrency could send: waiting takes nothing of
// SendTimeout, leases hold, and the stop gives back at once what waits.
func TestLimiterSlowerThanSendTimeout(t *testing.T) {
	inFakeTime(t, 40, func(w *world) {
		m := &metronome{every: 5 * time.Second}
		d := w.dispatcher(w.store(), slow(900*time.Millisecond), sendonce.Config{Limiter: m, SendTimeout: time.Second, StopTimeout: time.Second})
		r := w.start(d)
		after(62 * time.Second)
		began := time.Now()
		require.NoError(w, r.stop())
		assert.LessOrEqual(w, time.Since(began), time.Second)
		states := w.states()
		assert.Equal(w, 13, states[memclaim.Done])
		assert.Equal(w, 27, states[memclaim.Pending])
		for _, row := range w.table.Rows() {
			if row.Status == memclaim.Pending {
				assert.Zero(w, row.Attempts, "row %v", row.Key)
			}
		}
		assert.Zero(w, d.Stats().Lost)
		assert.Empty(w, w.table.Holders())
	})
}

// What waits for the limit for a lease is given back: another process, with a
// limit of its own, sends it.
func TestLimiterThatLetsNobodyPass(t *testing.T) {
	inFakeTime(t, 10, func(w *world) {
		closed := &metronome{every: time.Hour}
		a := w.start(w.dispatcher(w.store(), sent, sendonce.Config{Limiter: closed}))
		after(time.Second)
		b := w.start(w.dispatcher(w.store(), sent, sendonce.Config{}))
		after(10 * time.Minute)
		w.sentOnce(10)
		require.NoError(w, a.stop())
		require.NoError(w, b.stop())
	})
}

func TestLimiterWithoutAnAnswer(t *testing.T) {
	inFakeTime(t, 10, func(w *world) {
		m := &metronome{}
		gone := errors.New("redis is gone")
		m.fail.Store(&gone)
		r := w.start(w.dispatcher(w.store(), sent, sendonce.Config{Limiter: m, Concurrency: 2}))
		after(20 * time.Second)
		assert.Zero(w, w.log.Count(), "nothing is sent without a permission")
		h := r.Health()
		assert.False(w, h.OK)
		assert.Contains(w, h.Problem, "redis is gone")
		m.fail.Store(nil)
		after(time.Minute)
		w.sentOnce(10)
		assert.True(w, r.Health().OK)
		require.NoError(w, r.stop())
	})
}

// A provider's "wait 3 s" stops all who share the limit, costs no attempt, and
// nothing is claimed meanwhile.
func TestFault22_ThrottledStopsEverybody(t *testing.T) {
	inFakeTime(t, 100, func(w *world) {
		m := &sharedMetronome{metronome{every: 20 * time.Millisecond}}
		var mu sync.Mutex
		var refused time.Time
		n := 0
		send := func(context.Context, sendonce.Item[string]) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == 20 {
				refused = time.Now()
				return sendonce.Throttled(3*time.Second, errors.New("429 Too Many Requests"))
			}
			return nil
		}
		var runs []*running
		for range 3 {
			runs = append(runs, w.start(w.dispatcher(w.store(), send, sendonce.Config{Limiter: m, BatchSize: 4, Concurrency: 4})))
		}
		after(10 * time.Second)
		for _, r := range runs {
			require.NoError(w, r.stop())
		}
		assert.Equal(w, []time.Duration{3 * time.Second}, m.pauses)
		assert.Equal(w, 100, w.states()[memclaim.Done])
		for _, s := range w.log.All() {
			assert.False(w, s.Start.After(refused) && s.Start.Before(refused.Add(3*time.Second)), "sent %v after the refusal", s.Start.Sub(refused))
		}
		for _, row := range w.table.Rows() {
			assert.Equal(w, 1, row.Attempts, "being throttled is no attempt")
		}
	})
}

// Without a Limiter the process itself waits, and claims nothing.
func TestThrottledWithoutLimiter(t *testing.T) {
	inFakeTime(t, 30, func(w *world) {
		s := w.store()
		var first atomic.Bool
		d := w.dispatcher(s, func(context.Context, sendonce.Item[string]) error {
			if first.CompareAndSwap(false, true) {
				return sendonce.Throttled(time.Minute, errors.New("429"))
			}
			return nil
		}, sendonce.Config{Concurrency: 1, BatchSize: 5, Hooks: sendonce.Hooks{
			Stuck: func(key sendonce.Key, _ time.Duration) {
				assert.Fail(w, "stuck", "%v waits, and is not being sent", key)
			},
		}})
		r := w.start(d)
		after(time.Second)
		claims := s.claims.Load()
		after(58 * time.Second)
		assert.Equal(w, 1, w.log.Count())
		assert.True(w, r.Health().OK, r.Health().Problem)
		assert.Equal(w, claims, s.claims.Load(), "nothing is claimed while nothing may be sent")
		after(3 * time.Second)
		assert.Equal(w, 30, w.states()[memclaim.Done])
		require.NoError(w, r.stop())
	})
}

// Many sends that begin together are recorded together.
func TestIntentsAreRecordedTogether(t *testing.T) {
	inFakeTime(t, 160, func(w *world) {
		s := w.store()
		var begins atomic.Int64
		on(&s.onBegin, func(ctx context.Context, act func(context.Context) error) error {
			begins.Add(1)
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
			return act(ctx)
		})
		d := w.dispatcher(s, slow(20*time.Millisecond), sendonce.Config{Delivery: sendonce.AtMostOnce, Concurrency: 16})
		w.drain(d)
		w.sentOnce(160)
		assert.Less(w, begins.Load(), int64(100), "160 sends, 16 at a time")
	})
}
