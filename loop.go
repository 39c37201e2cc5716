package sendonce

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	marksAtOnce = 1000             // results in one Settle
	marksMost   = 2000             // finished and unrecorded: senders wait beyond
	bookkeeping = 10 * time.Second // one statement of ours
	lastWords   = 10 * time.Second // for results, once the sends are over
)

// loop is one run of a Dispatcher. Its goroutines: intake claims, senders send,
// the marker records, the keeper renews, the watchman decides on losses, the
// reaper looks for vanished workers. run owns them all and waits for them.
type loop[T any] struct {
	*Dispatcher[T]
	drain   bool
	ctx     context.Context // never cancelled: bookkeeping goes on at the end
	work    context.Context // of the sends
	endWork context.CancelCauseFunc
	going   context.Context // until nothing new may begin
	halt    context.CancelFunc
	epoch   time.Time
	resume  atomic.Int64 // nanoseconds after epoch: nothing begins before
	yield   atomic.Int64 // likewise: nothing is claimed before
	turn    chan struct{}
	freed   chan struct{} // a claim of ours has ended: others may be claimable by it
	quick   atomic.Int32  // permissions in a row that came at once

	mu        sync.Mutex
	startable sync.Cond // senders wait: there may be something to send
	hungry    sync.Cond // intake waits: there may be too little to send
	marked    sync.Cond // the marker waits for results
	endable   sync.Cond // the ender waits for claims
	intended  sync.Cond // the beginner waits for intents

	ready    queue[T]
	waiting  int // rows in ready
	batches  map[int64]*held
	sending  map[Key]struct{}
	slots    map[*slot[T]]struct{} // of all senders
	atWork   int                   // of them
	alone    bool                  // a row is being sent alone
	alones   int                   // live claims of such rows
	stuck    int                   // slots whose Send ignores its context
	stopping bool
	pace     time.Duration // smoothed duration of a Send

	intents []*intent // to be recorded (AtMostOnce)

	marks   []Result
	parked  []Result // those that fail while others can be recorded
	ended   []int64  // claims to be ended
	unended []int64  // those that could not be: tried with the next ones

	parkedSince  time.Time // the first of them
	markingSince time.Time

	told told
	dead int // rows, for the log

	marking   int  // results being recorded now
	noMore    bool // results
	noEnds    bool // claims to be ended
	noIntents bool
	unknowns  int       // rows that became so
	failing   time.Time // since when results can't be recorded; zero: they can
	failure   error
	storeDown error // the last claim's error, nil after one that worked
	noLimit   error // the Limiter's last answer, nil after a permission
	fatal     error // why the run ends by itself
	giveUp    time.Time
}

// held is a live claim.
type held struct {
	token   int64
	claimed time.Time
	since   time.Time // the lease counts from here
	until   time.Time // an earlier end, or zero
	open    int       // rows not answered yet
	alone   bool
	spent   bool // one of its sends is stuck: it begins no more rows
	lost    bool // by the watchman's word: likewise
	gone    bool // by the store's word: not ours any more
	closed  bool // no longer renewed
	given   bool // the quiet that it was sent alone in was given up

	ctx context.Context // of its sends
	end context.CancelCauseFunc
}

func (h *held) mayBegin() bool { return !h.spent && !h.lost && !h.gone }

func (h *held) left(lease time.Duration, now time.Time) time.Duration {
	left := lease - elapsed(h.since, now)
	if !h.until.IsZero() {
		left = min(left, h.until.Sub(now))
	}
	return left
}

// job is what one Send gets.
type job[T any] struct {
	b     *held
	items []Item[T]
	rows  []attempt
}

// attempt is what is kept of an item: the Sender may change the item itself.
type attempt struct {
	key Key
	n   int
}

// slot is a sender's place: it takes one job after the other.
type slot[T any] struct {
	job[T]  // that is sent, or was sent last
	atWork  bool
	taken   time.Time
	began   time.Time
	working bool // the Sender was called, or is about to be
	stuck   bool
	unsent  []bool // by row: answered without a send; nil: none

	contexts []sendContext // to be used: an array, as one by one they cost more
	results  []Result      // memory for the answer of a job
	answers  []error
}

func newLoop[T any](d *Dispatcher[T], drain bool) *loop[T] {
	l := &loop[T]{
		Dispatcher: d, drain: drain, turn: make(chan struct{}, 1), freed: make(chan struct{}, 1), epoch: time.Now(), pace: d.cfg.SendTimeout / 2,
		told: told{}, batches: map[int64]*held{}, sending: map[Key]struct{}{}, slots: map[*slot[T]]struct{}{},
	}
	for _, c := range []*sync.Cond{&l.startable, &l.hungry, &l.marked, &l.endable, &l.intended} {
		c.L = &l.mu
	}
	return l
}

