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

var errGone = errors.New("connection refused")

// all replaces every kind of call.
func (s *store) all(how step) {
	for _, p := range []*atomic.Pointer[step]{&s.onClaim, &s.onExtend, &s.onSettle, &s.onBegin, &s.onReap} {
		if how == nil {
			p.Store(nil)
		} else {
			on(p, how)
		}
	}
}

// docs/semantics.md, section 4: an outage that all workers live through, however
// long, causes no second send: their marks come first.
func TestOutageOfAllWorkers(t *testing.T) {
	for _, long := range []time.Duration{time.Second, 20 * time.Second, 5 * time.Minute, 3 * time.Hour} {
		for name, how := range map[string]step{"errors": fails(errGone), "hangs": hangs, "loses replies": losesReply} {
			t.Run(fmt.Sprintf("%s for %v", name, long), func(t *testing.T) {
				inFakeTime(t, 2000, func(w *world) {
					var stores []*store
					var workers []*running
					for range 3 {
						s := w.store()
						stores = append(stores, s)
						workers = append(workers, w.start(w.dispatcher(s, slow(300*time.Millisecond), sendonce.Config{Concurrency: 8})))
					}
					after(2 * time.Second)
					for _, s := range stores {
						s.all(how)
					}
					after(long)
					for _, s := range stores {
						s.all(nil)
					}
					after(3 * time.Minute)
					for _, r := range workers {
						assert.NoError(t, r.stop())
					}
					assert.Equal(t, map[string]int{memclaim.Done: 2000}, w.states())
					assert.Empty(t, w.log.MoreThanOnce())
					assert.Empty(t, w.log.Overlaps())
				})
			})
		}
	}
}

// docs/faults.md, 6: a mark that hangs, with a lock that keeps all else out, is tried
// again while the lease of its rows lasts, however short that is. A store that is
// only slow gets the time that it needs.
func TestFault06_AMarkThatHangsIsTriedAgainWithinTheLease(t *testing.T) {
	for _, lease := range []time.Duration{2 * time.Second, 9 * time.Second, time.Minute} {
		t.Run(lease.String(), func(t *testing.T) {
			inFakeTime(t, 8, func(w *world) {
				s, other := w.store(), w.store()
				var hung sync.Once
				on(&s.onSettle, func(ctx context.Context, act func(context.Context) error) (err error) {
					err = errGone
					hung.Do(func() {
						on(&s.onExtend, fails(errGone))
						<-ctx.Done()
						s.onExtend.Store(nil)
						err = ctx.Err()
					})
					if errors.Is(err, errGone) {
						err = act(ctx)
					}
					return err
				})
				cfg := sendonce.Config{Lease: lease, SendTimeout: lease / 5}
				first := w.start(w.dispatcher(s, slow(lease/6), cfg))
				after(lease / 10)
				second := w.start(w.dispatcher(other, slow(lease/6), cfg))
				after(10 * lease)
				assert.NoError(t, first.stop())
				assert.NoError(t, second.stop())
				w.sentOnce(8)
			})
		})
	}
	t.Run("slow", func(t *testing.T) {
		inFakeTime(t, 3, func(w *world) {
			s := w.store()
			on(&s.onSettle, delayed(4*time.Second))
			w.drain(w.dispatcher(s, sent, sendonce.Config{Lease: 5 * time.Second, SendTimeout: time.Second}))
			w.sentOnce(3)
		})
	})
}

// While results can't be recorded nothing is claimed, there is no tight loop,
// and Health and the hooks say so.
func TestFault06_ResultsThatCannotBeRecorded(t *testing.T) {
	inFakeTime(t, 1000, func(w *world) {
		s := w.store()
		on(&s.onSettle, fails(errGone))
		on(&s.onExtend, fails(errGone))
		on(&s.onReap, fails(errGone))
		log, c := &lines{}, tally{}
		r := w.start(w.dispatcher(s, slow(time.Second), sendonce.Config{
			Concurrency: 4, BatchSize: 20, Logger: slog.New(slog.NewTextHandler(log, nil)),
			Hooks: sendonce.Hooks{Unrecorded: func(rows int, since time.Duration, err error) {
				if rows > 0 && since >= time.Second && errors.Is(err, errGone) {
					c.add("unrecorded")
				}
			}},
		}))
		after(20 * time.Second)
		claims, settles := s.claims.Load(), s.settles.Load()
		h := r.Health()
		assert.False(t, h.OK)
		assert.Contains(t, h.Problem, "connection refused")
		assert.Positive(t, h.Unrecorded)
		assert.Positive(t, c.of("unrecorded"))
		after(10 * time.Minute)
		assert.Equal(t, claims, s.claims.Load(), "nothing is claimed meanwhile")
		assert.Less(t, s.settles.Load()-settles, int64(1000))
		assert.Greater(t, s.settles.Load()-settles, int64(60), "and it goes on trying")
		assert.Contains(t, log.String(), "claiming nothing")
		s.all(nil)
		after(time.Minute)
		assert.True(t, r.Health().OK, r.Health().Problem)
		assert.NoError(t, r.stop())
		for key, sends := range w.log.MoreThanOnce() {
			t.Errorf("row %v was sent %d times", key, len(sends))
		}
	})
}

