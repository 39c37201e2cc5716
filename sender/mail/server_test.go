package mail_test

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// letter is a mail that the server has accepted.
type letter struct {
	from string
	to   []string
	text string
	user string
	tls  bool
	conn int // the number of its connection
}

// fault is what happens at a stage: the line is cut ("drop"), nothing is answered
// any more ("hang"), or something else is answered.
type fault struct{ stage, what string }

// server is a real SMTP server on the loopback interface, behind a line that can
// break at any place.
type server struct {
	addr string
	*smtp.Server

	mu      sync.Mutex
	fault   fault
	once    bool // the fault happens once
	conns   []net.Conn
	ended   int // connections
	letters []letter
	refuse  func(to string) error
	done    chan struct{}
}

// with is a setting.
func with(stage, what string) func(*server) {
	return func(s *server) { s.fault = fault{stage, what} }
}

// start starts a server. Settings may change it before it listens.
func start(t *testing.T, settings ...func(*server)) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{addr: listener.Addr().String(), done: make(chan struct{})}
	s.Server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, secured := c.TLSConnectionState()
		return &session{s: s, letter: letter{tls: secured, conn: len(s.conns)}}, nil
	}))
	s.Domain = "mx.example"
	s.ErrorLog = log.New(io.Discard, "", 0)
	s.AllowInsecureAuth = true
	for _, set := range settings {
		set(s)
	}
	go func() { _ = s.Serve(&faulty{listener, s}) }()
	t.Cleanup(func() {
		close(s.done)
		_ = s.Close()
	})
	return s
}

func (s *server) got() []letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]letter(nil), s.letters...)
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns) - s.ended
}

// hangUp closes all connections, as a server does with those that are idle.
func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

// at is the fault of a stage.
func (s *server) at(stage string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault.stage != stage {
		return ""
	}
	what := s.fault.what
	if s.once {
		s.fault = fault{}
	}
	return what
}

// session is one conversation with the server.
type session struct {
	s *server
	letter
}

func (c *session) AuthMechanisms() []string { return []string{sasl.Plain, sasl.Login} }

func (c *session) Auth(mechanism string) (sasl.Server, error) {
	if mechanism == sasl.Plain {
		return sasl.NewPlainServer(func(_, user, password string) error { return c.login(user, password) }), nil
	}
	return nil, smtp.ErrAuthUnsupported
}

func (c *session) login(user, password string) error {
	if password != "right" {
		return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "wrong password"}
	}
	c.user = user
	return nil
}

func (c *session) Mail(from string, _ *smtp.MailOptions) error { c.from = from; return nil }
func (c *session) Reset()                                      { c.from, c.to = "", nil }
func (c *session) Logout() error                               { return nil }

func (c *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if c.s.refuse != nil {
		if err := c.s.refuse(to); err != nil {
			return err
		}
	}
	c.to = append(c.to, to)
	return nil
}

func (c *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	l := c.letter
	l.text = string(text)
	c.s.letters = append(c.s.letters, l)
	return nil
}

// faulty is a listener whose connections have the server's faults.
type faulty struct {
	net.Listener
	s *server
}

func (l *faulty) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10) // so that what isn't read isn't taken either
	l.s.mu.Lock()
	l.s.conns = append(l.s.conns, c)
	l.s.mu.Unlock()
	f := &wire{Conn: c, s: l.s, r: bufio.NewReader(c)}
	f.instead = l.s.at("greeting")
	return f, nil
}

// wire is a connection seen from the server: it reads a line at a time, and some
// don't arrive.
type wire struct {
	net.Conn
	s       *server
	r       *bufio.Reader
	rest    string
	body    bool
	tls     bool // no lines any more
	gone    sync.Once
	instead string // of the next thing that the server says
}

var errGone = errors.New("the line is gone")

func (w *wire) Close() error {
	w.gone.Do(func() {
		w.s.mu.Lock()
		defer w.s.mu.Unlock()
		w.s.ended++
	})
	return w.Conn.Close()
}

func (w *wire) Read(p []byte) (int, error) {
	if w.tls {
		return w.r.Read(p)
	}
	for w.rest == "" {
		line, err := w.r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		stage := w.stage(line)
		what := w.s.at(stage)
		switch {
		case what == "":
			w.rest = line
		case stage == "dot": // the server gets it, and what it says is lost
			w.rest, w.instead = line, what
		case what == "drop" || what == "hang":
			return 0, w.fail(what)
		default:
			if _, err := io.WriteString(w.Conn, what+"\r\n"); err != nil {
				return 0, err
			}
			w.body = false
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// stage is what a line belongs to.
func (w *wire) stage(line string) string {
	if w.body {
		if strings.TrimRight(line, "\r\n") == "." {
			w.body = false
			return "dot"
		}
		return "body"
	}
	verb, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(line)), " ")
	w.body, w.tls = verb == "data", verb == "starttls"
	return verb
}

func (w *wire) fail(what string) error {
	if what == "hang" {
		<-w.s.done
	}
	_ = w.Close()
	return errGone
}

func (w *wire) Write(p []byte) (int, error) {
	what := w.instead
	w.instead = ""
	switch what {
	case "":
		return w.Conn.Write(p)
	case "drop", "hang":
		return 0, w.fail(what)
	}
	_, err := io.WriteString(w.Conn, what+"\r\n")
	return len(p), err
}

// within is a patient look.
func within(t *testing.T, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 5*time.Second, time.Millisecond)
}
