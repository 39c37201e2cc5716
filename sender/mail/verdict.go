package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/sendonce/sendonce"
)

// Stage is what was being done when something failed.
type Stage string

// The stages of a mail, in order. Only AfterDot is after the dot that ends it.
const (
	Connect  Stage = "connecting"
	Hello    Stage = "greeting and EHLO"
	StartTLS Stage = "STARTTLS"
	Auth     Stage = "AUTH"
	Mail     Stage = "MAIL"
	Rcpt     Stage = "RCPT"
	Data     Stage = "DATA"
	Body     Stage = "the body"
	AfterDot Stage = "the final dot"
)

// beforeMail reports whether nothing of the mail itself was said yet.
func (s Stage) beforeMail() bool {
	return s == Connect || s == Hello || s == StartTLS || s == Auth
}

// Refusal is a server's definite no. It is wrapped in what a Sender returns.
type Refusal struct {
	Stage    Stage
	Code     int    // 400 to 599
	Enhanced string // such as "4.7.1" (RFC 3463), or empty
	Text     string
}

// Error says what was refused, and in which words.
func (r *Refusal) Error() string {
	code := fmt.Sprint(r.Code)
	if r.Enhanced != "" {
		code += " " + r.Enhanced
	}
	return fmt.Sprintf("%s was answered %s %s", r.Stage, code, strings.ReplaceAll(r.Text, "\n", " "))
}

// broken is a conversation that ended without an answer, or with one that is none.
type broken struct {
	stage Stage
	err   error
}

func (b *broken) Error() string { return fmt.Sprintf("no answer to %s: %v", b.stage, b.err) }
func (b *broken) Unwrap() error { return b.err }

// at says at which stage err came, and whether it is an answer.
func at(stage Stage, err error) error {
	if err == nil {
		return nil
	}
	r := &Refusal{Stage: stage}
	var answer *smtp.SMTPError
	var plain *textproto.Error
	switch {
	case errors.As(err, &answer):
		r.Code, r.Text = answer.Code, answer.Message
		if e := answer.EnhancedCode; e != (smtp.EnhancedCode{}) {
			r.Enhanced = fmt.Sprintf("%d.%d.%d", e[0], e[1], e[2])
		}
	case errors.As(err, &plain):
		r.Code, r.Text = plain.Code, plain.Msg
	}
	switch {
	case r.Code >= 400 && r.Code <= 599:
		return r
	case r.Code >= 200 && r.Code <= 299 && stage == AfterDot:
		return nil // another yes than the usual one
	}
	return &broken{stage, err}
}

// unreachable is how long all wait when there is no connection to be had.
const unreachable = 5 * time.Second

// DefaultJudge is what refusals mean if Config.Judge doesn't say otherwise: see
// the table at the top of this package. wait is Config.Wait.
func DefaultJudge(r *Refusal, wait time.Duration) error {
	if r.Stage.beforeMail() || r.Stage == Mail && strings.HasPrefix(r.Enhanced, "5.7.") {
		return sendonce.Throttled(wait, r)
	}
	switch r.Code {
	case 421, 454, 530, 534, 535, 538:
		return sendonce.Throttled(wait, r)
	case 503:
		return sendonce.NotSent(r)
	case 552:
		if r.Stage == Rcpt {
			return sendonce.NotSent(r)
		}
	}
	if r.Code < 500 {
		return sendonce.NotSent(r)
	}
	return sendonce.Permanent(r)
}

// verdict says what an error means for the row.
func (c *Config[T]) verdict(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var r *Refusal
	if errors.As(err, &r) {
		return c.Judge(r)
	}
	var b *broken
	if !errors.As(err, &b) { // found before a word was said
		return sendonce.Permanent(err)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w (%w)", err, cause)
		if !errors.Is(cause, context.DeadlineExceeded) && b.stage != AfterDot {
			return sendonce.NotSent(err) // it is we who stop: nobody else has to
		}
	}
	var untrusted *tls.CertificateVerificationError
	switch {
	case b.stage == AfterDot:
		return sendonce.Ambiguous(err)
	case errors.As(err, &untrusted), errors.Is(err, errNoTLS), errors.Is(err, errNoAuth):
		return sendonce.Throttled(c.Wait, err)
	case b.stage.beforeMail():
		return sendonce.Throttled(min(unreachable, c.Wait), err)
	}
	return sendonce.NotSent(err)
}