// A result that can't be written keeps no other from being recorded, and is
// tried until it can.
func TestOneResultThatCannotBeWritten(t *testing.T) {
	inFakeTime(t, 300, func(w *world) {
		s := w.store()
		var broken sync.Map
		broken.Store(int64(7), true)
		on(&s.onSettle, func(ctx context.Context, act func(context.Context) error) error { return act(ctx) })
		picky := &pickyStore{store: s, broken: &broken}
		r := w.start(w.dispatcher(picky, sent, sendonce.Config{BatchSize: 50, Concurrency: 5}))
		after(10 * time.Second)
		assert.Equal(t, map[string]int{memclaim.Done: 299, memclaim.Claimed: 1}, w.states())
		h := r.Health()
		assert.Equal(t, 1, h.Unrecorded)
		assert.Contains(t, h.Problem, "trigger")
		tries := s.settles.Load()
		after(10 * time.Minute)
		assert.Less(t, s.settles.Load()-tries, int64(300), "no tight loop")
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 301}))
		after(2 * time.Second)
		assert.Equal(t, memclaim.Done, w.row(301).Status, "the work goes on")
		broken.Delete(int64(7))
		after(10 * time.Second)
		assert.Equal(t, memclaim.Done, w.row(7).Status)
		assert.True(t, r.Health().OK, r.Health().Problem)
		assert.NoError(t, r.stop())
		w.sentOnce(301)
	})
}

// pickyStore can't write some rows.
type pickyStore struct {
	*store
	broken *sync.Map
}

func (p *pickyStore) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	for _, r := range rs {
		if _, bad := p.broken.Load(r.Key); bad {
			p.settles.Add(1)
			return nil, errors.New("a trigger says no")
		}
	}
	return p.store.Settle(ctx, rs)
}

// A row that can never be written is named when Run ends.
func TestRowThatIsNeverWrittenIsNamed(t *testing.T) {
	inFakeTime(t, 20, func(w *world) {
		var broken sync.Map
		broken.Store(int64(7), true)
		r := w.start(w.dispatcher(&pickyStore{store: w.store(), broken: &broken}, sent, sendonce.Config{}))
		after(time.Minute)
		err := r.stop()
		var stopped *sendonce.StoppedError
		require.ErrorAs(t, err, &stopped)
		assert.Equal(t, []sendonce.Key{int64(7)}, stopped.Unrecorded)
	})
}

type fatal struct{ error }

func (fatal) Fatal() bool { return true }

type transient struct{ error }

func (transient) Transient() bool { return true }

// What no repeat can help ends Run if it is there from the start, and only then.
func TestFatalErrors(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		wrong := fatal{errors.New("the password is wrong")}
		on(&s.onClaim, fails(fmt.Errorf("claiming: %w", wrong)))
		began := time.Now()
		d := w.dispatcher(s, sent, sendonce.Config{})
		assert.ErrorIs(t, d.Run(w.Context()), wrong)
		_, err := d.Drain(w.Context())
		assert.ErrorIs(t, err, wrong)
		assert.Less(t, time.Since(began), time.Second)

		s.onClaim.Store(nil)
		r := w.start(d)
		after(time.Second)
		on(&s.onClaim, fails(wrong))
		after(time.Hour)
		assert.False(t, r.Health().OK)
		s.onClaim.Store(nil)
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 2}))
		after(10 * time.Second)
		assert.True(t, r.Health().OK)
		assert.NoError(t, r.stop())
		w.sentOnce(2)
	})
}

// Failing claims are repeated ever slower, with jitter; deadlocks at once.
func TestClaimErrors(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		on(&s.onClaim, fails(errGone))
		r := w.start(w.dispatcher(s, sent, sendonce.Config{}))
		after(time.Minute)
		n := s.claims.Load()
		assert.Less(t, n, int64(60))
		assert.Greater(t, n, int64(10))
		assert.Contains(t, r.Health().Problem, "connection refused")
		after(10 * time.Minute)
		assert.Less(t, s.claims.Load()-n, int64(10*60/2))
		assert.NoError(t, r.stop())
	})
	inFakeTime(t, 1, func(w *world) {
		s := w.store()
		var left atomic.Int64
		left.Store(3)
		on(&s.onClaim, func(ctx context.Context, act func(context.Context) error) error {
			if left.Add(-1) >= 0 {
				return transient{errors.New("deadlock found")}
			}
			return act(ctx)
		})
		began := time.Now()
		w.drain(w.dispatcher(s, sent, sendonce.Config{}))
		assert.Less(t, time.Since(began), 100*time.Millisecond)
		w.sentOnce(1)
	})
	assert.False(t, sendonce.IsTransient(errGone))
	assert.False(t, sendonce.IsFatal(nil))
	assert.True(t, sendonce.IsTransient(fmt.Errorf("claim: %w", transient{errGone})))
}

