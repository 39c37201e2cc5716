package claim

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// settleSQL records results. Where a statement has "Pairs", its rows are of
// several claims.
type settleSQL struct {
	done, donePairs, lateDone *dialect.Stmt
	release, releasePairs     *dialect.Stmt
	look                      *dialect.Stmt
	opinions                  map[opinionForm]*dialect.Stmt
}

// opinionForm is a statement for up to size rows of one outcome. The rows differ
// in delay and reason, so each stands in it by itself.
type opinionForm struct {
	outcome sendonce.Outcome
	size    int
	reason  bool
	plain   bool // of rows that were never marked: see Unmarked
}

// opinionSizes are the numbers of rows that there are statements for; smaller
// groups repeat their last row.
var opinionSizes = []int{1, 4, 16, 64}

func newSettleSQL(n *names) settleSQL {
	c, held := n.d.Compile, n.in(claimed, sending)
	finish := func(where ...string) *dialect.Stmt { return c(n.finish("", where...)) }
	free := n.is(pending) + ", " + n.token + " = 0, " + n.attempts + " = " + n.attempts + " - 1, " + n.next + " = " + n.d.Now(n.nextType)
	s := settleSQL{
		done:         finish(n.keysIn(), n.byToken(), held),
		donePairs:    finish(n.pairsIn(), held),
		lateDone:     finish(n.keysIn(), n.byToken(), n.in(pending, dead, unknown)),
		release:      c(n.update(free, n.keysIn(), n.byToken(), n.is(claimed))),
		releasePairs: c(n.update(free, n.pairsIn(), n.is(claimed))),
		look:         n.look(n.token),
	}
	s.opinions = n.opinions(false)
	return s
}

func (n *names) opinions(plain bool) map[opinionForm]*dialect.Stmt {
	all := map[opinionForm]*dialect.Stmt{}
	for _, o := range []sendonce.Outcome{sendonce.Retry, sendonce.Dead, sendonce.Skipped, sendonce.Unknown} {
		for _, size := range opinionSizes {
			for _, reason := range []bool{true, false} {
				f := opinionForm{outcome: o, size: size, reason: reason && n.lastError != "", plain: plain}
				all[f] = n.d.Compile(n.opinion(f))
			}
		}
	}
	return all
}

// finish makes rows done, or deletes them.
func (n *names) finish(also string, where ...string) string {
	if n.deleteDone {
		return "DELETE FROM " + n.quoted + " WHERE " + strings.Join(where, " AND ")
	}
	return n.update(n.is(done)+", "+n.next+" = NULL"+n.setDoneAt()+also, where...)
}

// look reads how rows stand: with a proof of whose they are.
func (n *names) look(proof string) *dialect.Stmt {
	return n.d.Compile("SELECT " + n.key + ", " + n.status + ", " + proof + " FROM " + n.quoted + " WHERE " + n.keysIn())
}

func (n *names) setDoneAt() string {
	if n.doneAt == "" {
		return ""
	}
	return ", " + n.doneAt + " = " + n.d.Now(n.doneType)
}

// setDoubt notes that a send which began so many microseconds ago may have been
// accepted, unless an earlier one may. NULL: it was not.
func (n *names) setDoubt(ago string) string {
	if n.doubtSince == "" {
		return ""
	}
	return ", " + n.doubtSince + " = COALESCE(" + n.doubtSince + ", " + n.d.NowPlus(n.doubtType, "0 - "+ago) + ")"
}

var finalOf = map[sendonce.Outcome]state{
	sendonce.Done: done, sendonce.Retry: pending, sendonce.Released: pending,
	sendonce.Dead: dead, sendonce.Skipped: skipped, sendonce.Unknown: unknown,
}

