package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/leases"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/sqllock"
	"github.com/sendonce/sendonce/partition"
)

// Unmarked claims rows of this process's own partitions without writing to them:
// a claim is a SELECT, and the only write is the result. It is the fastest
// strategy, and promises less than the others:
//
//   - A partition is worked on by one process at a time, which holds its lease in
//     the table of package sqllock; another process with the same partition waits,
//     and its Health says for whom. If the owner vanishes, the partition is taken
//     over after up to two leases.
//   - A result is written only while that lease is the partition's last one, in one
//     transaction with the look at it. So what a process that was taken for dead
//     has sent is not recorded when it comes back, and is sent again: there are no
//     late facts.
//   - The attempts of a worker that vanishes are not counted, so a row that kills
//     its worker kills the next one too.
//   - AtMostOnce is refused: nothing is recorded before the send.
//   - Nobody may work on the table with a marking strategy at the same time: a
//     claim refuses if it sees a marked one, but not the other way round.
//
// It implements sendonce.Claimer, Ender, Reaper and Counter.
type Unmarked[T any] struct {
	store       *store // for what concerns the whole table
	shape       *shape[T]
	partitioner partition.Partitioner
	slots       slots
	settle      plainSQL
	flying      *flying
	due         *dueSQL

	claiming gate // guards what follows
	turn     int
	parts    map[int]*claimer[T]
	looked   time.Time // for marked claims

	mu     sync.Mutex
	claims map[int64]tenure // by token
	lease  time.Duration
}

var _ interface {
	sendonce.Claimer[struct{}]
	sendonce.Ender
	sendonce.Reaper
	sendonce.Counter
} = &Unmarked[struct{}]{}

// NewUnmarked checks the table as Check does, and that of the leases (see
// sqllock.Migrate, and Options.LocksTable), and makes the strategy; compare
// NewPartitioned. All processes use the same number of partitions and the same
// Config.Lease.
func NewUnmarked[T any](ctx context.Context, db *sqlx.DB, d Dialect, t Table, p partition.Partitioner, o *Options) (*Unmarked[T], error) {
	if p == nil {
		return nil, errors.New("sendonce: NewUnmarked needs a partition.Partitioner: use partition.Static or partition.FromEnv")
	}
	c, err := open[T](ctx, db, d, t, o, "")
	if err != nil {
		return nil, err
	}
	var locks sqllock.Options
	if o != nil {
		locks.Table = o.LocksTable
	}
	locker, err := sqllock.New(ctx, db.DB, map[Dialect]sqllock.Dialect{Postgres: sqllock.Postgres, MySQL: sqllock.MySQL, SQLite: sqllock.SQLite}[d], &locks)
	if err != nil {
		return nil, err
	}
	if err := c.divisible(); err != nil {
		return nil, err
	}
	u := &Unmarked[T]{
		store: c.store, shape: c.shape, partitioner: p, due: c.due, settle: newPlainSQL(c.names, leases.Verify(c.d, locker.Table())), flying: newFlying(),
		claiming: newGate(), claims: map[int64]tenure{}, parts: map[int]*claimer[T]{}, lease: 30 * time.Second,
	}
	u.slots = slots{gate: newGate(), locker: locker, prefix: cut("sendonce partition "+c.source, 150), byID: map[int]*slot{}}
	return u, nil
}

// Claim implements sendonce.Claimer. A claim is of one partition; they take
// turns. Batch.Until is when the partition's lease ends.
func (u *Unmarked[T]) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	var none sendonce.Batch[T]
	if err := checkRequest(req); err != nil {
		return none, err
	}
	if req.Delivery == sendonce.AtMostOnce {
		return none, errors.New("sendonce: AtMostOnce needs rows to be marked: use claim.NewPartitioned")
	}
	if err := u.claiming.enter(ctx); err != nil {
		return none, err
	}
	defer u.claiming.leave()
	if err := u.refuseMarked(ctx); err != nil {
		return none, err
	}
	held, err := u.ready(ctx, req.Lease)
	if err != nil {
		return none, err
	}
	more := false
	for range held {
		u.turn++
		b, err := u.claimFrom(ctx, held[u.turn%len(held)], req)
		if err != nil || len(b.Items) > 0 {
			return b, err
		}
		more = more || b.More
	}
	return sendonce.Batch[T]{More: more}, nil
}

