package sendonce

import (
	"context"
	"time"
)

const (
	markFirst     = 10 * time.Millisecond
	markMax       = 5 * time.Second
	tellAfter     = time.Second // results unrecorded for so long are reported
	triesTogether = 3           // then results are tried one by one
	failuresInRow = 3           // tried one by one, so many failures are an outage

	// slowMark is when senders begin to wait for results to be recorded: what is
	// sent and not recorded is sent again if the process dies.
	slowMark = 100 * time.Millisecond
)

// marker records results: those of many sends together, each within a few
// milliseconds of its end. What fails is tried until it is answered.
func (l *loop[T]) marker() {
	for {
		rs, ended, more := l.collect()
		if !more {
			break
		}
		if len(rs) > 0 && !l.record(rs) {
			return
		}
		l.endClaims(ended)
		l.retryParked(false)
	}
	for l.retryParked(true) > 0 && l.waitToRecord(jitter(markMax/10)) {
	}
	l.mu.Lock()
	ended := append(l.ended, l.unended...)
	l.mu.Unlock()
	l.endClaims(ended)
}

// collect waits for results and takes some, no key twice. There is no more when
// the sends are over and all was taken.
func (l *loop[T]) collect() (rs []Result, ended []int64, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.noMore && len(l.marks) == 0 && len(l.ended) == 0 && !l.parkedDue() {
		l.marked.Wait()
	}
	if l.noMore && len(l.marks) == 0 && len(l.ended) == 0 {
		return nil, nil, false
	}
	if 0 < len(l.marks) && len(l.marks) < marksAtOnce && !l.stopping {
		l.mu.Unlock()
		l.linger()
		l.mu.Lock()
	}
	seen := make(map[Key]struct{}, min(len(l.marks), marksAtOnce))
	rest := l.marks[:0:0]
	for i, r := range l.marks {
		if len(rs) == marksAtOnce {
			rest = append(rest, l.marks[i:]...)
			break
		}
		if _, twice := seen[r.Key]; twice {
			rest = append(rest, r)
			continue
		}
		seen[r.Key] = struct{}{}
		rs = append(rs, r)
	}
	l.marks, l.marking, l.markingSince = rest, len(rs), time.Now()
	ended, l.ended, l.unended = append(l.ended, l.unended...), nil, nil
	l.startable.Broadcast()
	return rs, ended, true
}

func (l *loop[T]) linger() {
	t := time.NewTimer(l.cfg.MarkLinger)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.stop:
	}
}

