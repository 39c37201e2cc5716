package claim

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/sendonce/sendonce/internal/dialect"
)

// Dialect is the database that a table lives in. It is an argument, and not
// guessed from the driver, because drivers get wrapped (for tracing, say).
type Dialect uint8

// The databases.
const (
	Postgres Dialect = iota + 1 // PostgreSQL
	MySQL                       // MySQL and MariaDB
	SQLite
)

// String returns the database's name.
func (d Dialect) String() string {
	if impl, err := d.impl(); err == nil {
		return impl.Name()
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

func (d Dialect) impl() (dialect.Dialect, error) {
	switch d {
	case Postgres:
		return dialect.Postgres, nil
	case MySQL:
		return dialect.MySQL, nil
	case SQLite:
		return dialect.SQLite, nil
	}
	return nil, fmt.Errorf("sendonce: Dialect(%d) is none of claim.Postgres, claim.MySQL, claim.SQLite", uint8(d))
}

// Table maps the user's table. Only Name is needed.
type Table struct {
	// Name is the table, "receivers" or "app.receivers" (schema, or database
	// for MySQL). It is quoted, so reserved words and mixed case are fine, and
	// upper and lower case must be as the database has them.
	Name string

	// Schema is for a Name that itself has a dot: if it is set, Name is taken
	// as it stands.
	Schema string

	Columns Columns
	States  States

	// Where is a further condition that rows must meet to be claimed, as SQL of
	// the database at hand, with "?" for each of Args ("??" for a question mark
	// outside quotes): "campaign_id = ?". It is your SQL: never put text from
	// outside into it, use Args. Empty: all rows.
	Where string
	Args  []any

	// Order, if set, is the ORDER BY by which rows are claimed: "priority DESC,
	// created_at". Every claim then sorts the pending rows, so it wants an
	// index of yours that gives this order. Empty: roughly by key, by a cursor
	// that needs no index.
	Order string

	// Namespace is what idempotency keys are derived from, besides a row's key.
	// Give it a new value to send to the same rows again as something new.
	// Empty: the name of the table as given.
	Namespace string

	// DeleteDone deletes rows when they are done, for outbox tables. Sends that
	// are recorded late then can't be told from rows that were never there.
	//
	// A key must never be given to a second row: both would have one idempotency
	// key, and a provider, or package unique, takes the second message for the
	// first. SQLite gives the largest id again when its row is deleted, by whoever,
	// unless the column is AUTOINCREMENT (Doctor looks for that). MySQL before 8.0
	// forgets at a restart how far it has counted.
	DeleteDone bool
}

// Columns names the columns that sendonce reads and writes. Empty names take
// the default; the optional ones are used only if they are named.
type Columns struct {
	Key         string // unique: integer, text or UUID. Default: "id"
	Status      string // integer or text. Default: "status"
	Token       string // 64-bit integer, NOT NULL DEFAULT 0. Default: "token"
	Attempts    string // integer, NOT NULL DEFAULT 0. Default: "attempts"
	NextAttempt string // a time, nullable: NULL on rows that were never tried. Default: "next_attempt"

	DoneAt     string // optional: a time, set when the row is done
	LastError  string // optional: text, set when an attempt fails
	Generation string // optional: integer, a part of the idempotency key

	// DoubtSince is optional: a time, nullable. It is set to when the first send
	// began that may have been accepted although the row is not done: one whose
	// worker vanished, or that was answered as Ambiguous. Config.IdempotencyWindow
	// needs it, and items know by it how long they have been in doubt.
	DoubtSince string
}

// States are the values of the status column: all integers or all strings. The
// zero value means 0 to 6 in the order of the fields. If some are set, all must
// be, and differ. A row whose status is none of them is never touched.
type States struct {
	Pending any // waiting; the only one that your inserts use
	Claimed any // handed out
	Sending any // begun, under AtMostOnce
	Done    any
	Dead    any // given up
	Skipped any
	Unknown any // may have been sent, under AtMostOnce
}

// StringStates are the names of the states, for a status column of text.
var StringStates = States{"pending", "claimed", "sending", "done", "dead", "skipped", "unknown"}

// Options tune a strategy. Nil means the defaults.
type Options struct {
	// ClaimsTable is the name of the small table that records who holds what,
	// "name" or "schema.name". All tables of a database can share it.
	// Default: "sendonce_claims", beside the user's table.
	ClaimsTable string

	// LockWait is how long a claim of NewLocked waits for its turn before it
	// goes on without the lock. Default: 1 s. Other strategies ignore it.
	LockWait time.Duration

	// LocksTable is the table in which NewUnmarked keeps the leases of
	// partitions; sqllock.Migrate makes it. Default: "sendonce_locks".
	LocksTable string
}

type state uint8

const (
	pending state = iota
	claimed
	sending
	done
	dead
	skipped
	unknown
	foreign
)

// names is a Table, checked, with everything quoted for its database.
type names struct {
	d                  dialect.Dialect
	schema, table      string // as given
	quoted             string
	source             string // the table's name in the claims table
	namespace          string
	claimsSchema       string
	claimsTable        string
	claims             string  // quoted
	col                Columns // as given
	key, status, token string  // quoted, like those below
	attempts, next     string
	doneAt, lastError  string
	generation         string
	doubtSince         string
	lit                [foreign]string // the literals of the states
	byText             map[string]state
	textStates         bool
	where              string // " AND (...)" or ""
	args               dialect.Args
	order              string
	deleteDone         bool

	// Known from the live table.
	live               *dialect.Live
	keyKind            dialect.KeyKind
	nextType, doneType string
	doubtType          string
	maxReason          int // characters; 0: no limit
}

func newNames(d dialect.Dialect, t Table, o *Options) (*names, error) {
	n := &names{d: d, col: t.Columns.withDefaults(), order: t.Order, deleteDone: t.DeleteDone}
	var err error
	if n.schema, n.table, err = splitName(t.Schema, t.Name); err != nil {
		return nil, err
	}
	if err := errorIfHostile(d, n.schema, n.table); err != nil {
		return nil, err
	}
	n.quoted = dialect.Qualified(d, n.schema, n.table)
	n.source = t.Name
	if t.Schema != "" {
		n.source = t.Schema + "." + t.Name
	}
	if n.namespace = t.Namespace; n.namespace == "" {
		n.namespace = n.source
	}
	if err := n.nameClaims(o); err != nil {
		return nil, err
	}
	if err := n.quoteColumns(); err != nil {
		return nil, err
	}
	if err := n.readStates(t.States); err != nil {
		return nil, err
	}
	return n, n.readWhere(t)
}

func splitName(schema, name string) (string, string, error) {
	if schema == "" {
		if i := strings.IndexByte(name, '.'); i >= 0 {
			schema, name = name[:i], name[i+1:]
			if schema == "" || strings.Contains(name, ".") {
				return "", "", fmt.Errorf("sendonce: the table name %q has more dots than schema.table: put the schema into Table.Schema", schema+"."+name)
			}
		}
	}
	if name == "" {
		return "", "", fmt.Errorf("sendonce: the table has no name: set Table.Name")
	}
	return schema, name, nil
}

// errorIfHostile refuses what the database does not take as a name, quoted or
// not, or would cut.
func errorIfHostile(d dialect.Dialect, idents ...string) error {
	for _, s := range idents {
		if strings.ContainsRune(s, 0) || len(s) > 128 {
			return fmt.Errorf("sendonce: %.140q cannot be a name in a database: it holds a NUL or is over 128 bytes", s)
		}
		if limit := d.DDL().NameLimit(s); limit != "" {
			return fmt.Errorf("sendonce: %q cannot be a name in %s: it is over %s", s, d.Name(), limit)
		}
	}
	return nil
}

func (n *names) nameClaims(o *Options) error {
	n.claimsSchema, n.claimsTable = n.schema, "sendonce_claims"
	if o != nil && o.ClaimsTable != "" {
		var err error
		if n.claimsSchema, n.claimsTable, err = splitName("", o.ClaimsTable); err != nil {
			return fmt.Errorf("Options.ClaimsTable: %w", err)
		}
		if err := errorIfHostile(n.d, n.claimsSchema, n.claimsTable); err != nil {
			return fmt.Errorf("Options.ClaimsTable: %w", err)
		}
	}
	n.claims = dialect.Qualified(n.d, n.claimsSchema, n.claimsTable)
	return nil
}

func (c Columns) withDefaults() Columns {
	set := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	set(&c.Key, "id")
	set(&c.Status, "status")
	set(&c.Token, "token")
	set(&c.Attempts, "attempts")
	set(&c.NextAttempt, "next_attempt")
	return c
}

func (n *names) quoteColumns() error {
	used := map[string]string{}
	for _, c := range []struct {
		field, name string
		quoted      *string
	}{
		{"Key", n.col.Key, &n.key},
		{"Status", n.col.Status, &n.status},
		{"Token", n.col.Token, &n.token},
		{"Attempts", n.col.Attempts, &n.attempts},
		{"NextAttempt", n.col.NextAttempt, &n.next},
		{"DoneAt", n.col.DoneAt, &n.doneAt},
		{"LastError", n.col.LastError, &n.lastError},
		{"Generation", n.col.Generation, &n.generation},
		{"DoubtSince", n.col.DoubtSince, &n.doubtSince},
	} {
		if c.name == "" {
			continue
		}
		if err := errorIfHostile(n.d, c.name); err != nil {
			return err
		}
		if other := used[c.name]; other != "" {
			return fmt.Errorf("sendonce: Columns.%s and Columns.%s are both %q: give each a column of its own", other, c.field, c.name)
		}
		used[c.name] = c.field
		*c.quoted = n.d.Quote(c.name)
	}
	return nil
}

func (n *names) readStates(s States) error {
	if s == (States{}) {
		s = States{0, 1, 2, 3, 4, 5, 6}
	}
	n.byText = map[string]state{}
	fields := [...]string{"Pending", "Claimed", "Sending", "Done", "Dead", "Skipped", "Unknown"}
	for i, v := range []any{s.Pending, s.Claimed, s.Sending, s.Done, s.Dead, s.Skipped, s.Unknown} {
		text, isText, err := stateText(v)
		if err != nil {
			return fmt.Errorf("sendonce: States.%s: %w", fields[i], err)
		}
		if i > 0 && isText != n.textStates {
			return fmt.Errorf("sendonce: States.%s is %v: the states must be all integers or all strings", fields[i], v)
		}
		if other, taken := n.byText[text]; taken {
			return fmt.Errorf("sendonce: States.%s and States.%s are both %v: the states must differ", fields[other], fields[i], v)
		}
		for other := range n.byText {
			if n.d == dialect.MySQL && strings.EqualFold(other, text) {
				return fmt.Errorf("sendonce: States.%s and States.%s, %q and %q, differ in case only: %s takes them for one", fields[n.byText[other]], fields[i], other, text, n.d.Name())
			}
		}
		n.textStates = isText
		n.byText[text] = state(i)
		if n.lit[i] = text; isText {
			n.lit[i] = n.d.Text(text)
		}
	}
	return nil
}

func stateText(v any) (text string, isText bool, err error) {
	switch v := v.(type) {
	case nil:
		return "", false, fmt.Errorf("is not set: set all of the states, or none")
	case string:
		if v == "" || strings.ContainsRune(v, 0) {
			return "", false, fmt.Errorf("%q cannot be a state", v)
		}
		if strings.HasSuffix(v, " ") {
			return "", false, fmt.Errorf("%q ends in a space, which databases drop", v)
		}
		return v, true, nil
	case int:
		return strconv.Itoa(v), false, nil
	case int64:
		return strconv.FormatInt(v, 10), false, nil
	}
	return "", false, fmt.Errorf("%v is a %T: a state is an int, an int64 or a string", v, v)
}

// state finds the state whose value the database printed.
func (n *names) state(text string) state {
	if s, ok := n.byText[strings.TrimRight(text, " ")]; ok { // CHAR(n) pads
		return s
	}
	return foreign
}

func (n *names) readWhere(t Table) error {
	if flaw := dialect.Flaw(t.Order, n.d == dialect.MySQL); flaw != "" {
		return fmt.Errorf("sendonce: Table.Order cannot be used: %s: %s", flaw, t.Order)
	}
	if t.Where == "" {
		if len(t.Args) > 0 {
			return fmt.Errorf("sendonce: Table.Args has %d values and Table.Where is empty", len(t.Args))
		}
		return nil
	}
	args := dialect.Args{}
	cond, err := n.condition(t.Where, t.Args, args)
	if err != nil {
		return fmt.Errorf("Table.Where: %w", err)
	}
	n.where, n.args = " AND "+cond, args
	return nil
}

// condition makes a user's condition fit to stand in a statement, and puts its
// values among the arguments, behind those of the table's own condition.
func (n *names) condition(where string, values []any, args dialect.Args) (string, error) {
	text, count := dialect.Condition(where, n.d == dialect.MySQL, len(n.args))
	if flaw := dialect.Flaw(where, n.d == dialect.MySQL); flaw != "" {
		return "", fmt.Errorf("sendonce: a condition cannot be used: %s: %s", flaw, where)
	}
	if count != len(values) {
		return "", fmt.Errorf("sendonce: a condition has %d question marks and %d arguments: %s", count, len(values), where)
	}
	for i, v := range values {
		args[dialect.UserArg(len(n.args)+i)] = v
	}
	// The line break ends a comment at the condition's end.
	return "(" + text + "\n)", nil
}

// bind gives the arguments of a statement, the user's own among them.
func (n *names) bind(a dialect.Args) dialect.Args {
	maps.Copy(a, n.args)
	return a
}

// in lists states, for "status IN (...)".
func (n *names) in(states ...state) string {
	parts := make([]string, len(states))
	for i, s := range states {
		parts[i] = n.lit[s]
	}
	return n.status + " IN (" + strings.Join(parts, ", ") + ")"
}

func (n *names) is(s state) string { return n.status + " = " + n.lit[s] }
