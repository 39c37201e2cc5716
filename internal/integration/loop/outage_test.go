package loop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// outage is a way to take the database from its workers, and to give it back.
type outage struct {
	name       string
	itself     bool // the server is stopped
	take, give func(t *testing.T, s *servers.SQLServer, line *servers.Proxy)
}

var outages = []outage{
	{
		"stopped", true,
		func(t *testing.T, s *servers.SQLServer, _ *servers.Proxy) { s.Stop(t) },
		func(t *testing.T, s *servers.SQLServer, _ *servers.Proxy) { s.Start(t) },
	},
	{
		"black hole", false,
		func(t *testing.T, _ *servers.SQLServer, line *servers.Proxy) { line.BlackHole(t) },
		func(t *testing.T, _ *servers.SQLServer, line *servers.Proxy) { line.Heal(t) },
	},
}

// The database is gone for longer than the lease, while rows are claimed, sent,
// renewed and marked: nothing is sent twice, nobody gives up, and nobody spins.
func TestOutageOfTheDatabase(t *testing.T) { eachOutage(t, 7*time.Second) }

func TestOutageOfTheDatabaseSoak(t *testing.T) {
	servers.Soak(t)
	eachOutage(t, time.Minute)
}

func eachOutage(t *testing.T, away time.Duration) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			each(t, one, func(t *testing.T, c combo.Combo) { databaseIsGone(t, c, o, away) })
		})
	}
}

