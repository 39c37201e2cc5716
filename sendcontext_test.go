package sendonce_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
)

// A send's context is what the standard library would make, whoever looks at it
// first, and whatever ends it.
func TestSendContext(t *testing.T) {
	type key struct{}
	why := errors.New("why")
	looks := map[string]func(ctx context.Context){
		"nobody": func(context.Context) {},
		"Done":   func(ctx context.Context) { ctx.Done() },
		"Err":    func(ctx context.Context) { _ = ctx.Err() },
		"Value":  func(ctx context.Context) { ctx.Value(key{}) },
	}
	ends := map[string]func(lose context.CancelCauseFunc, end func()){
		"time":        func(context.CancelCauseFunc, func()) { time.Sleep(time.Second) },
		"not yet":     func(context.CancelCauseFunc, func()) { time.Sleep(time.Second - 1) },
		"lost":        func(lose context.CancelCauseFunc, _ func()) { lose(why) },
		"answered":    func(_ context.CancelCauseFunc, end func()) { end() },
		"twice, lost": func(lose context.CancelCauseFunc, end func()) { end(); end(); lose(why) },
	}
	for look, first := range looks {
		for what, happens := range ends {
			t.Run(look+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, lose := context.WithCancelCause(context.WithValue(t.Context(), key{}, 7))
					defer lose(nil)
					deadline := time.Now().Add(time.Second)
					ours, end := sendonce.NewSendContext(parent, deadline)
					std, cancel := context.WithDeadline(parent, deadline)
					defer end()
					first(ours)
					happens(lose, func() { end(); cancel() })
					synctest.Wait()
					assert.Equal(t, std.Err(), ours.Err())
					assert.Equal(t, context.Cause(std), context.Cause(ours))
					at, ok := ours.Deadline()
					assert.True(t, ok)
					assert.Equal(t, deadline, at)
					assert.Equal(t, 7, ours.Value(key{}))
					child, stop := context.WithCancel(ours)
					defer stop()
					assert.Equal(t, std.Err(), child.Err())
					cancel()
					end()
					synctest.Wait()
					require.Error(t, child.Err())
					assert.Equal(t, std.Err(), ours.Err())
					<-ours.Done()
				})
			})
		}
	}
}

// It needs no goroutine of its own, nor does what derives from it.
func TestSendContextIsWaitedForByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if one is left
		ours, end := sendonce.NewSendContext(context.Background(), time.Now().Add(time.Hour))
		for range 3 {
			_, stop := context.WithCancel(ours)
			defer stop()
		}
		end()
	})
}
