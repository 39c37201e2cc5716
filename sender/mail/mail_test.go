package mail_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/sender/mail"
)

var items = []sendonce.Item[string]{{Key: int64(1), Attempt: 1, IdempotencyKey: "0123456789abcdef"}}

func TestConnectionsAreKeptAndBounded(t *testing.T) {
	s := start(t)
	m := newSender(t, s, func(c *mail.Config[string]) { c.MaxConns = 3 })
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { assert.NoError(t, m.Send(t.Context(), items)) })
	}
	wg.Wait()
	assert.Len(t, s.got(), 20)
	assert.LessOrEqual(t, s.connections(), 3)
}

// What the server has closed while nobody used it costs no try.
func TestKeptConnectionThatIsGoneCostsNothing(t *testing.T) {
	for _, how := range []func(*server){
		func(s *server) { s.hangUp() },
		func(s *server) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fault, s.once = fault{"mail", "421 4.4.2 you took too long"}, true
		},
		func(s *server) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fault, s.once = fault{"mail", "drop"}, true
		},
	} {
		s := start(t)
		m := newSender(t, s)
		require.NoError(t, m.Send(t.Context(), items))
		how(s)
		got := try(t, sendonce.AtMostOnce, m)
		assert.Equal(t, sendonce.Done, got.outcome, "%v", got.err)
		assert.Len(t, s.got(), 2)
		assert.Equal(t, 2, s.connections())
	}
}

// A whole pool of them, too.
func TestKeptConnectionsThatAreAllGone(t *testing.T) {
	s := start(t)
	m := newSender(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.NoError(t, m.Send(t.Context(), items)) })
	}
	wg.Wait()
	s.hangUp()
	require.NoError(t, m.Send(t.Context(), items))
	assert.Len(t, s.got(), 9)
}

// A refused receiver leaves the connection fit for the next mail.
func TestConnectionIsUsedAgainAfterARefusal(t *testing.T) {
	s := start(t, func(s *server) {
		s.refuse = func(to string) error {
			if strings.HasPrefix(to, "bob") {
				return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
			}
			return nil
		}
	})
	to := []string{"ann@example.com", "bob@example.com"}
	m := newSender(t, s, func(c *mail.Config[string]) {
		c.Message = func(sendonce.Item[string]) (mail.Message, error) {
			return mail.Message{From: "a@sender.example", To: to}, nil
		}
	})
	err := m.Send(t.Context(), items)
	var r *mail.Refusal
	require.ErrorAs(t, err, &r)
	assert.Equal(t, mail.Refusal{Stage: mail.Rcpt, Code: 550, Enhanced: "5.1.1", Text: "no such user"}, *r)
	assert.Empty(t, s.got(), "one of two receivers is refused: nobody gets it")
	to = to[:1]
	require.NoError(t, m.Send(t.Context(), items))
	require.Len(t, s.got(), 1)
	assert.Equal(t, []string{"ann@example.com"}, s.got()[0].to)
	assert.Equal(t, 1, s.connections())
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	s := start(t)
	m := newSender(t, s, func(c *mail.Config[string]) { c.IdleTimeout = 30 * time.Millisecond })
	require.NoError(t, m.Send(t.Context(), items))
	within(t, func() bool { return s.open() == 0 })
	require.NoError(t, m.Send(t.Context(), items))
	assert.Equal(t, 2, s.connections())
	require.NoError(t, m.Close())
	require.NoError(t, m.Send(t.Context(), items), "a send that comes after Close has its own connection")
	within(t, func() bool { return s.open() == 0 })
}

func TestSendWaitsForAConnectionAndObeysItsContext(t *testing.T) {
	s := start(t, with("data", "hang"))
	m := newSender(t, s, func(c *mail.Config[string]) { c.MaxConns = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- m.Send(ctx, items) }()
	within(t, func() bool { return s.connections() == 1 })
	got := try(t, sendonce.AtMostOnce, m)
	check(t, notSent, sendonce.AtMostOnce, got)
	require.ErrorContains(t, got.err, "all 1 connections")
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
}

// We stop: that makes nobody else wait.
func TestStopBeforeMailMakesNobodyWait(t *testing.T) {
	s := start(t, with("greeting", "hang"))
	m := newSender(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		within(t, func() bool { return s.connections() == 1 })
		cancel(sendonce.ErrStopping)
	}()
	got := try(t, sendonce.AtMostOnce, sendonce.BatchSenderFunc[string](func(_ context.Context, items []sendonce.Item[string]) error {
		return m.Send(ctx, items)
	}))
	check(t, notSent, sendonce.AtMostOnce, got)
	require.ErrorIs(t, got.err, sendonce.ErrStopping)
}

func TestServerThatIsNotThereMakesAllWait(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	m := newSender(t, &server{addr: l.Addr().String()})
	check(t, all, sendonce.AtMostOnce, try(t, sendonce.AtMostOnce, m))
}

// certificate makes a certificate for 127.0.0.1 and who trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mx.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestSTARTTLS(t *testing.T) {
	cert, pool := certificate(t)
	secure := func(s *server) { s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}} }
	starttls := func(c *mail.Config[string]) { c.Security, c.Hello = mail.STARTTLS, "client.example" }
	trusting := func(c *mail.Config[string]) { c.TLS = &tls.Config{RootCAs: pool} }

	s := start(t, secure, func(s *server) { s.AllowInsecureAuth = false })
	m := newSender(t, s, starttls, trusting, func(c *mail.Config[string]) { c.Username, c.Password = "news", "right" })
	require.NoError(t, m.Send(t.Context(), items))
	require.NoError(t, m.Send(t.Context(), items))
	require.Len(t, s.got(), 2)
	for _, l := range s.got() {
		assert.True(t, l.tls)
		assert.Equal(t, "news", l.user)
	}
	assert.Equal(t, 1, s.connections())

	// Nobody whom we don't trust gets a mail, and no mail goes in the clear.
	untrusted := try(t, sendonce.AtMostOnce, newSender(t, start(t, secure), starttls))
	check(t, all, sendonce.AtMostOnce, untrusted)
	require.ErrorContains(t, untrusted.err, "certificate")
	assert.Greater(t, untrusted.wait, 50*time.Second)
	clear := try(t, sendonce.AtMostOnce, newSender(t, start(t), starttls))
	check(t, all, sendonce.AtMostOnce, clear)
	require.ErrorContains(t, clear.err, "STARTTLS")

	for _, tt := range []fault{
		{"greeting", "drop"},
		{"greeting", "554 5.3.2 no"},
		{"ehlo", "drop"},
		{"ehlo", "550 5.7.1 no"},
		{"starttls", "drop"},
		{"starttls", "hang"},
		{"starttls", "454 4.7.0 not now"},
		{"starttls", "220 go on\r\n250 said in the clear"},
	} {
		s := start(t, secure, with(tt.stage, tt.what))
		got := try(t, sendonce.AtMostOnce, newSender(t, s, starttls, trusting))
		assert.Equal(t, sendonce.Retry, got.outcome, "%v: %v", tt, got.err)
		assert.Zero(t, got.attempts, "%v", tt)
		assert.Empty(t, s.got())
		if strings.Contains(tt.what, "\r\n") { // it would count as said under TLS
			require.ErrorContains(t, got.err, "in the clear")
		}
	}
}

