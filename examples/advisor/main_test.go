package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demotest"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// place is an empty database to try it on.
type place struct {
	driver string
	d      claim.Dialect
	*servers.Database
	db *sqlx.DB
}

func onAll(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		lite := servers.SQLite(t)
		test(t, place{"sqlite", claim.SQLite, lite, lite.Open(t, "")})
	})
	demotest.OnServers(t, func(t *testing.T, driver string, db *servers.Database) {
		d := map[string]claim.Dialect{"postgres": claim.Postgres, "mysql": claim.MySQL}[driver]
		test(t, place{driver, d, db, db.Open(t, "")})
	})
}

func (p place) exec(t *testing.T, stmts ...string) {
	t.Helper()
	for _, s := range stmts {
		_, err := p.db.Exec(s)
		require.NoError(t, err, s)
	}
}

// state is all that there is: the tables of the schema, and a sum of the table's rows.
func (p place) state(t *testing.T, table string) string {
	t.Helper()
	query := map[claim.Dialect]string{
		claim.SQLite:   "SELECT name FROM sqlite_master",
		claim.Postgres: "SELECT relname || COALESCE(reloptions::text, '') FROM pg_class WHERE relname !~ '^pg_'",
		claim.MySQL:    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
	}[p.d]
	var names []string
	require.NoError(t, p.db.Select(&names, query+" ORDER BY 1"))
	rows, err := p.db.Queryx("SELECT * FROM " + table + " ORDER BY 1")
	require.NoError(t, err)
	defer rows.Close()
	sum, n := sha256.New(), 0
	for rows.Next() {
		cells, err := rows.SliceScan()
		require.NoError(t, err)
		fmt.Fprintf(sum, "%q\n", cells)
		n++
	}
	require.NoError(t, rows.Err())
	if p.d == claim.SQLite {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(p.Name), "*advisor*"))
		require.NoError(t, err)
		names = append(names, files...)
	}
	return fmt.Sprintf("%q %d rows %x", names, n, sum.Sum(nil))
}

func (p place) args(t *testing.T, table string) []string {
	dsn := p.DSN
	if p.driver == "sqlite" {
		dsn = p.Name
	}
	return []string{"-driver", p.driver, "-dsn", dsn, "-table", table, "-for", "2s", "-n", "2000", "-batches", "100", "-workers", "1", "-chart", filepath.Join(t.TempDir(), "c.svg")}
}

func recommended(t *testing.T, r demotest.Result, args []string) {
	t.Helper()
	require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
	assert.Empty(t, r.Errors)
	for _, part := range []string{"claim.Doctor", "\nRecommended: claim.New", "NewUnmarked", "NewPartitioned", "\nOK, in "} {
		assert.Contains(t, r.Out, part)
	}
	assert.NotContains(t, r.Out, "Recommended: claim.NewUnmarked")
	svg, err := os.ReadFile(args[len(args)-1])
	require.NoError(t, err)
	assert.Contains(t, string(svg), "<svg")
	assert.Contains(t, string(svg), "NewAtomic B=100 W=1")
}

// plain is a table in use, with rows in all states.
func (p place) plain(t *testing.T) {
	t.Helper()
	p.exec(t, "CREATE TABLE receivers (id int PRIMARY KEY, address varchar(100) NOT NULL, note text NOT NULL)")
	require.NoError(t, claim.Migrate(t.Context(), p.db, p.d, claim.Table{Name: "receivers"}, nil))
	for i := range 30 {
		p.exec(t, fmt.Sprintf("INSERT INTO receivers (id, address, note, status, attempts) VALUES (%d, 'a%d@example.org', 'note', %d, 1)", 7*i, i, i%7))
	}
}

func TestTableInUse(t *testing.T) {
	onAll(t, func(t *testing.T, p place) {
		p.plain(t)
		before := p.state(t, "receivers")
		args := p.args(t, "receivers")
		r := demotest.Run(t, args...)
		recommended(t, r, args)
		assert.Contains(t, r.Out, "with the values of 30 of its rows")
		assert.Contains(t, r.Out, `claim.Table{Name: "receivers"}`)
		assert.Contains(t, r.Out, "claim.Doctor says of table receivers")
		assert.Equal(t, p.driver == "postgres", strings.Contains(r.Out, "Fillfactors: 50: "), r.Out)
		assert.Equal(t, before, p.state(t, "receivers"))
	})
}

