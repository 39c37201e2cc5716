package sendonce

import (
	"sync"
	"time"
)

// sender is one of Concurrency goroutines that send. If a Sender, or a hook, ends
// it with runtime.Goexit, another takes its place.
func (l *loop[T]) sender(wg *sync.WaitGroup) {
	s := l.newSlot()
	left := true   // by Goexit
	defer func() { // whatever a hook, or Backoff, does in the function below
		if s.atWork {
			l.answer(s, l.ownAnswer(s), time.Now())
		}
		l.dropSlot(s)
		if left {
			go l.sender(wg)
			return
		}
		wg.Done()
	}()
	defer func() {
		if left {
			l.finish(s, exited(s), nil, time.Now())
		}
	}()
	for more := false; more || l.next(s); {
		more = l.send(s)
	}
	left = false
}

func (l *loop[T]) newSlot() *slot[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &slot[T]{}
	l.slots[s] = struct{}{}
	return s
}

func (l *loop[T]) dropSlot(s *slot[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.slots, s)
}

// exited is the answer for a goroutine that ended in the middle of a job.
func exited[T any](s *slot[T]) error {
	if !s.working {
		return NotSent(errGoexit)
	}
	return Ambiguous(errGoexit)
}

// ownAnswer is the answer for such a job that asks nobody: what is the user's has
// ended the goroutine twice.
func (l *loop[T]) ownAnswer(s *slot[T]) []Result {
	cfg := l.cfg
	cfg.Backoff = backoff
	rs := make([]Result, len(s.rows))
	for i, a := range s.rows {
		rs[i] = cfg.judge(Ref{Key: a.key, Token: s.b.token}, a.n, exited(s), nil, time.Since(s.began))
	}
	return rs
}

