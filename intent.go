package sendonce

import (
	"context"
	"time"
)

const intentsAtOnce = 1000 // rows in one Begin

// intent is a job that is about to be sent under AtMostOnce, once that is
// recorded.
type intent struct {
	refs []Ref
	lost bool
	err  error
	done chan struct{}
}

// intend records that the rows are about to be sent. After an error they may not
// be.
func (l *loop[T]) intend(s *slot[T]) error {
	in := &intent{refs: make([]Ref, len(s.rows)), done: make(chan struct{})}
	for i, a := range s.rows {
		in.refs[i] = Ref{Key: a.key, Token: s.b.token}
	}
	l.mu.Lock()
	if l.noIntents {
		l.mu.Unlock()
		return ErrStopping
	}
	l.intents = append(l.intents, in)
	l.intended.Signal()
	l.mu.Unlock()
	<-in.done
	if in.err != nil {
		return in.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := context.Cause(l.work); err != nil {
		return err
	}
	if in.lost || !s.b.mayBegin() || !l.inTime(&s.job, time.Now()) {
		return ErrLost
	}
	s.began, s.working = time.Now(), true
	return nil
}

// recordIntents records those that gathered while the last ones were recorded:
// nobody waits for company.
func (l *loop[T]) recordIntents() {
	for {
		ins, more := l.nextIntents()
		if len(ins) > 0 {
			l.beginAll(ins, more)
		}
		if !more {
			return
		}
	}
}

func (l *loop[T]) nextIntents() (ins []*intent, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.intents) == 0 && !l.noIntents {
		l.intended.Wait()
	}
	if l.noIntents {
		ins, l.intents = l.intents, nil
		return ins, false
	}
	rows, n := 0, 0
	for n < len(l.intents) && (n == 0 || rows+len(l.intents[n].refs) <= intentsAtOnce) {
		rows += len(l.intents[n].refs)
		n++
	}
	ins, l.intents = l.intents[:n:n], l.intents[n:]
	return ins, true
}

// beginAll is one Begin. When Run no longer waits for sends, none is begun.
func (l *loop[T]) beginAll(ins []*intent, begin bool) {
	var refs []Ref
	for _, in := range ins {
		refs = append(refs, in.refs...)
	}
	err, lost := error(ErrStopping), map[Ref]bool{}
	if begin {
		ctx, cancel := context.WithTimeout(l.ctx, l.cfg.renewWithin())
		var ls []Ref
		ls, err = l.beginner.Begin(ctx, refs)
		cancel()
		for _, ref := range ls {
			lost[ref] = true
		}
	}
	for _, in := range ins {
		in.err = err
		for _, ref := range in.refs {
			in.lost = in.lost || lost[ref]
		}
		close(in.done)
	}
}
