package sendonce

import (
	"context"
	"errors"
	"slices"
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

	endWithin   = 5 * time.Second // one End
	unendedMost = 1000            // claims that are tried to be ended again
	lastEnds    = 5               // how often, when Run ends
)

var errNoPatience = errors.New("sendonce: Run has waited for long enough")

// marker records results: those of many sends together, each within a few
// milliseconds of its end. What fails is tried until it is answered.
func (l *loop[T]) marker() {
	seen := make(map[Key]struct{}, marksAtOnce)
	for {
		rs := l.collect(seen)
		if len(rs) == 0 || !l.record(rs) {
			return
		}
	}
}

// collect waits for results and takes some, no key twice; none when the sends are
// over and all was taken. seen is memory for it.
func (l *loop[T]) collect(seen map[Key]struct{}) []Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.noMore && len(l.marks) == 0 {
		l.marked.Wait()
	}
	if len(l.marks) < marksAtOnce && !l.noMore {
		l.mu.Unlock()
		endsWithin(l.cfg.MarkLinger, l.going.Done())
		l.mu.Lock()
	}
	clear(seen)
	rs := make([]Result, 0, min(len(l.marks), marksAtOnce))
	rest := l.marks[:0]
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
	clear(l.marks[len(rest):])
	l.marks, l.marking, l.markingSince = rest, len(rs), time.Now()
	l.goOn()
	return rs
}

