package memclaim

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
)

// ErrStopped is the answer to tasks that an Executor had not begun when it
// stopped, and to those that come after that.
var ErrStopped = errors.New("sendonce: the executor has stopped")

// PanicError is the answer to a task that panicked, or ended its goroutine by
// runtime.Goexit.
type PanicError struct {
	Value any // nil after Goexit
	Stack []byte
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "sendonce: the task called runtime.Goexit"
	}
	return fmt.Sprintf("sendonce: the task panicked: %v", e.Value)
}

// ExecutorOptions tune an Executor. The zero value works.
type ExecutorOptions struct {
	// Concurrency is how many keys are at work at once. Default: 16.
	Concurrency int

	// Timeout is how long one task may take: then its context ends. Default: 10 s.
	Timeout time.Duration

	// StopTimeout is how long tasks may go on after Run's context has ended.
	// Default: Timeout.
	StopTimeout time.Duration

	// Logger is told of tasks that ignore the end of their context.
	// Default: slog.Default().
	Logger *slog.Logger
}

// Executor does tasks in this process: those of one key one at a time, strictly by
// (time stamp, order of arrival), and many keys side by side. With one key for all
// it is serial for the whole process. A task that fails, panics or is cancelled
// holds up none of those behind it; one that ignores the end of its context does,
// for two tasks of a key are never at work at one time. A key costs memory only
// while it has tasks. Nothing outlives the process: for that there are tables.
//
// Its loop is a Dispatcher on a table in memory, in which a row is a key's turn.
type Executor[V, R any] struct {
	do   func(ctx context.Context, v V) (R, error)
	loop *sendonce.Dispatcher[string]
	rows *Claimer[string]
	wake chan struct{}

	mu      sync.Mutex
	lanes   map[string]*lane[V, R]
	arrived int64
	turns   int64
	stopped bool
}

// lane is a key with tasks.
type lane[V, R any] struct {
	tasks taskHeap[V, R]
	busy  bool // one of them is at work
}

type task[V, R any] struct {
	at      time.Time
	arrival int64
	ctx     context.Context
	v       V
	result  R
	err     error
	done    chan struct{}
	begun   bool
}

// NewExecutor makes an Executor of a function. Nothing is done until Run is called.
// do is called from several goroutines, for several keys.
func NewExecutor[V, R any](do func(ctx context.Context, v V) (R, error), o *ExecutorOptions) (*Executor[V, R], error) {
	if do == nil {
		return nil, errors.New("sendonce: NewExecutor needs a function")
	}
	if o == nil {
		o = &ExecutorOptions{}
	}
	e := &Executor[V, R]{do: do, rows: New[string](&Options{ForgetDone: true}), wake: make(chan struct{}, 1), lanes: map[string]*lane[V, R]{}}
	var err error
	e.loop, err = sendonce.New(e.rows, sendonce.SenderFunc[string](e.turn), sendonce.Config{
		Concurrency: o.Concurrency, SendTimeout: o.Timeout, StopTimeout: o.StopTimeout, Logger: o.Logger, Wake: e.wake,
	})
	return e, err
}

