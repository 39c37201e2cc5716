package demo

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/sendonce/sendonce/claim"
)

// Connect opens the database that the flags name, and changes nothing in it.
func Connect(ctx context.Context, f Flags) (*sqlx.DB, claim.Dialect, error) {
	var driver string
	example, cure := "", "start the server, or correct -dsn, as in "
	var d claim.Dialect
	switch f.Driver {
	case "sqlite":
		driver, d, example, cure = "sqlite", claim.SQLite, "the path of a SQLite file in a folder that can be written", "give -dsn "
	case "postgres":
		driver, d, example = "pgx", claim.Postgres, "postgres://user:password@host:5432/database"
	case "mysql":
		driver, d, example = "mysql", claim.MySQL, "user:password@tcp(host:3306)/database"
	default:
		return nil, 0, fmt.Errorf("-driver is %q: give sqlite, postgres or mysql", f.Driver)
	}
	if f.DSN == "" {
		return nil, 0, fmt.Errorf("-driver %s needs a database: give -dsn, such as %s", f.Driver, example)
	}
	if f.Driver == "sqlite" {
		f.DSN = sqliteDSN(f.DSN, f.Existing)
	}
	// The driver logs what it also returns.
	_ = mysql.SetLogger(log.New(io.Discard, "", 0))
	db, err := sqlx.Open(driver, f.DSN)
	if err != nil {
		return nil, 0, fmt.Errorf("-dsn is not understood: %w: give it as in %s", err, example)
	}
	db.SetMaxIdleConns(8) // a Dispatcher has up to six statements at once
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, 0, fmt.Errorf("cannot reach the %s database: %w: %s%s", f.Driver, err, cure, example)
	}
	return db, d, nil
}

// sqliteDSN asks for what several workers on one file need: to wait for each
// other, and to take the write lock at the beginning of a transaction.
func sqliteDSN(path string, existing bool) string {
	if strings.HasPrefix(path, "file:") {
		return path
	}
	q := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)"}, "_txlock": {"immediate"}}
	if existing {
		q.Set("mode", "rw")
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}
