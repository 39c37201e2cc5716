package sendonce

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Limiter limits how fast rows are sent. Its methods are called from up to
// Config.Concurrency goroutines at once.
type Limiter interface {
	// WaitN waits until n rows may be sent, and counts them as sent. It returns
	// an error when ctx ends before that, and has then counted nothing. After
	// any other error nothing is sent either: the Dispatcher asks again, with
	// growing pauses, and Health says so.
	WaitN(ctx context.Context, n int) error
}

// Pauser is a Limiter that can make all who share it wait.
type Pauser interface {
	// Pause lets nobody send for d, from now. A longer pause is not shortened.
	// The Dispatcher calls it after a Throttled answer, once: if it fails, only
	// this process waits.
	Pause(ctx context.Context, d time.Duration) error
}

// permitted waits until a job may be begun by the Limiter's word, and by that of
// a provider that has throttled us. If it may not be, it is given back, or waits
// again with the others.
func (l *loop[T]) permitted(s *slot[T]) bool {
	if l.cfg.Limiter == nil && l.paused() == 0 {
		return true
	}
	l.mu.Lock()
	s.working = false // a wait is no send that gets stuck
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(s.b.ctx)
	defer cancel()
	defer context.AfterFunc(l.going, cancel)()
	allowed := l.permission(ctx, len(s.items))

	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	allowed = allowed && !l.stopping && s.b.mayBegin()
	if allowed && l.inTime(&s.job, now) {
		s.began, s.working = now, l.cfg.Delivery == AtLeastOnce
		return true
	}
	l.vacate(s)
	if allowed { // the keeper or the watchman decides on it
		l.ready.putFirst(s.job)
		l.waiting += len(s.items)
		return false
	}
	l.letOthersClaim()
	l.giveBack(s.job, Released, 0)
	l.startable.Broadcast()
	return false
}

// permission asks until there is one: false if ctx ended before that, or the row
// has queued for a lease. Like those that are ready it is then given back, for
// others may have a limit of their own.
func (l *loop[T]) permission(ctx context.Context, n int) bool {
	queue, leave := context.WithTimeout(ctx, l.cfg.Lease)
	defer leave()
	for errs := 0; queue.Err() == nil; {
		if d := l.paused(); d > 0 {
			sleep(queue, d)
			continue
		}
		asked, err := l.ask(ctx, queue, n)
		if !asked {
			return false
		}
		l.mu.Lock()
		tell := err != nil && l.told.may("limit")
		l.noLimit = err
		l.mu.Unlock()
		switch {
		case err == nil && l.paused() == 0:
			return true
		case err != nil:
			if tell {
				l.cfg.Logger.Warn("sendonce: Config.Limiter gives no answer; nothing is sent", "err", err)
			}
			errs++
			sleep(queue, jitter(min(errorFirst<<min(errs, 10), errorMax)))
		}
	}
	return false
}

// ask asks the Limiter, within a lease. Where that takes time, one asks and the
// others queue here: of many that wait within a Limiter, those that give up leave
// holes. It returns false if there is no answer: somebody gave up.
func (l *loop[T]) ask(ctx, queue context.Context, n int) (bool, error) {
	if l.quick.Load() < quickInRow {
		select {
		case l.turn <- struct{}{}:
			defer func() { <-l.turn }()
		case <-queue.Done():
			return false, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Lease)
	defer cancel()
	began := time.Now()
	err := unpanicked(func() error { return l.permit(ctx, n) })
	if err == nil && time.Since(began) < quickAsk {
		l.quick.Add(1)
	} else {
		l.quick.Store(0)
	}
	return err == nil || ctx.Err() == nil, err
}

const (
	quickAsk   = 50 * time.Millisecond
	quickInRow = 16 // then several ask at once
)

func (l *loop[T]) permit(ctx context.Context, n int) error {
	if l.cfg.Limiter == nil {
		return nil
	}
	return l.cfg.Limiter.WaitN(ctx, n)
}

// unpanicked makes an error of a panic in a Limiter.
func unpanicked(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it panicked: %v", v)
		}
	}()
	return f()
}

// paused is how long nothing may begin, because the provider said so.
func (l *loop[T]) paused() time.Duration { return l.left(&l.resume) }

// left is the time until a moment; zero if there is none, or it is over.
func (l *loop[T]) left(at *atomic.Int64) time.Duration {
	until := at.Load()
	if until == 0 { // most of the time: no look at the clock
		return 0
	}
	return max(0, time.Duration(until)-time.Since(l.epoch))
}

// letOthersClaim claims nothing for a poll: rows that waited here for too long are
// for others, who may be quicker.
func (l *loop[T]) letOthersClaim() {
	l.yield.Store(int64(time.Since(l.epoch) + l.cfg.PollInterval))
}

// heed stops the sends if the provider has asked for it.
func (l *loop[T]) heed(answers []error) {
	var pause time.Duration
	for _, err := range answers {
		if v := verdictOf(err); v.kind == throttled {
			pause = max(pause, v.after)
		}
	}
	if pause == 0 {
		return
	}
	until := int64(time.Since(l.epoch) + pause)
	for old := l.resume.Load(); old < until && !l.resume.CompareAndSwap(old, until); old = l.resume.Load() {
	}
	if l.pauser == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.renewWithin())
	defer cancel()
	if err := unpanicked(func() error { return l.pauser.Pause(ctx, pause) }); err != nil {
		l.cfg.Logger.Warn("sendonce: the provider wants nobody to send, and others could not be told", "pause", pause, "err", err)
	}
}
