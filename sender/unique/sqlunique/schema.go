package sqlunique

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/sendonce/sendonce/internal/dialect"
)

// table is where the keys are, and the statements for it.
type table struct {
	d            dialect.Dialect
	schema, name string
	create       []string
	columns      map[string]string // and how the catalogue prints their types, or how those begin

	reading, add, update, remove, pruning *dialect.Stmt
}

const numbers = ", since bigint NOT NULL DEFAULT 0, reserved bigint NOT NULL DEFAULT 0, held bigint NOT NULL DEFAULT 0, " +
	"marked bigint NOT NULL DEFAULT 0, expires bigint NOT NULL DEFAULT 0"

func newTable(d Dialect, o *Options) (*table, error) {
	full := "sendonce_unique"
	if o != nil && o.Table != "" {
		full = o.Table
	}
	t := &table{d: d.impl()}
	t.schema, t.name = split(full)
	if t.d == nil {
		return nil, fmt.Errorf("sendonce: %v is none of sqlunique.Postgres, sqlunique.MySQL, sqlunique.SQLite", d)
	}
	if t.name == "" || strings.ContainsAny(t.schema+t.name, ".\x00") {
		return nil, fmt.Errorf("sendonce: sqlunique.Options.Table %q is no name of a table", full)
	}
	quoted := dialect.Qualified(t.d, t.schema, t.name)
	lock, ignore, conflict := " FOR UPDATE", "INSERT", " ON CONFLICT (name) DO NOTHING"
	now := t.d.Micros(t.d.Now(""))
	over := "expires < " + now + " - " + t.d.Int(":age") + " AND expires > 0"
	some := fmt.Sprintf(" ORDER BY expires LIMIT %d", pruneRows)
	prune := "DELETE FROM " + quoted + " WHERE name IN (SELECT name FROM " + quoted + " WHERE " + over + some + ")"
	index := t.d.Quote(t.name + "_expires")
	switch d {
	case Postgres:
		t.define(quoted, index, `text COLLATE "C"`, "text", " WITH (fillfactor = 70)")
		now = t.d.Micros("clock_timestamp()") // a transaction may have waited for the row
		prune = strings.TrimSuffix(prune, ")") + " FOR UPDATE SKIP LOCKED)"
	case MySQL:
		// Binary: no collation takes two names for one.
		t.create = []string{"CREATE TABLE IF NOT EXISTS " + quoted + " (name varbinary(255) PRIMARY KEY, holder varbinary(255) NOT NULL DEFAULT '', " +
			"id varbinary(255) NOT NULL DEFAULT '', token varbinary(255) NOT NULL DEFAULT ''" + numbers + ", INDEX " + index + " (expires)) ENGINE=InnoDB"}
		t.columns = columns("varbinary(", "bigint")
		ignore, conflict = "INSERT IGNORE", ""
		prune = "DELETE FROM " + quoted + " WHERE " + over + some
	case SQLite:
		t.define(quoted, index, "text", "text", "")
		lock = "" // the transaction has the file to itself
	}
	c := t.d.Compile
	name := "name = " + t.d.Str(":name")
	t.reading = c("SELECT " + now + ", holder, id, token, since, reserved, held, marked FROM " + quoted + " WHERE " + name + lock)
	t.add = c(ignore + " INTO " + quoted + " (name) VALUES (" + t.d.Str(":name") + ")" + conflict)
	var set []string
	for _, column := range []string{"holder", "id", "token"} {
		set = append(set, column+" = "+t.d.Str(":"+column))
	}
	for _, column := range []string{"since", "reserved", "held", "marked", "expires"} {
		set = append(set, column+" = "+t.d.Int(":"+column))
	}
	t.update = c("UPDATE " + quoted + " SET " + strings.Join(set, ", ") + " WHERE " + name)
	t.remove = c("DELETE FROM " + quoted + " WHERE " + name)
	t.pruning = c(prune)
	return t, nil
}

// define is the table of the databases whose texts compare by their bytes.
func (t *table) define(quoted, index, key, text, with string) {
	on := strings.TrimPrefix(quoted, t.d.Quote(t.schema)+".")
	name := index
	if t.d == dialect.SQLite && t.schema != "" {
		name = t.d.Quote(t.schema) + "." + index // there it is the index that has a schema
	} else {
		on = quoted
	}
	t.create = []string{
		"CREATE TABLE IF NOT EXISTS " + quoted + " (name " + key + " NOT NULL PRIMARY KEY, holder " + text + " NOT NULL DEFAULT '', id " + text +
			" NOT NULL DEFAULT '', token " + text + " NOT NULL DEFAULT ''" + numbers + ")" + with,
		"CREATE INDEX IF NOT EXISTS " + name + " ON " + on + " (expires)",
	}
	t.columns = columns("text", "bigint")
}

func columns(text, number string) map[string]string {
	return map[string]string{
		"name": text, "holder": text, "id": text, "token": text, "since": number, "reserved": number, "held": number, "marked": number, "expires": number,
	}
}

// Schema returns the statements that make the table.
func Schema(d Dialect, o *Options) ([]string, error) {
	t, err := newTable(d, o)
	if err != nil {
		return nil, err
	}
	return t.create, nil
}

// Migrate makes the table if it is missing, and changes nothing that is there.
// Running it again, or in several processes at once, is harmless.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, o *Options) error {
	t, err := newTable(d, o)
	if err != nil {
		return err
	}
	if db == nil {
		return errNoDB
	}
	for _, statement := range t.create {
		for range 3 { // two processes that do this at once can fail on PostgreSQL
			if _, err = db.ExecContext(ctx, statement); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			return dialect.Wrap(t.d, "make the table of unique keys by: "+statement, err)
		}
	}
	return nil
}

// Check compares the table with what Schema would make. The error, a *CheckError,
// names everything that is wrong. It changes nothing. New calls it.
func Check(ctx context.Context, db *sql.DB, d Dialect, o *Options) error {
	t, err := newTable(d, o)
	if err != nil {
		return err
	}
	return t.check(ctx, db)
}

// CheckError says what is wrong with the table of unique keys. Nothing was changed.
type CheckError struct {
	Table    string
	Problems []string
	Cure     string // the statements that make a table which fits
}

func (e *CheckError) Error() string {
	return fmt.Sprintf("sendonce: table %s can't hold unique keys: %s; one that can is made by sqlunique.Migrate, or by: %s",
		e.Table, strings.Join(e.Problems, "; "), e.Cure)
}

// Fatal tells sendonce.IsFatal that no repeat helps.
func (e *CheckError) Fatal() bool { return true }

var errNoDB = errors.New("sendonce: the database is nil: open it with sql.Open first")

func (t *table) check(ctx context.Context, db *sql.DB) error {
	if db == nil {
		return errNoDB
	}
	live, err := t.d.Inspect(ctx, db, t.schema, t.name)
	if err != nil {
		return dialect.Wrap(t.d, "read the catalogue for table "+t.name, err)
	}
	e := &CheckError{Table: t.name, Cure: strings.Join(t.create, "; ")}
	e.Problems = live.Misfits(t.columns, "name")
	if len(e.Problems) > 0 {
		return e
	}
	return nil
}
