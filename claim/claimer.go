package claim

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

const (
	// windowsPerClaim bounds how much of the table one Claim walks over, besides
	// windowRows: rows that come back wait for the walk.
	windowsPerClaim = 8

	// collisions is how often a claim that others emptied tries again at once.
	collisions = 8

	// dueEvery is the shortest time between two looks for rows that come back,
	// after one that found few.
	dueEvery = 25 * time.Millisecond

	// deliveryEvery is how often a claim makes sure that nobody sends the same
	// table under the other promise.
	deliveryEvery = time.Second
)

// claimer is the part that all strategies share and that knows T: which rows to
// take. How they are taken is one statement (take.go).
type claimer[T any] struct {
	*store
	shape   *shape[T]
	takes   takeSQL
	due     *dueSQL
	locking string // what the sub-select ends with: the strategies differ in it
	share   int    // one row in so many meets it
	// takesTurns: claims don't collide, so there is no need to scatter.
	takesTurns bool
	// prepare is asked before each claim, and says whether there is anything to
	// claim from. It may change only and share.
	prepare func(ctx context.Context) (bool, error)
	// findRows, if not nil, is another way to find rows and take them.
	findRows func(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error)
	// flying, if not nil, are the rows in this process's hands, and the table
	// does not say so: rows are read, and not marked (see Unmarked).
	flying   *flying
	lastSize atomic.Int64 // rows that were read last: as many come again
	turn     gate

	dueAt      time.Time // when to look next for rows that come back
	wasDue     bool      // the last claim took such rows
	lowMark    int64     // microseconds: nothing due is older
	lowReset   time.Time
	rotate     int
	delivery   sendonce.Delivery // the one that was checked last
	deliveryAt time.Time
	doubts     []doubt
}

func newClaimer[T any](s *store, sh *shape[T], locking string) *claimer[T] {
	c := &claimer[T]{store: s, shape: sh, locking: locking, share: 1, turn: newGate()}
	c.takes = takeSQL{n: s.names, list: sh.list}
	c.due = newDueSQL(s.names)
	return c
}

// Claim implements sendonce.Claimer. Claims of one process take turns: they
// share a cursor.
func (c *claimer[T]) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	if err := c.turn.enter(ctx); err != nil {
		return sendonce.Batch[T]{}, err
	}
	defer c.turn.leave()
	if err := checkRequest(req); err != nil {
		return sendonce.Batch[T]{}, err
	}
	c.sight.lease.Store(int64(req.Lease))
	c.sight.atMostOnce.Store(req.Delivery == sendonce.AtMostOnce)
	if c.prepare != nil {
		if ok, err := c.prepare(ctx); err != nil || !ok {
			return sendonce.Batch[T]{}, err
		}
	}
	if b, err := c.resolveDoubts(ctx, req); err != nil || len(b.Items) > 0 {
		return b, err
	}
	if err := c.checkDelivery(ctx, req); err != nil {
		return sendonce.Batch[T]{}, err
	}
	if c.findRows != nil {
		return c.findRows(ctx, req)
	}
	return c.claim(ctx, req)
}

func checkRequest(req sendonce.ClaimRequest) error {
	if req.Limit < 1 || req.Lease <= 0 {
		return fmt.Errorf("sendonce: a claim of %d rows for %v: both must be positive", req.Limit, req.Lease)
	}
	return nil
}

// claim lets rows that come back and fresh rows take turns, so that neither
// starves the other.
func (c *claimer[T]) claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	now := time.Now()
	dueFirst := !c.wasDue && !now.Before(c.dueAt)
	if dueFirst {
		b, err := c.claimDue(ctx, req, now)
		if c.wasDue = len(b.Items) > 0; err != nil || c.wasDue {
			return b, err
		}
	}
	c.wasDue = false
	b, err := c.claimFresh(ctx, req, now)
	if err != nil || len(b.Items) > 0 || b.More || dueFirst {
		return b, err
	}
	b, err = c.claimDue(ctx, req, now)
	c.wasDue = len(b.Items) > 0
	return b, err
}

