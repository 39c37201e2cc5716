package sendonce_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

var atMostOnce = sendonce.Config{Delivery: sendonce.AtMostOnce}

// Under AtMostOnce nothing is sent before the intent to send it is recorded.
func TestIntentComesFirst(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		d := w.dispatcher(w.store(), func(_ context.Context, m sendonce.Item[string]) error {
			assert.Equal(t, memclaim.Sending, w.row(int(m.Key.(int64))).Status)
			return nil
		}, atMostOnce)
		w.drain(d)
		w.sentOnce(3)
	})
}

// If the intent can't be recorded, or its reply is lost, nothing is sent and the
// attempt is not charged.
func TestIntentFails(t *testing.T) {
	for name, how := range map[string]step{"errors": fails(errGone), "hangs": hangs, "loses replies": losesReply} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 3, func(w *world) {
				s := w.store()
				on(&s.onBegin, how)
				r := w.start(w.dispatcher(s, sent, atMostOnce))
				after(time.Minute)
				assert.Zero(t, w.log.Count())
				s.onBegin.Store(nil)
				after(time.Minute)
				w.sentOnce(3)
				for _, row := range w.table.Rows() {
					assert.Equal(t, 1, row.Attempts)
				}
				assert.NoError(t, r.stop())
			})
		})
	}
}

// A worker that vanishes in mid-send leaves its row unknown, and nobody sends it
// again; what it had not begun is sent by others.
func TestVanishedWorkerAtMostOnce(t *testing.T) {
	inFakeTime(t, 6, func(w *world) {
		s := w.store()
		first := w.start(w.dispatcher(s, func(ctx context.Context, m sendonce.Item[string]) error {
			s.all(hangs)
			<-ctx.Done()
			return nil // it was sent, and nobody hears of it
		}, sendonce.Config{Delivery: sendonce.AtMostOnce, Concurrency: 1, BatchSize: 3}))
		after(time.Second)
		rival := w.start(w.dispatcher(w.store(), sent, atMostOnce))
		after(5 * time.Minute)
		assert.Equal(t, map[string]int{memclaim.Unknown: 1, memclaim.Done: 5}, w.states())
		assert.Empty(t, w.log.MoreThanOnce())
		s.all(nil)
		after(time.Minute)
		assert.Equal(t, map[string]int{memclaim.Done: 6}, w.states(), "a fact is accepted late")
		assert.EqualValues(t, 1, first.Stats().Late)
		assert.NoError(t, first.stop())
		assert.NoError(t, rival.stop())
	})
}

// The claim is over when the intent is to be recorded.
func TestIntentAfterTheClaimIsOver(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		var n atomic.Int64
		on(&s.onBegin, func(ctx context.Context, act func(context.Context) error) error {
			if n.Add(1) == 1 {
				for _, h := range w.table.Holders() {
					_ = w.table.End(ctx, []int64{h.Token})
				}
			}
			return act(ctx)
		})
		r := w.start(w.dispatcher(s, sent, atMostOnce))
		after(10 * time.Second)
		assert.LessOrEqual(t, w.log.Count(), 1)
		assert.NoError(t, r.stop())
		assert.Empty(t, w.log.MoreThanOnce())
	})
}

func TestTimeoutsAreAmbiguous(t *testing.T) {
	for mode, want := range map[sendonce.Delivery]string{sendonce.AtLeastOnce: memclaim.Done, sendonce.AtMostOnce: memclaim.Unknown} {
		t.Run(mode.String(), func(t *testing.T) {
			inFakeTime(t, 1, func(w *world) {
				d := w.dispatcher(w.store(), func(ctx context.Context, m sendonce.Item[string]) error {
					if m.Attempt > 1 {
						return nil
					}
					deadline, ok := ctx.Deadline()
					assert.True(t, ok, "clients read the deadline")
					assert.Equal(t, sendLimit, time.Until(deadline))
					<-ctx.Done()
					return ctx.Err()
				}, sendonce.Config{Delivery: mode})
				w.drain(d)
				assert.Equal(t, want, w.row(1).Status)
			})
		})
	}
}

