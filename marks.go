package sendonce

import (
	"context"
	"time"
)

const (
	markFirst    = 10 * time.Millisecond
	markMax      = 5 * time.Second
	tellAfter    = time.Second // results unrecorded for so long are reported
	triesTogther = 3           // then results are tried one by one
)

// marker records results: those of many sends together, each within a few
// milliseconds of its end. What fails is tried until it is answered.
func (l *loop[T]) marker() {
	for {
		rs, ended, more := l.collect()
		if !more {
			return
		}
		if len(rs) > 0 {
			l.record(rs)
		}
		l.endClaims(ended)
	}
}

// collect waits for results and takes some, no key twice.
func (l *loop[T]) collect() (rs []Result, ended []int64, more bool) {
	l.mu.Lock()
	for len(l.marks) == 0 && len(l.ended) == 0 && !l.noMore {
		l.marked.Wait()
	}
	if l.noMore && len(l.marks) == 0 && len(l.ended) == 0 {
		l.mu.Unlock()
		return nil, nil, false
	}
	if len(l.marks) < marksAtOnce && !l.stopping && l.cfg.MarkLinger > 0 {
		l.mu.Unlock()
		l.linger()
		l.mu.Lock()
	}
	defer l.mu.Unlock()
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
	l.marks, l.marking = rest, len(rs)
	ended, l.ended = l.ended, nil
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
// others.
func (l *loop[T]) record(rs []Result) {
	for try := 1; len(rs) > 0; try++ {
		if try > triesTogther {
			rs = l.recordEach(rs)
		} else if l.settle(rs) == nil {
			rs = nil
		}
		if len(rs) == 0 {
			break
		}
		pause := jitter(min(markFirst<<min(try, 10), markMax))
		if !l.waitToRecord(pause) {
			l.mu.Lock()
			l.marks = append(rs, l.marks...)
			l.marking = 0
			l.mu.Unlock()
			return
		}
	}
	l.mu.Lock()
	l.marking = 0
	l.failing, l.failure = time.Time{}, nil
	l.hungry.Broadcast()
	l.mu.Unlock()
}

// waitToRecord waits before another try. It returns false when Run has waited
// long enough.
func (l *loop[T]) waitToRecord(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.giveUp.IsZero() || time.Now().Before(l.giveUp)
}

func (l *loop[T]) recordEach(rs []Result) (left []Result) {
	for i := range rs {
		if err := l.settle(rs[i : i+1]); err != nil {
			left = append(left, rs[i])
		}
	}
	return left
}

// settle is one Settle, and the accounts of what it answers.
func (l *loop[T]) settle(rs []Result) error {
	ctx, cancel := context.WithTimeout(l.ctx, bookkeeping)
	defer cancel()
	began := time.Now()
	es, err := l.claimer.Settle(ctx, rs)
	l.hooks.Settled(len(rs), time.Since(began), err)
	if err != nil {
		l.unrecorded(len(rs), err)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	odd := map[Key]Cause{}
	for _, e := range es {
		odd[e.Result.Key] = e.Cause
		l.excepted(e)
	}
	for _, r := range rs {
		if cause, ok := odd[r.Key]; !ok || cause == Late {
			l.count.recorded(r.Outcome)
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
	l.mu.Unlock()
	if since >= tellAfter {
		l.hooks.Unrecorded(rows, since, err)
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
		if !l.noMore {
			l.ended = append(l.ended, tokens...)
		}
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