// opinion writes the statement of a form. A CASE gives each row its own values:
// a join with a list of values would be planned as if it held one row.
func (n *names) opinion(f opinionForm) string {
	perRow := func(arg string, typed func(string) string) string {
		var b strings.Builder
		b.WriteString("CASE " + n.key)
		for i := range f.size {
			b.WriteString(" WHEN " + n.d.Key(":k"+strconv.Itoa(i), n.keyKind) + " THEN " + typed(":"+arg+strconv.Itoa(i)))
		}
		return b.String() + " END"
	}
	next := " = NULL"
	if f.outcome == sendonce.Retry {
		next = " = " + n.d.NowPlus(n.nextType, perRow("after", n.d.Int))
	}
	set, proof, from := n.is(finalOf[f.outcome])+", ", n.token, n.in(claimed, sending)
	switch {
	case f.plain: // the attempt is charged now, and proves that it is no repeat
		set += n.attempts + " = " + n.attempts + " + 1 - " + perRow("free", n.d.Int) + ", "
		proof, from = n.attempts, n.is(pending)
	case f.outcome == sendonce.Retry:
		set += n.token + " = 0, " + n.attempts + " = " + n.attempts + " - " + perRow("free", n.d.Int) + ", "
	}
	set += n.next + next
	if f.outcome != sendonce.Skipped {
		set += n.setDoubt(perRow("doubt", n.d.Int))
	}
	if f.reason {
		set += ", " + n.lastError + " = " + perRow("reason", n.d.Str)
	}
	which := make([]string, f.size)
	for i := range which {
		which[i] = "(" + n.key + " = " + n.d.Key(":k"+strconv.Itoa(i), n.keyKind) + " AND " + proof + " = " + n.d.Int(":t"+strconv.Itoa(i)) + ")"
	}
	return n.update(set, "("+strings.Join(which, " OR ")+")", from)
}

