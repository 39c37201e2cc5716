package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/lock/sqllock"
)

const (
	prefix = "sendonce_advisor_"
	sample = 200 // rows of the user's to take values from

	// readColumn is what the sender reads: what the user's reads is not known.
	readColumn = "sendonce_read"
)

type row struct {
	Text string `db:"sendonce_read"`
}

// scratch is the copy of a user's table and what belongs to it.
type scratch struct {
	dialect    claim.Dialect
	db         *sqlx.DB // where the copy is: for SQLite in a file of its own
	file       string   // that file
	attach     string   // for SQLite, the user's file
	user       *sqlx.DB
	schema     string // of both
	userTable  string // without it
	table      claim.Table
	work       string // the copy, without schema
	options    claim.Options
	list       string // the copy's columns that can be written
	fillfactor int    // of the user's table; 0 where there is no such thing
	filledWith string
}

// newCopy makes the copy and fills it. If it returns a scratch, that is to be
// dropped, also after an error.
func newCopy(ctx context.Context, user *sqlx.DB, d claim.Dialect, o options) (*scratch, error) {
	c := &scratch{dialect: d, db: user, user: user, userTable: o.table}
	if schema, name, ok := strings.Cut(o.table, "."); ok && d != claim.SQLite {
		c.schema, c.userTable = schema, name
	}
	cs, err := readColumns(ctx, user, d, c.schema, c.userTable)
	if err != nil {
		return nil, err
	}
	k, err := key(cs, o.table, o.key)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 4)
	_, _ = rand.Read(id)
	c.work = prefix + hex.EncodeToString(id)
	full := c.work
	if c.schema != "" {
		full = c.schema + "." + full
	}
	c.options = claim.Options{ClaimsTable: full + "_claims", LocksTable: full + "_locks"}
	c.table = claim.Table{Name: full, Columns: claim.Columns{Key: k}}
	if d == claim.SQLite {
		if err := c.openFile(ctx, o); err != nil {
			return c, err
		}
	}
	c.db.SetMaxIdleConns(40) // each Dispatcher has up to six statements at once
	if d == claim.Postgres {
		err := user.GetContext(ctx, &c.fillfactor, `SELECT COALESCE((SELECT substring(x FROM '^fillfactor=(\d+)')::int
			FROM pg_class, unnest(reloptions) x WHERE oid = to_regclass($1) AND x LIKE 'fillfactor=%'), 100)`, qualified(d, c.schema, c.userTable))
		if err != nil {
			return nil, err
		}
	}
	if err := c.make(ctx); err != nil {
		return c, fmt.Errorf("cannot copy table %s: %w: name a user who may create tables beside it", o.table, err)
	}
	if err := c.fill(ctx, o.rows); err != nil {
		return c, fmt.Errorf("cannot fill the copy of table %s: %w", o.table, err)
	}
	return c, nil
}