func (c *claimer[T]) claimFresh(ctx context.Context, req sendonce.ClaimRequest, now time.Time) (sendonce.Batch[T], error) {
	if c.order != "" {
		return c.claimOrdered(ctx, req)
	}
	w := &c.walker
	if !w.started {
		if err := c.beginWalk(ctx, c.locking == "" && !c.takesTurns && !c.d.Caps().OneWriter); err != nil {
			return sendonce.Batch[T]{}, err
		}
	}
	w.takeTurns(now)
	limit := roundLimit(req.Limit)
	collided, walked := 0, 0
	for range windowsPerClaim {
		if w.end == nil && walked > 0 && walked+w.size > windowRows {
			break
		}
		before := time.Now()
		ok, err := c.nextWindow(ctx, now)
		if err != nil || !ok {
			return sendonce.Batch[T]{}, err
		}
		p := pick{kind: freshRows, lower: w.cur != nil, limit: limit}
		b, err := c.takeBatch(ctx, req, p, dialect.Args{"from": w.cur, "to": w.end}, false)
		if err != nil {
			return b, err
		}
		if len(b.Items) > 0 {
			slices.SortFunc(b.Items, func(x, y sendonce.Item[T]) int { return compareKeys(x.Key, y.Key) })
			b.More = len(b.Items) < req.Limit
			w.found(len(b.Items), limit, c.share, b.Items[0].Key, b.Items[len(b.Items)-1].Key)
			// If the cursor can't be moved it stays, and the next claim walks
			// over these rows again: the rows are ours all the same.
			_ = c.advance(ctx, b.Items)
			return b, nil
		}
		w.worked += time.Since(before)
		left, err := c.othersTakeThem(ctx)
		if err != nil {
			return b, err
		}
		if !left {
			walked += w.size
			w.passed()
			continue
		}
		if err := c.jump(ctx, limit); err != nil {
			return b, err
		}
		if collided++; collided >= collisions {
			break
		}
	}
	return sendonce.Batch[T]{More: true}, nil
}

// advance moves the cursor behind what was taken. Only the database knows the
// order of its texts.
func (c *claimer[T]) advance(ctx context.Context, items []sendonce.Item[T]) error {
	if c.walker.reached(items[len(items)-1].Key) {
		return nil
	}
	keys := make(dialect.Keys, len(items))
	for i := range items {
		keys[i] = items[i].Key
	}
	return c.query(ctx, c.db, "find the last key", c.walker.highest, dialect.Args{"keys": keys}, func(rows *sql.Rows) (err error) {
		c.walker.cur, err = c.scanKey(rows)
		return err
	})
}

// othersTakeThem reports whether the window that gave nothing still has rows to
// give: other claims had marked or locked them.
func (c *claimer[T]) othersTakeThem(ctx context.Context) (bool, error) {
	if c.d.Caps().OneWriter || c.flying != nil {
		return false, nil
	}
	w := &c.walker
	args := c.bind(dialect.Args{"from": w.cur, "to": w.end})
	left := false
	err := c.query(ctx, c.db, "look for rows", c.due.fresh(w.cur != nil, c.only()), args, func(rows *sql.Rows) error {
		left = true
		return nil
	})
	return left, err
}

// claimOrdered takes rows by the user's order.
func (c *claimer[T]) claimOrdered(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	limit := roundLimit(req.Limit)
	for range collisions {
		cands, err := c.candidates(ctx, c.due.ordered(c.flying.beyond(limit), c.only()), dialect.Args{})
		if err != nil || len(cands) == 0 {
			return sendonce.Batch[T]{}, err
		}
		keys := keysOf(cands)
		rank := make(map[sendonce.Key]int, len(keys))
		for i, k := range keys {
			rank[k] = i
		}
		b, err := c.takeBatch(ctx, req, pick{kind: orderedRows}, dialect.Args{"keys": keys}, false)
		if err != nil {
			return b, err
		}
		if len(b.Items) > 0 {
			slices.SortFunc(b.Items, func(x, y sendonce.Item[T]) int { return cmp.Compare(rank[x.Key], rank[y.Key]) })
			b.More = len(b.Items) < req.Limit
			return b, nil
		}
	}
	return sendonce.Batch[T]{More: true}, nil
}

// takeBatch takes a pick under a new token. After an error it may have acted: the
// token is kept, and looked up before the next claim.
func (c *claimer[T]) takeBatch(ctx context.Context, req sendonce.ClaimRequest, p pick, a dialect.Args, alone bool) (sendonce.Batch[T], error) {
	b := sendonce.Batch[T]{Token: newToken(), Alone: alone}
	c.bindClaim(a, b, req)
	items, err := c.take(ctx, p, a)
	if err != nil {
		c.lostReply(ctx, err, b.Token, p.kind, req)
		return sendonce.Batch[T]{}, err
	}
	b.Items = items
	c.doubtful(b.Items, p.kind, req)
	return b, nil
}

// bindClaim gives the arguments that a claim's own row has.
func (c *claimer[T]) bindClaim(a dialect.Args, b sendonce.Batch[T], req sendonce.ClaimRequest) {
	a["token"], a["source"], a["owner"] = b.Token, c.source, cut(req.Owner, ownerChars)
	a["mode"], a["lease"], a["alone"] = int64(req.Delivery), req.Lease.Milliseconds(), int64(0)
	a["last"] = lastBefore(req.MaxAttempts)
	if b.Alone {
		a["alone"] = int64(1)
	}
}

