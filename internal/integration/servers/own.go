package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// Options are for servers of a test's own. The zero value works.
type Options struct {
	// Args are given to the server's program, after ours.
	Args []string
	// Env is added to the server's environment, each "name=value". A server of
	// this machine's programs also has all of ours.
	Env []string
	// Local demands a server of this machine's own programs, never a container:
	// for tests that reach into its files or preload a library.
	Local bool
}

func (o *Options) orDefault() *Options {
	if o == nil {
		return &Options{}
	}
	return o
}

// Control does to a server what the world does to servers. Its methods fail the
// test if they cannot; they are for one goroutine at a time.
type Control struct {
	server *server
}

// SQLServer is a PostgreSQL or MariaDB server of one test's own, with one new
// database. It is removed after the test.
type SQLServer struct {
	*Database
	Control
}

// RedisServer is a Redis server of one test's own. It is removed after the test.
type RedisServer struct {
	*RedisDB
	Control
}

// StartPostgres starts a PostgreSQL server for this test alone.
func StartPostgres(t testing.TB, options ...Options) *SQLServer {
	t.Helper()
	s := ownServer(t, postgresKind, options)
	return &SQLServer{s.database(t), Control{s}}
}

// StartMariaDB starts a MariaDB server for this test alone.
func StartMariaDB(t testing.TB, options ...Options) *SQLServer {
	t.Helper()
	s := ownServer(t, mariaKind, options)
	return &SQLServer{s.database(t), Control{s}}
}

// StartRedis starts a Redis server for this test alone. Unless the options say
// otherwise, it keeps nothing over a restart.
func StartRedis(t testing.TB, options ...Options) *RedisServer {
	t.Helper()
	s := ownServer(t, redisKind, options)
	return &RedisServer{newRedisDB(t, s), Control{s}}
}

// ownServer starts a server and removes it after the test.
func ownServer(t testing.TB, k *kind, options []Options) *server {
	t.Helper()
	ready(t, k)
	if os.Getenv("SENDONCE_TEST_VIA") == viaDSN {
		t.Skipf("servers: SKIPPED, not tested: SENDONCE_TEST_VIA=dsn cannot give a test a %s of its own", k.title)
	}
	var o *Options
	if len(options) > 0 {
		o = &options[0]
	}
	s, err := startOwn(k, o.orDefault())
	if err != nil {
		need(t, k, err)
	}
	report(k, s.version, s.via)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("servers: the end of the log of %s:\n%s", k.title, s.run.log())
		}
		forget(s.run)
		s.run.remove()
	})
	return s
}

// startOwn prefers the machine's programs, which are quicker to stop and start.
func startOwn(k *kind, o *Options) (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var why []error
	for _, via := range []string{viaLocal, viaDocker} {
		if only := os.Getenv("SENDONCE_TEST_VIA"); only != "" && only != via {
			continue
		}
		if via == viaDocker && o.Local {
			continue
		}
		r, err := newRunner(k, via, o)
		if err == nil {
			var s *server
			if s, err = begin(ctx, k, r, via+", a test's own"); err == nil {
				return s, nil
			}
		}
		why = append(why, fmt.Errorf("%s: %w", via, err))
	}
	if len(why) == 0 {
		why = append(why, errors.New("the test needs a server of this machine's own programs, which SENDONCE_TEST_VIA forbids"))
	}
	return nil, errors.Join(why...)
}

func newRunner(k *kind, via string, o *Options) (runner, error) {
	if via == viaLocal {
		return newLocal(k, o)
	}
	return newContainer(k, o)
}

// Stop stops the server in good order: clients are cut off, data is kept.
func (c Control) Stop(t testing.TB) { t.Helper(); c.must(t, "stop", c.server.run.stop()) }

// Kill ends the server with no chance to say or save anything.
func (c Control) Kill(t testing.TB) { t.Helper(); c.must(t, "kill", c.server.run.kill()) }

// Pause makes the server hang: its connections stay open and answer nothing.
func (c Control) Pause(t testing.TB) { t.Helper(); c.must(t, "pause", c.server.run.pause()) }

// Resume ends a Pause.
func (c Control) Resume(t testing.TB) { t.Helper(); c.must(t, "resume", c.server.run.resume()) }

// Start starts a stopped or killed server again, at the same address and with
// the same data, and returns when it answers.
func (c Control) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c.must(t, "start", c.server.start(ctx))
}

// Server is the product and version of the server under control.
func (c Control) Server() string { return c.server.version }

// Log returns the end of the server's log.
func (c Control) Log() string { return c.server.run.log() }

// Dir is the folder of a local server: its data is in "data" (Redis: in the
// folder itself). Empty for a container.
func (c Control) Dir() string {
	if l, ok := c.server.run.(*local); ok {
		return l.dir
	}
	return ""
}

func (c Control) must(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("servers: %s %s: %v\n%s", what, c.server.kind.title, err, c.server.run.log())
	}
}
