package loop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// docs/faults.md, 4: the renewals of a worker fail, or get no answer, for longer
// than its lease; its claims and marks work. Its Sender takes all the time that it
// is given.
func TestFault04_NothingIsSentPastTheLease(t *testing.T) {
	t.Parallel()
	type acts func(*servers.Proxy, testing.TB)
	for name, f := range map[string]struct{ fault, mend acts }{
		"they fail": {(*servers.Proxy).Refuse, (*servers.Proxy).Accept},
		"they hang": {(*servers.Proxy).LoseReplies, (*servers.Proxy).Heal},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, twoOfIt, func(t *testing.T, c combo.Combo) { renewalsBreak(t, c, f.fault, f.mend) })
		})
	}
}

func renewalsBreak(t *testing.T, c combo.Combo, fault, mend func(*servers.Proxy, testing.TB)) {
	s := on(t, c, nil, 150)
	line := servers.NewProxy(t, s.At.Addr)
	// Quick sends make for claims of more rows than slow ones can send in a lease.
	var slow atomic.Bool
	var quick atomic.Int64
	slowNow := make(chan struct{})
	a := s.start(t, post{
		name: "A", renewAt: s.At.At(line.Addr),
		tune: func(cfg *sendonce.Config) { cfg.Concurrency, cfg.MaxAttempts = 2, 100 },
		sender: func(ctx context.Context, m item) error {
			if quick.Add(1) == 60 {
				slow.Store(true)
				close(slowNow)
			}
			if slow.Load() {
				return until(ctx)
			}
			return nil
		},
	})
	<-slowNow
	fault(line, t)
	broken := time.Now()
	await(t, 15*time.Second, "a claim is lost", func() bool { return a.losses() > 0 })
	s.nothingPastTheLease(t, a)
	tries := a.calls(renewing, broken, time.Now())
	assert.NotEmpty(t, tries)
	for _, r := range tries {
		assert.Error(t, r.err, "a renewal")
	}
	// What waited under a lost claim was given back, and somebody else has it.
	b := s.start(t, post{name: "B"})
	await(t, 10*time.Second, "B is given rows", func() bool {
		for _, call := range b.all(claiming) {
			if len(call.rows) > 0 {
				return true
			}
		}
		return false
	})
	slow.Store(false)
	mend(line, t)
	s.allDone(t, 20*time.Second)
	s.nothingPastTheLease(t, a)
	s.judge(t, allowed{sends: func(sendonce.Key) int { return 100 }})
}

// nothingPastTheLease checks each send of a worker whose Sender obeys its context:
// when it began it would have ended within what was sure, and it has.
func (s *scene) nothingPastTheLease(t *testing.T, w *worker) {
	t.Helper()
	n := 0
	for _, send := range s.sends(t).All() {
		if send.Worker != w.cfg.Owner {
			continue
		}
		n++
		if sure := w.sure(attempt{send.Key, send.Attempt}, w.cfg.Lease, send.Start); send.Start.Add(w.cfg.SendTimeout).After(sure) {
			t.Errorf("%v began although its lease was sure until %v only", send, sure)
		}
		if sure := w.sure(attempt{send.Key, send.Attempt}, w.cfg.Lease, send.End); !send.End.IsZero() && send.End.After(sure) {
			t.Errorf("%v ran past its lease, which was sure until %v only", send, sure)
		}
	}
	assert.Positive(t, n, "sends of %s", w.cfg.Owner)
}

// docs/faults.md, 4: the claim is taken away, and another worker has its rows.
func TestFault04_TheOldOwnerIsToldAndChangesNothing(t *testing.T) {
	each(t, twoOfIt, func(t *testing.T, c combo.Combo) {
		s := on(t, c, nil, 12)
		var told atomic.Int64 // sends that ended because the claim is lost
		a := s.start(t, post{
			name: "A", tune: func(cfg *sendonce.Config) { cfg.Concurrency, cfg.PollInterval = 2, time.Hour },
			sender: func(ctx context.Context, m item) error {
				err := until(ctx)
				if errors.Is(err, sendonce.ErrLost) {
					told.Add(1)
				}
				return err
			},
		})
		await(t, 5*time.Second, "A holds most rows", func() bool { return s.count(t, claimed) > 6 })
		old := s.takeAway(t)

		// B has them before A asks the database anything that concerns them.
		link := s.claimer(t)
		b, err := link.Claim(t.Context(), sendonce.ClaimRequest{Limit: 100, Suspects: 100, Lease: time.Minute, MaxAttempts: 5, Owner: "B"})
		require.NoError(t, err)
		b.Items = slices.DeleteFunc(b.Items, func(m item) bool { return old[m.Key] == 0 })
		require.NotEmpty(t, b.Items)
		await(t, 2*a.cfg.Lease, "the handlers are told", func() bool { return told.Load() > 0 && a.losses() > 0 })
		for _, token := range a.lostTokens() {
			assert.Contains(t, slices.Collect(maps.Values(old)), token)
		}

		s.changesNothing(t, a.Claimer, b, old)
		var rs []sendonce.Result
		for _, m := range b.Items {
			rs = append(rs, sendonce.Result{Key: m.Key, Token: b.Token, Outcome: sendonce.Done})
		}
		es, err := link.Settle(t.Context(), rs)
		require.NoError(t, err)
		assert.Empty(t, es)
		s.changesNothing(t, a.Claimer, b, old)
		require.NoError(t, link.End(t.Context(), []int64{b.Token}))
		assert.NoError(t, a.stop(t))
		for _, m := range b.Items {
			assert.Equal(t, done, s.rows(t)[m.Key].Status, "row %v, which B has sent", m.Key)
		}
		s.judge(t, allowed{sends: func(sendonce.Key) int { return 5 }})
	})
}

