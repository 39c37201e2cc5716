package loop

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

var sqlOnly = []combo.Strategy{combo.Atomic, combo.SkipLocked}

// small batches, sent one by one: what failed is due again before the next claim.
func small(cfg *sendonce.Config) { cfg.BatchSize, cfg.Concurrency, cfg.MaxAttempts = 8, 1, 1000 }

// docs/faults.md, 21: the 8 oldest rows always fail, and 500 good ones stand behind
// them. Twice the time means here that the bad ones have as many sends as the good
// ones until these are done: it holds on a busy machine, too.
func TestFault21_FailingRowsDoNotStarveNewOnes(t *testing.T) {
	t.Parallel()
	for name, backoff := range map[string]time.Duration{"at once": 0, "after 100 ms": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			each(t, sqlOnly, func(t *testing.T, c combo.Combo) {
				const bad, good = 8, 500
				s := on(t, c, nil, bad+good)
				var heal atomic.Bool
				var left atomic.Int64
				left.Store(good)
				s.start(t, post{
					name: "A", tune: func(cfg *sendonce.Config) { small(cfg); cfg.Backoff = func(int) time.Duration { return backoff } },
					sender: func(_ context.Context, m item) error {
						time.Sleep(5 * time.Millisecond) // what failed before is recorded, and due
						if m.Key.(int64) >= 1000+bad {
							left.Add(-1)
						} else if !heal.Load() {
							return errors.New("never")
						}
						return nil
					},
				})
				await(t, 60*time.Second, "the good rows are sent", func() bool { return left.Load() == 0 })
				bads, seen := 0, 0
				for _, send := range s.sends(t).All() {
					if seen == good {
						break
					}
					if send.Key.(int64) >= 1000+bad {
						seen++
					} else {
						bads++
					}
				}
				assert.Positive(t, bads)
				assert.LessOrEqual(t, bads, good+2*bad, "sends of rows that fail, until the good ones were sent")
				heal.Store(true)
				s.allDone(t, 20*time.Second)
				s.judge(t, allowed{sends: func(key sendonce.Key) int {
					if key.(int64) < 1000+bad {
						return 1000
					}
					return 1
				}})
			})
		})
	}
}

// docs/faults.md, 21: 50 rows can be sent in a second, 100 come, and one is due for a
// retry.
func TestFault21_NewRowsDoNotStarveARetry(t *testing.T) {
	each(t, sqlOnly, func(t *testing.T, c combo.Combo) {
		const second = 1500 * time.Millisecond // after the first
		s := on(t, c, nil, 40)
		var first atomic.Int64 // the first row that is sent is the one that fails
		w := s.start(t, post{
			name: "A", tune: func(cfg *sendonce.Config) {
				small(cfg)
				cfg.Backoff = func(int) time.Duration { return second }
			},
			sender: func(_ context.Context, m item) error {
				time.Sleep(20 * time.Millisecond)
				if first.CompareAndSwap(0, m.Key.(int64)) {
					return errors.New("not now")
				}
				return nil
			},
		})
		await(t, 60*time.Second, "the retry is sent", func() bool {
			s.Add(t, 10) // faster than they can be sent
			time.Sleep(75 * time.Millisecond)
			return len(s.sends(t).Sends(first.Load())) == 2
		})
		retry := sendonce.Key(first.Load())
		sends := s.sends(t).Sends(retry)
		due := sends[0].End.Add(second)
		// A claim that began a moment before may have seen it due.
		calls := slices.DeleteFunc(w.calls(claiming, due.Add(-5*time.Second), time.Now()), func(c call) bool { return c.end.Before(due) })
		polls := slices.IndexFunc(calls, func(c call) bool { return slices.Contains(c.rows, attempt{retry, 2}) })
		require.NotEqual(t, -1, polls, "the claim of the retry")
		assert.Less(t, polls, 10, "claims between the time that it is due and its own")
		assert.Greater(t, s.count(t, pending), 20, "new rows wait all the time")
		s.judge(t, allowed{busy: true, sends: func(key sendonce.Key) int {
			if key == retry {
				return 2
			}
			return 1
		}})
	})
}

// New rows, faster than they can be sent, don't starve rows in front of the place
// where a worker began to look.
func TestFault21_NewRowsDoNotStarveTheFirstOnesSoak(t *testing.T) {
	servers.Soak(t)
	each(t, sqlOnly, func(t *testing.T, c combo.Combo) {
		const rows = 40
		s := on(t, c, nil, rows)
		first := s.Keys[:rows:rows]
		s.start(t, post{
			name: "A", tune: small,
			sender: func(context.Context, item) error { time.Sleep(20 * time.Millisecond); return nil },
		})
		await(t, 2*time.Minute, "the first rows are sent", func() bool {
			s.Add(t, 10)
			time.Sleep(75 * time.Millisecond)
			log := s.sends(t)
			return !slices.ContainsFunc(first, func(key sendonce.Key) bool { return len(log.Sends(key)) == 0 })
		})
		assert.Greater(t, s.count(t, pending), 20, "new rows wait all the time")
		s.judge(t, allowed{busy: true, sends: func(sendonce.Key) int { return 1 }})
	})
}
