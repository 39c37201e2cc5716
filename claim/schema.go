package claim

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/internal/dialect"
)

// Schema returns the statements that make an existing table fit: the claims
// table, the columns to add, and the one index. It assumes that the table has
// its key and none of the columns; what is there already must be left out, as
// Migrate does. On a large table that is in use, add CONCURRENTLY to the index
// by hand on PostgreSQL. There the last statement lets pages keep room for the
// updates of their rows, which makes these a third cheaper and the table twice as
// large: it is for tables that are still to be filled, and can be left out.
func Schema(d Dialect, t Table, o *Options) ([]string, error) {
	impl, err := d.impl()
	if err != nil {
		return nil, err
	}
	n, err := newNames(impl, t, o)
	if err != nil {
		return nil, err
	}
	stmts := []string{n.createClaims()}
	for _, c := range n.wanted() {
		if c.ddl != "" {
			stmts = append(stmts, n.addColumn(c))
		}
	}
	stmts = append(stmts, n.createIndex())
	if room := n.d.Room(n.quoted); room != "" {
		stmts = append(stmts, room)
	}
	return stmts, nil
}

// Migrate applies what Schema says and the live table lacks, and nothing else: room
// in the pages only where there are no rows yet and nobody has set it (fillfactor).
// It does not change columns that are there, and does not make the table.
// Running it again, or in several processes at once, is harmless; on MySQL and
// SQLite statements that were applied before an error stay applied.
func Migrate(ctx context.Context, db *sqlx.DB, d Dialect, t Table, o *Options) error {
	n, live, err := look(ctx, db.DB, d, t, o)
	if err != nil {
		return err
	}
	if !live.table.Exists || live.table.ReadOnly != "" {
		return n.problems(live)
	}
	var stmts []string
	for _, c := range n.wanted() {
		if _, ok := live.table.Column(c.name); !ok && c.ddl != "" {
			stmts = append(stmts, n.addColumn(c))
		}
	}
	if !live.claims.Exists {
		stmts = append(stmts, n.createClaims())
	}
	if !live.table.Leading[n.col.NextAttempt] {
		stmts = append(stmts, n.createIndex())
	}
	if room := n.d.Room(n.quoted); room != "" && len(stmts) > 0 {
		takes, err := n.d.TakesRoom(ctx, db.DB, n.quoted)
		if err != nil {
			return dialect.Wrap(n.d, "cannot look whether table "+n.source+" is new", err)
		}
		if takes {
			stmts = append(stmts, room)
		}
	}
	for _, s := range stmts {
		if _, err := db.ExecContext(ctx, s); err != nil {
			if again := stillMissing(ctx, db.DB, d, t, o, s); again {
				return dialect.Wrap(n.d, "cannot migrate table "+n.source+" by: "+s, err)
			}
		}
	}
	return nil
}

// stillMissing reports whether what a statement would have made is not there: a
// failed one does no harm if another process was faster.
func stillMissing(ctx context.Context, db *sql.DB, d Dialect, t Table, o *Options, stmt string) bool {
	n, live, err := look(ctx, db, d, t, o)
	if err != nil {
		return true
	}
	switch stmt {
	case n.createClaims():
		return !live.claims.Exists
	case n.createIndex():
		return !live.table.Leading[n.col.NextAttempt]
	}
	for _, c := range n.wanted() {
		if n.addColumn(c) == stmt {
			_, ok := live.table.Column(c.name)
			return !ok
		}
	}
	return true
}

// want is a column of the user's table that is needed.
type want struct {
	field, name string
	kinds       []dialect.Kind
	notNull     bool
	nullable    bool
	ddl         string // "" for what can't be added: the key
}

