package claimtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
)

func raceCases[T any]() []testCase[T] {
	return []testCase[T]{
		{name: "OneHolder", says: "Until its lease is over no other Claim returns a row.", rows: 200, handles: 4, run: oneHolder[T]},
		{name: "AllAtOnce", says: "Methods are called from several goroutines at once; a row is held by one claim at a time and none is lost.", rows: 120, handles: 4, run: allAtOnce[T]},
		{name: "SettleAndExtendRace", says: "Results of one claim are recorded side by side, while it is extended.", rows: 60, handles: 2, run: settleRace[T]},
	}
}

// ledger knows who holds what, outside of the store.
type ledger struct {
	mu     sync.Mutex
	holder map[sendonce.Key]int64 // the token; 0: nobody
	claims map[int64]bool
	done   map[sendonce.Key]bool
	first  error
}

func newLedger() *ledger {
	return &ledger{holder: map[sendonce.Key]int64{}, claims: map[int64]bool{}, done: map[sendonce.Key]bool{}}
}

func (l *ledger) fault(format string, args ...any) {
	if l.first == nil {
		l.first = fmt.Errorf(format, args...)
	}
}

// note takes down a claim's rows.
func note[T any](l *ledger, b sendonce.Batch[T], req sendonce.ClaimRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := checkBatch(b, req); err != nil {
		l.fault("%w", err)
	}
	if len(b.Items) > 0 && l.claims[b.Token] {
		l.fault("token %d was used twice", b.Token)
	}
	l.claims[b.Token] = true
	for _, it := range b.Items {
		switch {
		case l.done[it.Key]:
			l.fault("row %v is handed out though it is done", it.Key)
		case l.holder[it.Key] != 0:
			l.fault("row %v is handed out by claim %d while claim %d holds it", it.Key, b.Token, l.holder[it.Key])
		}
		l.holder[it.Key] = b.Token
	}
}

// letGo is called before the result is given to the store.
func (l *ledger) letGo(r sendonce.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder[r.Key] = 0
	if r.Outcome == sendonce.Done {
		l.done[r.Key] = true
	}
}

func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault(format, args...)
}

// state is the number of rows that are held or done, and the first fault.
func (l *ledger) state() (held, done int, fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, token := range l.holder {
		if token != 0 {
			held++
		}
	}
	return held, len(l.done), l.first
}

// worker calls a store as a Dispatcher would, and repeats what asks for it.
type worker[T any] struct {
	e *env[T]
	l *ledger
	c sendonce.Claimer[T]
}

func (w *worker[T]) again(what string, call func() error) bool {
	for try := 0; ; try++ {
		err := call()
		if err == nil {
			return true
		}
		if try == 50 || !sendonce.IsTransient(err) {
			w.l.fail("%s: %w", what, err)
			return false
		}
		time.Sleep(time.Duration(1+rand.IntN(5*(try+1))) * time.Millisecond)
	}
}

func (w *worker[T]) claim(req sendonce.ClaimRequest) (b sendonce.Batch[T]) {
	w.again("Claim", func() (err error) {
		b, err = w.c.Claim(w.e.ctx, req)
		return err
	})
	note(w.l, b, req)
	return b
}

func (w *worker[T]) settle(rs ...sendonce.Result) {
	for _, r := range rs {
		w.l.letGo(r)
	}
	w.again("Settle", func() error {
		es, err := w.c.Settle(w.e.ctx, rs)
		if len(es) > 0 {
			return fmt.Errorf("recording %v for row %v was answered with: %v", es[0].Result.Outcome, es[0].Result.Key, es[0].Cause)
		}
		return err
	})
}

// together runs f by each handle in n goroutines, until ok says that it is
// enough, a fault is found or patience ends.
func (e *env[T]) together(n int, l *ledger, ok func() bool, f func(w *worker[T])) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, e.h.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range e.s.Claimers {
		for range n {
			wg.Go(func() {
				for ctx.Err() == nil && !ok() {
					if _, _, fault := l.state(); fault != nil {
						return
					}
					f(&worker[T]{e: e, l: l, c: c})
					time.Sleep(time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
	held, done, fault := l.state()
	if fault != nil {
		e.failf("%v", fault)
	}
	if !ok() {
		e.failf("after %v of %d rows %d are held and %d done", e.h.Patience, len(e.s.Keys), held, done)
	}
}

func oneHolder[T any](e *env[T]) {
	l := newLedger()
	all := func() bool { held, _, _ := l.state(); return held == len(e.s.Keys) }
	e.together(2, l, all, func(w *worker[T]) { w.claim(e.ask(7)) })
	e.nothing("all are claimed")
	for _, key := range e.s.Keys {
		e.stands(key, Claimed, 1)
	}
}

func allAtOnce[T any](e *env[T]) {
	l := newLedger()
	all := func() bool { _, done, _ := l.state(); return done == len(e.s.Keys) }
	req := e.ask(5)
	req.MaxAttempts = 1 << 20
	e.together(2, l, all, func(w *worker[T]) {
		b := w.claim(req)
		w.aside(b.Token, len(b.Items) > 0)
		var rs []sendonce.Result
		for _, x := range heldBy(b) {
			outcomes := []sendonce.Outcome{sendonce.Done, sendonce.Done, sendonce.Retry, sendonce.Released}
			r := x.is(outcomes[rand.IntN(len(outcomes))])
			if rand.IntN(2) == 0 {
				w.settle(r)
			} else {
				rs = append(rs, r)
			}
		}
		w.settle(rs...)
		if x, ok := w.c.(sendonce.Ender); ok && len(b.Items) > 0 {
			w.again("End", func() error { return x.End(e.ctx, []int64{b.Token}) })
		}
	})
	for _, key := range e.s.Keys {
		e.stands(key, Done, -1)
	}
	e.nothing("all are done")
}

// aside is what a process does besides its sends: none of it may take a row
// from a living claim.
func (w *worker[T]) aside(token int64, live bool) {
	w.again("Extend", func() error {
		ext, err := w.c.Extend(w.e.ctx, []int64{token})
		if err == nil && live && len(ext.Lost) > 0 {
			return fmt.Errorf("claim %d is lost, and it is live", token)
		}
		return err
	})
	if x, ok := w.c.(sendonce.Reaper); ok && rand.IntN(3) == 0 {
		w.again("Reap", func() error {
			out, err := x.Reap(w.e.ctx, sendonce.ReapRequest{MaxAttempts: maxAttempts})
			if out.Returned+out.Dead+out.Unknown > 0 {
				return fmt.Errorf("took live claims: %+v", out)
			}
			return err
		})
	}
	if x, ok := w.c.(sendonce.Counter); ok && rand.IntN(10) == 0 {
		w.again("Counts", func() error { _, err := x.Counts(w.e.ctx); return err })
	}
}

func settleRace[T any](e *env[T]) {
	xs := e.takeAll(0, 60)
	l := newLedger()
	var wg sync.WaitGroup
	for i, x := range xs {
		wg.Go(func() {
			w := &worker[T]{e: e, l: l, c: e.s.Claimers[i%2]}
			if i%10 == 0 {
				w.aside(x.token, true)
			}
			outcomes := []sendonce.Outcome{sendonce.Done, sendonce.Dead}
			w.settle(x.is(outcomes[i%2]))
		})
	}
	wg.Wait()
	if _, _, fault := l.state(); fault != nil {
		e.failf("%v", fault)
	}
	for i, x := range xs {
		e.stands(x.Key, []string{Done, Dead}[i%2], 1)
	}
}