func databaseIsGone(t *testing.T, c combo.Combo, o outage, away time.Duration) {
	var server *servers.SQLServer
	var at *servers.Database // a shared one, unless the server itself is to be stopped
	if o.itself {
		server = own(t, c)
		at = server.Database
	}
	s := on(t, c, at, 160)
	line := servers.NewProxy(t, s.At.Addr)
	var workers []*worker
	for _, name := range names(3, "worker") {
		workers = append(workers, s.start(t, post{name: name, at: s.At.At(line.Addr), sender: takes(200 * time.Millisecond)}))
	}
	await(t, 15*time.Second, "rows are sent and marked by all", func() bool {
		senders := map[string]bool{}
		for _, send := range s.sends(t).All() {
			senders[send.Worker] = true
		}
		return len(senders) == len(workers) && s.count(t, done) > 20
	})
	o.take(t, server, line)
	gone := time.Now()
	await(t, 6*time.Second, "Health says so", func() bool {
		for _, w := range workers {
			if w.Health().OK {
				return false
			}
		}
		return true
	})
	for time.Since(gone) < away {
		for _, w := range workers {
			w.running(t)
			if h := w.Health(); h.OK || h.Problem == "" {
				t.Errorf("Health of %s in an outage: %+v", w.cfg.Owner, h)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	back := time.Now()
	noTightLoop(t, workers, gone, back)
	o.give(t, server, line)
	s.allDone(t, 40*time.Second)
	await(t, 15*time.Second, "Health is OK", func() bool {
		for _, w := range workers {
			if !w.Health().OK {
				return false
			}
		}
		return true
	})
	s.judge(t, allowed{})
}

// noTightLoop counts what the workers asked of a database that is not there. They
// wait longer and longer, by chance, so that they don't come back in step.
func noTightLoop(t *testing.T, workers []*worker, from, to time.Time) {
	t.Helper()
	seconds := int(to.Sub(from).Seconds())
	for _, w := range workers {
		for _, what := range []string{claiming, renewing, settling, reaping, ending} {
			n := len(w.calls(what, from, to))
			// A renewal is tried again after an eighth of a third of the lease at the
			// soonest, which is eight in a second.
			assert.LessOrEqual(t, n, 20+10*seconds, "calls of %s in %d s, by %s", what, seconds, w.cfg.Owner)
		}
		// Claims and marks wait up to 5 s.
		assert.LessOrEqual(t, len(w.calls(claiming, from, to))+len(w.calls(settling, from, to)), 50+3*seconds, "claims and marks in %d s, by %s", seconds, w.cfg.Owner)
		assert.Positive(t, len(w.calls(claiming, from, to))+len(w.calls(settling, from, to))+len(w.calls(renewing, from, to)), "%s has not tried", w.cfg.Owner)
	}
}

// A worker that waits claims again after waits that grow and are chance.
func TestOutageIsWaitedOutWithJitter(t *testing.T) {
	each(t, one, func(t *testing.T, c combo.Combo) {
		s := on(t, c, nil, 0)
		line := servers.NewProxy(t, s.At.Addr)
		var workers []*worker
		for _, name := range names(2, "worker") {
			w := s.start(t, post{name: name, at: s.At.At(line.Addr)})
			w.idle(t)
			workers = append(workers, w)
		}
		line.Refuse(t)
		gone := time.Now()
		waits := make([][]time.Duration, len(workers))
		await(t, 30*time.Second, "six claims have failed", func() bool {
			for i, w := range workers {
				waits[i] = nil
				var last time.Time
				for _, c := range w.calls(claiming, gone, time.Now()) {
					if c.err == nil {
						continue
					}
					if !last.IsZero() {
						waits[i] = append(waits[i], c.began.Sub(last))
					}
					last = c.end
				}
				if len(waits[i]) < 5 {
					return false
				}
			}
			return true
		})
		var apart time.Duration
		for n := range 5 {
			apart = max(apart, (waits[0][n] - waits[1][n]).Abs())
		}
		assert.Greater(t, apart, 30*time.Millisecond, "the waits of two workers: %v", waits)
		for _, w := range waits {
			assert.Greater(t, w[4], 2*w[0], "waits grow: %v", w)
		}
		noTightLoop(t, workers, gone, time.Now())
		line.Accept(t)
		s.Add(t, 4)
		s.allDone(t, 20*time.Second)
		s.judge(t, allowed{})
	})
}

// secretive makes a user with a password, and returns the database as that user
// reaches it.
func (s *scene) secretive(t *testing.T) func(password string) *servers.Database {
	t.Helper()
	do := func(statement string) { s.Exec(t, statement) }
	at := func(dsn string) func(string) *servers.Database {
		return func(password string) *servers.Database {
			d := *s.At
			d.DSN = fmt.Sprintf(dsn, password, d.Addr, d.Name)
			return &d
		}
	}
	if s.Place.Database.Dialect == claim.MySQL {
		do("CREATE OR REPLACE USER mailer@'%' IDENTIFIED BY 'right'")
		do("GRANT ALL ON *.* TO mailer@'%'")
		return at("mailer:%s@tcp(%s)/%s")
	}
	do("CREATE ROLE mailer LOGIN SUPERUSER PASSWORD 'right'")
	// The servers of tests trust everybody: this user has to prove who it is.
	do(`DO $$ BEGIN EXECUTE format('COPY (VALUES (%L), (%L)) TO %L',
		'host all mailer all scram-sha-256', 'host all all all trust', current_setting('hba_file')); END $$`)
	do("SELECT pg_reload_conf()")
	return at("postgres://mailer:%s@%s/%s?sslmode=disable")
}

// A wrong password is no outage: nobody waits for it to come right.
func TestOutageIsNotAWrongPassword(t *testing.T) {
	each(t, one, func(t *testing.T, c combo.Combo) {
		var at *servers.Database
		if c.Database.Dialect == claim.Postgres { // it is told to trust nobody
			at = servers.StartPostgres(t).Database
		}
		s := on(t, c, at, 3)
		as := s.secretive(t)

		// The constructor says so.
		spec := s.Spec()
		spec.DSN = as("wrong").DSN
		link, err := spec.Dial()
		require.NoError(t, err)
		defer link.Close()
		var last error
		await(t, 10*time.Second, "the server has read who is trusted", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, last = spec.Claimer(ctx, link)
			return last != nil
		})
		refused(t, last)

		// So does Run, if it has become wrong since.
		w := s.worker(t, post{name: "A", at: as("right")})
		change := "ALTER USER mailer PASSWORD 'another'"
		if c.Database.Dialect == claim.MySQL {
			change = "SET PASSWORD FOR mailer@'%' = PASSWORD('another')"
		}
		s.Exec(t, change)
		w.links[0].DB.SetMaxIdleConns(0) // those of the constructor are open still
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context()) }()
		select {
		case err := <-ended:
			refused(t, err)
		case <-time.After(15 * time.Second):
			t.Fatal("Run does not return")
		}
		assert.Equal(t, 3, s.count(t, pending))
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	assert.True(t, sendonce.IsFatal(err), "%v", err)
	assert.Regexp(t, "password authentication failed|Access denied for user", err.Error())
}
