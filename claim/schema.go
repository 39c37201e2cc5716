package claim

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/internal/dialect"
)

// Schema returns the statements that make an existing table fit: the claims
// table, the columns to add, and the one index. It assumes that the table has
// its key and none of the columns; what is there already must be left out, as
// Migrate does. On a large table that is in use, add CONCURRENTLY to the index
// by hand on PostgreSQL.
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
	return append(stmts, n.createIndex()), nil
}

// Migrate applies what Schema says and the live table lacks, and nothing else.
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
	status := ddl.SmallInt + " NOT NULL DEFAULT " + n.lit[pending]
	statusKinds := []dialect.Kind{dialect.KindInt, dialect.KindUint}
	if n.textStates {
		status = ddl.Varchar(20) + " NOT NULL DEFAULT " + n.lit[pending]
		statusKinds = []dialect.Kind{dialect.KindText}
	}
	ints := []dialect.Kind{dialect.KindInt}
	times := []dialect.Kind{dialect.KindTime}
	ws := []want{
		{field: "Key", name: n.col.Key, kinds: []dialect.Kind{dialect.KindInt, dialect.KindUint, dialect.KindText, dialect.KindUUID}},
		{field: "Status", name: n.col.Status, kinds: statusKinds, ddl: status},
		{field: "Token", name: n.col.Token, kinds: ints, notNull: true, ddl: ddl.BigInt + " NOT NULL DEFAULT 0"},
		{field: "Attempts", name: n.col.Attempts, kinds: ints, notNull: true, ddl: ddl.Int + " NOT NULL DEFAULT 0"},
		{field: "NextAttempt", name: n.col.NextAttempt, kinds: times, nullable: true, ddl: ddl.Time},
		{field: "DoneAt", name: n.col.DoneAt, kinds: times, nullable: true, ddl: ddl.Time},
		{field: "LastError", name: n.col.LastError, kinds: []dialect.Kind{dialect.KindText}, ddl: "text"},
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
	name := n.table + "_sendonce_due"
	if len(name) > 60 {
		name = name[:45] + "_sendonce_due"
	}
	return n.d.DDL().DueIndex(n.d.Quote(name), n.quoted, n.next)
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
	return fmt.Sprintf("CREATE TABLE %s (%s)%s", n.claims, strings.Join(cols, ", "), n.d.DDL().ClaimsSuffix)
}
