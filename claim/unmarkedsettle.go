package claim

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
	"github.com/sendonce/sendonce/internal/leases"
	"github.com/sendonce/sendonce/lock"
)

// plainSQL records results of rows that were never marked (docs/semantics.md,
// section 3, 12b). The attempts that were read prove that a statement is no
// repeat of one whose reply was lost.
type plainSQL struct {
	// held and heldPairs make rows done with the look at the partition's lease in
	// the same statement, where the database can hold on to the lease's row there.
	// Else they are nil.
	held, heldPairs *dialect.Stmt
	done, look      *dialect.Stmt
	opinions        map[opinionForm]*dialect.Stmt
}

// newPlainSQL renders them; lease finds the partition's lease if it is ours.
func newPlainSQL(n *names, lease string) plainSQL {
	finish := func(where ...string) string {
		return n.finish(", "+n.attempts+" = "+n.attempts+" + 1", append(where, n.is(pending))...)
	}
	pairs := n.d.PairsIn(n.key, n.attempts, n.keyKind)
	s := plainSQL{done: n.d.Compile(finish(pairs)), look: n.look(n.attempts), opinions: n.opinions(true)}
	if n.d.Caps().WriteCTE {
		held := func(where ...string) *dialect.Stmt {
			return n.d.Compile("WITH held AS (" + lease + ") " + finish(append(where, "EXISTS (SELECT 1 FROM held)")...))
		}
		s.held = held(n.keysIn(), n.attempts+" = "+n.d.Int(":attempts"))
		s.heldPairs = held(pairs)
	}
	return s
}

// Settle implements sendonce.Claimer. The results of each partition are one
// statement, or one transaction, which makes sure that the partition is still ours
// and that nobody can take it over meanwhile.
func (u *Unmarked[T]) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	var out []sendonce.Exception
	var failed error
	for _, un := range u.units(rs) {
		if un.lease.Token == "" {
			for _, r := range un.rs {
				out = append(out, u.refused(r))
			}
			continue
		}
		es, err := u.settleUnit(ctx, un.lease, un.rs)
		out = append(out, es...)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		u.flying.land(un.rs)
	}
	if failed != nil {
		return nil, failed
	}
	return out, nil
}

// unit is results of one partition; without a token in its lease, of partitions
// that were lost.
type unit struct {
	lease lock.Lease
	rs    []sendonce.Result
}

func (u *Unmarked[T]) units(rs []sendonce.Result) []unit {
	var all []unit
	for len(rs) > 0 {
		lease, n := u.tenure(rs[0].Token).lease, 1
		for n < len(rs) && (rs[n].Token == rs[n-1].Token || u.tenure(rs[n].Token).lease.Token == lease.Token) {
			n++
		}
		i := slices.IndexFunc(all, func(x unit) bool { return x.lease.Token == lease.Token })
		if i < 0 {
			all = append(all, unit{lease, rs[:n:n]})
		} else {
			all[i].rs = append(all[i].rs, rs[:n]...)
		}
		rs = rs[n:]
	}
	return all
}

// refused is the exception of a result that comes when the partition is lost. A
// Done may then be sent again.
func (u *Unmarked[T]) refused(r sendonce.Result) sendonce.Exception {
	if r.Outcome == sendonce.Done {
		return sendonce.Exception{Result: r, Cause: sendonce.Overtaken}
	}
	return sendonce.Exception{Result: r, Cause: sendonce.NotHeld}
}

func (u *Unmarked[T]) settleUnit(ctx context.Context, lease lock.Lease, rs []sendonce.Result) ([]sendonce.Exception, error) {
	if ok, err := u.settleDone(ctx, lease, rs); ok || err != nil {
		return nil, err
	}
	es, err := u.settleOnce(ctx, lease, rs, true)
	if err == nil || u.store.d.Classify(err) != dialect.BadData {
		return es, err
	}
	// One row's text spoils the transaction: alone, each can be written with less.
	es = nil
	var failed error
	for i := range rs {
		one, err := u.settleOnce(ctx, lease, rs[i:i+1], true)
		if err != nil && u.store.d.Classify(err) == dialect.BadData {
			one, err = u.settleOnce(ctx, lease, rs[i:i+1], false)
		}
		if err != nil {
			failed = err
		}
		es = append(es, one...)
	}
	return es, failed
}