// strange is a table that does not fit, with all that makes a copy hard to fill.
func (p place) strange(t *testing.T) {
	t.Helper()
	switch p.d {
	case claim.Postgres:
		p.exec(t, `CREATE SCHEMA app`, `CREATE TYPE app.mood AS ENUM ('sad', 'glad')`, `CREATE TABLE app.parents (id int PRIMARY KEY)`,
			`CREATE TABLE app."The Receivers" (uid uuid PRIMARY KEY, no bigserial, always int GENERATED ALWAYS AS IDENTITY, address varchar(40) NOT NULL,
	status app.mood NOT NULL, tags text[] NOT NULL, meta jsonb NOT NULL, born date NOT NULL, paid numeric(8,2) NOT NULL CHECK (paid > 1000),
	ok boolean NOT NULL, raw bytea NOT NULL, twice int GENERATED ALWAYS AS (no * 2) STORED, parent int NOT NULL REFERENCES app.parents,
	code char(8) NOT NULL, UNIQUE (address, code)) WITH (fillfactor = 70)`, `CREATE UNIQUE INDEX ON app."The Receivers" (lower(code))`)
	case claim.MySQL:
		p.exec(t, "CREATE TABLE parents (id int PRIMARY KEY)", "CREATE TABLE `The Receivers` (uid uuid PRIMARY KEY, address varchar(40) NOT NULL UNIQUE, "+
			"status enum('sad', 'glad') NOT NULL, meta json NOT NULL, born date NOT NULL, paid decimal(8,2) NOT NULL, ok tinyint(1) NOT NULL, raw binary(8) NOT NULL UNIQUE, "+
			"twice int AS (paid * 2) STORED, no int unsigned AUTO_INCREMENT UNIQUE, parent int NOT NULL, at timestamp(6) NOT NULL, FOREIGN KEY (parent) REFERENCES parents (id))")
	case claim.SQLite:
		p.exec(t, "CREATE TABLE parents (id int PRIMARY KEY)", `CREATE TABLE "The ""Receivers" (uid uuid PRIMARY KEY NOT NULL, address varchar(40) NOT NULL UNIQUE,
	status blob NOT NULL, paid numeric NOT NULL, ok boolean NOT NULL, raw NOT NULL, twice int AS (paid * 2) STORED, parent int NOT NULL REFERENCES parents, at datetime NOT NULL)`,
			`CREATE UNIQUE INDEX "on it (" ON "The ""Receivers" (paid, ok)`)
	}
}

func TestStrangeTable(t *testing.T) {
	onAll(t, func(t *testing.T, p place) {
		p.strange(t)
		name := map[claim.Dialect]string{claim.Postgres: "app.The Receivers", claim.MySQL: "The Receivers", claim.SQLite: `The "Receivers`}[p.d]
		schema, table, ok := strings.Cut(name, ".")
		if !ok {
			schema, table = "", name
		}
		quoted := qualified(p.d, schema, table)
		before := p.state(t, quoted)
		args := p.args(t, name)
		r := demotest.Run(t, args...)
		require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
		for _, part := range []string{"as it is empty", "can't be used as it is", `Key: "uid", Status: "sendonce_status"`, "sendonce_next_attempt", "ALTER TABLE", "CREATE INDEX"} {
			assert.Contains(t, r.Out, part)
		}
		assert.Regexp(t, `(?m)^Recommended: claim.New`, r.Out)
		assert.Equal(t, before, p.state(t, quoted))
	})
}

func TestInterrupted(t *testing.T) {
	onAll(t, func(t *testing.T, p place) {
		p.plain(t)
		before := p.state(t, "receivers")
		for _, after := range []string{"made", "measuring"} {
			cmd := demotest.Command(append(p.args(t, "receivers"), "-for", "1h")...)
			r := demotest.FinishWhile(t, cmd, func(program *os.Process) {
				require.Eventually(t, func() bool { return p.made(t, after == "measuring") }, time.Minute, 5*time.Millisecond)
				require.NoError(t, program.Signal(syscall.SIGINT))
			})
			assert.Equal(t, 130, r.Code, "%s%s", r.Out, r.Errors)
			assert.Equal(t, "advisor: interrupted; its tables are dropped\n", r.Errors)
			assert.Equal(t, before, p.state(t, "receivers"), after)
		}
	})
}