// lostReply remembers a claim that may stand in the database.
func (c *claimer[T]) lostReply(ctx context.Context, err error, token int64, k pickKind, req sendonce.ClaimRequest) {
	if c.flying == nil && (ctx.Err() != nil || c.d.Classify(err) == dialect.Other) {
		c.doubts = append(c.doubts, doubt{token: token, at: time.Now(), lease: req.Lease, kind: k})
	}
}

// doubtful says that rows of vanished workers are in doubt, also in a table that
// keeps no account of it. Under AtMostOnce those that come back were never begun.
func (c *claimer[T]) doubtful(items []sendonce.Item[T], k pickKind, req sendonce.ClaimRequest) {
	if k != suspectRows && k != lastTryRows && k != headSuspect || req.Delivery == sendonce.AtMostOnce {
		return
	}
	for i := range items {
		items[i].InDoubt = true
	}
}

// lastBefore is how many attempts a row has had before its last one.
func lastBefore(maxAttempts int) int64 {
	if maxAttempts <= 0 {
		return math.MaxInt32
	}
	return int64(maxAttempts - 1)
}

// roundLimit keeps two digits, so that there are few statements.
func roundLimit(n int) int {
	for unit := 10; ; unit *= 10 {
		if n < unit*10 {
			return n - n%(unit/10)
		}
	}
}

// checkDelivery refuses to send a table under two promises at a time.
func (c *claimer[T]) checkDelivery(ctx context.Context, req sendonce.ClaimRequest) error {
	now := time.Now()
	if req.Delivery == c.delivery && now.Before(c.deliveryAt) {
		return nil
	}
	owner, err := c.otherOwner(ctx, c.due, int64(req.Delivery))
	if err != nil {
		return err
	}
	if owner != "" {
		return fmt.Errorf("%w: this process sends table %s %v, and %s does not: stop one of them, or use one Config.Delivery", sendonce.ErrDelivery, c.source, req.Delivery, owner)
	}
	c.delivery, c.deliveryAt = req.Delivery, now.Add(deliveryEvery)
	return nil
}

// otherOwner names somebody who holds rows of the table in another mode than this
// one, if there is anybody.
func (s *store) otherOwner(ctx context.Context, due *dueSQL, mode int64) (owner string, err error) {
	args := dialect.Args{"source": s.source, "mode": mode}
	err = s.query(ctx, s.db, "read the claims", due.otherMode, args, func(rows *sql.Rows) error { return rows.Scan(&owner) })
	return owner, err
}

// doubt is a claim whose reply was lost: it may stand in the database.
type doubt struct {
	token int64
	at    time.Time
	lease time.Duration
	kind  pickKind
}

// resolveDoubts looks up claims whose reply was lost. One that stands is
// extended and handed out as if it were new; one that does not is forgotten when
// its lease is over, as it may still be on its way.
func (c *claimer[T]) resolveDoubts(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	for len(c.doubts) > 0 {
		d := c.doubts[0]
		b, found, err := c.adopt(ctx, d.token)
		if err != nil {
			return b, err
		}
		c.doubts = c.doubts[1:]
		if len(b.Items) > 0 {
			c.doubtful(b.Items, d.kind, req)
			return b, nil
		}
		if !found && time.Since(d.at) < min(d.lease, time.Second) {
			c.doubts = append(c.doubts, d)
			return b, nil
		}
	}
	return sendonce.Batch[T]{}, nil
}

// adopt makes a claim that stands in the database ours again.
func (c *claimer[T]) adopt(ctx context.Context, token int64) (b sendonce.Batch[T], found bool, err error) {
	ext, err := c.Extend(ctx, []int64{token})
	if err != nil || len(ext.Lost) > 0 {
		return b, false, err
	}
	var keys dialect.Keys
	args := dialect.Args{"token": token}
	err = c.query(ctx, c.db, "look up a claim", c.due.claimOf, args, func(rows *sql.Rows) error {
		var text string
		var alone int64
		if err := rows.Scan(&text, &alone); err != nil {
			return err
		}
		b.Alone, found = alone != 0, true
		keys, err = dialect.ParseKeys(text, c.keyKind)
		return err
	})
	if err != nil || !found {
		return b, false, err
	}
	args["keys"] = keys
	b.Token = token
	b.Items, err = c.scanItems(ctx, c.db, c.due.rowsOf(c.shape.list()), args)
	return b, true, err
}
