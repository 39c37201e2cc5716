package loop

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// others is the number of connections to the scene's database besides that of
// Admin.
func (s *scene) others() (n int, err error) {
	query := "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
	if s.Place.Database.Dialect == claim.Postgres {
		query = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	}
	err = s.Admin.Get(&n, query)
	return n, err
}

// killOthers ends them on the server.
func (s *scene) killOthers() error {
	if s.Place.Database.Dialect == claim.Postgres {
		_, err := s.Admin.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		return err
	}
	var ids []int64
	if err := s.Admin.Select(&ids, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"); err != nil {
		return err
	}
	for _, id := range ids {
		_, _ = s.Admin.Exec("KILL ?", id) // it may have gone by itself
	}
	return nil
}

// docs/faults.md, 6: the server ends connections that idle for a second, or all of
// them, while a row is being sent; its send is over when none is left.
func TestFault06_OneSendThoughItsConnectionsAreGone(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"they idle": false, "they are killed": true} {
		t.Run(name, func(t *testing.T) {
			each(t, one, func(t *testing.T, c combo.Combo) {
				s := on(t, c, nil, 1)
				var params []string
				if !kill {
					params = []string{map[claim.Dialect]string{claim.Postgres: "idle_session_timeout=1000", claim.MySQL: "wait_timeout=1"}[c.Database.Dialect]}
				}
				begun := make(chan time.Time, 10)
				a := s.start(t, post{
					name: "A", params: params,
					tune: func(cfg *sendonce.Config) { // nothing else uses the pool meanwhile
						cfg.MaxAttempts, cfg.SendTimeout, cfg.Lease, cfg.PollInterval = 3, 10*time.Second, time.Minute, time.Minute
					},
					sender: func(ctx context.Context, _ item) error {
						begun <- time.Now()
						for n := 1; n > 0; time.Sleep(20 * time.Millisecond) {
							if kill {
								if err := s.killOthers(); err != nil {
									return err
								}
							}
							var err error
							if n, err = s.others(); err != nil || ctx.Err() != nil {
								return errors.Join(err, ctx.Err())
							}
						}
						return nil
					},
				})
				<-begun
				s.allDone(t, 15*time.Second)
				assert.Equal(t, 1, s.rows(t)[s.Keys[0]].Attempts)
				assert.Zero(t, a.losses())
				s.judge(t, allowed{})
			})
		})
	}
}

// own starts a server of the test's own, of the combination's kind.
func own(t *testing.T, c combo.Combo) *servers.SQLServer {
	t.Helper()
	if c.Database.Dialect == claim.Postgres {
		return servers.StartPostgres(t)
	}
	return servers.StartMariaDB(t)
}

// docs/faults.md, 6: the server is stopped right after the send.
func TestFault06_OneSendThoughTheServerStops(t *testing.T) {
	each(t, one, func(t *testing.T, c combo.Combo) { serverStops(t, c, 6*time.Second) })
}

func TestFault06_OneSendThoughTheServerStopsSoak(t *testing.T) {
	servers.Soak(t)
	each(t, one, func(t *testing.T, c combo.Combo) { serverStops(t, c, time.Minute) })
}

func serverStops(t *testing.T, c combo.Combo, away time.Duration) {
	server := own(t, c)
	s := on(t, c, server.Database, 1)
	sent, stopped := make(chan struct{}), make(chan struct{})
	tune := func(cfg *sendonce.Config) { cfg.MaxAttempts = 3 }
	send := func(context.Context, item) error {
		sent <- struct{}{} // a second one would hang here, and be seen in the record
		<-stopped
		return nil
	}
	a := s.start(t, post{name: "A", tune: tune, sender: send})
	<-sent
	b := s.start(t, post{name: "B", tune: tune, sender: send})
	server.Stop(t)
	close(stopped)
	began := time.Now()
	await(t, 15*time.Second, "a mark has failed", func() bool { return strings.Contains(a.Health().Problem, "could not be recorded") })
	marking := time.Now()
	await(t, 10*time.Second, "Unrecorded is told", func() bool { return a.unrecordedTold() > 0 })
	assert.False(t, a.Health().OK)
	assert.Equal(t, 1, a.Health().Unrecorded)
	time.Sleep(away - time.Since(began))
	assert.False(t, a.Health().OK)
	assert.False(t, b.Health().OK)
	// One claim may have been under way; and a server that is going down may answer
	// renewals a little longer than marks, which parks the result.
	assert.LessOrEqual(t, len(a.calls(claiming, marking, time.Now())), 4, "claims while a result can't be recorded")
	server.Start(t)
	s.allDone(t, 20*time.Second)
	assert.Equal(t, 1, s.rows(t)[s.Keys[0]].Attempts)
	await(t, 15*time.Second, "Health is OK", func() bool { return a.Health().OK && b.Health().OK })
	s.judge(t, allowed{})
}

// docs/faults.md, 6: one worker after the other is cut off right after its send. The
// attempts of their rows are counted before the send, so that they come to an end.
func TestFault06_NeverMoreSendsThanAttempts(t *testing.T) {
	each(t, one, func(t *testing.T, c combo.Combo) {
		const maxAttempts = 3
		s := on(t, c, nil, 1)
		tune := func(cfg *sendonce.Config) {
			cfg.MaxAttempts, cfg.SendTimeout, cfg.Lease = maxAttempts, 200*time.Millisecond, 1200*time.Millisecond
		}
		var cut []*worker
		var lines []*servers.Proxy
		for i, name := range names(maxAttempts, "cut off") {
			line := servers.NewProxy(t, s.At.Addr)
			sent, off := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			w := s.start(t, post{name: name, tune: tune, at: s.At.At(line.Addr), sender: func(context.Context, item) error {
				if once.CompareAndSwap(false, true) {
					close(sent)
					<-off
				}
				return nil
			}})
			select {
			case <-sent:
			case <-time.After(20 * time.Second):
				t.Fatalf("%s is not given the row", name)
			}
			line.Refuse(t)
			close(off)
			cut, lines = append(cut, w), append(lines, line)
			assert.Equal(t, i+1, s.sends(t).Count())
		}
		s.start(t, post{name: "healthy", tune: tune})
		await(t, 20*time.Second, "the row is dead", func() bool { return s.count(t, dead) == 1 })
		assert.Contains(t, s.rows(t)[s.Keys[0]].Reason, "the worker vanished")
		for _, w := range cut {
			await(t, 5*time.Second, "Unrecorded is told", func() bool { return w.unrecordedTold() > 0 })
		}
		// It was sent, and its last owner can say so still.
		for _, line := range lines {
			line.Accept(t)
		}
		s.allDone(t, 15*time.Second)
		await(t, 15*time.Second, "all results are answered", func() bool {
			return len(cut[0].causes()) > 0 && len(cut[1].causes()) > 0 && len(cut[2].causes()) > 0
		})
		assert.Equal(t, []sendonce.Cause{sendonce.Overtaken}, cut[0].causes())
		assert.Equal(t, []sendonce.Cause{sendonce.Overtaken}, cut[1].causes())
		assert.Equal(t, []sendonce.Cause{sendonce.Late}, cut[2].causes())
		s.judge(t, allowed{accepted: maxAttempts, sends: func(sendonce.Key) int { return maxAttempts }})
	})
}