// record settles results until they are answered. If that fails again and again
// they are tried one by one, so that one that can't be written doesn't keep the
// others; such a one is parked. It returns false when Run has waited for long
// enough.
func (l *loop[T]) record(rs []Result) bool {
	for try := 1; ; try++ {
		if try > triesTogether {
			rs = l.recordEach(rs)
		} else if err := l.settle(rs, l.firstTries(try)); err != nil {
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
	since := l.failing
	l.marking, l.failing = 0, time.Time{}
	l.hungry.Broadcast()
	l.goOn()
	l.mu.Unlock()
	if !since.IsZero() && time.Since(since) >= tellAfter {
		l.cfg.Logger.Info("sendonce: results are recorded again", "after", time.Since(since).Round(time.Millisecond))
	}
	return true
}

// behind: what is sent is not recorded soon enough to go on. l.mu is held.
func (l *loop[T]) behind(now time.Time) bool {
	waiting := len(l.marks) + l.marking
	return waiting > marksMost || l.marking > 0 && waiting > 2*l.cfg.Concurrency*l.cfg.GroupSize && now.Sub(l.markingSince) > slowMark
}

// goOn wakes senders that may have waited for results to be recorded. l.mu is held.
func (l *loop[T]) goOn() {
	if l.ready.len() > 0 {
		l.startable.Broadcast()
	}
}

// waitToRecord waits before another try. It returns false when Run has waited
// long enough.
func (l *loop[T]) waitToRecord(d time.Duration) bool {
	time.Sleep(min(d, l.patience())) // at most markMax; there is nothing to wake up for
	return l.patience() > 0
}

// patience is how long one more try to record may take: not long when Run ends.
func (l *loop[T]) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.giveUp.IsZero() {
		return bookkeeping
	}
	return min(bookkeeping, time.Until(l.giveUp))
}

// recordEach tries results one by one. It returns those to be tried again: the
// first that failed come last. If the store writes, and only these can't be
// written, they are parked.
func (l *loop[T]) recordEach(rs []Result) (left []Result) {
	var failed []Result
	works, transient, inRow := false, false, 0
	for i := range rs {
		err := l.settle(rs[i:i+1], bookkeeping)
		if err == nil {
			works, inRow = true, 0
			continue
		}
		l.unrecorded(len(rs)-i, err)
		failed = append(failed, rs[i])
		transient = transient || IsTransient(err)
		if inRow++; inRow == failuresInRow && i+1 < len(rs) {
			return append(rs[i+1:len(rs):len(rs)], failed...)
		}
	}
	// A renewal that is answered is proof that the store can write.
	if len(failed) == 0 || transient || !works && !l.renew(l.ctx) {
		return failed
	}
	l.park(failed)
	return nil
}

// park puts aside what fails once more.
func (l *loop[T]) park(rs []Result) {
	for i := range rs {
		err := l.settle(rs[i:i+1], bookkeeping)
		if err == nil {
			continue
		}
		l.cfg.Logger.Error("sendonce: a result can't be recorded although the store answers; trying again now and then", "key", rs[i].Key, "err", err)
		l.mu.Lock()
		if len(l.parked) == 0 {
			l.parkedSince = time.Now()
		}
		l.parked, l.failure = append(l.parked, rs[i]), err
		l.mu.Unlock()
	}
}

// parker tries the parked results now and then, each by itself: while one of them
// waits for an answer, the others are recorded.
func (l *loop[T]) parker(keep context.Context) {
	for sleep(keep, markMax) {
		l.retryParked()
	}
}

// lastTry tries them again while Run may wait.
func (l *loop[T]) lastTry() {
	for l.retryParked() > 0 && l.waitToRecord(jitter(markMax/10)) {
	}
}

// retryParked tries each result that was parked once more. It returns how many are
// left.
func (l *loop[T]) retryParked() int {
	l.mu.Lock()
	rs, since := slices.Clone(l.parked), l.parkedSince
	l.mu.Unlock()
	var why error
	recorded := map[Ref]bool{}
	for i, r := range rs {
		if err := l.settle(rs[i:i+1], bookkeeping); err != nil {
			why = err
			continue
		}
		recorded[Ref{r.Key, r.Token}] = true
	}
	l.mu.Lock()
	l.parked = slices.DeleteFunc(l.parked, func(r Result) bool { return recorded[Ref{r.Key, r.Token}] })
	left := len(l.parked)
	l.hungry.Broadcast()
	l.mu.Unlock()
	if why != nil {
		l.hooks.Unrecorded(left, time.Since(since), why)
	}
	return left
}

// firstTries is how long they may take: an answer that was lost should be missed,
// and the results recorded by another try, while the lease lasts. A store that is
// only slow gets more time with each try.
func (l *loop[T]) firstTries(try int) time.Duration {
	return min(bookkeeping, time.Duration(try)*l.cfg.Lease/3)
}

// settle is one Settle, and the accounts of what it answers.
func (l *loop[T]) settle(rs []Result, within time.Duration) error {
	patience := min(within, l.patience())
	if patience <= 0 {
		return errNoPatience
	}
	ctx, cancel := context.WithTimeout(l.ctx, patience)
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
	var news events
	defer func() { news.tell() }()
	l.mu.Lock()
	defer l.mu.Unlock()
	odd := map[Key]Cause{}
	for _, e := range es {
		odd[e.Result.Key] = e.Cause
	}
	for _, r := range rs {
		if cause, ok := odd[r.Key]; !ok || cause == Late {
			l.count.recorded(r.Outcome)
			if r.Outcome == Unknown {
				l.unknowns++
			}
			if r.Outcome == Dead {
				l.tellDead(r, &news)
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

// endClaims takes the records of claims away that have nothing left. What fails is
// tried with the next ones; at last the reaper does it.
func (l *loop[T]) endClaims() {
	for {
		l.mu.Lock()
		for len(l.ended) == 0 && !l.noEnds {
			l.endable.Wait()
		}
		tokens, last := append(l.ended, l.unended...), l.noEnds
		l.ended, l.unended = nil, nil
		l.mu.Unlock()
		over := len(tokens) == 0 || l.end(tokens)
		for try := 0; last && !over && try < lastEnds; try++ {
			time.Sleep(jitter(markFirst))
			over = l.end(tokens)
		}
		if last {
			return
		}
	}
}

// end returns false if another try may help.
func (l *loop[T]) end(tokens []int64) bool {
	ctx, cancel := context.WithTimeout(l.ctx, endWithin)
	defer cancel()
	err := l.ender.End(ctx, tokens)
	if err == nil {
		select {
		case l.freed <- struct{}{}:
		default:
		}
		return true
	}
	l.cfg.Logger.Debug("sendonce: claims could not be ended", "err", err)
	l.mu.Lock()
	l.unended = tokens[:min(len(tokens), unendedMost)]
	l.mu.Unlock()
	return IsFatal(err) || ctx.Err() != nil
}

// closeMarks says that no more results will come, and returns the keys of the
// sends that would not end.
func (l *loop[T]) closeMarks() (stuck []Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noMore = true
	l.giveUp = time.Now().Add(lastWords)
	l.marked.Broadcast()
	l.noIntents = true
	l.intended.Broadcast()
	for s := range l.slots {
		if !s.atWork {
			continue
		}
		for _, a := range s.rows {
			stuck = append(stuck, a.key)
		}
	}
	return stuck
}

func (l *loop[T]) closeEnds() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noEnds = true
	l.endable.Broadcast()
}

// tellDead logs a row that is put aside: the first ones, and then one now and
// then. l.mu is held.
func (l *loop[T]) tellDead(r Result, news *events) {
	l.dead++
	if l.dead > deadTold && !l.told.may("dead") {
		return
	}
	dead := l.dead
	*news = append(*news, func() {
		l.cfg.Logger.Warn("sendonce: a row is dead", "key", r.Key, "reason", r.Reason, "dead", dead)
	})
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
