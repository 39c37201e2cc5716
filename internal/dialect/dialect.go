// Package dialect knows how the databases differ: quoting, clocks, lists of
// keys, error codes and catalogues. Each database has one file here, and no
// other file of the library names one in its SQL. The statements themselves are
// written once, in package claim, from the expressions that a Dialect gives.
package dialect

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// KeyKind is how a key column's values are held in Go.
type KeyKind uint8

// The kinds of keys. A column of any other type cannot be a key.
const (
	KeyInt  KeyKind = iota + 1 // int64
	KeyUint                    // uint64
	KeyText                    // string
	KeyUUID                    // string; the database has a type of its own for it
	KeyChar                    // string, padded with spaces; only PostgreSQL's need care
)

// Caps are the differences that change the shape of a statement.
type Caps struct {
	// WriteCTE: one statement can update rows, insert the claim and return both.
	WriteCTE bool
	// UpdateReturning: an UPDATE can return the rows it wrote.
	UpdateReturning bool
	// OneWriter: writers take turns anyway, so claims never collide.
	OneWriter bool
	// SkipLocked: SELECT ... FOR UPDATE SKIP LOCKED exists.
	SkipLocked bool
}

// Dialect is one database.
type Dialect interface {
	Name() string
	Caps() Caps

	// Quote quotes one identifier; Text a string literal.
	Quote(ident string) string
	Text(s string) string

	// Now is the database's clock, as a value for a column of the given type
	// ("" for the claims table's own): always in one zone.
	Now(columnType string) string
	// NowPlus is Now plus a number of microseconds; NULL if that is NULL.
	NowPlus(columnType, micros string) string
	// Micros turns such a column into microseconds since 1970, and FromMicros
	// an argument in microseconds into a value for it.
	Micros(column string) string
	FromMicros(columnType, micros string) string

	// IsNull asks for NULL, and Is for a value, in a way that no index can
	// answer: rows are found by their key or their due time, and nearly all of a
	// table may be alike in these columns.
	IsNull(column string, k KeyKind) string
	Is(column, literal string, k KeyKind) string

	// Opaque is a condition that the planner can't estimate, where it needs that: it
	// takes it for one that many rows meet, and so reads an index in order until
	// there are enough, instead of all rows, to sort them.
	Opaque(condition string) string

	// KeysIn is true for rows whose column is in the argument :keys, PairsIn for
	// those whose key and token stand together in :keys and :tokens.
	KeysIn(column string, k KeyKind) string
	TokensIn(column string) string
	PairsIn(key, token string, k KeyKind) string
	// Key turns an argument into a value comparable with a key column, Int one
	// into a 64-bit integer and Str one into a text: a prepared statement has
	// to know.
	Key(arg string, k KeyKind) string
	Int(arg string) string
	Str(arg string) string
	// ForShare ends a query whose rows nobody else may change until the
	// transaction ends. It is "" where one that writes has the file to itself.
	ForShare() string
	// KeyList aggregates a column into the JSON array that the claims table
	// holds. Only with WriteCTE.
	KeyList(column string) string

	// Compile makes a statement from a text with named arguments.
	Compile(text string) *Stmt

	// Begin starts a transaction fit for a claim: at READ COMMITTED, or with the
	// write lock already taken.
	Begin(ctx context.Context, db *sql.DB) (Tx, error)

	// Classify says what an error means.
	Classify(err error) Class

	// Inspect reads the catalogue.
	Inspect(ctx context.Context, db *sql.DB, schema, table string) (*Live, error)

	// SkipLockedSince returns the version that SKIP LOCKED needs if a server of
	// the given version is older, else "".
	SkipLockedSince(version string) string

	// DDL writes definitions.
	DDL() DDL

	// Explain goes before a statement to have its plan, and BadPlan says what is
	// wrong with one: "" if it uses indexes.
	Explain() string
	BadPlan(plan string) string
	// FreshIndex finds fresh rows whose keys don't grow; "" where that takes no
	// index of its own.
	FreshIndex(name, table, key, fresh string) string
	// Room is the statement by which pages of a new table keep room for the
	// updates of their rows; "" where there is none. TakesRoom reports whether a
	// table is new: it has no rows, and nobody has said how full its pages may be.
	Room(table string) string
	TakesRoom(ctx context.Context, db *sql.DB, table string) (bool, error)

	// TableTips and ServerTips read the layout of a table, and the settings that
	// matter.
	TableTips(ctx context.Context, db *sql.DB, table, status string) ([]Tip, error)
	ServerTips(ctx context.Context, db *sql.DB) ([]Tip, error)
}

// Tip is advice on a database: what is so, why that matters, and the cure.
type Tip struct{ What, Why, Cure string }

// lossy is why a setting matters that lets a commit be lost.
const lossy = "a commit that was answered can be lost in a crash: a row that was sent is then sent again, under AtMostOnce too"

// settingTips reads settings, and gives the tip of each that is not as wanted.
func settingTips(ctx context.Context, db *sql.DB, query string, wanted map[string][]string, tip func(name, value string) Tip) ([]Tip, error) {
	var tips []Tip
	err := each(ctx, db, query, nil, func(scan func(...any) error) error {
		var name, value string
		if err := scan(&name, &value); err != nil {
			return err
		}
		if ok, known := wanted[name]; known && !slices.Contains(ok, value) {
			tips = append(tips, tip(name, value))
		}
		return nil
	})
	return tips, err
}