func TestImplicitTLS(t *testing.T) {
	cert, pool := certificate(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	require.NoError(t, err)
	s := start(t)
	go func() { _ = s.Serve(listener) }()
	m := newSender(t, s, func(c *mail.Config[string]) {
		c.Addr, c.Security, c.TLS = listener.Addr().String(), mail.ImplicitTLS, &tls.Config{RootCAs: pool}
	})
	require.NoError(t, m.Send(t.Context(), items))
	require.Len(t, s.got(), 1)
	assert.True(t, s.got()[0].tls)

	m = newSender(t, s, func(c *mail.Config[string]) { c.Addr, c.Security = listener.Addr().String(), mail.ImplicitTLS })
	got := try(t, sendonce.AtMostOnce, m)
	check(t, all, sendonce.AtMostOnce, got)
	require.ErrorContains(t, got.err, "certificate")
}

// A wrong password is not the row's fault.
func TestWrongPasswordMakesAllWait(t *testing.T) {
	s := start(t)
	got := try(t, sendonce.AtMostOnce, newSender(t, s, func(c *mail.Config[string]) { c.Username, c.Password = "news", "wrong" }))
	check(t, all, sendonce.AtMostOnce, got)
	assert.Greater(t, got.wait, 50*time.Second)
	var r *mail.Refusal
	require.ErrorAs(t, got.err, &r)
	assert.Equal(t, 535, r.Code)

	own := func(c *mail.Config[string]) {
		c.SASL = func() (sasl.Client, error) { return sasl.NewPlainClient("", "other", "right"), nil }
	}
	require.NoError(t, newSender(t, s, own).Send(t.Context(), items))
	assert.Equal(t, "other", s.got()[0].user)
	none := func(c *mail.Config[string]) {
		c.SASL = func() (sasl.Client, error) { return nil, errors.New("no token") }
	}
	check(t, all, sendonce.AtMostOnce, try(t, sendonce.AtMostOnce, newSender(t, s, none)))
}

func TestJudgeIsAsked(t *testing.T) {
	s := start(t, with("rcpt", "451 4.7.1 greylisted"))
	m := newSender(t, s, func(c *mail.Config[string]) {
		c.Judge = func(r *mail.Refusal) error {
			if r.Code == 451 {
				return sendonce.RetryAfter(time.Hour, r)
			}
			return mail.DefaultJudge(r, time.Minute)
		}
	})
	got := try(t, sendonce.AtMostOnce, m)
	check(t, all, sendonce.AtMostOnce, got)
	assert.Greater(t, got.wait, 50*time.Minute)
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for want, change := range map[string]func(*mail.Config[string]){
		"Message is nil": func(c *mail.Config[string]) { c.Message = nil },
		"host:port":      func(c *mail.Config[string]) { c.Addr = "example.com" },
		"Domain":         func(c *mail.Config[string]) { c.Domain = "a\r\nb" },
		"Hello":          func(c *mail.Config[string]) { c.Hello = "a b" },
		"negative":       func(c *mail.Config[string]) { c.MaxConns = -1 },
	} {
		cfg := mail.Config[string]{Addr: "localhost:25", Message: hello}
		change(&cfg)
		_, err := mail.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// Without being told, nothing leaves this machine in the clear.
func TestSecurityIsTheDefault(t *testing.T) {
	s := start(t) // offers no TLS
	for addr, plain := range map[string]bool{
		"127.0.0.1:25": true, "[::1]:587": true, "localhost:25": true,
		"mail.example:25": false, "mail.example:587": false, "192.0.2.1:25": false, "127.0.0.1:465": false,
	} {
		m := newSender(t, s, func(c *mail.Config[string]) {
			c.Addr = addr
			c.Dial = func(ctx context.Context, _, to string) (net.Conn, error) {
				if to != addr {
					return nil, fmt.Errorf("%s instead of %s", to, addr)
				}
				var d net.Dialer
				return d.DialContext(ctx, "tcp", s.addr)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := m.Send(ctx, items)
		cancel()
		if plain {
			require.NoError(t, err, addr)
		} else {
			require.Error(t, err, addr)
		}
	}
	assert.Len(t, s.got(), 3)
}
