package unique_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/sender/unique"
)

// forgetful loses each lease at its first renewal.
type forgetful struct{ unique.Store }

func (forgetful) Extend(_ context.Context, key, _ string, _ time.Duration) error {
	return &lock.LostError{Key: key, Reason: lock.Expired}
}

// lost drains rows whose first sends lose their keys, and end with an answer.
func (s *scene) lost(cfg sendonce.Config, answer func(ctx context.Context, m item) error) (doubts []bool) {
	s.Helper()
	s.keys = forgetful{s.keys}
	before := map[sendonce.Key]bool{}
	send := sendonce.BatchSenderFunc[string](func(ctx context.Context, items []item) error {
		each := make(sendonce.ItemErrors, len(items))
		<-ctx.Done()
		for i, m := range items {
			if before[m.Key] {
				doubts = append(doubts, m.InDoubt)
				continue
			}
			before[m.Key], each[i] = true, answer(ctx, m)
		}
		if len(each) == 1 {
			return each[0]
		}
		return each
	})
	s.drain(unique.Options[string]{Lease: 600 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}, cfg, send)
	return doubts
}

// Nobody knows what became of a send whose key was lost, whatever untyped error the
// Sender makes of the end of its context; also if it answers each item by itself.
func TestLostKeyIsDoubt(t *testing.T) {
	for name, answer := range map[string]func(ctx context.Context, m item) error{
		"the context's error": func(ctx context.Context, _ item) error { return ctx.Err() },
		"the cause":           func(ctx context.Context, _ item) error { return context.Cause(ctx) },
		"another error":       func(context.Context, item) error { return errors.New("the connection was cut") },
	} {
		for _, group := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(s *scene) {
					s.add("ann", "bob")
					doubts := s.lost(sendonce.Config{GroupSize: group, Concurrency: 1}, answer)
					assert.Equal(t, []bool{true, true}, doubts)
				})
			})
		}
	}
}

// What the Sender says by a word of sendonce counts, also if its key was lost.
func TestLostKeyKeepsWhatTheSenderKnows(t *testing.T) {
	cut := fmt.Errorf("cut before the first byte: %w", context.Canceled)
	verdicts := map[string]struct {
		answer error
		status string
	}{
		"ann": {sendonce.NotSent(cut), memclaim.Done}, // by the second attempt
		"bob": {sendonce.Permanent(cut), memclaim.Dead},
		"cid": {sendonce.Skip("opted out"), memclaim.Skipped},
		"dan": {sendonce.RetryAfter(time.Second, cut), memclaim.Done},
		"eve": {sendonce.Throttled(time.Second, cut), memclaim.Done},
		"fay": {sendonce.Ambiguous(cut), memclaim.Unknown},
		"gus": {cut, memclaim.Unknown},
		"hal": {nil, memclaim.Done},
	}
	for _, group := range []int{1, len(verdicts)} {
		inBubble(t, func(s *scene) {
			for value := range verdicts {
				s.add(value)
			}
			s.lost(sendonce.Config{GroupSize: group, Concurrency: 1, Delivery: sendonce.AtMostOnce}, func(_ context.Context, m item) error { return verdicts[m.Value].answer })
			require.Len(t, s.rows.Rows(), len(verdicts))
			for _, r := range s.rows.Rows() {
				assert.Equal(t, verdicts[r.Value].status, r.Status, "%s: %s", r.Value, r.Reason)
			}
		})
	}
}
