package main

import (
	"context"
	"errors"
	"net"
	netmail "net/mail"
	"strconv"

	"github.com/wneessen/go-mail"

	"github.com/sendonce/sendonce"
)

// mailer sends over SMTP and keeps its connections: as many as there are sends
// at once.
type mailer struct {
	host, helo string
	port       int
	idle       chan *line
}

// line is a connection to the mail server.
type line struct {
	*mail.Client
	conn net.Conn
}

func newMailer(addr, helo string, connections int) *mailer {
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return &mailer{host: host, port: n, helo: helo, idle: make(chan *line, connections)}
}

func (m *mailer) close() {
	for {
		select {
		case l := <-m.idle:
			_ = l.Close()
		default:
			return
		}
	}
}

// deliver sends one mail, and says what is known about it afterwards.
func (m *mailer) deliver(ctx context.Context, item sendonce.Item[Mail]) error {
	msg, err := message(item)
	if err != nil {
		return sendonce.Permanent(err)
	}
	for {
		l, kept, err := m.line(ctx)
		if err != nil {
			return sendonce.NotSent(err)
		}
		// Send takes no context: closing the connection ends its wait.
		stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
		err = l.Send(msg)
		open := stop()
		if open && answered(err) {
			m.keep(l)
			return verdict(err)
		}
		// Not QUIT: it would end a message that was broken off as if it were whole.
		_ = l.conn.Close()
		if kept && notBegun(err) {
			continue // the server has closed a connection that waited for too long
		}
		return verdict(err)
	}
}

// message is the mail. Its Message-ID is the same for each try of the row, so
// that whoever gets it twice can tell.
func message(item sendonce.Item[Mail]) (*mail.Msg, error) {
	msg := mail.NewMsg()
	to := netmail.Address{Name: item.Value.Name, Address: item.Value.Address}
	if err := errors.Join(msg.From("Quick start <news@sender.example>"), msg.To(to.String())); err != nil {
		return nil, err
	}
	msg.SetMessageIDWithValue(messageID(item))
	msg.SetDate()
	msg.Subject("Sent once")
	msg.SetBodyString(mail.TypeTextPlain, "Dear "+item.Value.Name+",\n\nthis mail comes once.\n")
	return msg, nil
}

func messageID(item sendonce.Item[Mail]) string {
	return item.IdempotencyKey + "@sender.example"
}

// line returns a kept connection, or a new one.
func (m *mailer) line(ctx context.Context) (l *line, kept bool, err error) {
	select {
	case l := <-m.idle:
		return l, true, nil
	default:
	}
	l = &line{}
	stop := func() bool { return true }
	dial := func(dialCtx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(dialCtx, network, address)
		if err == nil {
			l.conn = conn
			stop = context.AfterFunc(ctx, func() { _ = conn.Close() }) // go-mail's greeting takes no context
		}
		return conn, err
	}
	// The connection is to this machine, so there is nothing to encrypt. Without
	// RSET after each mail, success is success and not half of it.
	l.Client, err = mail.NewClient(m.host, mail.WithPort(m.port), mail.WithHELO(m.helo), mail.WithTLSPolicy(mail.NoTLS),
		mail.WithoutRset(), mail.WithDialContextFunc(dial))
	if err != nil {
		return nil, false, err
	}
	err = l.DialWithContext(ctx)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil && l.conn != nil {
		_ = l.conn.Close()
	}
	return l, false, err
}

func (m *mailer) keep(l *line) {
	select {
	case m.idle <- l:
	default:
		_ = l.Close()
	}
}

// answered reports whether the server has said yes or no, so that the connection
// can be used again.
func answered(err error) bool {
	var failed *mail.SendError
	return err == nil || errors.As(err, &failed) && failed.ErrorCode() != 0
}

// notBegun reports whether go-mail found the connection broken before it spoke
// of the mail.
func notBegun(err error) bool {
	var failed *mail.SendError
	return errors.As(err, &failed) && failed.Reason == mail.ErrConnCheck
}

// verdict says what an error of SMTP means for the row.
func verdict(err error) error {
	var failed *mail.SendError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &failed):
		return sendonce.Ambiguous(err)
	case failed.ErrorCode() >= 500:
		return sendonce.Permanent(err) // the server will never take it
	case failed.ErrorCode() >= 400:
		return sendonce.NotSent(err) // the server has not taken it
	case failed.Reason == mail.ErrSMTPDataClose:
		return sendonce.Ambiguous(err) // the final dot is out, and no answer came
	default:
		return sendonce.NotSent(err) // without the final dot there is no mail
	}
}