// made reports whether the copy is there, and also what its runs begin with.
func (p place) made(t *testing.T, all bool) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if p.d == claim.SQLite {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(p.Name), prefix+"*.db"))
		require.NoError(t, err)
		if !all || len(files) == 0 {
			return len(files) > 0
		}
		copied, err := sqlx.Open("sqlite", "file:"+files[0]+"?mode=ro")
		require.NoError(t, err)
		defer copied.Close()
		var n int
		return copied.GetContext(ctx, &n, "SELECT COUNT(*) FROM sqlite_master WHERE name LIKE '%\\_rows' ESCAPE '\\'") == nil && n > 0
	}
	var names []string
	require.NoError(t, p.db.SelectContext(ctx, &names, "SELECT table_name FROM information_schema.tables WHERE table_name LIKE '"+prefix+"%'"))
	return len(names) > 0 && (!all || strings.Contains(strings.Join(names, " "), "_rows"))
}

func TestRefused(t *testing.T) {
	onAll(t, func(t *testing.T, p place) {
		p.exec(t, "CREATE TABLE nokey (id int, address varchar(50) NOT NULL UNIQUE)", "CREATE TABLE twokeys (a int, b int, PRIMARY KEY (a, b))")
		before := p.state(t, "nokey")
		for _, c := range []struct {
			table, key string
			parts      []string
		}{
			{"receivers", "", []string{`there is no table "receivers"`, "correct -table"}},
			{"nokey", "", []string{"table nokey has no primary key", "-key"}},
			{"nokey", "id", []string{`no unique column "id"`, "correct -key"}},
			{"twokeys", "", []string{"several columns (a, b)", "by -key"}},
		} {
			args := p.args(t, c.table)
			if c.key != "" {
				args = append(args, "-key", c.key)
			}
			demotest.Refused(t, demotest.Run(t, args...), c.parts...)
		}
		assert.Equal(t, before, p.state(t, "nokey"))
	})
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args  string
		parts []string
	}{
		{"-nonsense", []string{"-nonsense", "run with -h"}},
		{"postgres", []string{`"postgres"`, "run with -h"}},
		{"-for 1ms", []string{"-for is 1ms", "give from 1s to 1h"}},
		{"-batches 10,x", []string{"-batches", "from 1 to 1000"}},
		{"-send 2s", []string{"-send is 2s", "give from 0 to 1s"}},
		{"-n 10", []string{"-n is 10", "give from 2000 to 100000"}},
		{"-chart x.png", []string{"-chart", "ends with .svg"}},
		{"-dsn x.db", []string{"give -table"}},
		{"-dsn /nowhere/x.db -table receivers", []string{"cannot reach the sqlite database", "give -dsn"}},
		{"-driver oracle", []string{`-driver is "oracle"`, "give sqlite, postgres or mysql"}},
		{"-driver postgres", []string{"-driver postgres needs a database", "give -dsn, such as postgres://"}},
		{"-redis http://me:secret@x", []string{"-redis is not understood", "redis://"}},
		{"-redis redis://me:secret@127.0.0.1:1/0", []string{"cannot reach Redis", "correct -redis"}},
		{"-table nothing", []string{`there is no table "nothing"`}},
	} {
		t.Run(c.args, func(t *testing.T) {
			demotest.Refused(t, demotest.Run(t, strings.Fields(c.args)...), c.parts...)
		})
	}
}

// Nothing needs to be installed; with Redis there is one strategy more.
func TestTemporaryFile(t *testing.T) {
	redis := servers.Redis(t)
	args := []string{"-for", "2s", "-n", "2000", "-batches", "10,100", "-workers", "1,2", "-send", "1ms", "-redis", fmt.Sprintf("redis://%s/%d", redis.Addr, redis.DB), "-chart", filepath.Join(t.TempDir(), "c.svg")}
	r := demotest.Run(t, args...)
	recommended(t, r, args)
	assert.Contains(t, r.Out, "NewLocked")
	assert.Contains(t, r.Out, "Each send took 1ms")
	assert.Contains(t, r.Out, "claim.NewSkipLocked: sendonce: SQLite has no")
}
