package sendonce

import (
	"context"
	"sync"
	"time"
)

// sender is one of Concurrency goroutines that send. If a Sender ends it with
// runtime.Goexit, another takes its place.
func (l *loop[T]) sender(wg *sync.WaitGroup) {
	left := true // by Goexit
	var s *slot
	var j *job[T]
	defer func() {
		if !left {
			wg.Done()
			return
		}
		l.finished(s, j, Ambiguous(errGoexit), nil)
		go l.sender(wg)
	}()
	for {
		if j, s = l.next(); j == nil {
			left = false
			return
		}
		l.send(s, j)
	}
}

// next waits for a job that may be begun.
func (l *loop[T]) next() (*job[T], *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.stopping {
			return nil, nil
		}
		now := time.Now()
		for i := 0; i < len(l.ready); i++ {
			j := l.ready[i]
			switch {
			case j.b.lost || j.b.gone:
				l.take(i)
				i--
				l.giveBack(j, Released, 0)
			case l.busy(j):
				// A send of this row, under a claim that was lost, has not ended.
				l.take(i)
				i--
				l.giveBack(j, Retry, l.cfg.Lease)
			case l.mayBegin(j, now):
				l.take(i)
				return j, l.begin(j, now)
			}
			if l.alone || len(l.marks) > marksMost {
				break
			}
		}
		l.startable.Wait()
	}
}

func (l *loop[T]) take(i int) {
	j := l.ready[i]
	l.waiting -= len(j.items)
	if i == 0 {
		l.ready[0] = nil
		l.ready = l.ready[1:]
	} else {
		l.ready = append(l.ready[:i], l.ready[i+1:]...)
	}
	l.hungry.Signal()
}

func (l *loop[T]) busy(j *job[T]) bool {
	for _, item := range j.items {
		if _, ok := l.sending[item.Key]; ok {
			return true
		}
	}
	return false
}

// mayBegin: the send would surely end before the lease, and nothing else is
// being sent if the row is to be sent alone.
func (l *loop[T]) mayBegin(j *job[T], now time.Time) bool {
	if l.alone || len(l.marks) > marksMost || j.b.left(l.cfg.Lease, now) < l.cfg.SendTimeout+l.cfg.margin() {
		return false
	}
	if !j.b.alone {
		return true
	}
	for s := range l.slots {
		if !s.stuck { // waiting for quiet is bounded: what is stuck is not waited for
			return false
		}
	}
	return true
}

func (l *loop[T]) begin(j *job[T], now time.Time) *slot {
	s := &slot{b: j.b, began: now, keys: make([]Key, len(j.items))}
	for i, item := range j.items {
		s.keys[i] = item.Key
		l.sending[item.Key] = struct{}{}
	}
	l.slots[s] = struct{}{}
	l.alone = l.alone || j.b.alone
	return s
}

// send sends one job. Its context ends at SendTimeout, which is before the lease
// could end, or when the claim is lost.
func (l *loop[T]) send(s *slot, j *job[T]) {
	if l.beginner != nil && l.cfg.Delivery == AtMostOnce && !l.intend(s, j) {
		return
	}
	ctx, cancel := context.WithCancelCause(l.work)
	limit := time.AfterFunc(l.cfg.SendTimeout, func() { cancel(context.DeadlineExceeded) })
	l.mu.Lock()
	s.cancel = cancel
	if s.b.lost || s.b.gone {
		cancel(ErrLost)
	}
	l.mu.Unlock()
	err := call(ctx, l.Dispatcher.sender, j.items)
	limit.Stop()
	ctxErr := ctx.Err()
	cancel(nil)
	l.finished(s, j, err, ctxErr)
}

// intend records that the rows are about to be sent. It returns false if they
// may not be.
func (l *loop[T]) intend(s *slot, j *job[T]) bool {
	refs := make([]Ref, len(j.items))
	for i, item := range j.items {
		refs[i] = Ref{Key: item.Key, Token: s.b.token}
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.renewWithin())
	lost, err := l.beginner.Begin(ctx, refs)
	cancel()
	l.mu.Lock()
	late := s.b.left(l.cfg.Lease, time.Now()) < l.cfg.SendTimeout+l.cfg.margin()
	l.mu.Unlock()
	if err == nil && len(lost) == 0 && !late {
		return true
	}
	// What was begun was surely not sent: its owner may say so.
	if err == nil && len(lost) > 0 {
		err = ErrLost
	}
	for i := range j.items {
		j.items[i].Attempt = 0 // so that it is no last attempt
	}
	l.finished(s, j, RetryAfter(jitter(time.Second), err), nil)
	return false
}

// finished records the answers of a job and frees its slot.
func (l *loop[T]) finished(s *slot, j *job[T], err, ctxErr error) {
	took := time.Since(s.began)
	rs := make([]Result, len(j.items))
	for i, item := range j.items {
		answer := answerFor(err, i)
		rs[i] = l.cfg.judge(Ref{Key: s.keys[i], Token: s.b.token}, item.Attempt, answer, ctxErr)
		l.hooks.Sent(s.keys[i], rs[i].Outcome, item.Attempt, took, answer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace += (took - l.pace) / 16
	for _, k := range s.keys {
		delete(l.sending, k)
	}
	delete(l.slots, s)
	if s.b.alone {
		l.alone = false
	}
	if l.noMore { // Run has returned without this send
		return
	}
	l.marks = append(l.marks, rs...)
	l.marked.Broadcast()
	if s.b.alone || len(l.slots) == 0 {
		l.startable.Broadcast()
	}
}
