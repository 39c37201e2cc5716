package claim

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/internal/dialect"
)

// Problem is one thing about a table that keeps it from being used.
type Problem struct {
	What string // names the thing
	Cure string // the statement, or the words, that mend it
}

// CheckError says what is wrong with a mapped table. Nothing was changed.
type CheckError struct {
	Table    string
	Problems []Problem
}

// Error is one line: every problem with its cure.
func (e *CheckError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.What + ": " + p.Cure
	}
	more := ""
	if len(parts) > 1 {
		more = " (claim.Migrate makes what can be added)"
	}
	return fmt.Sprintf("sendonce: table %s cannot be used: %s%s", e.Table, strings.Join(parts, "; "), more)
}

// Fatal tells sendonce.IsFatal that no repeat helps.
func (e *CheckError) Fatal() bool { return true }

// Check compares the mapping with the live table: it must exist and be
// writable, have the columns with types that fit, a key that is unique, and an
// index that finds rows which come back; the claims table must be there. The
// error, a *CheckError, names everything that is missing with the statement that
// mends it. It changes nothing. The constructors call it.
func Check(ctx context.Context, db *sqlx.DB, d Dialect, t Table, o *Options) error {
	_, err := inspected(ctx, db, d, t, o)
	return err
}

// liveTables is what the catalogue says of both tables.
type liveTables struct {
	table, claims *dialect.Live
}

func inspected(ctx context.Context, db *sqlx.DB, d Dialect, t Table, o *Options) (*names, error) {
	if db == nil {
		return nil, errors.New("sendonce: the database is nil: open it with sqlx.Open or sqlx.NewDb first")
	}
	n, live, err := look(ctx, db.DB, d, t, o)
	if err != nil {
		return nil, err
	}
	if err := n.problems(live); err != nil {
		return nil, err
	}
	n.learn(live.table)
	return n, n.tryWhere(ctx, db.DB)
}

func look(ctx context.Context, db *sql.DB, d Dialect, t Table, o *Options) (*names, liveTables, error) {
	var live liveTables
	impl, err := d.impl()
	if err != nil {
		return nil, live, err
	}
	n, err := newNames(impl, t, o)
	if err != nil {
		return nil, live, err
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, live, dialect.Wrap(impl, "cannot reach the database", err)
	}
	if live.table, err = impl.Inspect(ctx, db, n.schema, n.table); err != nil {
		return nil, live, dialect.Wrap(impl, "cannot read the catalogue for table "+n.source, err)
	}
	if live.claims, err = impl.Inspect(ctx, db, n.claimsSchema, n.claimsTable); err != nil {
		return nil, live, dialect.Wrap(impl, "cannot read the catalogue for table "+n.claimsTable, err)
	}
	return n, live, nil
}

// problems returns a *CheckError, or nil.
func (n *names) problems(live liveTables) error {
	e := &CheckError{Table: n.source}
	add := func(what, cure string) { e.Problems = append(e.Problems, Problem{what, cure}) }
	switch {
	case !live.table.Exists && len(live.table.Similar) > 0:
		add("it does not exist", fmt.Sprintf("names are case-sensitive here, and there is %q: set Table.Name to that", live.table.Similar[0]))
	case !live.table.Exists:
		add("it does not exist", "set Table.Name to a table of this database, or create it")
	case live.table.ReadOnly != "":
		add("it cannot be written", live.table.ReadOnly)
	}
	if len(e.Problems) > 0 {
		return e
	}
	for _, w := range n.wanted() {
		n.columnProblem(live.table, w, n.addColumn(w), add)
	}
	if c, ok := live.table.Column(n.col.Key); ok && !live.table.Unique[c.Name] {
		add(fmt.Sprintf("the key column %q is not unique by itself", c.Name),
			fmt.Sprintf("ALTER TABLE %s ADD UNIQUE (%s), or set Columns.Key to a column that is", n.quoted, n.key))
	}
	if _, ok := live.table.Column(n.col.NextAttempt); !ok || !live.table.Leading[n.col.NextAttempt] {
		add(fmt.Sprintf("no index begins with column %q", n.col.NextAttempt), n.createIndex())
	}
	n.claimsProblems(live.claims, add)
	if len(e.Problems) > 0 {
		return e
	}
	return nil
}

