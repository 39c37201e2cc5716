package sendonce

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"
)

// reasonBytes is how much of an error's text is kept.
const reasonBytes = 2000

var (
	errGoexit   = errors.New("sendonce: the Sender called runtime.Goexit")
	errNoAnswer = errors.New("sendonce: the Sender gave no answer for this item")
)

// panicError is a panic of a Sender.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("the Sender panicked: %v", p.value) }

// call runs the Sender, or the Reconciler. It returns when the Sender does, whatever it does: a
// panic and runtime.Goexit become errors. Goexit ends the goroutine, so the
// caller's goroutine is not the one that it runs in if it comes to that.
func call[T any](ctx context.Context, send func(context.Context, []Item[T]) error, items []Item[T]) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Ambiguous(&panicError{value: v, stack: debug.Stack()})
		}
	}()
	return send(ctx, items)
}

// answerFor is the answer for one item of a call.
func answerFor(err error, i int) error {
	if err == nil {
		return nil
	}
	var each ItemErrors
	if !errors.As(err, &each) {
		return err
	}
	if i >= len(each) {
		return Ambiguous(errNoAnswer)
	}
	return each[i]
}

// answerSafely is answerFor for answers whose methods panic.
func answerSafely(err error, i int) (answer error) {
	defer func() {
		if v := recover(); v != nil {
			answer = Ambiguous(fmt.Errorf("an error of type %T, whose methods panic", err))
		}
	}()
	return answerFor(err, i)
}

// verdictOf is what an answer says of its row; its methods may panic.
func verdictOf(err error) (v verdict) {
	defer func() {
		if recover() != nil {
			v = verdict{}
		}
	}()
	if err == nil {
		return verdict{kind: sentKind}
	}
	var found *verdict
	if errors.As(err, &found) {
		v = *found
	}
	return v
}

// judgeSafely is judge for answers whose methods panic: a typed nil pointer, say.
func (c *Config) judgeSafely(ref Ref, attempt int, err error, i int, ctxErr error, took time.Duration) (r Result, answer error) {
	defer func() {
		if v := recover(); v != nil {
			answer = Ambiguous(fmt.Errorf("an error of type %T, whose methods panic", err))
			r = c.judge(ref, attempt, answer, nil, took)
		}
	}()
	answer = answerFor(err, i)
	return c.judge(ref, attempt, answer, ctxErr, took), answer
}

// delay asks Backoff, which is the user's.
func (c *Config) delay(attempt int) (d time.Duration) {
	defer func() {
		if v := recover(); v != nil {
			c.Logger.Error("sendonce: Config.Backoff panicked; the default is taken", "panic", fmt.Sprint(v))
			d = backoff(attempt)
		}
	}()
	return max(c.Backoff(attempt), 0)
}

// judge turns an answer into a Result (docs/semantics.md, section 8).
func (c *Config) judge(ref Ref, attempt int, err error, ctxErr error, took time.Duration) Result {
	r := Result{Key: ref.Key, Token: ref.Token, Outcome: Done}
	if err == nil {
		return r
	}
	r.Reason = reasonOf(err)
	var v *verdict
	kind := untyped
	if errors.As(err, &v) {
		kind = v.kind
	} else if ctxErr != nil || c.Delivery == AtMostOnce {
		kind = ambiguous
	}
	if kind == ambiguous {
		r.Doubt = max(took, 1)
	}
	switch {
	case kind == expired:
		r.Outcome = Unknown
	case kind == permanent:
		r.Outcome = Dead
	case kind == skip:
		r.Outcome = Skipped
	case kind == retryAfter, kind == throttled:
		r.Outcome, r.After, r.Uncharged = Retry, v.after, true
	case kind == ambiguous && c.Delivery == AtMostOnce:
		r.Outcome = Unknown
	case attempt >= c.MaxAttempts:
		r.Outcome = Dead
		r.Reason = cutText(fmt.Sprintf("attempt %d of %d: %s", attempt, c.MaxAttempts, r.Reason), reasonBytes)
	default:
		r.Outcome, r.After = Retry, c.delay(attempt)
	}
	return r
}

// reasonOf is an error's text, fit to be stored: an Error method may panic, and
// texts may hold anything.
func reasonOf(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("an error of type %T, whose Error method panicked", err)
		}
	}()
	text = err.Error()
	if len(text) > 4*reasonBytes {
		text = text[:4*reasonBytes]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	return cutText(strings.ReplaceAll(text, "\x00", "\uFFFD"), reasonBytes)
}

// cutText cuts at a character's boundary.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