// ready returns the slots that rows can be claimed from, and an error if there is
// none. Without an assignment it is empty.
func (u *Unmarked[T]) ready(ctx context.Context, lease time.Duration) ([]tenure, error) {
	u.mu.Lock()
	u.lease = lease
	u.mu.Unlock()
	if err := u.slots.enter(ctx); err != nil {
		return nil, err
	}
	defer u.slots.leave()
	mine, err := u.assign(ctx)
	if err != nil || len(mine) == 0 {
		return nil, err
	}
	if err := u.slots.keep(ctx, lease); err != nil {
		return nil, err
	}
	var held []tenure
	for _, k := range mine {
		if sl := u.slots.byID[k]; sl.held() && sl.lease.Left() > 0 {
			held = append(held, tenure{sl, sl.lease})
		}
	}
	if len(held) == 0 {
		return nil, u.slots.why(u.store.source)
	}
	return held, nil
}

func (u *Unmarked[T]) claimFrom(ctx context.Context, t tenure, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	b, err := u.parts[t.slot.partition].claim(ctx, req)
	if err != nil || len(b.Items) == 0 {
		return b, err
	}
	b.Until = t.lease.Until
	take(u.flying, b.Token, b.Items)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.claims[b.Token] = t
	return b, nil
}

// assign makes the slots those of the assignment. One that is ours no more is
// given up when nothing of it is left in the air.
func (u *Unmarked[T]) assign(ctx context.Context) ([]int, error) {
	a, err := assignment(ctx, u.partitioner)
	if err != nil {
		return nil, err
	}
	if u.slots.count != 0 && u.slots.count != a.Count {
		return nil, fmt.Errorf("sendonce: there were %d partitions of table %s and are %d now: stop all processes before you change that", u.slots.count, u.store.source, a.Count)
	}
	u.slots.count = a.Count
	for _, k := range a.Mine {
		if u.slots.byID[k] != nil {
			continue
		}
		c, err := u.part(partition.Assignment{Count: a.Count, Mine: []int{k}})
		if err != nil {
			return nil, err
		}
		u.parts[k] = c
		u.slots.byID[k] = &slot{partition: k, key: fmt.Sprintf("%s %d/%d", u.slots.prefix, k, a.Count)}
	}
	for k, sl := range u.slots.byID {
		if !a.Has(k) && !u.busy(sl) {
			if sl.held() {
				// If that fails the lease ends by itself.
				_ = u.slots.locker.Release(ctx, sl.lease)
			}
			delete(u.slots.byID, k)
			delete(u.parts, k)
		}
	}
	return a.Mine, nil
}

func (u *Unmarked[T]) busy(sl *slot) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, of := range u.claims {
		if of.slot == sl {
			return true
		}
	}
	return false
}

// part is a cursor over one partition. It claims, and needs nothing of a store but
// what that takes.
func (u *Unmarked[T]) part(a partition.Assignment) (*claimer[T], error) {
	only, err := u.store.partitionCondition(a)
	if err != nil {
		return nil, err
	}
	c := newClaimer(&store{names: u.store.names, db: u.store.db, walker: newWalker(u.store.names)}, u.shape, "")
	c.ours.Store(&only)
	c.share, c.takesTurns, c.flying = a.Count, true, u.flying
	return c, nil
}

// noMode is none that a claim is marked with.
const noMode = -1

// refuseMarked looks, once a second, whether somebody marks rows of the table.
func (u *Unmarked[T]) refuseMarked(ctx context.Context) error {
	if time.Since(u.looked) < deliveryEvery {
		return nil
	}
	owner, err := u.store.otherOwner(ctx, u.due, noMode)
	if err != nil {
		return err
	}
	if owner != "" {
		return fmt.Errorf("%w: %s marks rows of table %s, and this process does not; wait until its claims are over, or stop it", sendonce.ErrDelivery, owner, u.store.source)
	}
	u.looked = time.Now()
	return nil
}