func (n *names) columnProblem(live *dialect.Live, w want, cure string, add func(what, cure string)) {
	c, ok := live.Column(w.name)
	if !ok {
		if like := live.LikeColumn(w.name); like != "" {
			cure = fmt.Sprintf("names are case-sensitive here, and there is %q: set Columns.%s to that", like, w.field)
		} else if w.ddl == "" {
			cure = fmt.Sprintf("set Columns.%s to the table's unique key", w.field)
		}
		what := fmt.Sprintf("column %q is missing", w.name)
		if w.field == "Status" {
			what += " (if it has another name, set Columns.Status; if it is added, all rows that are there are pending)"
		}
		add(what, cure)
		return
	}
	switch {
	case !slices.Contains(w.kinds, c.Kind):
		want := kindsText(w.kinds)
		if want == dialect.KindTime.String() {
			want += " (" + n.d.DDL().Time + ")" // not every type of time will do
		}
		add(fmt.Sprintf("column %q is of type %s, and not %s", c.Name, c.Type, want), n.retypeCure(w))
	case w.notNull && c.Nullable:
		cure := n.d.DDL().NotNull(n.quoted, n.d.Quote(w.name), w.ddl)
		if w.ddl == "" {
			cure = "declare it NOT NULL: a row without a key is never found"
		} else if cure == "" {
			cure = "declare it " + w.ddl
		}
		add(fmt.Sprintf("column %q may be NULL", c.Name), cure)
	case w.nullable && !c.Nullable:
		cure := n.d.DDL().Null(n.quoted, n.d.Quote(w.name), w.ddl)
		if cure == "" {
			cure = "let it be NULL: rows that were never tried have no value there"
		}
		add(fmt.Sprintf("column %q is NOT NULL", c.Name), cure)
	case w.field == "Status" && n.textStates:
		n.statesProblem(c, add)
	}
}