// fileURI names a SQLite file, given by its path or a URI.
func fileURI(path, mode string) string {
	if u, err := url.Parse(path); err == nil && u.Scheme == "file" {
		if path = u.Path; path == "" {
			path, _ = url.PathUnescape(u.Opaque)
		}
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=" + mode
}

func (c *scratch) openFile(ctx context.Context, o options) (err error) {
	c.attach, _, _ = strings.Cut(o.dsn, "&")
	path, err := url.PathUnescape(strings.TrimPrefix(strings.TrimSuffix(c.attach, "?mode=rw"), "file:"))
	if err != nil {
		return err
	}
	c.file = filepath.Join(filepath.Dir(path), c.work+".db")
	c.db, _, err = demo.Connect(ctx, demo.Flags{Driver: "sqlite", DSN: c.file})
	return err
}

// quoted is a table beside the copy.
func (c *scratch) quoted(suffix string) string { return qualified(c.dialect, c.schema, c.work+suffix) }

// make makes the copy fit for a mapping. The default one is tried first: the table
// may be in use with it, or have none of its columns.
func (c *scratch) make(ctx context.Context) (err error) {
	own := claim.Columns{Status: "sendonce_status", Token: "sendonce_token", Attempts: "sendonce_attempts", NextAttempt: "sendonce_next_attempt"}
	for _, m := range []claim.Table{{}, {States: claim.StringStates}, {Columns: own}} {
		key := c.table.Columns.Key
		c.table.Columns, c.table.States = m.Columns, m.States
		c.table.Columns.Key = key
		if err = c.exec(ctx, "DROP TABLE IF EXISTS "+c.quoted("")); err != nil {
			return err
		}
		if err = c.copySchema(ctx); err != nil {
			return err
		}
		if err = claim.Migrate(context.WithoutCancel(ctx), c.db, c.dialect, c.table, &c.options); err == nil {
			err = claim.Check(ctx, c.db, c.dialect, c.table, &c.options)
		}
		if err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	locks := map[claim.Dialect]sqllock.Dialect{claim.Postgres: sqllock.Postgres, claim.MySQL: sqllock.MySQL, claim.SQLite: sqllock.SQLite}
	return sqllock.Migrate(context.WithoutCancel(ctx), c.db.DB, locks[c.dialect], &sqllock.Options{Table: c.options.LocksTable})
}

func (c *scratch) copySchema(ctx context.Context) error {
	from := qualified(c.dialect, c.schema, c.userTable)
	var stmts []string
	switch c.dialect {
	case claim.Postgres:
		// Made up values need not meet the checks.
		stmts = []string{fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING CONSTRAINTS) WITH (fillfactor = %d)", c.quoted(""), from, c.fillfactor)}
	case claim.MySQL:
		stmts = []string{fmt.Sprintf("CREATE TABLE %s LIKE %s", c.quoted(""), from)}
	case claim.SQLite:
		var made []struct{ Type, SQL string }
		if err := c.user.SelectContext(ctx, &made, "SELECT type, sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC", c.userTable); err != nil {
			return err
		}
		for i, m := range made {
			stmts = append(stmts, renamed(m.Type, m.SQL, c.quoted(""), quote(c.dialect, fmt.Sprintf("%s_%d", c.work, i))))
		}
	}
	return c.exec(ctx, append(stmts, "ALTER TABLE "+c.quoted("")+" ADD COLUMN "+readColumn+" varchar(60)")...)
}

// renamed gives a definition of SQLite's other names. It is as sqlite_master has it:
// CREATE TABLE name(..., or CREATE UNIQUE INDEX name ON name(...
func renamed(typ, def, table, index string) string {
	before, rest, _ := strings.Cut(def, strings.ToUpper(typ)+" ")
	rest = afterName(rest)
	if typ == "table" {
		return before + "TABLE " + table + rest
	}
	rest = strings.TrimSpace(strings.TrimSpace(rest)[len("ON"):])
	return before + "INDEX " + index + " ON " + table + afterName(rest)
}

// afterName is what follows a name in SQL.
func afterName(s string) string {
	s = strings.TrimLeft(s, " \t\r\n")
	closing, quoted := map[byte]string{'"': `"`, '`': "`", '[': "]", '\'': "'"}[s[0]]
	if !quoted {
		return s[strings.IndexAny(s, " \t\r\n("):]
	}
	for s = s[1:]; ; s = s[1:] { // a quote is doubled in a name
		_, s, _ = strings.Cut(s, closing)
		if !strings.HasPrefix(s, closing) || closing == "]" {
			return s
		}
	}
}

// exec lets a statement that has begun end: the server might go on with it, and make
// a table after all had been dropped.
func (c *scratch) exec(ctx context.Context, stmts ...string) error {
	for _, s := range stmts {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if _, err := c.db.ExecContext(context.WithoutCancel(ctx), s); err != nil {
			return fmt.Errorf("%w, by: %s", err, s)
		}
	}
	return nil
}

// values lists the columns of the copy that can be written, and what to write. The
// values come from rows t of the user's, if there are any.
func (c *scratch) values(ctx context.Context, sampled bool) (names, exprs []string, err error) {
	cs, err := readColumns(ctx, c.db, c.dialect, c.schema, c.work)
	if err != nil {
		return nil, nil, err
	}
	m := c.table
	set := func(name, def string) string {
		if name == "" {
			return def
		}
		return name
	}
	pending := "0"
	if m.States != (claim.States{}) {
		pending = "'pending'"
	}
	fixed := map[string]string{
		set(m.Columns.Status, "status"): pending, set(m.Columns.Token, "token"): "0", set(m.Columns.Attempts, "attempts"): "0",
		set(m.Columns.NextAttempt, "next_attempt"): "NULL", readColumn: "'somebody@example.org'",
	}
	for _, col := range cs {
		expr, isFixed := fixed[col.Name]
		isKey := col.Name == m.Columns.Key
		switch made := col.madeUp(c.dialect, isKey); {
		case col.Generated:
			continue
		case isFixed:
		case sampled && !isKey && !col.Unique:
			expr = "t." + quote(c.dialect, col.Name)
		case made != "":
			expr = made
		case col.Nullable || col.Default && !col.Unique:
			continue
		case sampled:
			return nil, nil, fmt.Errorf("column %q is unique and of type %s, of which no values can be made up", col.Name, col.Type)
		default:
			return nil, nil, fmt.Errorf("column %q is NOT NULL and of type %s, of which no values can be made up: put a row into the table", col.Name, col.Type)
		}
		names, exprs = append(names, quote(c.dialect, col.Name)), append(exprs, expr)
	}
	return names, exprs, nil
}

// fill puts rows into the copy, and keeps them in a second one, from which each run
// has them anew.
func (c *scratch) fill(ctx context.Context, rows int) error {
	conn, err := c.db.Connx(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	from := qualified(c.dialect, c.schema, c.userTable)
	if c.attach != "" {
		if _, err := conn.ExecContext(ctx, "ATTACH DATABASE ? AS sendonce_user", c.attach); err != nil {
			return err
		}
		defer conn.ExecContext(context.WithoutCancel(ctx), "DETACH DATABASE sendonce_user")
		from = qualified(c.dialect, "sendonce_user", c.userTable)
	}
	if c.dialect == claim.MySQL {
		// Of the next transaction alone: reading locks none of the user's rows.
		if _, err := conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
			return err
		}
	}
	var have int
	some := fmt.Sprintf("(SELECT * FROM %s LIMIT %d) u", from, sample)
	if err := conn.GetContext(ctx, &have, "SELECT COUNT(*) FROM "+some); err != nil {
		return err
	}
	names, exprs, err := c.values(ctx, have > 0)
	if err != nil {
		return err
	}
	join, system := "", ""
	c.filledWith = "with made up values, as it is empty"
	if have > 0 {
		c.filledWith = fmt.Sprintf("with the values of %d of its rows", have)
		join = fmt.Sprintf(" JOIN (SELECT ROW_NUMBER() OVER () - 1 AS sendonce_n, u.* FROM %s) t ON t.sendonce_n = s.i %% %d", some, have)
	}
	if c.dialect == claim.Postgres {
		system = "OVERRIDING SYSTEM VALUE "
	}
	c.list = strings.Join(names, ", ")
	digit := "(SELECT 0 AS x" + strings.Repeat(" UNION ALL SELECT %d", 9) + ") "
	digit = fmt.Sprintf(digit, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	numbers := "(SELECT a.x + 10 * b.x + 100 * c.x + 1000 * d.x + 10000 * e.x + 1 AS i FROM " + digit + "a, " + digit + "b, " + digit + "c, " + digit + "d, " + digit + "e) s"
	insert := fmt.Sprintf("INSERT INTO %s (%s) %sSELECT %s FROM %s%s WHERE s.i <= %d ORDER BY s.i", c.quoted(""), c.list, system, strings.Join(exprs, ", "), numbers, join, rows)
	if _, err := conn.ExecContext(ctx, insert); err != nil {
		return fmt.Errorf("%w (columns in unique indexes have made up values, the others those of your rows if there are some)", err)
	}
	return c.exec(ctx, fmt.Sprintf("CREATE TABLE %s AS SELECT * FROM %s", c.quoted("_rows"), c.quoted("")))
}

// refill makes all rows pending again, in pages with that fillfactor.
func (c *scratch) refill(ctx context.Context, fillfactor int) error {
	var stmts []string
	tables := []string{c.quoted(""), c.quoted("_claims"), c.quoted("_locks")}
	if c.dialect == claim.Postgres {
		stmts = append(stmts, fmt.Sprintf("ALTER TABLE %s SET (fillfactor = %d)", tables[0], fillfactor), "TRUNCATE "+strings.Join(tables, ", "))
	} else {
		empty := "DELETE FROM "
		if c.dialect == claim.MySQL {
			empty = "TRUNCATE "
		}
		for _, t := range tables {
			stmts = append(stmts, empty+t)
		}
	}
	stmts = append(stmts, fmt.Sprintf("INSERT INTO %s (%s) %sSELECT %s FROM %s", tables[0], c.list,
		map[bool]string{true: "OVERRIDING SYSTEM VALUE "}[c.dialect == claim.Postgres], c.list, c.quoted("_rows")))
	switch c.dialect {
	case claim.Postgres:
		stmts = append(stmts, "VACUUM (ANALYZE) "+tables[0])
	case claim.MySQL:
		stmts = append(stmts, "ANALYZE TABLE "+tables[0])
	}
	return c.exec(ctx, stmts...)
}

// leftError says what could not be removed.
type leftError struct{ error }

// drop removes all that was made.
func (c *scratch) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if c.dialect == claim.SQLite {
		if c.db != c.user && c.db != nil {
			_ = c.db.Close()
		}
		for _, suffix := range []string{"-wal", "-shm", "-journal", ""} {
			if err := os.Remove(c.file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				return leftError{fmt.Errorf("cannot remove %s: %w", c.file+suffix, err)}
			}
		}
		return nil
	}
	var stmts []string
	for _, suffix := range []string{"", "_rows", "_claims", "_locks"} {
		stmts = append(stmts, "DROP TABLE IF EXISTS "+c.quoted(suffix))
	}
	if err := c.exec(ctx, stmts...); err != nil {
		return leftError{fmt.Errorf("cannot drop what was made: %w: do it by hand: %s", err, strings.Join(slices.Compact(stmts), "; "))}
	}
	return nil
}