// Run does tasks until ctx ends: then those that are at work have StopTimeout, and
// the others are answered with ErrStopped. It is called once.
func (e *Executor[V, R]) Run(ctx context.Context) error {
	err := e.loop.Run(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for _, l := range e.lanes {
		for _, t := range l.tasks {
			t.finish(ErrStopped)
		}
	}
	clear(e.lanes)
	return err
}

// Do adds a task, with this moment as its time stamp, and waits for its result.
// When ctx ends before the task begins, it is taken back; when it ends later, the
// task's context ends. That has the values of ctx, and then those of Run's. Any number of goroutines may call it.
func (e *Executor[V, R]) Do(ctx context.Context, key string, v V) (R, error) {
	return e.DoAt(ctx, time.Now(), key, v)
}

// DoAt is Do with a time stamp. It gives a place in the order and is nothing to
// wait for: a task that is first is done at once, also if its time is to come.
func (e *Executor[V, R]) DoAt(ctx context.Context, at time.Time, key string, v V) (R, error) {
	t := &task[V, R]{at: at, ctx: ctx, v: v, done: make(chan struct{})}
	if err := e.add(key, t); err != nil {
		return t.result, err
	}
	select {
	case <-t.done:
		return t.result, t.err
	case <-ctx.Done():
	}
	if e.takeBack(key, t) {
		return t.result, context.Cause(ctx)
	}
	<-t.done // its context has ended, and it may take a moment to obey
	return t.result, t.err
}

func (e *Executor[V, R]) add(key string, t *task[V, R]) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return ErrStopped
	}
	l := e.lanes[key]
	if l == nil {
		l = &lane[V, R]{}
		e.lanes[key] = l
		if err := e.giveTurn(key); err != nil {
			return err
		}
	}
	e.arrived++
	t.arrival = e.arrived
	heap.Push(&l.tasks, t)
	return nil
}

// giveTurn adds a row for a key. e.mu is held.
func (e *Executor[V, R]) giveTurn(key string) error {
	e.turns++
	if err := e.rows.Add(Row[string]{Key: e.turns, Value: key}); err != nil {
		return err
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return nil
}

// takeBack removes a task that was not begun. Its key keeps its turn, which then
// finds one task less.
func (e *Executor[V, R]) takeBack(key string, t *task[V, R]) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[key]
	if t.begun || l == nil {
		return false
	}
	for i, other := range l.tasks {
		if other == t {
			heap.Remove(&l.tasks, i)
			return true
		}
	}
	return false
}

// turn does the first task of a key. It is a Send that always succeeds: what the
// task says is its caller's.
func (e *Executor[V, R]) turn(ctx context.Context, item sendonce.Item[string]) error {
	t := e.first(item.Value)
	if t == nil {
		return nil
	}
	defer e.next(item.Value)
	e.run(ctx, t)
	return nil
}

// first takes the first task of a key that somebody still waits for.
func (e *Executor[V, R]) first(key string) *task[V, R] {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[key]
	// A turn whose goroutine a task has ended comes again: its key has had another
	// one meanwhile.
	if l == nil || l.busy {
		return nil
	}
	for l.tasks.Len() > 0 {
		t := heap.Pop(&l.tasks).(*task[V, R])
		if t.ctx.Err() != nil {
			t.finish(context.Cause(t.ctx))
			continue
		}
		t.begun, l.busy = true, true
		return t
	}
	delete(e.lanes, key)
	return nil
}

// next gives the key another turn if it has more to do.
func (e *Executor[V, R]) next(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[key]
	if l == nil { // Run has returned
		return
	}
	if l.busy = false; l.tasks.Len() == 0 {
		delete(e.lanes, key)
		return
	}
	_ = e.giveTurn(key) // the row's key is new: it can't fail
}

// run does one task, whatever it does.
func (e *Executor[V, R]) run(ctx context.Context, t *task[V, R]) {
	ctx, cancel := context.WithCancelCause(valued{ctx, context.WithoutCancel(t.ctx)})
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	err := error(&PanicError{Stack: nil}) // unless it returns
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		t.finish(err)
	}()
	t.result, err = e.do(ctx, t.v)
}

// valued is a context with the values of another one before its own.
type valued struct {
	context.Context
	// others is WithoutCancel: package context looks for who cancels a context by a
	// value, and is not to find the wrong one.
	others context.Context
}

// Value implements context.Context.
func (c valued) Value(key any) any {
	if v := c.others.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

func (t *task[V, R]) finish(err error) {
	t.err = err
	close(t.done)
}

// taskHeap orders tasks by time stamp and arrival.
type taskHeap[V, R any] []*task[V, R]

func (h taskHeap[V, R]) Len() int { return len(h) }

func (h taskHeap[V, R]) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].arrival < h[j].arrival
}

func (h taskHeap[V, R]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *taskHeap[V, R]) Push(x any) { *h = append(*h, x.(*task[V, R])) }

func (h *taskHeap[V, R]) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
