package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-sasl"

	"github.com/sendonce/sendonce"
)

// Security is how connections are encrypted.
type Security uint8

const (
	// Auto is ImplicitTLS on port 465, Plain on the loopback interface, and
	// STARTTLS everywhere else.
	Auto Security = iota
	// STARTTLS encrypts before anything is said of mails; a server that doesn't
	// offer it gets none.
	STARTTLS
	// ImplicitTLS encrypts from the first byte.
	ImplicitTLS
	// Plain doesn't encrypt: the mails and the password can be read on the way.
	Plain
)

// Config says what to send, and through which server. Addr and Message are
// needed.
type Config[T any] struct {
	// Addr is the server, as host:port.
	Addr string

	// Message returns the mail of a row. An error makes the row dead.
	Message func(item sendonce.Item[T]) (Message, error)

	// Domain stands behind the @ of the Message-ID. Default: the domain of
	// Message.From.
	Domain string

	// Username and Password log in, by PLAIN or LOGIN. Empty: without.
	Username, Password string

	// SASL, if not nil, logs in instead. It is called for each connection.
	SASL func() (sasl.Client, error)

	// Security is how connections are encrypted. Default: Auto.
	Security Security

	// TLS is for private certificates, for example. Default: the system's
	// authorities, and the name in Addr.
	TLS *tls.Config

	// Hello is what we call ourselves. Default: the host's name.
	Hello string

	// MaxConns is the most connections at once; sends wait for one, in their
	// SendTimeout. Default: 16, which is that of sendonce.Config.Concurrency.
	MaxConns int

	// IdleTimeout is how long a connection is kept that nobody uses. It should be
	// shorter than the server's own patience. Default: 30 s.
	IdleTimeout time.Duration

	// Wait is how long nobody sends after a refusal that is not about one row: a
	// wrong password, too many connections (sendonce.Throttled). Default: 1 min.
	Wait time.Duration

	// Judge says what a refusal means: it returns an error of sendonce.Permanent,
	// NotSent, RetryAfter or Throttled that wraps it. It is called from several
	// goroutines. Default: DefaultJudge.
	Judge func(r *Refusal) error

	// Dial makes the connection. Default: that of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Sender is a sendonce.Sender over SMTP. It may be used from any number of
// goroutines. Close it when the Dispatcher has returned.
type Sender[T any] struct {
	cfg   Config[T]
	seats chan struct{} // one per connection in use

	mu      sync.Mutex
	idle    []*conn // the last one is used first
	leaving sync.WaitGroup
	closed  bool
}

// New makes a Sender. It does not connect.
func New[T any](cfg Config[T]) (*Sender[T], error) {
	if cfg.Message == nil {
		return nil, errors.New("sendonce: mail.Config.Message is nil: say what to send")
	}
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("sendonce: mail.Config.Addr %q must be host:port: %w", cfg.Addr, err)
	}
	if strings.ContainsFunc(cfg.Domain+cfg.Hello, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("<>@", r) }) {
		return nil, fmt.Errorf("sendonce: mail.Config: Domain %q or Hello %q is not the name of a host", cfg.Domain, cfg.Hello)
	}
	if cfg.MaxConns < 0 || cfg.IdleTimeout < 0 || cfg.Wait < 0 {
		return nil, errors.New("sendonce: mail.Config: MaxConns, IdleTimeout or Wait is negative")
	}
	cfg.complete(host, port)
	return &Sender[T]{cfg: cfg, seats: make(chan struct{}, cfg.MaxConns)}, nil
}

func (c *Config[T]) complete(host, port string) {
	if c.Security == Auto {
		c.Security = STARTTLS
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			c.Security = Plain
		}
		if port == "465" || port == "smtps" || port == "submissions" {
			c.Security = ImplicitTLS
		}
	}
	if c.TLS == nil {
		c.TLS = &tls.Config{}
	}
	if c.TLS.ServerName == "" && !c.TLS.InsecureSkipVerify {
		c.TLS = c.TLS.Clone()
		c.TLS.ServerName = host
	}
	if c.Hello == "" {
		c.Hello = "localhost"
		if name, err := os.Hostname(); err == nil && name != "" && ascii(name) && !strings.ContainsAny(name, " \r\n") {
			c.Hello = name
		}
	}
	if c.MaxConns == 0 {
		c.MaxConns = 16
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 30 * time.Second
	}
	if c.Wait == 0 {
		c.Wait = time.Minute
	}
	if c.Judge == nil {
		wait := c.Wait
		c.Judge = func(r *Refusal) error { return DefaultJudge(r, wait) }
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
}

// Send implements sendonce.Sender.
func (s *Sender[T]) Send(ctx context.Context, items []sendonce.Item[T]) error {
	return sendonce.SenderFunc[T](s.send).Send(ctx, items)
}

func (s *Sender[T]) send(ctx context.Context, item sendonce.Item[T]) error {
	m, err := s.cfg.Message(item)
	if err != nil {
		return sendonce.Permanent(fmt.Errorf("no mail: %w", err))
	}
	e, err := m.compose(item.IdempotencyKey, s.cfg.Domain)
	if err != nil {
		return sendonce.Permanent(err)
	}
	select {
	case s.seats <- struct{}{}:
		defer func() { <-s.seats }()
	case <-ctx.Done():
		return sendonce.NotSent(fmt.Errorf("all %d connections are in use: %w", s.cfg.MaxConns, context.Cause(ctx)))
	}
	return s.cfg.verdict(ctx, s.deliver(ctx, e))
}

// deliver sends a mail over a kept connection or a new one.
func (s *Sender[T]) deliver(ctx context.Context, e *envelope) error {
	for {
		c, kept := s.take()
		if !kept {
			var err error
			if c, err = s.cfg.connect(ctx); err != nil {
				return err
			}
		}
		reuse, err := c.deliver(ctx, e)
		if reuse {
			s.keep(c)
		} else {
			_ = c.line.Conn.Close()
		}
		if !kept || ctx.Err() != nil || !stale(err) {
			return err
		}
	}
}

// stale reports whether the server had closed the connection before it heard of
// the mail.
func stale(err error) bool {
	var b *broken
	var r *Refusal
	return errors.As(err, &b) && b.stage == Mail || errors.As(err, &r) && r.Stage == Mail && r.Code == 421
}

// take returns a kept connection, if there is one.
func (s *Sender[T]) take() (*conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle) - 1
	if n < 0 {
		return nil, false
	}
	c := s.idle[n]
	s.idle = s.idle[:n]
	c.expiry.Stop()
	return c, true
}

func (s *Sender[T]) keep(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.line.Conn.Close() // no QUIT: its send waits to be recorded
		return
	}
	s.idle = append(s.idle, c)
	c.expiry = time.AfterFunc(s.cfg.IdleTimeout, func() { s.expire(c) })
}

// expire ends a connection that is still idle.
func (s *Sender[T]) expire(c *conn) {
	s.mu.Lock()
	i := slices.Index(s.idle, c)
	if i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
		s.leaving.Add(1)
		defer s.leaving.Done()
	}
	s.mu.Unlock()
	if i >= 0 {
		c.quit()
	}
}

// Close ends the connections that are idle, and those in use when their mail is
// sent. It takes a second at the most.
func (s *Sender[T]) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, c := range s.idle {
		c.expiry.Stop()
		s.leaving.Go(c.quit)
	}
	s.idle = nil
	s.mu.Unlock()
	s.leaving.Wait()
	return nil
}