// record settles results until they are answered. If that fails again and again
// they are tried one by one, so that one that can't be written doesn't keep the
// others; such a one is parked. It returns false when Run has waited for long
// enough.
func (l *loop[T]) record(rs []Result) bool {
	for try := 1; ; try++ {
		if try > triesTogether {
			rs = l.recordEach(rs)
		} else if err := l.settle(rs); err != nil {
			l.unrecorded(len(rs), err)
		} else {
			rs = nil
		}
		if len(rs) == 0 {
			break
		}
		if !l.waitToRecord(jitter(min(markFirst<<min(try, 10), markMax))) {
			l.mu.Lock()
			l.marks, l.marking = append(rs, l.marks...), 0
			l.mu.Unlock()
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.failing.IsZero() && time.Since(l.failing) >= tellAfter {
		l.cfg.Logger.Info("sendonce: results are recorded again", "after", time.Since(l.failing).Round(time.Millisecond))
	}
	l.marking, l.failing = 0, time.Time{}
	l.hungry.Broadcast()
	l.startable.Broadcast()
	return true
}

// behind: what is sent is not recorded soon enough to go on. l.mu is held.
func (l *loop[T]) behind(now time.Time) bool {
	waiting := len(l.marks) + l.marking
	return waiting > marksMost || l.marking > 0 && waiting > 2*l.cfg.Concurrency*l.cfg.GroupSize && now.Sub(l.markingSince) > slowMark
}

// waitToRecord waits before another try. It returns false when Run has waited
// long enough.
func (l *loop[T]) waitToRecord(d time.Duration) bool {
	time.Sleep(d) // at most markMax; there is nothing to wake up for
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.giveUp.IsZero() || time.Now().Before(l.giveUp)
}

// recordEach tries results one by one. It returns those to be tried again: the
// first that failed come last. If the store writes, and only these can't be
// written, they are parked.
func (l *loop[T]) recordEach(rs []Result) (left []Result) {
	var failed []Result
	works, transient := false, false
	for i := range rs {
		err := l.settle(rs[i : i+1])
		if err == nil {
			works = true
			continue
		}
		l.unrecorded(len(rs)-i, err)
		failed = append(failed, rs[i])
		transient = transient || IsTransient(err)
		if !works && len(failed) == failuresInRow && i+1 < len(rs) {
			return append(rs[i+1:len(rs):len(rs)], failed...)
		}
	}
	// A renewal that is answered is proof that the store can write.
	if len(failed) == 0 || transient || !works && !l.renew() {
		return failed
	}
	l.park(failed)
	return nil
}

// park puts aside what fails once more.
func (l *loop[T]) park(rs []Result) {
	for i := range rs {
		err := l.settle(rs[i : i+1])
		if err == nil {
			continue
		}
		l.cfg.Logger.Error("sendonce: a result can't be recorded although the store answers; trying again now and then", "key", rs[i].Key, "err", err)
		l.mu.Lock()
		if len(l.parked) == 0 {
			l.parkedSince = time.Now()
		}
		l.parked, l.parkedAt, l.failure = append(l.parked, rs[i]), time.Now(), err
		l.mu.Unlock()
	}
}

// parkedDue: l.mu is held.
func (l *loop[T]) parkedDue() bool {
	return len(l.parked) > 0 && time.Since(l.parkedAt) > markMax
}

// retryParked tries each result that was parked once more, if it is time or if
// Run ends. It returns how many are left.
func (l *loop[T]) retryParked(last bool) int {
	l.mu.Lock()
	var rs []Result
	if last || l.parkedDue() {
		rs, l.parked = l.parked, nil
	}
	l.marking = len(rs)
	since := l.parkedSince
	l.mu.Unlock()
	if len(rs) == 0 {
		return 0
	}
	var left []Result
	var why error
	for i := range rs {
		if err := l.settle(rs[i : i+1]); err != nil {
			left, why = append(left, rs[i]), err
		}
	}
	if len(left) > 0 {
		l.hooks.Unrecorded(len(left), time.Since(since), why)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marking, l.parked, l.parkedAt = 0, left, time.Now()
	l.hungry.Broadcast()
	return len(left)
}

// settle is one Settle, and the accounts of what it answers.
func (l *loop[T]) settle(rs []Result) error {
	ctx, cancel := context.WithTimeout(l.ctx, bookkeeping)
	defer cancel()
	began := time.Now()
	es, err := l.claimer.Settle(ctx, rs)
	l.hooks.Settled(len(rs), time.Since(began), err)
	if err != nil {
		return err
	}
	for _, e := range es {
		l.excepted(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	odd := map[Key]Cause{}
	for _, e := range es {
		odd[e.Result.Key] = e.Cause
	}
	for _, r := range rs {
		if cause, ok := odd[r.Key]; !ok || cause == Late {
			l.count.recorded(r.Outcome)
			if r.Outcome == Dead {
				l.tellDead(r)
			}
		}
		if b := l.batches[r.Token]; b != nil {
			l.settled(b, 1)
		}
	}
	return nil
}

func (l *loop[T]) excepted(e Exception) {
	switch {
	case e.Cause == Late:
		l.count.late.Add(1)
	case e.Cause == Overtaken && e.Result.Outcome == Done:
		l.count.overtook.Add(1)
		l.cfg.Logger.Warn("sendonce: a row was sent and is held by another claim now: it may be sent twice", "key", e.Result.Key)
	}
	l.hooks.Excepted(e)
}

// unrecorded notes that results can't be recorded, and tells after a while.
func (l *loop[T]) unrecorded(rows int, err error) {
	l.mu.Lock()
	first := l.failing.IsZero()
	if first {
		l.failing = time.Now()
	}
	l.failure = err
	since := time.Since(l.failing)
	tell := since >= tellAfter && l.told.may("unrecorded")
	l.mu.Unlock()
	if since >= tellAfter {
		l.hooks.Unrecorded(rows, since, err)
	}
	if tell {
		l.cfg.Logger.Error("sendonce: rows were sent and can't be recorded; trying again, and claiming nothing", "rows", rows, "since", since, "err", err)
	}
}

// endClaims takes the records of claims away that have nothing left. If that
// fails it is tried with the next ones; at last the reaper does it.
func (l *loop[T]) endClaims(tokens []int64) {
	if len(tokens) == 0 || l.ender == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, bookkeeping)
	defer cancel()
	if err := l.ender.End(ctx, tokens); err != nil {
		l.cfg.Logger.Debug("sendonce: claims could not be ended", "err", err)
		l.mu.Lock()
		l.unended = append(l.unended, tokens...)
		l.mu.Unlock()
	}
}

// closeMarks says that no more results will come.
func (l *loop[T]) closeMarks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noMore = true
	l.giveUp = time.Now().Add(lastWords)
	l.marked.Broadcast()
}

// tellDead logs a row that is put aside: the first ones, and then one now and
// then. l.mu is held.
func (l *loop[T]) tellDead(r Result) {
	l.dead++
	if l.dead > deadTold && !l.told.may("dead") {
		return
	}
	l.cfg.Logger.Warn("sendonce: a row is dead", "key", r.Key, "reason", r.Reason, "dead", l.dead)
}

// deadTold is how many dead rows are logged one by one.
const deadTold = 10

// told is when something was logged last, by name.
type told map[string]time.Time

// tellEvery is how often the log has a line that would come with each try.
const tellEvery = 10 * time.Second

// may says whether it is time for another line.
func (t told) may(name string) bool {
	if last, ok := t[name]; ok && time.Since(last) < tellEvery {
		return false
	}
	t[name] = time.Now()
	return true
}