// DDL holds the parts of definitions that differ.
type DDL struct {
	Int, SmallInt, BigInt, Time, Bool, LongText string
	Varchar                                     func(n int) string
	// DueIndex is the index that finds rows which come back.
	DueIndex func(name, table, column string) string
	// IndexInSchema: in CREATE INDEX the schema goes before the index's name.
	IndexInSchema bool
	ClaimsSuffix  string
	// NotNull and Null change what a column may hold, given its definition; ""
	// where that takes a new table.
	NotNull, Null func(table, column, def string) string
	// NameLimit is what a name exceeds, "63 bytes", or "".
	NameLimit func(name string) string
}

// Querier is what a statement runs on.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Tx is a short transaction. Rollback after Commit does nothing.
type Tx interface {
	Querier
	Commit(ctx context.Context) error
	Rollback()
}

// Class is what an error means.
type Class uint8

// The classes.
const (
	Other     Class = iota
	Transient       // the same call is expected to succeed when repeated
	Fatal           // no repeat helps until somebody changes something
	BadData         // a value does not fit its column
)

// Error carries the class of a database's error to the loop.
type Error struct {
	Class Class
	Err   error
}

// Error is one line: some drivers write several.
func (e *Error) Error() string { return strings.Join(strings.Fields(e.Err.Error()), " ") }

func (e *Error) Unwrap() error { return e.Err }

// Transient tells sendonce.IsTransient.
func (e *Error) Transient() bool { return e.Class == Transient }

// Fatal tells sendonce.IsFatal.
func (e *Error) Fatal() bool { return e.Class == Fatal }

// Wrap gives err what the call was, and its class.
func Wrap(d Dialect, what string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: d.Classify(err), Err: fmt.Errorf("sendonce: %s: %w", what, err)}
}

// Column is one column of the live table.
type Column struct {
	Name     string
	Type     string // as the database prints it
	Kind     Kind
	Nullable bool
	Default  bool // it has a default, so that inserts need not name it
	MaxChars int  // of text; 0: no limit
	Padded   bool // a text that is compared without the spaces at its end
}

// Kind is a coarse type.
type Kind uint8

// The coarse types.
const (
	KindOther Kind = iota
	KindInt
	KindUint
	KindText
	KindUUID
	KindBool
	KindTime
)

func (k Kind) String() string {
	return [...]string{"another type", "an integer", "an unsigned integer", "text", "a UUID", "a boolean", "a time"}[k]
}

// Live is what the catalogue says of a table.
type Live struct {
	Exists   bool
	Similar  []string // names that differ in case only
	Columns  []Column
	Unique   map[string]bool // columns that are unique by themselves
	Leading  map[string]bool // columns that lead an index
	ReadOnly string          // why nothing can be written; "" if it can
	Version  string
}

// Column finds a column by its exact name.
func (l *Live) Column(name string) (Column, bool) {
	for _, c := range l.Columns {
		if c.Name == name {
			return c, true
		}
	}
	return Column{}, false
}

// Misfits says what keeps a table of ours from being used: it must have columns of
// these types, or of types that begin so, and the key must be unique by itself.
func (l *Live) Misfits(columns map[string]string, key string) (problems []string) {
	switch {
	case !l.Exists:
		return []string{"it does not exist"}
	case l.ReadOnly != "":
		return []string{l.ReadOnly}
	}
	for name, want := range columns {
		c, ok := l.Column(name)
		switch {
		case !ok:
			problems = append(problems, "it has no column "+name)
		case !strings.HasPrefix(strings.ToLower(c.Type), strings.ToLower(want)):
			problems = append(problems, fmt.Sprintf("column %s is %s and not %s", name, c.Type, want))
		}
	}
	if !l.Unique[key] {
		problems = append(problems, "the "+key+" is not unique by itself")
	}
	slices.Sort(problems)
	return problems
}

// LikeColumn finds one whose name differs in case only.
func (l *Live) LikeColumn(name string) string {
	for _, c := range l.Columns {
		if strings.EqualFold(c.Name, name) {
			return c.Name
		}
	}
	return ""
}

// Qualified quotes a name that may have a schema.
func Qualified(d Dialect, schema, name string) string {
	if schema == "" {
		return d.Quote(name)
	}
	return d.Quote(schema) + "." + d.Quote(name)
}

// older compares versions by their first numbers: "10.11.6-MariaDB".
func older(version string, major, minor, patch int) bool {
	var v [3]int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]) // what is not there counts as 0
	return slices.Compare(v[:], []int{major, minor, patch}) < 0
}

type sqlTx struct{ *sql.Tx }

func (t sqlTx) Commit(context.Context) error { return t.Tx.Commit() }
func (t sqlTx) Rollback()                    { _ = t.Tx.Rollback() }

func beginReadCommitted(ctx context.Context, db *sql.DB) (Tx, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	return sqlTx{tx}, nil
}
