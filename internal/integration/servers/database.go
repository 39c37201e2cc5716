package servers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver "mysql"
	"github.com/jmoiron/sqlx"
	_ "github.com/mattn/go-sqlite3" // driver "sqlite3"
	_ "modernc.org/sqlite"          // driver "sqlite"
)

// Database is a database of one test's own, empty at the start and dropped after
// the test. It is safe for concurrent use.
type Database struct {
	Kind    string // "postgres", "mariadb" or "sqlite"
	Name    string // of the database; for SQLite the file's path
	Addr    string // host:port; empty for SQLite
	Version string // product and version, such as "MariaDB 10.11.6"; empty for SQLite
	Via     string // how the server was had

	// Driver is the driver that Open takes for "": pgx, mysql or sqlite.
	Driver string
	// DSN is the connection string for that driver.
	DSN string
}

// Postgres returns a new database on the shared PostgreSQL server. Its DSN fits
// the drivers "pgx" and "postgres".
func Postgres(t testing.TB) *Database {
	t.Helper()
	return sharedServer(t, postgresKind).database(t)
}

// MariaDB returns a new database on the shared MariaDB or MySQL server. Its
// driver is "mysql".
func MariaDB(t testing.TB) *Database {
	t.Helper()
	return sharedServer(t, mariaKind).database(t)
}

// SQLite returns a new database file. Drivers are "sqlite" and "sqlite3". It
// needs no server, so that it works under -short too.
func SQLite(t testing.TB) *Database {
	t.Helper()
	d := &Database{Kind: "sqlite", Via: "file", Driver: "sqlite", Name: filepath.Join(t.TempDir(), "test.db")}
	d.DSN = sqliteDSN(d.Driver, d.Name, nil)
	return d
}

// With returns the DSN with more parameters, each "name=value", in place of
// those of the same name. They belong to the driver: "clientFoundRows=true" for
// mysql, "default_query_exec_mode=exec" for pgx.
func (d *Database) With(params ...string) string { return d.dsnFor(d.Driver, params) }

// DSNFor is With for another driver of the same database.
func (d *Database) DSNFor(driver string, params ...string) string { return d.dsnFor(driver, params) }

// At returns the same database, reached through another address: a proxy's or a
// pooler's.
func (d *Database) At(addr string) *Database {
	other := *d
	other.Addr = addr
	other.DSN = other.With()
	return &other
}

func (d *Database) dsnFor(driver string, params []string) string {
	switch d.Kind {
	case "postgres":
		return postgresDSN(d.DSN, d.Addr, d.Name, params)
	case "mariadb":
		return mariaDSN(d.DSN, d.Addr, d.Name, params)
	default:
		return sqliteDSN(driver, d.Name, params)
	}
}

// sqliteDSN asks for what every use of SQLite by several processes needs: WAL, a
// busy timeout, and transactions that take the write lock at their beginning.
func sqliteDSN(driver, path string, params []string) string {
	all := []string{"_pragma=busy_timeout(10000)", "_pragma=journal_mode(WAL)", "_txlock=immediate"}
	if driver == "sqlite3" {
		all = []string{"_busy_timeout=10000", "_journal_mode=WAL", "_txlock=immediate"}
	}
	path = strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	return "file:" + path + "?" + strings.Join(append(all, params...), "&")
}

// Open connects with the driver ("" is d.Driver) and more parameters (see With).
// The pool is closed after the test.
func (d *Database) Open(t testing.TB, driver string, params ...string) *sqlx.DB {
	t.Helper()
	if driver == "" {
		driver = d.Driver
	}
	db, err := sqlx.Open(driver, d.dsnFor(driver, params))
	if err != nil {
		t.Fatalf("servers: open %s: %v", driver, err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		t.Fatalf("servers: connect by %s: %v", driver, err)
	}
	return db
}

// freshName returns a name that no other test, process or machine uses.
func freshName() string {
	return fmt.Sprintf("sendonce_%d_%d_%08x", os.Getpid(), names.Add(1), rand.Uint32())
}

// database makes a database on the server, for one test.
func (s *server) database(t testing.TB) *Database {
	t.Helper()
	d := &Database{Kind: s.kind.name, Name: freshName(), Addr: s.addr, Version: s.version, Via: s.via, DSN: s.dsn}
	create, drop := "CREATE DATABASE "+d.Name, "DROP DATABASE IF EXISTS "+d.Name
	switch s.kind {
	case postgresKind:
		d.Driver = "pgx"
		create += " TEMPLATE template0"
		drop += " WITH (FORCE)"
	case mariaKind:
		d.Driver = "mysql"
		create += " CHARACTER SET utf8mb4"
	}
	d.DSN = d.With()
	if err := s.exec(d.Driver, create); err != nil {
		t.Fatalf("servers: %s: %v", create, err)
	}
	t.Cleanup(func() {
		// A database on a server of ours vanishes with it anyway, and the test
		// may have stopped or broken the server.
		if err := s.exec(d.Driver, drop); err != nil && s.run == nil {
			t.Errorf("servers: %s: %v", drop, err)
		}
	})
	return d
}

// exec runs one statement as the administrator.
func (s *server) exec(driver, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	db, err := sqlx.Open(driver, s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}