func (u *Unmarked[T]) settleOnce(ctx context.Context, lease lock.Lease, rs []sendonce.Result, reasons bool) (out []sendonce.Exception, err error) {
	err = u.store.inTx(ctx, recordResults, func(tx dialect.Tx) error {
		out = nil
		if err := u.slots.locker.Verify(ctx, tx, lease); errors.Is(err, lock.ErrLost) {
			for _, r := range rs {
				out = append(out, u.refused(r))
			}
			return nil
		} else if err != nil {
			return err
		}
		for _, g := range u.store.group(rs) {
			n, err := u.write(ctx, tx, g, reasons)
			if err != nil {
				return err
			}
			if n == int64(len(g.rs)) {
				continue
			}
			es, err := u.explain(ctx, tx, g.rs)
			if err != nil {
				return err
			}
			out = append(out, es...)
		}
		return nil
	})
	return out, err
}

// settleDone records rows that were all sent, and nothing happened to any of them,
// in one statement. Where it answers false, nothing is known: settleOnce finds out.
func (u *Unmarked[T]) settleDone(ctx context.Context, lease lock.Lease, rs []sendonce.Result) (bool, error) {
	if u.settle.held == nil || !allOf(rs, sendonce.Done) {
		return false, nil
	}
	attempts := u.flying.aloft(rs)
	if slices.Contains(attempts, -1) {
		return false, nil
	}
	st, args := u.settle.held, leases.Args(lease)
	args["keys"], args["attempts"] = keysOfResults(rs), attempts[0]
	if !alike(attempts) {
		st, args["tokens"] = u.settle.heldPairs, attempts
	}
	n, err := u.store.exec(ctx, u.store.db, recordResults, st, args)
	return n == int64(len(rs)), err
}

// write runs the statement of a group for those of its rows that are in the air:
// what comes for others is a repeat, or comes too late.
func (u *Unmarked[T]) write(ctx context.Context, tx dialect.Tx, g settleGroup, reasons bool) (int64, error) {
	flying, attempts := settleGroup{outcome: g.outcome}, dialect.Tokens{}
	for i, n := range u.flying.aloft(g.rs) {
		if n >= 0 {
			flying.rs, attempts = append(flying.rs, g.rs[i]), append(attempts, n)
		}
	}
	if len(flying.rs) == 0 {
		return 0, nil
	}
	if g.outcome == sendonce.Done {
		keys := keysOfResults(flying.rs)
		return u.store.exec(ctx, tx, recordResults, u.settle.done, dialect.Args{
			"keys": keys, "tokens": attempts, "pairs": dialect.Pairs{Keys: keys, Tokens: attempts},
		})
	}
	if g.outcome == sendonce.Released { // nothing was written; due at once it will be found
		flying.outcome = sendonce.Retry
		for i := range flying.rs {
			flying.rs[i].Uncharged, flying.rs[i].After = true, 0
		}
		reasons = false
	}
	// A group of releases may be longer than the largest statement.
	total := int64(0)
	for len(flying.rs) > 0 {
		n := min(len(flying.rs), opinionSizes[len(opinionSizes)-1])
		some := settleGroup{flying.outcome, flying.rs[:n]}
		form, args := u.store.opinionArgs(some, reasons && u.store.lastError != "")
		form.plain = true
		for i := range form.size {
			args["t"+strconv.Itoa(i)] = attempts[min(i, n-1)]
		}
		wrote, err := u.store.exec(ctx, tx, recordResults, u.settle.opinions[form], args)
		if err != nil {
			return 0, err
		}
		total, flying.rs, attempts = total+wrote, flying.rs[n:], attempts[n:]
	}
	return total, nil
}

// explain finds out why results were not written, under the partition's lease.
func (u *Unmarked[T]) explain(ctx context.Context, tx dialect.Tx, rs []sendonce.Result) ([]sendonce.Exception, error) {
	rows, err := u.store.standings(ctx, tx, u.settle.look, rs)
	if err != nil {
		return nil, err
	}
	var out []sendonce.Exception
	for _, r := range rs {
		row, found := rows[r.Key]
		if cause := plainCause(r, row, found, u.flying.seen(r), u.store.deleteDone); cause != 0 {
			out = append(out, sendonce.Exception{Result: r, Cause: cause, Status: row.status})
		}
	}
	return out, nil
}

// plainCause is causeOf for rows that carry no token: nobody else has the
// partition, so a row that stands as wanted was written by an earlier try.
func plainCause(r sendonce.Result, row standing, found bool, seen int64, deleteDone bool) sendonce.Cause {
	charged := seen + 1
	if r.Uncharged || r.Outcome == sendonce.Released {
		charged = seen
	}
	switch {
	case !found && r.Outcome == sendonce.Done && deleteDone:
		return 0
	case !found:
		return sendonce.Missing
	case row.state == foreign:
		return sendonce.Foreign
	case row.state == finalOf[r.Outcome] && row.proof == charged:
		return 0
	case r.Outcome == sendonce.Done:
		return sendonce.Overtaken
	}
	return sendonce.NotHeld
}