// statesProblem finds states that the column can't hold.
func (n *names) statesProblem(c dialect.Column, add func(what, cure string)) {
	if most := n.longestState(); c.MaxChars > 0 && c.MaxChars < most {
		add(fmt.Sprintf("column %q has room for %d characters, and the States need %d", c.Name, c.MaxChars, most), "make it wider, or set shorter States")
		return
	}
	if !strings.HasPrefix(c.Type, "enum(") {
		return
	}
	var missing []string
	for text := range n.byText {
		if !strings.Contains(strings.ToLower(c.Type), "'"+strings.ToLower(strings.ReplaceAll(text, "'", "''"))+"'") {
			missing = append(missing, text)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		add(fmt.Sprintf("column %q is of type %s, which lacks the States %q", c.Name, c.Type, missing), "add them to the type, or set States that it has")
	}
}

func (n *names) retypeCure(w want) string {
	if w.ddl == "" {
		return fmt.Sprintf("set Columns.%s to a column that is", w.field)
	}
	cure := fmt.Sprintf("set Columns.%s to another column, or make one: ", w.field)
	if w.field == "Status" {
		cure = "set Table.States to the values that it holds (claim.StringStates are names), or Columns.Status to another column, or make one, in which all rows are pending: "
	}
	return fmt.Sprint(cure,
		"ALTER TABLE "+n.quoted+" ADD COLUMN "+n.d.Quote("sendonce_"+strings.ToLower(w.field))+" "+w.ddl)
}

func kindsText(kinds []dialect.Kind) string {
	parts := make([]string, len(kinds))
	for i, k := range kinds {
		parts[i] = k.String()
	}
	return strings.Join(parts, " or ")
}

func (n *names) claimsProblems(live *dialect.Live, add func(what, cure string)) {
	if !live.Exists {
		add(fmt.Sprintf("the claims table %s does not exist", n.claims), n.createClaims())
		return
	}
	if live.ReadOnly != "" {
		add(fmt.Sprintf("the claims table %s cannot be written", n.claims), live.ReadOnly)
		return
	}
	for _, w := range n.claimsColumns() {
		c, ok := live.Column(w.name)
		if !ok || !slices.Contains(w.kinds, c.Kind) || c.Type == "timestamp without time zone" {
			add(fmt.Sprintf("the claims table %s has no column %q of type %s", n.claims, w.name, w.ddl),
				"it was not made by Schema; set Options.ClaimsTable to another name, or drop it: "+n.createClaims())
			return
		}
	}
}

// learn keeps what statements need to know of the live columns.
func (n *names) learn(live *dialect.Live) {
	key, _ := live.Column(n.col.Key)
	n.keyKind = map[dialect.Kind]dialect.KeyKind{
		dialect.KindInt: dialect.KeyInt, dialect.KindUint: dialect.KeyUint,
		dialect.KindText: dialect.KeyText, dialect.KindUUID: dialect.KeyUUID,
	}[key.Kind]
	if key.Padded {
		n.keyKind = dialect.KeyChar
	}
	next, _ := live.Column(n.col.NextAttempt)
	doneAt, _ := live.Column(n.col.DoneAt)
	lastError, _ := live.Column(n.col.LastError)
	n.live = live
	n.nextType, n.doneType, n.maxReason = next.Type, doneAt.Type, lastError.MaxChars
	doubt, _ := live.Column(n.col.DoubtSince)
	n.doubtType = doubt.Type
}

// tryWhere runs the user's condition once, so that a mistake in it shows here.
func (n *names) tryWhere(ctx context.Context, db *sql.DB) error {
	tries := []struct{ what, text string }{}
	if n.where != "" {
		tries = append(tries, struct{ what, text string }{"Table.Where", "SELECT 1 FROM " + n.quoted + " WHERE 1 = 0" + n.where})
	}
	if n.textStates { // a type of its own may not have them
		tries = append(tries, struct{ what, text string }{"Table.States", "SELECT 1 FROM " + n.quoted + " WHERE 1 = 0 AND " + n.in(pending, claimed, sending, done, dead, skipped, unknown)})
	}
	if n.order != "" {
		tries = append(tries, struct{ what, text string }{"Table.Order", "SELECT 1 FROM " + n.quoted + " WHERE 1 = 0 ORDER BY " + n.order})
	}
	for _, t := range tries {
		text, args := n.d.Compile(t.text).Bind(n.bind(dialect.Args{}))
		rows, err := db.QueryContext(ctx, text, args...)
		if err == nil {
			err = errors.Join(rows.Err(), rows.Close())
		}
		if err != nil {
			return dialect.Wrap(n.d, t.what+" does not work on table "+n.source, err)
		}
	}
	return nil
}

// check reads rows into a T, so that a field that can never hold its column is
// found before all rows are put aside for it. One unreadable row among readable
// ones is no reason to refuse the table, nor are NULLs in some of them.
func (s *shape[T]) check(ctx context.Context, db *sql.DB) error {
	filled := ""
	for i, strict := range s.noNulls {
		if strict {
			filled += fmt.Sprintf(" AND x.c%d IS NOT NULL", s.firstColumn()+i)
		}
	}
	// In the order of the key: the first pages of a table may have been emptied.
	list := s.list() + " FROM " + s.names.quoted + " ORDER BY " + s.names.key
	found, err := s.readSome(ctx, db, "SELECT * FROM (SELECT "+list+" LIMIT 1000) x WHERE 1 = 1"+filled+" LIMIT 5")
	if err != nil || found {
		return err
	}
	_, err = s.readSome(ctx, db, "SELECT "+list+" LIMIT 5")
	return err
}

// readSome reads rows until one fits into a T. The error is that of the last if
// none does.
func (s *shape[T]) readSome(ctx context.Context, db *sql.DB, query string) (found bool, err error) {
	n := s.names
	text, _ := n.d.Compile(query).Bind(dialect.Args{})
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		var zero T
		return false, dialect.Wrap(n.d, fmt.Sprintf("table %s does not have the columns that %T is tagged with (%s)", n.source, zero, strings.Join(s.columns, ", ")), err)
	}
	defer rows.Close()
	sc, unreadable := s.scanner(), error(nil)
	for rows.Next() {
		if err := sc.scan(rows); err != nil {
			return false, dialect.Wrap(n.d, "cannot read table "+n.source, err)
		}
		if sc.item.Err == nil {
			return true, nil
		}
		unreadable = sc.item.Err
	}
	if err := rows.Err(); err != nil {
		return false, dialect.Wrap(n.d, "cannot read table "+n.source, err)
	}
	return false, unreadable
}
