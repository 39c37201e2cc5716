package claim

import (
	"context"
	"database/sql"
	"strconv"
	"sync"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// pick is which rows a claim takes, as the parts of a sub-select.
type pick struct {
	kind   pickKind
	lower  bool   // fresh rows: there is a lower bound
	limit  int    // fresh rows: how many
	only   string // " AND ...": a further condition of the strategy's
	locked string // " FOR UPDATE SKIP LOCKED", or "" to rely on the guard alone
}

type pickKind uint8

const (
	freshRows     pickKind = iota // never tried, in a window of keys
	orderedRows                   // by the user's order: keys are given
	returningRows                 // tried or scheduled, and due: keys are given
	suspectRows                   // came back from a vanished worker: keys are given
	lastTryRows                   // the same, on their last attempt
	headRow                       // the first row of an order: its key is given
	headSuspect                   // the same, and it came back from a vanished worker
)

// guard is the condition that a row must meet at the moment it is marked,
// whatever was true when it was picked.
func (n *names) guard(k pickKind) string {
	isDue := n.next + " <= " + n.d.Now(n.nextType)
	waiting := n.d.Is(n.status, n.lit[pending], n.keyKind)
	switch k {
	case freshRows:
		return waiting + " AND " + n.d.IsNull(n.next, n.keyKind) + n.where
	case orderedRows:
		return waiting + " AND " + n.token + " = 0 AND (" + n.next + " IS NULL OR " + isDue + ")" + n.where
	case headRow, headSuspect:
		return waiting + " AND (" + n.next + " IS NULL OR " + isDue + ")" + n.where
	case returningRows:
		return waiting + " AND " + n.token + " = 0 AND " + isDue + n.where
	case suspectRows:
		return waiting + " AND " + n.token + " <> 0 AND " + isDue + " AND " + n.attempts + " < " + n.d.Int(":last") + n.where
	default:
		return waiting + " AND " + n.token + " <> 0 AND " + isDue + " AND " + n.attempts + " >= " + n.d.Int(":last") + n.where
	}
}

// selectKeys is the sub-select of a pick.
func (n *names) selectKeys(p pick) string { return n.selectRows(n.key, p) }

// selectRows picks. The number of rows stands in the text: with a parameter there
// the planner guesses a tenth of the table.
func (n *names) selectRows(list string, p pick) string {
	from := "SELECT " + list + " FROM " + n.quoted + " WHERE "
	if p.kind != freshRows {
		return from + n.keysIn() + " AND " + n.guard(p.kind) + p.only + " ORDER BY " + n.key + p.locked
	}
	if p.lower {
		from += n.key + " > " + n.d.Key(":from", n.keyKind) + " AND "
	}
	return from + n.key + " <= " + n.d.Key(":to", n.keyKind) + " AND " + n.guard(p.kind) + p.only +
		" ORDER BY " + n.key + " LIMIT " + strconv.Itoa(p.limit) + p.locked
}

func (n *names) markClaimed() string {
	return n.is(claimed) + ", " + n.token + " = " + n.d.Int(":token") + ", " + n.attempts + " = " + n.attempts + " + 1, " + n.next + " = NULL"
}

const claimColumns = " (token, source, owner, row_keys, mode, alone, lease_ms, since, until) "

func (n *names) claimValues(list string) string {
	d := n.d
	return d.Int(":token") + ", " + d.Str(":source") + ", " + d.Str(":owner") + ", " + list + ", " + d.Int(":mode") + ", " +
		d.Int(":alone") + ", " + d.Int(":lease") + ", " + d.Now("") + ", " + d.NowPlus("", ":lease * 1000")
}

// takeSQL are the statements that mark picked rows, rendered at their first use.
// There are few: limits are rounded.
type takeSQL struct {
	n    *names
	list func() string
	mu   sync.Mutex
	all  map[pick]taking
}

// taking is one way of taking, as the database at hand can do it: all in one
// statement; or mark and return, then insert the claim; or pick, mark, read
// back what was not picked with a lock, then insert.
type taking struct {
	pick, mark, readBack, insert *dialect.Stmt
}

func (t *takeSQL) get(p pick) taking {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.all[p]; ok {
		return s
	}
	s := t.render(p)
	if t.all == nil {
		t.all = map[pick]taking{}
	}
	t.all[p] = s
	return s
}

func (t *takeSQL) render(p pick) taking {
	n, c := t.n, t.n.d.Compile
	insert := "INSERT INTO " + n.claims + claimColumns
	switch caps := n.d.Caps(); {
	case caps.WriteCTE:
		// An array of keys can't be planned as a join, which could run the
		// sub-select again for each row and so claim more than the limit.
		return taking{mark: c("WITH c AS (UPDATE " + n.quoted + " SET " + n.markClaimed() + " WHERE " + n.key + " = ANY (ARRAY(" + n.selectKeys(p) + ")) AND " +
			n.guard(p.kind) + " RETURNING " + t.list() + "), l AS (" + insert + "SELECT " + n.claimValues(n.d.KeyList("c0")) + " FROM c HAVING count(*) > 0) SELECT * FROM c")}
	case caps.UpdateReturning:
		return taking{
			mark: c("UPDATE " + n.quoted + " SET " + n.markClaimed() + " WHERE " + n.key + " IN (" + n.selectKeys(p) + ") AND " +
				n.guard(p.kind) + " RETURNING " + t.list()),
			insert: c(insert + "VALUES (" + n.claimValues(":list") + ")"),
		}
	}
	picked := n.key
	if p.locked != "" { // nobody can change them any more
		picked = t.list()
	}
	return taking{
		pick:     c(n.selectRows(picked, p)),
		mark:     c(n.update(n.markClaimed(), n.keysIn(), n.guard(p.kind))),
		readBack: c("SELECT " + t.list() + " FROM " + n.quoted + " WHERE " + n.keysIn() + " AND " + n.byToken() + " AND " + n.is(claimed)),
		insert:   c(insert + "VALUES (" + n.claimValues(":list") + ")"),
	}
}

// take marks the rows of a pick and records the claim, in one transaction. The
// rows come in no particular order.
func (c *claimer[T]) take(ctx context.Context, p pick, a dialect.Args) (items []sendonce.Item[T], err error) {
	p.locked, p.only = c.locking, c.only()
	if c.flying != nil {
		return c.read(ctx, p, a)
	}
	st, caps := c.takes.get(p), c.d.Caps()
	c.bind(a)
	if caps.WriteCTE {
		return c.scanItems(ctx, c.db, st.mark, a)
	}
	if !caps.UpdateReturning {
		// Keys that were picked without a lock are only candidates: the guard
		// decides.
		if p.locked == "" && p.kind == freshRows {
			if err := c.pickKeys(ctx, c.db, st, a); err != nil {
				return nil, err
			}
		}
		if keys, ok := a["keys"].(dialect.Keys); ok && len(keys) == 0 {
			return nil, nil
		}
	}
	err = c.inTx(ctx, "claim rows", func(tx dialect.Tx) (err error) {
		items, err = c.takeIn(ctx, tx, p, st, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

// takeIn takes within a transaction.
func (c *claimer[T]) takeIn(ctx context.Context, tx dialect.Tx, p pick, st taking, a dialect.Args) (items []sendonce.Item[T], err error) {
	switch caps := c.d.Caps(); {
	case caps.WriteCTE:
		return c.scanItems(ctx, tx, st.mark, a)
	case caps.UpdateReturning:
		items, err = c.scanItems(ctx, tx, st.mark, a)
	default:
		items, err = c.markAndReadBack(ctx, tx, p, st, a)
	}
	if err != nil {
		return nil, err
	}
	return items, c.record(ctx, tx, st, a, items)
}

// markAndReadBack is for a database whose UPDATE returns nothing. What was picked
// with a lock is as it was read; else what is ours is read back by token.
func (c *claimer[T]) markAndReadBack(ctx context.Context, tx dialect.Tx, p pick, st taking, a dialect.Args) (items []sendonce.Item[T], err error) {
	if p.locked != "" {
		if items, err = c.scanItems(ctx, tx, st.pick, a); err != nil {
			return nil, err
		}
		keys := make(dialect.Keys, len(items))
		for i := range items {
			keys[i] = items[i].Key
			items[i].Attempt++
		}
		a["keys"] = keys
	}
	if len(a["keys"].(dialect.Keys)) == 0 {
		return nil, nil
	}
	n, err := c.exec(ctx, tx, "claim rows", st.mark, a)
	if err != nil {
		return nil, err
	}
	if len(items) > 0 && n == int64(len(items)) {
		return items, nil
	}
	return c.scanItems(ctx, tx, st.readBack, a)
}

func (c *claimer[T]) pickKeys(ctx context.Context, q dialect.Querier, st taking, a dialect.Args) error {
	var keys dialect.Keys
	err := c.query(ctx, q, "pick rows", st.pick, a, func(rows *sql.Rows) error {
		key, err := c.scanKey(rows)
		keys = append(keys, key)
		return err
	})
	a["keys"] = keys
	return err
}

// record inserts the claim's row.
func (c *claimer[T]) record(ctx context.Context, tx dialect.Tx, st taking, a dialect.Args, items []sendonce.Item[T]) error {
	if len(items) == 0 {
		return nil
	}
	keys := make(dialect.Keys, len(items))
	for i := range items {
		keys[i] = items[i].Key
	}
	sortKeys(keys)
	a["list"] = dialect.JSONKeys(keys)
	_, err := c.exec(ctx, tx, "record the claim", st.insert, a)
	return err
}

func (c *claimer[T]) scanItems(ctx context.Context, q dialect.Querier, st *dialect.Stmt, a dialect.Args) ([]sendonce.Item[T], error) {
	var items []sendonce.Item[T]
	sc := c.shape.scanner()
	err := c.query(ctx, q, "claim rows", st, a, func(rows *sql.Rows) error {
		err := sc.scan(rows)
		if items == nil {
			items = make([]sendonce.Item[T], 0, max(c.lastSize.Load(), 1))
		}
		items = append(items, sc.item)
		return err
	})
	if len(items) > 0 {
		c.lastSize.Store(int64(len(items)))
	}
	return items, err
}
