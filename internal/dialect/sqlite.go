package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// SQLite is SQLite, 3.35 and later.
var SQLite Dialect = sqlite{}

type sqlite struct{}

func (sqlite) Name() string          { return "SQLite" }
func (sqlite) Caps() Caps            { return Caps{UpdateReturning: true, OneWriter: true} }
func (sqlite) Quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
func (sqlite) Text(s string) string  { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }

// SQLite has no type for times. Ours are texts in UTC with milliseconds, which
// compare as text (https://www.sqlite.org/lang_datefunc.html).
const sqliteFormat = "'%Y-%m-%d %H:%M:%f'"

func (sqlite) Now(string) string { return "strftime(" + sqliteFormat + ", 'now')" }

func (sqlite) NowPlus(_, micros string) string {
	return "strftime(" + sqliteFormat + ", 'now', round((" + micros + ") / 1000000.0, 3) || ' seconds')"
}

func (sqlite) Micros(column string) string {
	return "CAST(round((julianday(" + column + ") - 2440587.5) * 86400000) AS INTEGER) * 1000"
}

func (sqlite) FromMicros(_, micros string) string {
	return "strftime(" + sqliteFormat + ", (" + micros + ") / 1000000.0, 'unixepoch')"
}

func (sqlite) KeysIn(column string, _ KeyKind) string {
	return column + " IN (SELECT value FROM json_each(:keys))"
}

func (sqlite) TokensIn(column string) string {
	return column + " IN (SELECT value FROM json_each(:tokens))"
}

func (d sqlite) PairsIn(key, token string, k KeyKind) string {
	return d.KeysIn(key, k) + " AND (" + key + ", " + token +
		") IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:pairs))"
}
func (sqlite) Key(arg string, _ KeyKind) string { return arg }
func (sqlite) Int(arg string) string            { return arg }
func (sqlite) Str(arg string) string            { return arg }
func (sqlite) ForShare() string                 { return "" }
func (sqlite) KeyList(string) string            { panic("sendonce: no statement of SQLite's lists keys") }

func (sqlite) IsNull(column string, _ KeyKind) string { return "+" + column + " IS NULL" }

func (sqlite) Is(column, literal string, _ KeyKind) string { return "+" + column + " = " + literal }

func (sqlite) Opaque(condition string) string { return condition }

func (sqlite) SkipLockedSince(version string) string {
	return "another database than SQLite " + version
}

func (d sqlite) Compile(text string) *Stmt { return positional(text, d) }

func (sqlite) keys(ks Keys) any { return JSONKeys(ks) }

func (sqlite) pairs(p Pairs) any {
	b := []byte{'['}
	for i, k := range p.Keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONKey(append(b, '['), k), ',')
		b = append(appendJSONKey(b, p.Tokens[i]), ']')
	}
	return string(append(b, ']'))
}

func (sqlite) literal(any) (string, bool) { return "", false }

// sqliteTx holds one connection. BEGIN IMMEDIATE takes the write lock at once:
// a transaction that reads first and writes then can't be given it, and fails
// without waiting (https://www.sqlite.org/lang_transaction.html).
type sqliteTx struct {
	*sql.Conn
	open bool
}

func (sqlite) Begin(ctx context.Context, db *sql.DB) (Tx, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	tx := &sqliteTx{Conn: conn, open: true}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		tx.Rollback() // it may have begun all the same
		return nil, err
	}
	return tx, nil
}

func (t *sqliteTx) Commit(ctx context.Context) error {
	if _, err := t.ExecContext(ctx, "COMMIT"); err != nil {
		t.Rollback()
		return err
	}
	t.open = false
	return t.Close()
}

// Rollback must not leave the connection in a transaction: the pool would hand
// it to the next caller. If it can't be undone, the connection is thrown away.
func (t *sqliteTx) Rollback() {
	if !t.open {
		return
	}
	t.open = false
	_, err := t.ExecContext(context.Background(), "ROLLBACK")
	if err != nil && !strings.Contains(err.Error(), "no transaction is active") {
		_ = t.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = t.Close()
}

// Classify goes by the primary result code (https://www.sqlite.org/rescode.html),
// where the driver's error tells it, else by the text.
func (sqlite) Classify(err error) Class {
	code := 0
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		code = coded.Code() & 0xff
	}
	msg := err.Error()
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(msg, p) {
				return true
			}
		}
		return false
	}
	switch {
	case code == 5, code == 6, has("database is locked", "database table is locked", "SQLITE_BUSY", "SQLITE_LOCKED"):
		return Transient
	case code == 8, code == 14, code == 26, has("no such table", "no such column", "readonly database", "unable to open database", "file is not a database"):
		return Fatal
	case code == 18, code == 19, code == 20, has("constraint failed", "datatype mismatch", "too big"):
		return BadData
	}
	return Other
}

