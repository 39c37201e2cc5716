package sendonce_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/sender/sendertest"
)

// The tests of the loop run on memclaim in fake time (testing/synctest): a
// goroutine or timer that is left behind fails them.

var errFlaky = errors.New("the provider is busy")

// step replaces one kind of call to a store: it may fail, hang, or act and lose
// the reply. act is the call itself.
type step func(ctx context.Context, act func(ctx context.Context) error) error

func (s *step) do(ctx context.Context, act func(ctx context.Context) error) error {
	if s == nil {
		return act(ctx)
	}
	return (*s)(ctx, act)
}

// store is one process's line to a table, with faults.
type store struct {
	*memclaim.Claimer[string]
	onClaim, onExtend, onSettle, onBegin, onReap atomic.Pointer[step]
	claims, extends, settles                     atomic.Int64
}

func on(p *atomic.Pointer[step], s step) { p.Store(&s) }

func fails(err error) step {
	return func(context.Context, func(context.Context) error) error { return err }
}

func hangs(ctx context.Context, _ func(context.Context) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// delayed acts after that time, if its context allows.
func delayed(d time.Duration) step {
	return func(ctx context.Context, act func(context.Context) error) error {
		if err := pause(ctx, d); err != nil {
			return err
		}
		return act(ctx)
	}
}

// losesReply acts, and says that it did not.
func losesReply(ctx context.Context, act func(context.Context) error) error {
	return errors.Join(errors.New("the connection broke"), act(ctx))
}

func (s *store) Claim(ctx context.Context, req sendonce.ClaimRequest) (b sendonce.Batch[string], err error) {
	s.claims.Add(1)
	err = s.onClaim.Load().do(ctx, func(ctx context.Context) error { b, err = s.Claimer.Claim(ctx, req); return err })
	if err != nil {
		b = sendonce.Batch[string]{}
	}
	return b, err
}

func (s *store) Extend(ctx context.Context, tokens []int64) (e sendonce.Extension, err error) {
	s.extends.Add(1)
	err = s.onExtend.Load().do(ctx, func(ctx context.Context) error { e, err = s.Claimer.Extend(ctx, tokens); return err })
	return e, err
}

func (s *store) Settle(ctx context.Context, rs []sendonce.Result) (es []sendonce.Exception, err error) {
	s.settles.Add(1)
	err = s.onSettle.Load().do(ctx, func(ctx context.Context) error { es, err = s.Claimer.Settle(ctx, rs); return err })
	return es, err
}

func (s *store) Begin(ctx context.Context, refs []sendonce.Ref) (lost []sendonce.Ref, err error) {
	err = s.onBegin.Load().do(ctx, func(ctx context.Context) error { lost, err = s.Claimer.Begin(ctx, refs); return err })
	return lost, err
}

func (s *store) Reap(ctx context.Context, req sendonce.ReapRequest) (r sendonce.Reaped, err error) {
	err = s.onReap.Load().do(ctx, func(ctx context.Context) error { r, err = s.Claimer.Reap(ctx, req); return err })
	return r, err
}

// world is a table of n rows with the keys 1 to n, and what was sent.
type world struct {
	*testing.T
	table *memclaim.Claimer[string]
	log   *sendertest.Recorder[string]
}

// inFakeTime runs f in a bubble of its own.
func inFakeTime(t *testing.T, n int, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, table: memclaim.New[string](nil), log: sendertest.New[string](sendonce.BatchSenderFunc[string](route))}
		for i := range n {
			require.NoError(t, w.table.Add(memclaim.Row[string]{Key: i + 1, Value: fmt.Sprintf("a%d@example.org", i+1)}))
		}
		f(w)
	})
}

// store is a new process's line.
func (w *world) store() *store { return &store{Claimer: w.table.Process()} }

// send is what a Sender does with one row.
type send func(ctx context.Context, m sendonce.Item[string]) error

func sent(context.Context, sendonce.Item[string]) error { return nil }

// slow takes d, or ends with its context.
func slow(d time.Duration) send {
	return func(ctx context.Context, _ sendonce.Item[string]) error { return pause(ctx, d) }
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dispatcher makes a Dispatcher whose sends are recorded in w.log.
func (w *world) dispatcher(c sendonce.Claimer[string], f send, cfg sendonce.Config) *sendonce.Dispatcher[string] {
	w.Helper()
	return w.dispatcherOf(c, sendonce.SenderFunc[string](f), cfg)
}

func (w *world) dispatcherOf(c sendonce.Claimer[string], s sendonce.Sender[string], cfg sendonce.Config) *sendonce.Dispatcher[string] {
	w.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	// One log for all: it finds the Sender of each by the context.
	logged := sendonce.BatchSenderFunc[string](func(ctx context.Context, items []sendonce.Item[string]) error {
		return w.log.Send(context.WithValue(ctx, senderOf{}, s), items)
	})
	d, err := sendonce.New[string](c, logged, cfg)
	require.NoError(w, err)
	return d
}

func (w *world) drain(d *sendonce.Dispatcher[string]) sendonce.Stats {
	w.Helper()
	stats, err := d.Drain(w.Context())
	require.NoError(w, err)
	return stats
}

type senderOf struct{}

func route(ctx context.Context, items []sendonce.Item[string]) error {
	return ctx.Value(senderOf{}).(sendonce.Sender[string]).Send(ctx, items)
}

// running is a Dispatcher at work.
type running struct {
	*sendonce.Dispatcher[string]
	cancel context.CancelFunc
	end    chan struct{}
	err    error
}

func (w *world) start(d *sendonce.Dispatcher[string]) *running {
	ctx, cancel := context.WithCancel(w.Context())
	r := &running{Dispatcher: d, cancel: cancel, end: make(chan struct{})}
	go func() { defer close(r.end); r.err = d.Run(ctx) }()
	return r
}

func (r *running) stop() error {
	r.cancel()
	<-r.end
	return r.err
}

// after waits for d, and then until nothing moves.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) row(key int) memclaim.Row[string] {
	w.Helper()
	r, ok := w.table.Row(key)
	require.True(w, ok)
	return r
}

// states is how many rows are in each state.
func (w *world) states() map[string]int {
	m := map[string]int{}
	for _, r := range w.table.Rows() {
		m[r.Status]++
	}
	return m
}

// sentOnce asserts that each of the rows 1 to n was sent once and is done.
func (w *world) sentOnce(n int) {
	w.Helper()
	assert.Equal(w, n, w.states()[memclaim.Done])
	assert.Len(w, w.table.Rows(), n)
	assert.Empty(w, w.log.MoreThanOnce())
	assert.Equal(w, n, w.log.Count())
	assert.Empty(w, w.table.Holders(), "claims that were not ended")
}

// tally counts events by name, from any goroutine.
type tally struct {
	mu sync.Mutex
	m  map[string]int
}

func (c *tally) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]int{}
	}
	c.m[name]++
}

func (c *tally) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[name]
}
