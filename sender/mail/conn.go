package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

var (
	errNoTLS   = errors.New("the server offers no STARTTLS; set Config.Security to Plain if that is acceptable")
	errNoAuth  = errors.New("the server offers no way to log in that we know")
	errChatter = errors.New("the server went on talking in the clear after STARTTLS")
	errNoUTF8  = errors.New("an address is not ASCII, and the server doesn't take those (SMTPUTF8)")
)

// conn is a connection to the server, greeted and logged in.
type conn struct {
	*smtp.Client
	line   *line
	expiry *time.Timer // while it is idle
}

// line is the network connection below. Deadlines are ours: the client's own are
// minutes, and would undo them.
type line struct {
	net.Conn
	failed bool // a Write has not taken all that it was given
}

func (l *line) SetDeadline(time.Time) error      { return nil }
func (l *line) SetReadDeadline(time.Time) error  { return nil }
func (l *line) SetWriteDeadline(time.Time) error { return nil }

func (l *line) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	l.failed = l.failed || n < len(p)
	return n, err
}

// under makes the end of ctx end all waiting on the line. The function that it
// returns ends that, and reports whether the line is still good.
func (l *line) under(ctx context.Context) (release func() bool) {
	return context.AfterFunc(ctx, func() { _ = l.Conn.SetDeadline(time.Unix(1, 0)) })
}

// connect makes a connection that is ready for a mail.
func (c *Config[T]) connect(ctx context.Context) (*conn, error) {
	raw, err := c.Dial(ctx, "tcp", c.Addr)
	if err != nil {
		return nil, &broken{Connect, err}
	}
	l := &line{Conn: raw}
	release := l.under(ctx)
	client, err := c.open(ctx, l)
	if !release() && err == nil {
		err = &broken{Connect, context.Cause(ctx)}
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return &conn{Client: client, line: l}, nil
}

func (c *Config[T]) open(ctx context.Context, l *line) (*smtp.Client, error) {
	wire := net.Conn(l)
	var err error
	switch c.Security {
	case STARTTLS:
		wire, err = startTLS(ctx, l, c.Hello, c.TLS)
	case ImplicitTLS:
		secured := tls.Client(l, c.TLS)
		wire, err = secured, at(Connect, secured.HandshakeContext(ctx))
	}
	if err != nil {
		return nil, err
	}
	client := smtp.NewClient(wire)
	if err := client.Hello(c.Hello); err != nil {
		return nil, at(Hello, err)
	}
	if c.Username == "" && c.SASL == nil {
		return client, nil
	}
	mechanism, err := c.mechanism(client)
	if err != nil {
		return nil, &broken{Auth, err}
	}
	if err := client.Auth(mechanism); err != nil {
		return nil, at(Auth, err)
	}
	return client, nil
}

// mechanism is how to log in.
func (c *Config[T]) mechanism(client *smtp.Client) (sasl.Client, error) {
	switch {
	case c.SASL != nil:
		return c.SASL()
	case client.SupportsAuth(sasl.Plain):
		return sasl.NewPlainClient("", c.Username, c.Password), nil
	case client.SupportsAuth(sasl.Login):
		return sasl.NewLoginClient(c.Username, c.Password), nil
	}
	return nil, errNoAuth
}

// startTLS speaks what comes before TLS itself: the client's own way says EHLO
// with a name that some servers refuse.
func startTLS(ctx context.Context, l *line, hello string, cfg *tls.Config) (net.Conn, error) {
	text := textproto.NewConn(l)
	if _, _, err := text.ReadResponse(220); err != nil {
		return nil, at(Hello, err)
	}
	offers, err := command(text, 250, "EHLO "+hello)
	if err != nil {
		return nil, at(Hello, err)
	}
	if !slices.ContainsFunc(strings.Split(offers, "\n"), func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), "STARTTLS") }) {
		return nil, &broken{StartTLS, errNoTLS}
	}
	if _, err := command(text, 220, "STARTTLS"); err != nil {
		return nil, at(StartTLS, err)
	}
	if text.R.Buffered() > 0 { // it would count as said under TLS
		return nil, &broken{StartTLS, errChatter}
	}
	secured := tls.Client(l, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, &broken{StartTLS, err}
	}
	return &greeted{Conn: secured, greeting: strings.NewReader("220 greeted before\r\n")}, nil
}

func command(text *textproto.Conn, expect int, line string) (string, error) {
	if err := text.PrintfLine("%s", line); err != nil {
		return "", err
	}
	_, msg, err := text.ReadResponse(expect)
	return msg, err
}

// greeted gives the client the greeting that it waits for: the server's came
// before TLS.
type greeted struct {
	net.Conn
	greeting *strings.Reader
}

func (g *greeted) Read(p []byte) (int, error) {
	if g.greeting.Len() > 0 {
		return g.greeting.Read(p)
	}
	return g.Conn.Read(p)
}

// deliver sends a mail and reports whether the connection may be used again.
func (c *conn) deliver(ctx context.Context, m *envelope) (reuse bool, err error) {
	release := c.line.under(ctx)
	err = c.speak(m)
	reuse = err == nil
	var r *Refusal
	if errors.As(err, &r) {
		reuse = r.Code != 421 && r.Code != 503
		if reuse && (r.Stage == Rcpt || r.Stage == Data) {
			reuse = c.Reset() == nil
		}
	} else if errors.Is(err, errNoUTF8) {
		reuse = true
	}
	return release() && reuse, err
}

func (c *conn) speak(m *envelope) error {
	if m.utf8 {
		if ok, _ := c.Extension("SMTPUTF8"); !ok {
			return errNoUTF8
		}
	}
	if err := c.Mail(m.from, &smtp.MailOptions{Size: int64(len(m.text)), UTF8: m.utf8}); err != nil {
		return at(Mail, err)
	}
	for _, to := range m.to {
		if err := c.Rcpt(to, nil); err != nil {
			return at(Rcpt, err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return at(Data, err)
	}
	if _, err := w.Write(m.text); err != nil {
		return at(Body, err)
	}
	_, err = w.CloseWithResponse()
	if err != nil && c.line.failed {
		return at(Body, err) // the dot is the last that is written, and not all was
	}
	return at(AfterDot, err)
}

// quit takes leave, for a moment at the most. It is for connections between
// mails: in the middle of one, QUIT would end it as if it were whole.
func (c *conn) quit() {
	_ = c.line.Conn.SetDeadline(time.Now().Add(time.Second))
	_ = c.Quit()
	_ = c.line.Conn.Close()
}
