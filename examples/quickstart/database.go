package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/sendonce/sendonce/claim"
)

func dialectOf(driver string) claim.Dialect {
	return map[string]claim.Dialect{"sqlite": claim.SQLite, "postgres": claim.Postgres, "mysql": claim.MySQL}[driver]
}

// openDatabase opens a pool. It does not connect yet.
func openDatabase(driver, dsn string) (*sqlx.DB, error) {
	// The driver logs what it also returns.
	_ = mysql.SetLogger(log.New(io.Discard, "", 0))
	db, err := sqlx.Open(map[string]string{"sqlite": "sqlite", "postgres": "pgx", "mysql": "mysql"}[driver], dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(8) // a Dispatcher has up to six statements at once
	if driver == "sqlite" {
		// A file has one writer at a time. Connections of one process would only
		// wait for each other, and less fairly than in the pool's queue.
		db.SetMaxOpenConns(1)
	}
	return db, nil
}

// sqliteFile is a file, and whether it is ours to make.
type sqliteFile struct {
	path string
	ours bool
}

// findFile looks at the file that the user named, if any.
func findFile(dsn, byDefault string, existing bool) (sqliteFile, error) {
	if dsn == "" {
		return sqliteFile{byDefault, true}, nil
	}
	if strings.HasPrefix(dsn, "file:") || strings.HasPrefix(dsn, ":") {
		return sqliteFile{}, fmt.Errorf("-dsn is %q: for sqlite, give the path of a file, which the workers can share", dsn)
	}
	info, err := os.Stat(dsn)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return sqliteFile{}, fmt.Errorf("-dsn %s is not a file: name a SQLite file", dsn)
	case err == nil:
		return sqliteFile{dsn, false}, nil
	case errors.Is(err, os.ErrNotExist) && !existing:
		return sqliteFile{dsn, true}, nil
	}
	return sqliteFile{}, fmt.Errorf("cannot use the file of -dsn: %w: name a SQLite file that is there", err)
}

// dsn asks for what several processes on one file need: to wait for each other,
// and to take the write lock at the beginning of a transaction. A file of ours
// is written in WAL mode. That is a property of the file, so one of the user's
// keeps the mode that it has.
func (f sqliteFile) dsn() string {
	q := url.Values{"_pragma": {"busy_timeout(10000)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}
	if f.ours {
		q.Add("_pragma", "journal_mode(WAL)")
	} else {
		q.Set("mode", "rw")
	}
	return "file:" + (&url.URL{Path: f.path}).EscapedPath() + "?" + q.Encode()
}

// remove takes a file of ours away again.
func (f sqliteFile) remove() {
	if !f.ours {
		return
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(f.path + suffix)
	}
}

// quoted is the table's name, "name" or "schema.name", as SQL has it.
func quoted(driver, name string) string {
	mark := `"`
	if driver == "mysql" {
		mark = "`"
	}
	parts := strings.SplitN(name, ".", 2)
	for i, p := range parts {
		parts[i] = mark + strings.ReplaceAll(p, mark, mark+mark) + mark
	}
	return strings.Join(parts, ".")
}

// oneLine makes one line of a driver's many.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