// Extend implements sendonce.Claimer: it renews the leases of the partitions.
func (u *Unmarked[T]) Extend(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
	var ext sendonce.Extension
	if len(tokens) == 0 {
		return ext, nil
	}
	if err := u.slots.enter(ctx); err != nil {
		return ext, err
	}
	defer u.slots.leave()
	began, lease := time.Now(), u.ttl()
	for _, token := range tokens {
		t := u.tenure(token)
		if t.lasts() && t.slot.asked.Before(began) {
			if err := u.slots.renew(ctx, t.slot, lease, true); err != nil {
				return sendonce.Extension{}, err
			}
		}
		if !t.lasts() {
			ext.Lost = append(ext.Lost, token)
			u.forget(token)
			continue
		}
		if until := t.slot.lease.Until; ext.Until.IsZero() || until.Before(ext.Until) {
			ext.Until = until
		}
	}
	return ext, nil
}

func (u *Unmarked[T]) tenure(token int64) tenure {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.claims[token]
}

// ttl is the lease that claims have asked for.
func (u *Unmarked[T]) ttl() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lease
}

func (u *Unmarked[T]) forget(token int64) {
	u.flying.forget(token)
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.claims, token)
}

// End implements sendonce.Ender.
func (u *Unmarked[T]) End(_ context.Context, tokens []int64) error {
	for _, t := range tokens {
		u.forget(t)
	}
	return nil
}

// Release gives the partitions back at once, for when the Dispatcher has stopped:
// else others wait until their leases are over. Results that come later are
// refused.
func (u *Unmarked[T]) Release(ctx context.Context) error {
	if err := u.slots.enter(ctx); err != nil {
		return err
	}
	defer u.slots.leave()
	var failed error
	for _, sl := range u.slots.byID {
		if !sl.held() {
			continue
		}
		err := u.slots.locker.Release(ctx, sl.lease)
		if err == nil || errors.Is(err, lock.ErrLost) {
			sl.lease, sl.looked, sl.since = lock.Lease{}, time.Time{}, time.Time{}
			continue
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// Reap implements sendonce.Reaper: it keeps the leases of the partitions while
// nothing is claimed, watches those that are waited for, and gives back what
// vanished workers of a marking strategy have left.
func (u *Unmarked[T]) Reap(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
	lease := u.ttl()
	if err := u.slots.enter(ctx); err != nil {
		return sendonce.Reaped{}, err
	}
	err := u.slots.keep(ctx, lease)
	u.slots.leave()
	if err != nil {
		return sendonce.Reaped{}, err
	}
	u.store.sight.lease.Store(int64(lease))
	r, err := u.store.Reap(ctx, req)
	if next := lease / slotLooks; r.Next == 0 || next < r.Next {
		r.Next = next
	}
	return r, err
}

// Counts implements sendonce.Counter. Rows that are being sent count as pending.
func (u *Unmarked[T]) Counts(ctx context.Context) (sendonce.Counts, error) {
	return u.store.Counts(ctx)
}

// Requeue puts rows back: see the method of the other strategies.
func (u *Unmarked[T]) Requeue(ctx context.Context, r Requeue) (int64, error) {
	return u.store.Requeue(ctx, r)
}

// Overview counts the rows: see the method of the other strategies.
func (u *Unmarked[T]) Overview(ctx context.Context) (Overview, error) { return u.store.Overview(ctx) }

// Partitions returns which partitions this process holds now, ascending.
func (u *Unmarked[T]) Partitions() []int {
	if u.slots.enter(context.Background()) != nil {
		return nil
	}
	defer u.slots.leave()
	var ks []int
	for k, sl := range u.slots.byID {
		if sl.held() && sl.lease.Left() > 0 {
			ks = append(ks, k)
		}
	}
	slices.Sort(ks)
	return ks
}
