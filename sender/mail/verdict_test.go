package mail_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/sender/mail"
)

func hello(sendonce.Item[string]) (mail.Message, error) {
	return mail.Message{From: "News <news@sender.example>", To: []string{"ann@example.com"}, Subject: "Hello", Text: "Dear Ann,\n"}, nil
}

func newSender(t *testing.T, s *server, change ...func(*mail.Config[string])) *mail.Sender[string] {
	t.Helper()
	cfg := mail.Config[string]{Addr: s.addr, Message: hello}
	for _, f := range change {
		f(&cfg)
	}
	m, err := mail.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// result is what one try of a row by a Dispatcher came to.
type result struct {
	outcome  sendonce.Outcome
	attempts int
	wait     time.Duration
	err      error
}

// try runs one row through a Dispatcher, once: what an error means is only seen
// there.
func try(t *testing.T, delivery sendonce.Delivery, s sendonce.Sender[string]) (r result) {
	t.Helper()
	store := memclaim.New[string](nil)
	require.NoError(t, store.Add(memclaim.Row[string]{Key: 1}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d, err := sendonce.New(store, s, sendonce.Config{
		Delivery: delivery, SendTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		Hooks: sendonce.Hooks{Sent: func(_ sendonce.Key, o sendonce.Outcome, _ int, _ time.Duration, err error) {
			r.outcome, r.err = o, err
			cancel()
		}},
	})
	require.NoError(t, err)
	require.NoError(t, d.Run(ctx))
	row, _ := store.Row(1)
	r.attempts, r.wait = row.Attempts, time.Until(row.NextAttempt)
	return r
}

const (
	sent    = "sent"     // done
	dead    = "dead"     // Permanent
	notSent = "not sent" // NotSent: a retry that is charged
	all     = "all wait" // Throttled: a retry that is not
	maybe   = "maybe"    // Ambiguous
)

// stages are all at which a server can fail, and how.
var stages = []struct {
	stage, what string
	want        string
}{
	{"", "", sent},
	{"greeting", "drop", all},
	{"greeting", "hang", all},
	{"greeting", "421 4.7.0 too many connections", all},
	{"greeting", "554 5.3.2 no service here", all},
	{"ehlo", "drop", all},
	{"ehlo", "hang", all},
	{"ehlo", "421 4.3.0 go away", all},
	{"ehlo", "550 5.7.1 go away", all},
	{"mail", "drop", notSent},
	{"mail", "hang", notSent},
	{"mail", "421 4.3.2 closing", all},
	{"mail", "451 4.3.0 try later", notSent},
	{"mail", "452 4.3.1 disk full", notSent},
	{"mail", "503 5.5.1 out of order", notSent},
	{"mail", "530 5.7.0 log in first", all},
	{"mail", "550 5.7.1 your address is blocked", all},
	{"mail", "550 5.1.8 bad sender", dead},
	{"mail", "552 5.3.4 too big", dead},
	{"mail", "nonsense", notSent},
	{"rcpt", "drop", notSent},
	{"rcpt", "hang", notSent},
	{"rcpt", "421 4.3.2 closing", all},
	{"rcpt", "450 4.2.1 mailbox is busy", notSent},
	{"rcpt", "451 4.7.1 greylisted", notSent},
	{"rcpt", "550 5.1.1 no such user", dead},
	{"rcpt", "550 no such user", dead},
	{"rcpt", "552 5.2.2 mailbox is full", notSent},
	{"rcpt", "553 5.1.3 what a name", dead},
	{"data", "drop", notSent},
	{"data", "hang", notSent},
	{"data", "421 4.3.2 closing", all},
	{"data", "451 4.3.0 try later", notSent},
	{"data", "554 5.5.1 no valid recipients", dead},
	{"body", "drop", maybe}, // a short mail is written in one piece
	{"dot", "drop", maybe},
	{"dot", "hang", maybe},
	{"dot", "nonsense", maybe},
	{"dot", "354 go on", maybe},
	{"dot", "251 will do", sent},
	{"dot", "421 4.3.2 closing", all},
	{"dot", "451 4.3.0 try later", notSent},
	{"dot", "452 4.3.1 disk full", notSent},
	{"dot", "550 5.7.1 this is spam", dead},
	{"dot", "552 5.3.4 too big", dead},
	{"dot", "554 5.6.0 no", dead},
}

// The verdict is right under both promises, and what may have been accepted is
// never called not sent.
func TestEveryStageHasItsVerdict(t *testing.T) {
	for _, tt := range stages {
		t.Run(tt.stage+" "+tt.what, func(t *testing.T) {
			t.Parallel()
			for _, delivery := range []sendonce.Delivery{sendonce.AtLeastOnce, sendonce.AtMostOnce} {
				s := start(t, with(tt.stage, tt.what))
				got := try(t, delivery, newSender(t, s))
				check(t, tt.want, delivery, got)
				if tt.want == notSent || tt.want == all || tt.want == dead {
					if tt.stage != "dot" { // where the server is told to say no although it took it
						assert.Empty(t, s.got(), "%v: accepted", delivery)
					}
				}
				var r *mail.Refusal
				if errors.As(got.err, &r) {
					assert.Contains(t, got.err.Error(), tt.what[:3])
				}
			}
		})
	}
}

func check(t *testing.T, want string, delivery sendonce.Delivery, got result) {
	t.Helper()
	text := []any{"%v: %v", delivery, got.err}
	charged := 1
	outcome := sendonce.Retry
	switch {
	case want == sent:
		outcome = sendonce.Done
	case want == dead:
		outcome = sendonce.Dead
	case want == maybe && delivery == sendonce.AtMostOnce:
		outcome = sendonce.Unknown
	case want == all:
		charged = 0
		assert.Greater(t, got.wait, 4*time.Second, text...)
	}
	assert.Equal(t, outcome, got.outcome, text...)
	assert.Equal(t, charged, got.attempts, text...)
}

// A line that breaks in the middle of a mail too long for one piece: the dot was
// never written.
func TestLineThatBreaksInTheBodyIsNotSent(t *testing.T) {
	raw := []byte("Subject: x\n\n" + strings.Repeat(strings.Repeat("x", 70)+"\n", 5_000))
	for _, what := range []string{"drop", "hang"} {
		for _, delivery := range []sendonce.Delivery{sendonce.AtLeastOnce, sendonce.AtMostOnce} {
			s := start(t, with("body", what))
			m := newSender(t, s, func(c *mail.Config[string]) {
				c.Message = func(sendonce.Item[string]) (mail.Message, error) {
					return mail.Message{From: "a@sender.example", To: []string{"b@example.com"}, Raw: raw}, nil
				}
				c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					var d net.Dialer
					c, err := d.DialContext(ctx, network, addr)
					if err == nil {
						err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
					}
					return c, err
				}
			})
			check(t, notSent, delivery, try(t, delivery, m))
			assert.Empty(t, s.got())
		}
	}
}

// cutShort is a line that breaks in the last piece of a mail, just before its dot.
type cutShort struct{ net.Conn }

func (c cutShort) Write(p []byte) (int, error) {
	if !bytes.HasSuffix(p, []byte("\r\n.\r\n")) {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:len(p)-3])
	_ = c.Close()
	return n, io.ErrClosedPipe
}

// The package knows to the byte whether the dot was written.
func TestDotThatWasNotWrittenIsNotSent(t *testing.T) {
	for _, delivery := range []sendonce.Delivery{sendonce.AtLeastOnce, sendonce.AtMostOnce} {
		s := start(t)
		m := newSender(t, s, func(c *mail.Config[string]) {
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				var d net.Dialer
				c, err := d.DialContext(ctx, network, addr)
				return cutShort{c}, err
			}
		})
		check(t, notSent, delivery, try(t, delivery, m))
		assert.Empty(t, s.got())
	}
}