// claimer is one with a pool of its own and no Dispatcher.
func (s *scene) claimer(t *testing.T) combo.Claimer {
	t.Helper()
	c, _ := s.Spec().Open(t)
	return c
}

func (w *worker) lostTokens() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]int64{}, w.lost...)
}

// takeAway does to all claims what a reaper does, without its witnesses. It returns
// the rows, with the token that they had and have.
func (s *scene) takeAway(t *testing.T) map[sendonce.Key]int64 {
	t.Helper()
	tx, err := s.Admin.Beginx()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("DELETE FROM sendonce_claims")
	require.NoError(t, err)
	var rows []row
	require.NoError(t, tx.Select(&rows, tx.Rebind("SELECT id, token FROM "+s.Name+" WHERE status = ? ORDER BY id FOR UPDATE"), claimed))
	now := "UTC_TIMESTAMP(6)"
	if s.Place.Database.Dialect == claim.Postgres {
		now = "now()"
	}
	_, err = tx.Exec(tx.Rebind("UPDATE "+s.Name+" SET status = ?, next_attempt = "+now+" WHERE status = ?"), pending, claimed)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	old := map[sendonce.Key]int64{}
	for _, r := range rows {
		old[r.ID] = r.Token
	}
	return old
}

// changesNothing lets the old owner of rows do all that it can.
func (s *scene) changesNothing(t *testing.T, c combo.Claimer, b sendonce.Batch[combo.Mail], old map[sendonce.Key]int64) {
	t.Helper()
	before := s.rows(t)
	for _, m := range b.Items {
		for o := sendonce.Done; o <= sendonce.Unknown; o++ {
			es, err := c.Settle(t.Context(), []sendonce.Result{{Key: m.Key, Token: old[m.Key], Outcome: o, Reason: "too late"}})
			require.NoError(t, err)
			require.Len(t, es, 1, "%v of row %v by the old owner", o, m.Key)
		}
		ext, err := c.Extend(t.Context(), []int64{old[m.Key]})
		require.NoError(t, err)
		assert.Equal(t, []int64{old[m.Key]}, ext.Lost)
		lost, err := c.Begin(t.Context(), []sendonce.Ref{{Key: m.Key, Token: old[m.Key]}})
		require.NoError(t, err)
		assert.Len(t, lost, 1)
	}
	after := s.rows(t)
	for _, m := range b.Items {
		assert.Equal(t, before[m.Key], after[m.Key])
	}
}

// docs/faults.md, 4: one renewal fails, and the next succeeds in time.
func TestFault04_OneFailedRenewalCancelsNothing(t *testing.T) {
	each(t, twoOfIt, func(t *testing.T, c combo.Combo) {
		s := on(t, c, nil, 24)
		line := servers.NewProxy(t, s.At.Addr)
		a := s.worker(t, post{
			name: "A", renewAt: s.At.At(line.Addr), sender: takes(400 * time.Millisecond),
			tune: func(cfg *sendonce.Config) { cfg.Concurrency = 2 },
		})
		line.Refuse(t)
		a.run(t)
		s.start(t, post{name: "B", sender: takes(400 * time.Millisecond), tune: func(cfg *sendonce.Config) { cfg.Concurrency = 1 }})
		await(t, 5*time.Second, "a renewal fails", func() bool {
			calls := a.all(renewing)
			return len(calls) > 0 && calls[0].err != nil
		})
		line.Accept(t)
		await(t, 5*time.Second, "a renewal succeeds", func() bool {
			calls := a.all(renewing)
			return calls[len(calls)-1].err == nil
		})
		s.allDone(t, 20*time.Second)
		assert.Zero(t, a.losses())
		for _, r := range s.rows(t) {
			assert.Equal(t, 1, r.Attempts)
		}
		s.nothingPastTheLease(t, a)
		s.judge(t, allowed{})
	})
}
