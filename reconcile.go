package sendonce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// call gives a job to the Sender: but for rows that are in doubt, if what became
// of them is known, or can't be known any more.
func (l *loop[T]) call(ctx context.Context, s *slot[T]) error {
	if !inDoubt(s.items) || l.reconciler == nil && l.cfg.IdempotencyWindow == 0 && l.cfg.Delivery == AtLeastOnce {
		return call(ctx, l.Dispatcher.sender.Send, s.items)
	}
	answers := make(ItemErrors, len(s.items))
	s.unsent = make([]bool, len(s.items))
	l.reconcile(ctx, s, answers)
	items, at := some(s.items, func(i int) bool { return !s.unsent[i] })
	if len(items) == 0 {
		return answers
	}
	err := call(ctx, l.Dispatcher.sender.Send, items)
	for i := range items {
		answers[at[i]] = answerSafely(err, i)
	}
	return answers
}

func inDoubt[T any](items []Item[T]) bool {
	return slices.ContainsFunc(items, func(item Item[T]) bool { return item.InDoubt })
}

// some are the items that f chooses, and where each of them stands.
func some[T any](items []Item[T], f func(i int) bool) (chosen []Item[T], at []int) {
	for i, item := range items {
		if f(i) {
			chosen, at = append(chosen, item), append(at, i)
		}
	}
	return chosen, at
}

// reconcile answers those rows of a job that are in doubt and need no send.
func (l *loop[T]) reconcile(ctx context.Context, s *slot[T], answers ItemErrors) {
	items, at := some(s.items, func(i int) bool { return s.items[i].InDoubt })
	for i, answer := range l.askProvider(ctx, items) {
		if answer.fate == unclear {
			answer.err = l.tooLate(items[i])
		}
		answers[at[i]] = answer.err
		s.unsent[at[i]] = answer.fate == accepted || answer.fate == refused || answer.fate == unclear && answer.err != nil
	}
}

// tooLate says why an item whose fate nobody knows may not be sent again; nil if
// it may.
func (l *loop[T]) tooLate(item Item[T]) error {
	age, window := item.DoubtAge, l.cfg.IdempotencyWindow
	switch {
	case l.cfg.Delivery == AtMostOnce:
		return newVerdict(expired, 0, errors.New("an earlier send may have been accepted"))
	case window > 0 && (age == 0 || age+l.cfg.SendTimeout > window):
		return newVerdict(expired, 0, fmt.Errorf("an earlier send may have been accepted %v ago, and the provider remembers keys for %v (Config.IdempotencyWindow)", age.Round(time.Second), window))
	}
	return nil
}

// fate is what is known of an earlier send.
type fate uint8

const (
	unclear  fate = iota
	accepted      // it was sent
	refused       // and no retry helps
	never         // it was not sent, and can't be any more
)

type fateOf struct {
	fate fate
	err  error
}

// askProvider asks the Reconciler, if there is one, about items.
func (l *loop[T]) askProvider(ctx context.Context, items []Item[T]) []fateOf {
	out := make([]fateOf, len(items))
	if l.reconciler == nil {
		return out
	}
	err := call(ctx, l.reconciler.Reconcile, slices.Clone(items))
	for i := range out {
		answer := answerSafely(err, i)
		out[i].err = answer
		switch verdictOf(answer).kind {
		case sentKind:
			out[i].fate = accepted
		case permanent, skip:
			out[i].fate = refused
		case notSent:
			out[i].fate = never
		}
	}
	return out
}

const (
	examineFirst = time.Minute // between two looks at the same unknown rows
	examineMost  = 10 * time.Minute
	examineRows  = 100
)

// examine asks about unknown rows: those that there were, those that this process
// made, and again, ever more rarely, while some are left.
func (l *loop[T]) examine(keep context.Context) {
	seen, pause, next := -1, examineFirst, time.Time{}
	// A send under a claim that was lost has ended when its lease has.
	for sleep(keep, l.cfg.Lease) {
		l.mu.Lock()
		made := l.unknowns
		l.mu.Unlock()
		switch now := time.Now(); {
		case made != seen:
			pause = examineFirst
		case next.IsZero() || now.Before(next):
			continue
		}
		began := time.Now()
		left, err := l.examineAll(keep)
		if err != nil && keep.Err() == nil {
			l.cfg.Logger.Warn("sendonce: unknown rows can't be examined; trying again", "err", err)
		}
		next = time.Time{}
		if left > 0 || err != nil {
			next = time.Now().Add(max(pause, countsShare*time.Since(began)))
			pause = min(2*pause, examineMost)
		}
		if err == nil {
			seen = made
		}
	}
}

// examineAll asks about all rows that are unknown now. It returns how many stay
// so.
func (l *loop[T]) examineAll(ctx context.Context) (left int, err error) {
	for after := Key(nil); ; {
		rows, err := l.unknownsAfter(ctx, after)
		if err != nil || len(rows) == 0 {
			return left, err
		}
		after = rows[len(rows)-1].Item.Key
		for len(rows) > 0 {
			n := min(len(rows), l.cfg.GroupSize)
			stay, err := l.examineSome(ctx, rows[:n])
			if err != nil {
				return left, err
			}
			left += stay
			rows = rows[n:]
		}
	}
}

func (l *loop[T]) unknownsAfter(ctx context.Context, after Key) ([]UnknownRow[T], error) {
	ctx, cancel := context.WithTimeout(ctx, max(bookkeeping, l.cfg.Lease))
	defer cancel()
	return l.examiner.Unknowns(ctx, after, examineRows)
}

func (l *loop[T]) examineSome(ctx context.Context, rows []UnknownRow[T]) (left int, err error) {
	var items []Item[T]
	var refs []Ref
	for _, row := range rows {
		if row.Item.Err != nil { // nobody can ask about it
			left++
			continue
		}
		items, refs = append(items, row.Item), append(refs, Ref{row.Item.Key, row.Token})
	}
	if len(items) == 0 {
		return left, nil
	}
	limited, cancel := context.WithTimeout(ctx, l.cfg.SendTimeout)
	fates := l.askProvider(limited, items)
	cancel()
	var facts []Result
	var back []Ref
	for i, f := range fates {
		switch f.fate {
		case accepted:
			facts = append(facts, Result{Key: refs[i].Key, Token: refs[i].Token, Outcome: Done})
		case never:
			back = append(back, refs[i])
		default:
			left++
		}
	}
	if len(facts) > 0 {
		if err := l.recordLate(facts); err != nil {
			return left, err
		}
	}
	if len(back) == 0 {
		return left, nil
	}
	limited, cancel = context.WithTimeout(ctx, bookkeeping)
	defer cancel()
	_, err = l.examiner.Resume(limited, back)
	return left, err
}

// recordLate records what the provider knows of rows that are not held.
func (l *loop[T]) recordLate(facts []Result) error {
	ctx, cancel := context.WithTimeout(l.ctx, bookkeeping)
	defer cancel()
	began := time.Now()
	es, err := l.claimer.Settle(ctx, facts)
	l.hooks.Settled(len(facts), time.Since(began), err)
	if err != nil {
		return err
	}
	refused := map[Key]bool{}
	for _, e := range es {
		if e.Cause != Late { // somebody else was faster
			refused[e.Result.Key] = true
			l.hooks.Excepted(e)
		}
	}
	for _, r := range facts {
		if !refused[r.Key] {
			l.count.recorded(Done)
			l.count.reconciled.Add(1)
			l.hooks.Reconciled(r.Key, Done, nil)
		}
	}
	return nil
}
