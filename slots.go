package sendonce

import (
	"sync"
	"time"
)

// sender is one of Concurrency goroutines that send. If a Sender, or a hook, ends
// it with runtime.Goexit, another takes its place.
func (l *loop[T]) sender(wg *sync.WaitGroup) {
	left := true // by Goexit
	var j *job[T]
	var pad scratch
	defer func() { // whatever a hook does in the function below
		if left {
			go l.sender(wg)
			return
		}
		wg.Done()
	}()
	defer func() {
		if left {
			l.finish(&j.slot, &pad, l.exited(j), nil, time.Now())
		}
	}()
	for {
		if j == nil {
			j = l.next()
		}
		if j == nil {
			left = false
			return
		}
		j = l.send(j, &pad)
	}
}

// scratch is memory of one sender, for one job after the other.
type scratch struct {
	results []Result
	answers []error
}

// of returns its slices with room for n rows.
func (p *scratch) of(n int) ([]Result, []error) {
	if cap(p.results) < n {
		p.results, p.answers = make([]Result, n), make([]error, n)
	}
	return p.results[:n], p.answers[:n]
}

// exited is the answer for a goroutine that ended in the middle of a job.
func (l *loop[T]) exited(j *job[T]) error {
	if !j.working {
		return NotSent(errGoexit)
	}
	return Ambiguous(errGoexit)
}

// next waits for a job that may be begun, and takes it; nil when Run stops.
func (l *loop[T]) next() *job[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.stopping {
		if j := l.pick(time.Now()); j != nil {
			return j
		}
		l.startable.Wait()
	}
	return nil
}

// pick takes the first job that may be begun now.
func (l *loop[T]) pick(now time.Time) *job[T] {
	for i := 0; i < len(l.ready) && !l.alone && !l.behind(now); {
		j := l.ready[i]
		switch {
		case l.busy(j):
			// A send of this row, under a claim that was lost, has not ended.
			l.take(i)
			l.giveBack(j, Retry, l.cfg.Lease)
		case !l.inTime(j, now): // the keeper or the watchman decides on it
			i++
		case j.b.alone && !l.quiet():
			return nil // what is behind it waits too, else it would never be quiet
		default:
			l.take(i)
			l.begin(j, now)
			return j
		}
	}
	return nil
}

// sweep gives back what waits under a claim that begins no more rows. l.mu is
// held.
func (l *loop[T]) sweep() {
	for i := 0; i < len(l.ready); {
		if j := l.ready[i]; !j.b.mayBegin() {
			l.take(i)
			l.giveBack(j, Released, 0)
			continue
		}
		i++
	}
}

// take removes a job from those that wait.
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
func (l *loop[T]) quiet() bool { return len(l.slots) == l.stuck }

func (l *loop[T]) begin(j *job[T], now time.Time) {
	j.taken, j.began = now, now
	j.working = l.cfg.Delivery == AtLeastOnce && l.cfg.Limiter == nil
	for _, a := range j.rows {
		l.sending[a.key] = struct{}{}
	}
	l.slots[&j.slot] = struct{}{}
	// Also what waits in front of it, and was short of time until its renewal.
	l.alone = l.alone || j.b.alone
}

// send sends one job. Its context ends at SendTimeout, which is before the lease
// could end, or when the claim is lost. It may return the next job.
func (l *loop[T]) send(j *job[T], pad *scratch) *job[T] {
	if !l.permitted(j) {
		return nil
	}
	if l.cfg.Delivery == AtMostOnce {
		if err := l.intend(j); err != nil {
			l.answer(&j.slot, notBegun(&j.slot, err), time.Now())
			return nil
		}
	}
	ctx := &j.ctx
	ctx.parent, ctx.deadline = j.b.ctx, j.began.Add(l.cfg.SendTimeout)
	defer ctx.end()
	err := l.call(ctx, j)
	now := time.Now()
	return l.finish(&j.slot, pad, err, ctx.errAt(now), now)
}

// notBegun answers rows whose intent may have been recorded, and which were
// surely not sent.
func notBegun(s *slot, err error) []Result {
	rs := make([]Result, len(s.rows))
	for i, a := range s.rows {
		rs[i] = Result{Key: a.key, Token: s.b.token, Outcome: Retry, After: jitter(time.Second), Uncharged: true, Reason: reasonOf(err)}
	}
	return rs
}

// finish turns the answer of a Send into results, and then tells the hooks: these
// may end the goroutine. Where nobody is to be told it may return the next job:
// the lock is what short sends wait for.
func (l *loop[T]) finish(s *slot, pad *scratch, err, ctxErr error, now time.Time) *job[T] {
	took := now.Sub(s.began)
	rs, answers := pad.of(len(s.rows))
	for i, a := range s.rows {
		rs[i], answers[i] = l.cfg.judgeSafely(Ref{Key: a.key, Token: s.b.token}, a.n, err, i, ctxErr, took)
	}
	if err == nil && l.cfg.Hooks.Sent == nil {
		return l.answerAndNext(s, rs, now)
	}
	if !l.answer(s, rs, now) {
		return nil
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
	return nil
}

func (l *loop[T]) answerAndNext(s *slot, rs []Result, now time.Time) *job[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.answered(s, rs, now) || l.stopping {
		return nil
	}
	return l.pick(now)
}

// answer takes the results of a job to be recorded, and frees its slot. It returns
// false if that was done before: a hook has ended the goroutine since.
func (l *loop[T]) answer(s *slot, rs []Result, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered(s, rs, now)
}

// answered is answer when l.mu is held.
func (l *loop[T]) answered(s *slot, rs []Result, now time.Time) bool {
	if s.answered {
		return false
	}
	s.answered = true
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

// vacate takes a job off those at work. l.mu is held.
func (l *loop[T]) vacate(s *slot) {
	for _, a := range s.rows {
		delete(l.sending, a.key)
	}
	delete(l.slots, s)
	if s.stuck {
		l.stuck--
		l.hungry.Broadcast()
	}
	if s.b.alone && !s.b.given {
		l.alone = false
	}
}