// The reply to a claim is lost: the rows come back, and nobody is charged a send
// that was never begun for more than an attempt.
func TestLostReplyToAClaim(t *testing.T) {
	inFakeTime(t, 10, func(w *world) {
		s := w.store()
		var n atomic.Int64
		on(&s.onClaim, func(ctx context.Context, act func(context.Context) error) error {
			if n.Add(1) == 1 {
				return losesReply(ctx, act)
			}
			return act(ctx)
		})
		w.drain(w.dispatcher(s, sent, sendonce.Config{}))
		w.sentOnce(10)
	})
}

// Counts that fail don't end Drain.
func TestDrainGoesOnWhenCountsFail(t *testing.T) {
	inFakeTime(t, 5, func(w *world) {
		c := &badCounter{store: w.store()}
		began := time.Now()
		w.drain(w.dispatcher(c, sent, sendonce.Config{}))
		assert.GreaterOrEqual(t, c.n.Load(), int64(4))
		assert.Less(t, time.Since(began), time.Minute)
		w.sentOnce(5)
	})
}

type badCounter struct {
	*store
	n atomic.Int64
}

func (b *badCounter) Counts(ctx context.Context) (sendonce.Counts, error) {
	if b.n.Add(1) < 4 {
		return sendonce.Counts{}, errGone
	}
	return b.store.Counts(ctx)
}

// Claims whose record could not be taken away are ended with the next ones.
func TestEndIsRepeated(t *testing.T) {
	inFakeTime(t, 5, func(w *world) {
		e := &badEnder{store: w.store()}
		r := w.start(w.dispatcher(e, sent, sendonce.Config{}))
		after(time.Second)
		require.Len(t, w.table.Holders(), 1)
		e.works.Store(true)
		require.NoError(t, w.table.Add(memclaim.Row[string]{Key: 6}))
		after(3 * time.Second)
		assert.Empty(t, w.table.Holders())
		assert.NoError(t, r.stop())
		w.sentOnce(6)
	})
}

type badEnder struct {
	*store
	works atomic.Bool
}

func (b *badEnder) End(ctx context.Context, tokens []int64) error {
	if !b.works.Load() {
		return errGone
	}
	return b.store.End(ctx, tokens)
}

// Where results are recorded slowly, sends wait: what is sent and not recorded is
// sent again if the process dies now.
func TestSendsWaitForTheirMarks(t *testing.T) {
	inFakeTime(t, 2000, func(w *world) {
		s := w.store()
		on(&s.onSettle, func(ctx context.Context, act func(context.Context) error) error {
			time.Sleep(time.Second)
			return act(ctx)
		})
		r := w.start(w.dispatcher(s, slow(10*time.Millisecond), sendonce.Config{Concurrency: 4, BatchSize: 400}))
		most := 0
		for range 100 {
			after(100 * time.Millisecond)
			most = max(most, r.Health().Unrecorded)
		}
		assert.Less(t, most, 2*(4*10+2*4)+10, "those being recorded, and 100 ms of sends; not a second of them")
		assert.Greater(t, w.log.Count(), 200)
		assert.NoError(t, r.stop())
	})
}

// An error that says of itself that it passes parks nothing.
func TestFault13_TransientErrorsParkNothing(t *testing.T) {
	inFakeTime(t, 20, func(w *world) {
		s, log := w.store(), &lines{}
		on(&s.onSettle, fails(transient{errors.New("the database is locked")}))
		r := w.start(w.dispatcher(s, sent, sendonce.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}))
		after(30 * time.Second)
		assert.NotContains(t, log.String(), "although the store answers")
		s.onSettle.Store(nil)
		after(10 * time.Second)
		assert.Contains(t, log.String(), "results are recorded again")
		assert.NoError(t, r.stop())
		w.sentOnce(20)
	})
}

// The log names dead rows, the first ones and then some, and a long outage has a
// line now and then.
func TestLogIsNotFlooded(t *testing.T) {
	inFakeTime(t, 500, func(w *world) {
		log := &lines{}
		w.drain(w.dispatcher(w.store(), func(context.Context, sendonce.Item[string]) error { return sendonce.Permanent(errFlaky) },
			sendonce.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}))
		n := strings.Count(log.String(), "a row is dead")
		assert.GreaterOrEqual(t, n, 10)
		assert.Less(t, n, 20)
		assert.Contains(t, log.String(), "the provider is busy")
	})
	inFakeTime(t, 20, func(w *world) {
		s, log := w.store(), &lines{}
		r := w.start(w.dispatcher(s, slow(5*time.Second), sendonce.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}))
		after(time.Second)
		s.all(fails(errGone))
		after(2 * time.Minute)
		assert.Less(t, strings.Count(log.String(), "\n"), 50)
		s.all(nil)
		after(time.Minute)
		assert.NoError(t, r.stop())
	})
}

// A mapping that takes no row for pending is told, when all else looks well.
func TestDrainTellsOfUnmappedStates(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		log := &lines{}
		for key := 1; key <= 3; key++ {
			w.table.SetStatus(key, "new")
		}
		stats := w.drain(w.dispatcher(w.store(), sent, sendonce.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}))
		assert.Zero(t, stats.Claimed)
		assert.Contains(t, log.String(), "not mapped")
	})
}
