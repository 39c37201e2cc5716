package sendonce

import (
	"context"
	"time"
)

// stuckCap is how many SendTimeouts a claim is renewed for a Send that ignores
// its context.
const stuckCap = 10

// keeper renews all live claims, every third of a lease.
func (l *loop[T]) keeper(keep context.Context) {
	pause := l.cfg.renewEvery()
	for sleep(keep, pause) {
		pause = l.cfg.renewEvery()
		if !l.renew(keep) {
			pause = jitter(l.cfg.renewEvery() / 4)
		}
	}
}

// sleep returns false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool { return !endsWithin(d, ctx.Done()) }

func (l *loop[T]) renew(ctx context.Context) bool {
	l.mu.Lock()
	var tokens []int64
	for t, b := range l.batches {
		if !b.closed && !b.gone {
			tokens = append(tokens, t)
		}
	}
	l.mu.Unlock()
	if len(tokens) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.renewWithin())
	defer cancel()
	began := time.Now()
	ext, err := l.claimer.Extend(ctx, tokens)
	l.hooks.Extended(len(tokens), time.Since(began), err)
	if err != nil {
		l.mu.Lock()
		tell := l.told.may("renew")
		l.mu.Unlock()
		if tell {
			l.cfg.Logger.Warn("sendonce: claims could not be renewed; trying again", "claims", len(tokens), "err", err)
		}
		return false
	}
	l.mu.Lock()
	lost := map[int64]bool{}
	for _, t := range ext.Lost {
		lost[t] = true
	}
	var news events
	for _, t := range tokens {
		b := l.batches[t]
		switch {
		case b == nil: // settled meanwhile
		case lost[t]:
			told := b.lost || b.gone // by the watchman, or by a renewal beside this one
			b.gone = true
			if told {
				l.sweep()
			} else {
				l.lose(b, &news)
			}
		default:
			b.since, b.until = began, ext.Until
		}
	}
	l.giveUpWaiting(time.Now())
	l.startable.Broadcast()
	l.mu.Unlock()
	news.tell()
	return true
}

// giveUpWaiting gives back what has waited for a slot for a whole lease: others
// may have one free. l.mu is held.
func (l *loop[T]) giveUpWaiting(now time.Time) {
	for l.ready.len() > 0 && now.Sub(l.ready.at(0).b.claimed) > l.cfg.Lease {
		l.letOthersClaim()
		l.giveBack(l.take(0), Released, 0)
	}
}

// events are calls of hooks and lines of the log that wait until l.mu is free.
type events []func()

func (e events) tell() {
	for _, f := range e {
		f()
	}
}

// lose stops what is being sent under a claim. l.mu is held.
func (l *loop[T]) lose(b *held, news *events) {
	b.end(ErrLost)
	token, rows := b.token, b.open
	l.count.lost.Add(int64(rows))
	l.sweep()
	*news = append(*news, func() {
		l.cfg.Logger.Warn("sendonce: a claim is lost", "token", token, "rows", rows)
		l.hooks.Lost(token, rows)
	})
}

// watchman decides by our own clock when a claim may be over: a renewal that
// hangs gives no answer. It also looks for Sends that ignore their context.
func (l *loop[T]) watchman(keep context.Context) {
	for sleep(keep, l.cfg.margin()/2) {
		l.watch(time.Now()).tell()
	}
}

func (l *loop[T]) watch(now time.Time) (news events) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		if !b.lost && !b.gone && b.left(l.cfg.Lease, now) <= l.cfg.margin() {
			b.lost = true
			l.lose(b, &news)
		}
	}
	hopeless := map[*held]int{} // rows that are not waited for any more
	for s := range l.slots {
		if !s.atWork {
			continue
		}
		over := now.Sub(s.began) - l.cfg.SendTimeout
		if s.working && over > l.cfg.margin() && !s.stuck {
			l.getsStuck(s, over, &news)
		}
		if s.stuck && over > (stuckCap-1)*l.cfg.SendTimeout {
			hopeless[s.b] += len(s.rows)
		}
	}
	l.giveUpOn(hopeless)
	// A look is cheap, and a wake-up that was missed would cost a lease.
	l.startable.Broadcast()
	return news
}

// giveUpOn no longer renews claims that have nothing but stuck sends, and results
// that can't be written, and no longer keeps quiet for a row that is sent alone.
// l.mu is held.
func (l *loop[T]) giveUpOn(hopeless map[*held]int) {
	if len(hopeless) == 0 {
		return
	}
	for _, r := range l.parked {
		if b := l.batches[r.Token]; b != nil && hopeless[b] > 0 {
			hopeless[b]++
		}
	}
	for b, rows := range hopeless {
		b.closed = b.closed || b.open <= rows
		if b.closed && b.alone && !b.given {
			b.given = true
			l.alone = false
			l.alones--
			l.hungry.Broadcast()
		}
	}
}

// getsStuck: the claim begins no more rows, and those not begun are given back.
// l.mu is held.
func (l *loop[T]) getsStuck(s *slot[T], over time.Duration, news *events) {
	s.stuck, s.b.spent = true, true
	l.stuck++
	l.sweep()
	for _, a := range s.rows {
		*news = append(*news, func() {
			l.cfg.Logger.Warn("sendonce: a Send ignores the end of its context", "key", a.key)
			l.hooks.Stuck(a.key, over)
		})
	}
}

// reap looks for vanished workers.
func (l *loop[T]) reap(keep context.Context) {
	own := l.cfg.Lease / 6
	for pause := time.Duration(0); sleep(keep, pause); {
		ctx, cancel := context.WithTimeout(keep, max(l.cfg.Lease/6, time.Second))
		r, err := l.reaper.Reap(ctx, ReapRequest{MaxAttempts: l.cfg.MaxAttempts, ClockOnly: l.cfg.ReclaimByClockOnly})
		cancel()
		if err != nil {
			l.cfg.Logger.Debug("sendonce: looking for vanished workers failed; trying again", "err", err)
		}
		if r.Returned+r.Dead+r.Unknown > 0 {
			l.count.returned.Add(int64(r.Returned))
			l.mu.Lock()
			l.unknowns += r.Unknown
			l.mu.Unlock()
			l.cfg.Logger.Info("sendonce: rows of vanished workers were given back", "returned", r.Returned, "dead", r.Dead, "unknown", r.Unknown)
			l.hooks.Reaped(r)
		}
		next := own
		if r.Next > 0 {
			next = min(next, r.Next)
		}
		pause = jitter(next)
	}
}