func (l *loop[T]) run(ctx context.Context) error {
	l.ctx = context.WithoutCancel(ctx)
	l.work, l.endWork = context.WithCancelCause(l.ctx)
	defer l.endWork(nil)
	l.going, l.halt = context.WithCancel(l.ctx)

	var senders, intake, keepers, marker, ender, beginner sync.WaitGroup
	keep, endKeepers := context.WithCancel(l.ctx) // last of all
	defer endKeepers()
	for range l.cfg.Concurrency {
		senders.Add(1)
		go l.sender(&senders)
	}
	marker.Go(l.marker)
	ender.Go(l.endClaims)
	if l.cfg.Delivery == AtMostOnce {
		beginner.Go(l.recordIntents)
	}
	keepers.Go(func() { l.keeper(keep) })
	keepers.Go(func() { l.watchman(keep) })
	keepers.Go(func() { l.parker(keep) })
	if l.reconciler != nil && l.examiner != nil {
		keepers.Go(func() { l.examine(keep) })
	}
	if l.reaper != nil {
		keepers.Go(func() { l.reap(keep) })
	}
	done := make(chan struct{})
	intake.Go(func() { defer close(done); l.intake(ctx) })

	select {
	case <-ctx.Done():
	case <-done:
	}
	l.stopAll()
	l.waitForSends(&senders)
	intake.Wait() // its last claim is bounded; what that took is released
	stuck := l.closeMarks()
	beginner.Wait()
	marker.Wait()
	endKeepers()
	keepers.Wait()
	l.lastTry()
	l.closeEnds()
	ender.Wait()
	return l.outcome(ctx, stuck)
}

// stopAll ends intake and gives back what was not begun.
func (l *loop[T]) stopAll() {
	l.halt()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	for l.ready.len() > 0 {
		l.giveBack(l.take(0), Released, 0)
	}
	l.startable.Broadcast()
	l.hungry.Broadcast()
}

// waitForSends gives them StopTimeout, then ends their context, and then waits a
// little more.
func (l *loop[T]) waitForSends(senders *sync.WaitGroup) {
	over := make(chan struct{})
	go func() { senders.Wait(); close(over) }()
	if endsWithin(l.cfg.StopTimeout, over) {
		return
	}
	l.endWork(ErrStopping)
	endsWithin(max(l.cfg.margin(), time.Second), over)
}

// endsWithin waits until over is closed, or for d.
func endsWithin(d time.Duration, over <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-over:
		return true
	case <-t.C:
		return false
	}
}

func (l *loop[T]) outcome(ctx context.Context, stuck []Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var unrecorded []Key
	for _, r := range append(l.marks, l.parked...) {
		unrecorded = append(unrecorded, r.Key)
	}
	if len(stuck) > 0 || len(unrecorded) > 0 {
		return &StoppedError{Stuck: stuck, Unrecorded: unrecorded, Err: l.failure}
	}
	if l.fatal != nil {
		return l.fatal
	}
	if l.drain && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// StoppedError says which rows a stopped Dispatcher has left behind. Nothing is
// lost: they come back when the lease of their claim is over.
type StoppedError struct {
	Stuck      []Key // their Send would not end; it may still be sending
	Unrecorded []Key // sent, or failed, and the store could not be told
	Err        error // the store's last answer, or nil
}

func (e *StoppedError) Error() string {
	s := "sendonce: stopped"
	if len(e.Stuck) > 0 {
		s += fmt.Sprintf(", %d rows whose send would not end: %v", len(e.Stuck), e.Stuck)
	}
	if len(e.Unrecorded) > 0 {
		s += fmt.Sprintf(", %d rows whose result could not be recorded: %v", len(e.Unrecorded), e.Unrecorded)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *StoppedError) Unwrap() error { return e.Err }

// giveBack answers rows that were not begun. l.mu is held.
func (l *loop[T]) giveBack(j job[T], o Outcome, after time.Duration) {
	if j.b.gone { // nothing to answer: they are another's
		l.settled(j.b, len(j.items))
		return
	}
	for _, a := range j.rows {
		l.marks = append(l.marks, Result{Key: a.key, Token: j.b.token, Outcome: o, After: after, Uncharged: o == Retry})
	}
	l.marked.Broadcast()
}

// settled takes rows off a claim's account. l.mu is held.
func (l *loop[T]) settled(b *held, rows int) {
	b.open -= rows
	if b.open > 0 {
		return
	}
	delete(l.batches, b.token)
	b.end(nil)
	if b.alone && !b.given {
		l.alones--
	}
	if l.ender != nil && !b.gone {
		l.ended = append(l.ended, b.token)
		l.endable.Broadcast()
	}
	l.hungry.Broadcast()
}

func (l *loop[T]) health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Health{OK: true, Unrecorded: len(l.marks) + l.marking + len(l.parked), InFlight: l.atWork, Stuck: l.stuck}
	switch {
	case !l.failing.IsZero():
		h.Problem = fmt.Sprintf("results could not be recorded for %v: %v", time.Since(l.failing).Round(time.Millisecond), l.failure)
	case l.storeDown != nil:
		h.Problem = "no rows can be claimed: " + l.storeDown.Error()
	case l.noLimit != nil:
		h.Problem = "Config.Limiter gives no answer: " + l.noLimit.Error()
	case h.Stuck > 0:
		h.Problem = fmt.Sprintf("%d sends ignore the end of their context", h.Stuck)
	case len(l.parked) > 0:
		h.Problem = fmt.Sprintf("%d results can't be recorded: %v", len(l.parked), l.failure)
	}
	h.OK = h.Problem == ""
	return h
}
