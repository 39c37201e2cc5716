package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The ways to have a server.
const (
	viaDSN    = "dsn"
	viaDocker = "docker"
	viaLocal  = "local"
)

const (
	// startTimeout bounds the start of a server, pull of its image apart.
	startTimeout = 90 * time.Second
	// stopTimeout is how long a server may take to stop before it is killed.
	stopTimeout = 20 * time.Second
)

// kind is one kind of server, and how it is had.
type kind struct {
	name  string // as in SENDONCE_TEST_REQUIRE
	title string // for people

	dsnVar   string // environment variable with a DSN
	imageVar string // environment variable with an image
	image    string // the image without it
	port     string // inside a container
	env      []string

	// flags are given to the server in every way; localFlags only to a local one.
	flags      []string
	localFlags func(dir, port string) []string
	// program finds the server's program on this machine.
	program func() (string, error)
	// prepare makes a data folder, as the unprivileged user.
	prepare func(l *local) error
	// users are the accounts to run as when the tests run as root.
	users []string
	// stop asks a local server to stop at once, but in good order.
	stop syscall.Signal

	// dsn is the administrator's DSN for a server that we started.
	dsn func(addr string) string
	// probe connects and returns the server's address, product and version.
	probe func(ctx context.Context, dsn string) (addr, version string, err error)
}

func kinds() []*kind { return []*kind{postgresKind, mariaKind, redisKind, bouncerKind} }

// server is one running server, shared or a test's own.
type server struct {
	kind    *kind
	dsn     string // the administrator's
	addr    string // host:port
	version string // product and version
	via     string
	run     runner // nil: not ours
}

// runner is a server that we started and can do things to.
type runner interface {
	address() string
	start(ctx context.Context) error
	stop() error   // in good order
	kill() error   // as if the power had failed, except that the disk survives
	pause() error  // hangs, its connections stay open
	resume() error // after pause
	remove()       // for good, with its data
	log() string   // its last words
}

var shared sync.Map // *kind -> func() (*server, error)

// sharedServer returns the test binary's shared server of this kind, and starts
// it at the first call.
func sharedServer(t testing.TB, k *kind) *server {
	t.Helper()
	ready(t, k)
	once, _ := shared.LoadOrStore(k, sync.OnceValues(func() (*server, error) { return obtain(k) }))
	s, err := once.(func() (*server, error))()
	if err != nil {
		need(t, k, err)
	}
	return s
}

// obtain tries the ways in their order and returns the first server that
// answers, or why there is none.
func obtain(k *kind) (*server, error) {
	only := os.Getenv("SENDONCE_TEST_VIA")
	var why []error
	for _, via := range []string{viaDSN, viaDocker, viaLocal} {
		if only != "" && only != via {
			continue
		}
		s, err := obtainVia(k, via)
		if err == nil {
			report(k, s.version, s.via)
			return s, nil
		}
		why = append(why, fmt.Errorf("%s: %w", via, err))
		if via == viaDSN && !errors.Is(err, errNoDSN) {
			break // a server that was named and does not answer is no invitation to test another
		}
	}
	return nil, errors.Join(why...)
}

var errNoDSN = errors.New("no DSN in the environment")

func obtainVia(k *kind, via string) (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	switch via {
	case viaDSN:
		dsn := os.Getenv(k.dsnVar)
		if dsn == "" {
			return nil, fmt.Errorf("%w (%s)", errNoDSN, k.dsnVar)
		}
		s := &server{kind: k, dsn: dsn, via: via}
		if err := s.await(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", k.dsnVar, err)
		}
		return s, nil
	case viaDocker:
		c, err := newContainer(k, nil)
		if err != nil {
			return nil, err
		}
		return begin(ctx, k, c, fmt.Sprintf("%s (%s)", via, c.image))
	default:
		l, err := newLocal(k, nil)
		if err != nil {
			return nil, err
		}
		return begin(ctx, k, l, fmt.Sprintf("%s (%s)", via, l.program))
	}
}

// begin starts r and waits until it answers.
func begin(ctx context.Context, k *kind, r runner, via string) (*server, error) {
	remember(r)
	s := &server{kind: k, via: via, run: r}
	err := s.start(ctx)
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, r.log())
		forget(r)
		r.remove()
		return nil, err
	}
	return s, nil
}

func (s *server) start(ctx context.Context) error {
	if err := s.run.start(ctx); err != nil {
		return err
	}
	s.dsn = s.kind.dsn(s.run.address())
	return s.await(ctx)
}

// await returns when the server answers, and learns its version.
func (s *server) await(ctx context.Context) error {
	for {
		probe, cancel := context.WithTimeout(ctx, 5*time.Second)
		addr, version, err := s.kind.probe(probe, s.dsn)
		cancel()
		if err == nil {
			s.addr, s.version = addr, version
			return nil
		}
		if s.run == nil && ctx.Err() == nil {
			// A server that was named is expected to be up.
			return fmt.Errorf("%s does not answer: %w", s.kind.title, err)
		}
		if d, ok := s.run.(interface{ exited() error }); ok && d.exited() != nil {
			return fmt.Errorf("%s ended at its start: %w", s.kind.title, d.exited())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", s.kind.title, err)
		case <-time.After(25 * time.Millisecond):
		}
	}
}