// Both promises over one table at once are refused, aloud.
func TestOtherDelivery(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		first := w.start(w.dispatcher(w.store(), slow(9*time.Second), sendonce.Config{}))
		after(time.Second)
		other := w.start(w.dispatcher(w.store(), sent, atMostOnce))
		after(time.Second)
		assert.Contains(t, other.Health().Problem, sendonce.ErrDelivery.Error())
		assert.NoError(t, other.stop())
		assert.NoError(t, first.stop())
	})
}

// plain is a Claimer and nothing else.
type plain struct{ sendonce.Claimer[string] }

func TestClaimerWithoutExtras(t *testing.T) {
	inFakeTime(t, 5, func(w *world) {
		c := plain{w.store()}
		_, err := sendonce.New[string](c, sendonce.SenderFunc[string](sent), atMostOnce)
		assert.ErrorContains(t, err, "Beginner")
		d := w.dispatcher(c, sent, sendonce.Config{})
		_, err = d.Drain(w.Context())
		assert.ErrorContains(t, err, "Counter")
		r := w.start(d)
		after(time.Minute)
		assert.NoError(t, r.stop())
		assert.Equal(t, map[string]int{memclaim.Done: 5}, w.states())
	})
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	c, s := memclaim.New[string](nil), sendonce.SenderFunc[string](sent)
	for want, cfg := range map[string]sendonce.Config{
		"Config.Concurrency is negative":  {Concurrency: -1},
		"Config.BatchSize is negative":    {BatchSize: -1},
		"Config.GroupSize is negative":    {GroupSize: -1},
		"Config.SendTimeout is negative":  {SendTimeout: -1},
		"Config.Lease is negative":        {Lease: -1},
		"Config.StopTimeout is negative":  {StopTimeout: -1},
		"Config.PollInterval is negative": {PollInterval: -1},
		"Config.MaxAttempts is negative":  {MaxAttempts: -1},
		"Config.MarkLinger is negative":   {MarkLinger: -1},
		"Config.Delivery is 9":            {Delivery: 9},
		"choose a limit":                  {SendTimeout: 1 << 62},
		"Config.Lease is 20s: with Config.SendTimeout 10s it must be at least 26.4": {Lease: 20 * time.Second},
	} {
		_, err := sendonce.New[string](c, s, cfg)
		assert.ErrorContains(t, err, want)
	}
	_, err := sendonce.New[string](nil, s, sendonce.Config{})
	assert.ErrorContains(t, err, "Claimer")
	_, err = sendonce.New[string](c, nil, sendonce.Config{})
	assert.ErrorContains(t, err, "Sender")
	d, err := sendonce.New[string](c, s, sendonce.Config{SendTimeout: time.Hour})
	assert.NoError(t, err, "the default lease follows SendTimeout")
	assert.True(t, d.Health().OK, "one that does not run is healthy")
	assert.Error(t, errors.Join(sendonce.Permanent(nil), sendonce.Skip("")))
}

// The lease that an error asks for is accepted.
func TestShortestLease(t *testing.T) {
	c, s := memclaim.New[string](nil), sendonce.SenderFunc[string](sent)
	for _, limit := range []time.Duration{time.Nanosecond, time.Millisecond, 200 * time.Millisecond, time.Second, 2 * time.Second, 10 * time.Second, time.Minute, 24 * time.Hour} {
		_, err := sendonce.New[string](c, s, sendonce.Config{SendTimeout: limit, Lease: time.Nanosecond})
		require.Error(t, err)
		_, text, found := strings.Cut(err.Error(), "at least ")
		require.True(t, found, err)
		text, _, _ = strings.Cut(text, ",")
		need, perr := time.ParseDuration(text)
		require.NoError(t, perr, err)
		_, err = sendonce.New[string](c, s, sendonce.Config{SendTimeout: limit, Lease: need})
		assert.NoError(t, err)
		_, err = sendonce.New[string](c, s, sendonce.Config{SendTimeout: limit, Lease: need - 10*time.Millisecond})
		assert.Error(t, err, "%v is not the shortest", need)
	}
}