// Settle implements sendonce.Claimer. Results of one statement are written by
// themselves, several statements in one transaction; what was not written as
// asked is looked up afterwards, and most of the time nothing is.
func (s *store) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	groups := s.group(rs)
	if len(groups) == 0 {
		return nil, nil
	}
	if len(groups) == 1 {
		return s.settleGroups(ctx, s.db, groups)
	}
	var out []sendonce.Exception
	err := s.inTx(ctx, recordResults, func(tx dialect.Tx) (err error) {
		out, err = s.settleGroups(ctx, tx, groups)
		return err
	})
	if err != nil && s.d.Classify(err) == dialect.BadData {
		// One row's text spoils the transaction: alone, each can be written
		// with less.
		return s.settleOneByOne(ctx, groups)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// settleGroup is a set of results that one statement can record.
type settleGroup struct {
	outcome sendonce.Outcome
	rs      []sendonce.Result
}

const recordResults = "record results" // what an error says could not be done

func allOf(rs []sendonce.Result, o sendonce.Outcome) bool {
	return !slices.ContainsFunc(rs, func(r sendonce.Result) bool { return r.Outcome != o })
}

// alike: all are the first one.
func alike(ns dialect.Tokens) bool {
	return !slices.ContainsFunc(ns, func(n int64) bool { return n != ns[0] })
}

// together: any number of such results is one statement.
func together(o sendonce.Outcome) bool { return o == sendonce.Done || o == sendonce.Released }

// group sorts results by outcome and key: rows are locked in key order. Those of
// one statement stay as they are: write sorts their keys, which costs less.
func (s *store) group(rs []sendonce.Result) []settleGroup {
	if len(rs) > 0 && together(rs[0].Outcome) && allOf(rs, rs[0].Outcome) {
		return []settleGroup{{rs[0].Outcome, rs}}
	}
	sorted := slices.Clone(rs)
	slices.SortFunc(sorted, func(a, b sendonce.Result) int {
		if c := cmp.Compare(a.Outcome, b.Outcome); c != 0 {
			return c
		}
		return compareKeys(a.Key, b.Key)
	})
	var out []settleGroup
	for len(sorted) > 0 {
		o := sorted[0].Outcome
		most := len(sorted)
		if !together(o) {
			most = min(most, opinionSizes[len(opinionSizes)-1])
		}
		n := 1
		for n < most && sorted[n].Outcome == o {
			n++
		}
		out = append(out, settleGroup{o, sorted[:n]})
		sorted = sorted[n:]
	}
	return out
}

func (s *store) settleGroups(ctx context.Context, q dialect.Querier, groups []settleGroup) ([]sendonce.Exception, error) {
	var out []sendonce.Exception
	for _, g := range groups {
		n, err := s.write(ctx, q, g, true)
		if err != nil && s.d.Classify(err) == dialect.BadData && q == dialect.Querier(s.db) {
			return s.settleOneByOne(ctx, groups)
		}
		if err != nil {
			return nil, err
		}
		if n == int64(len(g.rs)) {
			continue
		}
		es, err := s.explain(ctx, q, g)
		if err != nil {
			return nil, err
		}
		out = append(out, es...)
	}
	return out, nil
}

// settleOneByOne records what it can when some value fits nowhere: each row by
// itself, and without its reason if that is what does not fit.
func (s *store) settleOneByOne(ctx context.Context, groups []settleGroup) ([]sendonce.Exception, error) {
	var out []sendonce.Exception
	var failed error
	for _, g := range groups {
		for i := range g.rs {
			one := settleGroup{g.outcome, g.rs[i : i+1]}
			n, err := s.write(ctx, s.db, one, true)
			if err != nil && s.d.Classify(err) == dialect.BadData {
				n, err = s.write(ctx, s.db, one, false)
			}
			if err == nil && n == 0 {
				var es []sendonce.Exception
				es, err = s.explain(ctx, s.db, one)
				out = append(out, es...)
			}
			if err != nil {
				failed = err
			}
		}
	}
	return out, failed
}

// write runs the statement of a group and returns how many rows it wrote. Each
// changes the status, so that changed and matched rows are the same number.
func (s *store) write(ctx context.Context, q dialect.Querier, g settleGroup, reason bool) (int64, error) {
	if !together(g.outcome) {
		st, args := s.bindOpinion(g, reason && s.lastError != "")
		return s.exec(ctx, q, recordResults, st, args)
	}
	one, pairs := s.settle.done, s.settle.donePairs
	if g.outcome == sendonce.Released {
		one, pairs = s.settle.release, s.settle.releasePairs
	}
	keys, tokens := inOrder(g.rs)
	if alike(tokens) {
		return s.exec(ctx, q, recordResults, one, dialect.Args{"keys": keys, "token": tokens[0]})
	}
	return s.exec(ctx, q, recordResults, pairs, dialect.Args{"keys": keys, "tokens": tokens, "pairs": dialect.Pairs{Keys: keys, Tokens: tokens}})
}

// inOrder lists keys, ascending, with their tokens. SQLite makes an index of a list:
// in order that is cheap.
func inOrder(rs []sendonce.Result) (dialect.Keys, dialect.Tokens) {
	order := make([]int, len(rs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compareKeys(rs[a].Key, rs[b].Key) })
	keys, tokens := make(dialect.Keys, len(rs)), make(dialect.Tokens, len(rs))
	for i, at := range order {
		keys[i], tokens[i] = rs[at].Key, rs[at].Token
	}
	return keys, tokens
}

func keysOfResults(rs []sendonce.Result) dialect.Keys {
	keys := make(dialect.Keys, len(rs))
	for i, r := range rs {
		keys[i] = r.Key
	}
	return keys
}

// bindOpinion finds the statement for a group and its arguments: with the reasons
// or without.
func (s *store) bindOpinion(g settleGroup, reason bool) (*dialect.Stmt, dialect.Args) {
	f, args := s.opinionArgs(g, reason)
	return s.settle.opinions[f], args
}

func (s *store) opinionArgs(g settleGroup, reason bool) (opinionForm, dialect.Args) {
	size := opinionSizes[0]
	for _, size = range opinionSizes {
		if size >= len(g.rs) {
			break
		}
	}
	args := dialect.Args{}
	for i := range size {
		r, n := g.rs[min(i, len(g.rs)-1)], strconv.Itoa(i)
		free := int64(0)
		if r.Uncharged {
			free = 1
		}
		args["k"+n], args["t"+n], args["free"+n], args["after"+n] = r.Key, r.Token, free, r.After.Microseconds()
		args["reason"+n] = s.fit(r.Reason)
		if args["doubt"+n] = nil; r.Doubt > 0 {
			args["doubt"+n] = r.Doubt.Microseconds()
		}
	}
	return opinionForm{outcome: g.outcome, size: size, reason: reason}, args
}

// fit cuts a reason to the column.
func (s *store) fit(reason string) string {
	if s.maxReason == 0 {
		return reason
	}
	return cut(reason, s.maxReason)
}

// cut keeps the first characters of a text.
func cut(text string, chars int) string {
	if len(text) <= chars || utf8.RuneCountInString(text) <= chars {
		return text
	}
	return string([]rune(text)[:chars])
}

// standing is how a row stands now.
type standing struct {
	status string
	state  state
	proof  int64 // its token; of rows that are never marked, the attempts
}

// explain finds out why results of a group were not all written, and writes the
// facts that are accepted late (docs/semantics.md, section 3).
func (s *store) explain(ctx context.Context, q dialect.Querier, g settleGroup) ([]sendonce.Exception, error) {
	rows, err := s.standings(ctx, q, s.settle.look, g.rs)
	if err != nil {
		return nil, err
	}
	var out []sendonce.Exception
	for _, r := range g.rs {
		row, found := rows[r.Key]
		cause := causeOf(r, row, found, s.deleteDone)
		if cause == 0 {
			continue
		}
		if cause == sendonce.Late {
			n, err := s.exec(ctx, q, "record a late result", s.settle.lateDone, dialect.Args{"keys": dialect.Keys{r.Key}, "token": r.Token})
			if err != nil {
				return nil, err
			}
			if n == 0 { // moved on since we looked
				return nil, &dialect.Error{Class: dialect.Transient, Err: errMoved}
			}
		}
		out = append(out, sendonce.Exception{Result: r, Cause: cause, Status: row.status})
	}
	return out, nil
}

// causeOf says why a result that the first statement did not write stands as it
// does; 0 if it was written, now or by an earlier try whose reply was lost.
func causeOf(r sendonce.Result, row standing, found, deleteDone bool) sendonce.Cause {
	mine := row.proof == r.Token
	switch {
	case !found:
		if r.Outcome == sendonce.Done && deleteDone {
			return 0
		}
		return sendonce.Missing
	case row.state == foreign:
		return sendonce.Foreign
	case r.Outcome == sendonce.Retry || r.Outcome == sendonce.Released:
		if row.state == pending && row.proof == 0 {
			return 0
		}
	case mine && row.state == finalOf[r.Outcome]:
		return 0
	}
	switch {
	case !mine:
		return sendonce.Overtaken
	case r.Outcome == sendonce.Done && (row.state == pending || row.state == dead || row.state == unknown):
		return sendonce.Late
	}
	return sendonce.NotHeld
}

func (s *store) standings(ctx context.Context, q dialect.Querier, look *dialect.Stmt, rs []sendonce.Result) (map[sendonce.Key]standing, error) {
	keys := keysOfResults(rs)
	out := make(map[sendonce.Key]standing, len(rs))
	cell := &keyCell{kind: s.keyKind}
	err := s.query(ctx, q, "look up rows", look, dialect.Args{"keys": keys}, func(rows *sql.Rows) error {
		var status sql.NullString
		var row standing
		if err := rows.Scan(cell, &status, &row.proof); err != nil {
			return err
		}
		row.status, row.state = status.String, s.state(status.String)
		out[cell.key] = row
		return nil
	})
	return out, err
}
