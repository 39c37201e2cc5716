package claim

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/internal/dialect"
)

// Report is what Doctor found. None of it keeps a strategy from working: what
// does is a CheckError.
type Report struct {
	Server   string // the database and its version
	Strategy string // the constructor to use here
	Findings []Finding
}

// Finding is one thing that costs speed or weakens the promise.
type Finding struct {
	What string
	Why  string // what it leads to
	Cure string // what to do
}

// String prints the report, a paragraph per finding.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: use claim.%s\n", r.Server, r.Strategy)
	if len(r.Findings) == 0 {
		b.WriteString("nothing to improve\n")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "- %s: %s\n  cure: %s\n", f.What, f.Why, f.Cure)
	}
	return b.String()
}

// Doctor checks the table as Check does and then looks for what is slow or
// weaker than it could be: the plan of a claim, the layout of the table, the
// settings that decide whether a commit can be lost, and what this pool did until
// now. It changes nothing, and reads little, so it may be run against production.
func Doctor(ctx context.Context, db *sqlx.DB, d Dialect, t Table, o *Options) (Report, error) {
	var r Report
	n, err := inspected(ctx, db, d, t, o)
	if err != nil {
		return r, err
	}
	r.Server = n.d.Name() + " " + n.live.Version
	r.Strategy = "NewAtomic"
	if n.d.Caps().SkipLocked && n.d.SkipLockedSince(n.live.Version) == "" {
		r.Strategy = "NewSkipLocked"
	}
	r.Findings = poolFindings(db.Stats())
	for _, look := range []func(context.Context, *sql.DB) ([]Finding, error){n.planFindings, n.layoutFindings, n.serverFindings} {
		fs, err := look(ctx, db.DB)
		if err != nil {
			return r, err
		}
		r.Findings = append(r.Findings, fs...)
	}
	return r, nil
}

// connsRemade is how many connections a pool may have closed because it keeps few
// before that is worth a word.
const connsRemade = 100

// poolFindings looks at what the pool did until now: a connection costs a server
// many times what a claim does.
func poolFindings(s sql.DBStats) []Finding {
	if s.MaxIdleClosed < connsRemade {
		return nil
	}
	return []Finding{{
		fmt.Sprintf("the pool has closed %d connections because it keeps few that are idle", s.MaxIdleClosed),
		"a statement often waits for a new connection, which costs the server more than the statement",
		"db.SetMaxIdleConns(6) for each Dispatcher, and what the rest of the process needs besides",
	}}
}

// planFindings asks how the database would look for rows.
func (n *names) planFindings(ctx context.Context, db *sql.DB) ([]Finding, error) {
	s := &store{names: n, db: db, walker: newWalker(n)}
	end, err := s.windowEnd(ctx)
	if err != nil || end == nil || !s.atLeast(ctx, smallTable) {
		return nil, err // of a small table any plan is good
	}
	due := newDueSQL(n)
	var out []Finding
	for _, q := range []struct {
		what, cure string
		st         *dialect.Stmt
	}{
		{"looking for fresh rows", "the key needs a unique index that the planner trusts: ANALYZE the table, and see that the index is valid", n.d.Compile(n.selectKeys(pick{kind: freshRows, limit: 100}))},
		{"looking for rows that come back", "ANALYZE the table, and see that the index on " + n.col.NextAttempt + " is valid", due.returning(100, lowest, "")},
	} {
		if n.order != "" && q.what == "looking for fresh rows" {
			q.st, q.cure = due.ordered(100, ""), "make an index that gives the order "+n.order+" for pending rows"
		}
		plan, err := s.explainPlan(ctx, q.st, dialect.Args{"to": end, "low": int64(0)})
		if err != nil {
			return nil, err
		}
		if bad := n.d.BadPlan(plan); bad != "" {
			out = append(out, Finding{"the plan for " + q.what, bad, q.cure})
		}
	}
	return out, nil
}

// smallTable is the number of rows up to which reading all of them is as good as
// an index.
const smallTable = 5000

func (s *store) atLeast(ctx context.Context, rows int) bool {
	found := false
	st := s.d.Compile("SELECT 1 FROM " + s.quoted + " LIMIT 1 OFFSET " + strconv.Itoa(rows-1))
	err := s.query(ctx, s.db, "look at its size", st, dialect.Args{}, func(*sql.Rows) error {
		found = true
		return nil
	})
	return err == nil && found
}

func (s *store) explainPlan(ctx context.Context, st *dialect.Stmt, a dialect.Args) (string, error) {
	text, args := st.Bind(s.bind(a))
	rows, err := s.db.QueryContext(ctx, s.d.Explain()+text, args...)
	if err != nil {
		return "", s.fail("explain a claim", err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return "", s.fail("explain a claim", err)
	}
	var b strings.Builder
	cells, dest := make([]sql.NullString, len(cols)), make([]any, len(cols))
	for i := range cells {
		dest[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return "", s.fail("explain a claim", err)
		}
		for i, c := range cells {
			fmt.Fprintf(&b, "%s=%s ", strings.ToLower(cols[i]), c.String)
		}
		b.WriteByte('\n')
	}
	return b.String(), s.fail("explain a claim", rows.Err())
}

// layoutFindings looks at the key and the table.
func (n *names) layoutFindings(ctx context.Context, db *sql.DB) ([]Finding, error) {
	var out []Finding
	tips, err := n.d.TableTips(ctx, db, n.quoted, n.status)
	advised := func(t dialect.Tip) bool { return strings.Contains(t.What, "_sendonce_fresh") }
	if n.keyKind != dialect.KeyInt && n.keyKind != dialect.KeyUint && !slices.ContainsFunc(tips, advised) {
		if idx := n.d.FreshIndex(n.d.Quote(n.table+"_sendonce_fresh"), n.quoted, n.key, n.is(pending)+" AND "+n.next+" IS NULL"); idx != "" {
			out = append(out, Finding{
				fmt.Sprintf("keys in %q don't grow with time", n.col.Key),
				"new rows appear anywhere, so a claim that runs short walks over the finished rows again",
				"on a table that keeps its finished rows: " + idx,
			})
		}
	}
	for _, t := range tips {
		if !advised(t) {
			out = append(out, Finding(t))
		}
	}
	again := false
	if err == nil && n.deleteDone {
		again, err = dialect.GivesKeysAgain(ctx, n.d, db, n.schema, n.table, n.col.Key)
	}
	if again {
		out = append(out, Finding{
			fmt.Sprintf("SQLite gives values of %q again, and rows are deleted when they are done", n.col.Key),
			"a new row can have the idempotency key of a deleted one: a provider, or a unique key, takes the new message for the old one",
			"make the table anew with " + n.key + " INTEGER PRIMARY KEY AUTOINCREMENT",
		})
	}
	return out, dialect.Wrap(n.d, "cannot read the layout of table "+n.source, err)
}

// serverFindings looks at settings.
func (n *names) serverFindings(ctx context.Context, db *sql.DB) ([]Finding, error) {
	tips, err := n.d.ServerTips(ctx, db)
	var out []Finding
	for _, t := range tips {
		out = append(out, Finding(t))
	}
	return out, dialect.Wrap(n.d, "cannot read the server's settings", err)
}