// next waits for a job that may be begun, and takes it; false when Run stops.
func (l *loop[T]) next(s *slot[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.job = job[T]{} // not to keep a batch in memory
	for !l.stopping {
		if l.pick(s, time.Now()) {
			// Each wakes another: where sends are short a few do them all.
			if l.ready.len() > 0 {
				l.startable.Signal()
			}
			return true
		}
		l.startable.Wait()
	}
	return false
}

// pick takes the first job that may be begun now, if there is one.
func (l *loop[T]) pick(s *slot[T], now time.Time) bool {
	for i := 0; i < l.ready.len() && !l.alone && !l.behind(now); {
		j := l.ready.at(i)
		switch {
		case l.busy(j):
			// A send of this row, under a claim that was lost, has not ended.
			l.giveBack(l.take(i), Retry, l.cfg.Lease)
		case !l.inTime(j, now): // the keeper or the watchman decides on it
			i++
		case j.b.alone && !l.quiet():
			return false // what is behind it waits too, else it would never be quiet
		default:
			l.begin(s, l.take(i), now)
			return true
		}
	}
	return false
}

// sweep gives back what waits under a claim that begins no more rows. l.mu is
// held.
func (l *loop[T]) sweep() {
	for i := 0; i < l.ready.len(); {
		if !l.ready.at(i).b.mayBegin() {
			l.giveBack(l.take(i), Released, 0)
			continue
		}
		i++
	}
}

// take removes a job from those that wait.
func (l *loop[T]) take(i int) job[T] {
	j := l.ready.take(i)
	l.waiting -= len(j.items)
	l.hungry.Signal()
	return j
}

func (l *loop[T]) busy(j *job[T]) bool {
	for _, a := range j.rows {
		if _, ok := l.sending[a.key]; ok {
			return true
		}
	}
	return false
}

// inTime: the send would surely end before the lease does.
func (l *loop[T]) inTime(j *job[T], now time.Time) bool {
	return j.b.left(l.cfg.Lease, now) >= l.cfg.SendTimeout+l.cfg.margin()
}

// quiet: nothing is being sent, except what is stuck: that is not waited for.
func (l *loop[T]) quiet() bool { return l.atWork == l.stuck }

func (l *loop[T]) begin(s *slot[T], j job[T], now time.Time) {
	s.job, s.atWork, s.stuck, s.unsent = j, true, false, nil
	s.taken, s.began = now, now
	s.working = l.cfg.Delivery == AtLeastOnce && l.cfg.Limiter == nil
	for _, a := range j.rows {
		l.sending[a.key] = struct{}{}
	}
	l.atWork++
	// Also what waits in front of it, and was short of time until its renewal.
	l.alone = l.alone || j.b.alone
}

// send sends a slot's job. Its context ends at SendTimeout, which is before the lease
// could end, or when the claim is lost. It returns true if the slot has the next job
// already.
func (l *loop[T]) send(s *slot[T]) bool {
	if !l.permitted(s) {
		return false
	}
	if l.cfg.Delivery == AtMostOnce {
		if err := l.intend(s); err != nil {
			l.answer(s, notBegun(s, err), time.Now())
			return false
		}
	}
	ctx := s.context(s.began.Add(l.cfg.SendTimeout))
	defer ctx.end()
	err := l.call(ctx, s)
	now := time.Now()
	return l.finish(s, err, ctx.errAt(now), now)
}

// context makes that of a Send. It is not used again: the Sender may have kept it.
func (s *slot[T]) context(deadline time.Time) *sendContext {
	if len(s.contexts) == 0 {
		s.contexts = make([]sendContext, contextsAtOnce)
	}
	c := &s.contexts[0]
	s.contexts = s.contexts[1:]
	c.parent, c.deadline = s.b.ctx, deadline
	return c
}

const contextsAtOnce = 16

// notBegun answers rows whose intent may have been recorded, and which were
// surely not sent.
func notBegun[T any](s *slot[T], err error) []Result {
	rs := make([]Result, len(s.rows))
	for i, a := range s.rows {
		rs[i] = Result{Key: a.key, Token: s.b.token, Outcome: Retry, After: jitter(time.Second), Uncharged: true, Reason: reasonOf(err)}
	}
	return rs
}

// finish turns the answer of a Send into results, and then tells the hooks: these
// may end the goroutine. Where nobody is to be told it may take the next job:
// the lock is what short sends wait for.
func (l *loop[T]) finish(s *slot[T], err, ctxErr error, now time.Time) bool {
	took := now.Sub(s.began)
	rs, answers := s.room()
	for i, a := range s.rows {
		rs[i], answers[i] = l.cfg.judgeSafely(Ref{Key: a.key, Token: s.b.token}, a.n, err, i, ctxErr, took)
	}
	if err == nil && l.cfg.Hooks.Sent == nil {
		return l.answerAndNext(s, rs, now)
	}
	if !l.answer(s, rs, now) {
		return false
	}
	l.heed(answers)
	for i, a := range s.rows {
		if s.unsent != nil && s.unsent[i] {
			l.count.reconciled.Add(1)
			l.hooks.Reconciled(a.key, rs[i].Outcome, answers[i])
			continue
		}
		l.hooks.Sent(a.key, rs[i].Outcome, a.n, took, answers[i])
	}
	return false
}

// room has memory for the answer of a job.
func (s *slot[T]) room() ([]Result, []error) {
	n := len(s.rows)
	if cap(s.results) < n {
		s.results, s.answers = make([]Result, n), make([]error, n)
	}
	return s.results[:n], s.answers[:n]
}

func (l *loop[T]) answerAndNext(s *slot[T], rs []Result, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered(s, rs, now) && !l.stopping && l.pick(s, now)
}

// answer takes the results of a job to be recorded, and frees its slot. It returns
// false if that was done before: a hook has ended the goroutine since.
func (l *loop[T]) answer(s *slot[T], rs []Result, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered(s, rs, now)
}

// answered is answer when l.mu is held.
func (l *loop[T]) answered(s *slot[T], rs []Result, now time.Time) bool {
	if !s.atWork {
		return false
	}
	l.pace += (now.Sub(s.taken) - l.pace) / 16
	l.vacate(s)
	if l.noMore { // Run has returned, or is about to, and has named these rows
		return true
	}
	l.marks = append(l.marks, rs...)
	l.marked.Broadcast()
	if l.alones > 0 {
		l.startable.Broadcast()
	}
	return true
}

// vacate takes a slot off those at work. l.mu is held.
func (l *loop[T]) vacate(s *slot[T]) {
	for _, a := range s.rows {
		delete(l.sending, a.key)
	}
	s.atWork = false
	l.atWork--
	if s.stuck {
		l.stuck--
		l.hungry.Broadcast()
	}
	if s.b.alone && !s.b.given {
		l.alone = false
	}
}