func (sqlite) DDL() DDL {
	return DDL{
		Int: "INTEGER", SmallInt: "INTEGER", BigInt: "INTEGER", Time: "DATETIME", Bool: "BOOLEAN", LongText: "TEXT",
		Varchar: func(int) string { return "TEXT" },
		// Not partial: after ANALYZE the planner no longer uses it if it is.
		DueIndex: func(name, table, column string) string {
			return "CREATE INDEX " + name + " ON " + table + " (" + column + ")"
		},
		IndexInSchema: true,
		NotNull:       func(string, string, string) string { return "" },
		Null:          func(string, string, string) string { return "" },
		NameLimit:     func(string) string { return "" },
	}
}

func (d sqlite) Inspect(ctx context.Context, db *sql.DB, schema, table string) (*Live, error) {
	live := newLive()
	if schema == "" {
		schema = "main"
	}
	master := d.Quote(schema) + ".sqlite_master"
	var n int
	err := db.QueryRowContext(ctx, "SELECT count(*), sqlite_version() FROM "+master+" WHERE type IN ('table', 'view') AND name = ?", table).Scan(&n, &live.Version)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return live, similarTables(ctx, db, live, "SELECT name FROM "+master+" WHERE type IN ('table', 'view') AND lower(name) = lower(?)", table)
	}
	live.Exists = true
	if err := d.columns(ctx, db, live, schema, table); err != nil {
		return nil, err
	}
	if err := d.indexes(ctx, db, live, schema, table); err != nil {
		return nil, err
	}
	return live, d.writable(ctx, db, live, Qualified(d, schema, table))
}

func (sqlite) columns(ctx context.Context, db *sql.DB, live *Live, schema, table string) error {
	pk := 0
	query := "SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk FROM pragma_table_info(?, ?)"
	err := each(ctx, db, query, []any{table, schema}, func(scan func(...any) error) error {
		var c Column
		var notNull bool
		var inKey int
		if err := scan(&c.Name, &c.Type, &notNull, &c.Default, &inKey); err != nil {
			return err
		}
		c.Nullable, c.Kind = !notNull, sqliteKind(c.Type)
		if inKey > 0 {
			pk++
			live.Leading[c.Name] = live.Leading[c.Name] || inKey == 1
			live.Unique[c.Name] = true
			c.Nullable = false // a primary key may hold NULLs here, but nobody means that
		}
		live.Columns = append(live.Columns, c)
		return nil
	})
	if pk > 1 { // a key of several columns makes none of them unique
		clear(live.Unique)
	}
	return err
}

func (sqlite) indexes(ctx context.Context, db *sql.DB, live *Live, schema, table string) error {
	query := `SELECT MIN(CASE WHEN x.seqno = 0 THEN x.name END), l."unique" AND COUNT(*) = 1 AND NOT l.partial, NOT l.partial
FROM pragma_index_list(?, ?) l JOIN pragma_index_info(l.name, ?) x GROUP BY l.name HAVING MIN(CASE WHEN x.seqno = 0 THEN x.name END) IS NOT NULL`
	return readIndexes(ctx, db, live, query, table, schema, schema)
}

// writable writes nothing, as a write: BEGIN IMMEDIATE alone is granted on a file
// that cannot be written.
func (d sqlite) writable(ctx context.Context, db *sql.DB, live *Live, table string) error {
	tx, err := d.Begin(ctx, db)
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE 1 = 0")
		tx.Rollback()
	}
	if err != nil && d.Classify(err) == Fatal {
		live.ReadOnly = err.Error()
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking for the write lock: %w", err)
	}
	return nil
}

// sqliteKind follows the rules of affinity (https://www.sqlite.org/datatype3.html).
func sqliteKind(declared string) Kind {
	t := strings.ToUpper(declared)
	switch {
	case strings.Contains(t, "BOOL"):
		return KindBool
	case strings.Contains(t, "INT"):
		return KindInt
	case strings.Contains(t, "DATE"), strings.Contains(t, "TIME"):
		return KindTime
	case strings.Contains(t, "CHAR"), strings.Contains(t, "TEXT"), strings.Contains(t, "CLOB"), strings.Contains(t, "UUID"):
		return KindText
	}
	return KindOther
}

func (sqlite) Room(string) string { return "" }

func (sqlite) TakesRoom(context.Context, *sql.DB, string) (bool, error) { return false, nil }