func (n *names) wanted() []want {
	ddl := n.d.DDL()
	status := n.intStates() + " NOT NULL DEFAULT " + n.lit[pending]
	statusKinds := []dialect.Kind{dialect.KindInt, dialect.KindUint}
	if n.textStates {
		status = ddl.Varchar(max(20, n.longestState())) + " NOT NULL DEFAULT " + n.lit[pending]
		statusKinds = []dialect.Kind{dialect.KindText}
	}
	ints := []dialect.Kind{dialect.KindInt}
	times := []dialect.Kind{dialect.KindTime}
	ws := []want{
		{field: "Key", name: n.col.Key, kinds: []dialect.Kind{dialect.KindInt, dialect.KindUint, dialect.KindText, dialect.KindUUID}, notNull: true},
		{field: "Status", name: n.col.Status, kinds: statusKinds, ddl: status},
		{field: "Token", name: n.col.Token, kinds: ints, notNull: true, ddl: ddl.BigInt + " NOT NULL DEFAULT 0"},
		{field: "Attempts", name: n.col.Attempts, kinds: ints, notNull: true, ddl: ddl.Int + " NOT NULL DEFAULT 0"},
		{field: "NextAttempt", name: n.col.NextAttempt, kinds: times, nullable: true, ddl: ddl.Time},
		{field: "DoneAt", name: n.col.DoneAt, kinds: times, nullable: true, ddl: ddl.Time},
		{field: "LastError", name: n.col.LastError, kinds: []dialect.Kind{dialect.KindText}, ddl: "text"},
		{field: "DoubtSince", name: n.col.DoubtSince, kinds: times, nullable: true, ddl: ddl.Time},
		{field: "Generation", name: n.col.Generation, kinds: ints, ddl: ddl.Int + " NOT NULL DEFAULT 0"},
	}
	var out []want
	for _, w := range ws {
		if w.name != "" {
			out = append(out, w)
		}
	}
	return out
}

func (n *names) addColumn(w want) string {
	return "ALTER TABLE " + n.quoted + " ADD COLUMN " + n.d.Quote(w.name) + " " + w.ddl
}

func (n *names) createIndex() string {
	const suffix = "_sendonce_due"
	name := n.table + suffix
	if len(name) > 60 {
		// Two long names may begin alike.
		sum := sha256.Sum256([]byte(n.table))
		name = strings.ToValidUTF8(n.table[:38], "") + "_" + hex.EncodeToString(sum[:4]) + suffix
	}
	ddl, table := n.d.DDL(), n.quoted
	if name = n.d.Quote(name); ddl.IndexInSchema && n.schema != "" {
		name, table = n.d.Quote(n.schema)+"."+name, n.d.Quote(n.table)
	}
	return ddl.DueIndex(name, table, n.next)
}

// intStates is the smallest type that holds the states.
func (n *names) intStates() string {
	ddl := n.d.DDL()
	typ := ddl.SmallInt
	for text := range n.byText {
		switch v, _ := strconv.ParseInt(text, 10, 64); {
		case v < math.MinInt32 || v > math.MaxInt32:
			return ddl.BigInt
		case v < math.MinInt16 || v > math.MaxInt16:
			typ = ddl.Int
		}
	}
	return typ
}

// longestState is the number of characters that the states need.
func (n *names) longestState() int {
	most := 0
	for text := range n.byText {
		most = max(most, utf8.RuneCountInString(text))
	}
	return most
}

// claimsColumns are those of the claims table, by kind.
func (n *names) claimsColumns() []want {
	ddl := n.d.DDL()
	ints, text := []dialect.Kind{dialect.KindInt, dialect.KindUint}, []dialect.Kind{dialect.KindText}
	times := []dialect.Kind{dialect.KindTime}
	return []want{
		{name: "token", kinds: ints, ddl: ddl.BigInt + " PRIMARY KEY"},
		{name: "source", kinds: text, ddl: ddl.Varchar(260) + " NOT NULL"},
		{name: "owner", kinds: text, ddl: ddl.Varchar(250) + " NOT NULL"},
		{name: "row_keys", kinds: text, ddl: ddl.LongText + " NOT NULL"},
		{name: "mode", kinds: ints, ddl: ddl.SmallInt + " NOT NULL"},
		{name: "alone", kinds: ints, ddl: ddl.SmallInt + " NOT NULL"},
		{name: "lease_ms", kinds: ints, ddl: ddl.BigInt + " NOT NULL"},
		{name: "since", kinds: times, ddl: ddl.Time + " NOT NULL"},
		{name: "until", kinds: times, ddl: ddl.Time + " NOT NULL"},
	}
}

func (n *names) createClaims() string {
	var cols []string
	for _, w := range n.claimsColumns() {
		cols = append(cols, w.name+" "+w.ddl)
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)%s", n.claims, strings.Join(cols, ", "), n.d.DDL().ClaimsSuffix)
}
