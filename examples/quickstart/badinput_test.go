package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demotest"
)

// files is all that a folder holds, with its content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			found[path] = "folder"
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	}))
	return found
}

// refusedWith checks that a run was refused as bad input is: in one line that
// names the thing and the cure.
func refusedWith(t *testing.T, r demotest.Result, parts ...string) {
	t.Helper()
	demotest.Refused(t, r, parts...)
	assert.True(t, strings.HasPrefix(r.Errors, "quickstart: "), r.Errors)
}

func TestBadFlags(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(full, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(full, "mine"), nil, 0o600))
	short := filepath.Join(dir, "short.csv")
	require.NoError(t, os.WriteFile(short, []byte("name,mail\nA,a@b.example\n"), 0o600))
	before := files(t, dir)
	for _, c := range []struct {
		args  string
		parts []string
	}{
		{"-nonsense", []string{"-nonsense", "run with -h"}},
		{"-n many", []string{"many", "run with -h"}},
		{"sqlite", []string{`"sqlite"`, "run with -h"}},
		{"-n -1", []string{"-n is -1", "0 or more"}},
		{"-n 10001", []string{"10000 receivers", "-n asks for 10001", "lower -n"}},
		{"-workers 0", []string{"-workers is 0", "from 1 to 64"}},
		{"-workers 1", []string{"second worker", "-kill=false"}},
		{"-driver oracle", []string{`"oracle"`, "sqlite, postgres, mysql"}},
		{"-driver mysql", []string{"mysql", "give -dsn"}},
		{"-driver mysql -dsn nonsense", []string{"-dsn is not understood", "as -h shows"}},
		{"-driver postgres -dsn postgres://%zz", []string{"-dsn", "correct -dsn"}},
		{"-existing -table mine", []string{"give -dsn and -table"}},
		{"-existing -dsn x.db", []string{"give -dsn and -table"}},
		{"-existing -dsn x.db -table mine -n 5", []string{"leave out -n"}},
		{"-table " + strings.Repeat("x", 51), []string{"51 bytes", "at most 50"}},
		{"-table a.b.c", []string{`"a.b.c"`, "another name with -table"}},
		{"-table=", []string{"no name", "another name with -table"}},
		{"-table nowhere.mine", []string{"cannot make the table nowhere.mine", "unknown database", "another name with -table"}},
		{"-csv " + dir + "/none.csv", []string{"none.csv", "no such file", "set -csv"}},
		{"-csv " + dir, []string{"directory", "set -csv"}},
		{"-csv " + short, []string{"short.csv", `no column "email"`, "the first line must name"}},
		{"-dir " + full, []string{full, "is not empty", "name a new or an empty one"}},
		{"-dir " + dir + "/none/sub", []string{"none/sub", "no such file", "name a new or an empty one"}},
		{"-dsn :memory:", []string{":memory:", "path of a file"}},
		{"-dsn " + dir, []string{dir, "not a file"}},
		{"-dsn " + short, []string{"cannot reach the database", "not a database", "name a SQLite file"}},
		{"-dir " + dir + "/new -dsn " + dir + "/none/x.db", []string{"unable to open"}},
		{"-dsn " + dir + "/none/x.db", []string{"unable to open", "folder that can be written"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			refusedWith(t, quickstart(t, strings.Fields(c.args)...), c.parts...)
		})
	}
	assert.Equal(t, before, files(t, dir), "nothing was changed")
}

// usersFile makes a file with tables as users have them, in SQLite's usual mode.
func usersFile(t *testing.T) (path string, db *sqlx.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "users.db")
	db, err := openDatabase("sqlite", "file:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for _, s := range []string{
		"CREATE TABLE receivers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, address TEXT NOT NULL)",
		"CREATE TABLE bare (id INTEGER PRIMARY KEY, name TEXT, address TEXT)",
		"CREATE TABLE nameless (id INTEGER PRIMARY KEY, address TEXT)",
		"CREATE TABLE texts (id INTEGER PRIMARY KEY, name TEXT, address TEXT, status TEXT NOT NULL DEFAULT 'pending', token INTEGER NOT NULL DEFAULT 0," +
			" attempts INTEGER NOT NULL DEFAULT 0, next_attempt DATETIME)",
		"CREATE TABLE empty (id INTEGER PRIMARY KEY, name TEXT, address TEXT)",
		"CREATE TABLE held (id INTEGER PRIMARY KEY, name TEXT, address TEXT)",
		"CREATE TABLE typos (id INTEGER PRIMARY KEY, name TEXT, address TEXT)",
	} {
		db.MustExec(s)
	}
	for _, name := range []string{"receivers", "nameless", "empty", "held", "typos"} {
		require.NoError(t, claim.Migrate(t.Context(), db, claim.SQLite, claim.Table{Name: name}, nil))
	}
	db.MustExec("INSERT INTO receivers (name, address) VALUES ('Anna', 'anna@post.example'), ('Jörg', 'joerg@post.example'), ('Jörg again', 'joerg@post.example')")
	db.MustExec("INSERT INTO receivers (name, address, status) VALUES ('Sent before', 'old@post.example', 3)")
	db.MustExec("INSERT INTO held (name, address, status) VALUES ('Anna', 'anna@post.example', 1)")
	db.MustExec("INSERT INTO typos (name, address) VALUES ('Anna', 'Anna <anna@post.example>')")
	return path, db
}

func TestExistingTable(t *testing.T) {
	path, db := usersFile(t)
	logs := filepath.Join(t.TempDir(), "logs")
	r := quickstart(t, "-dsn", path, "-table", "receivers", "-existing", "-kill=false", "-dir", logs)
	require.Zero(t, r.Code, r.Errors)
	assert.Equal(t, 3, number(t, r.Out, "addresses expected"))
	assert.Equal(t, 3, number(t, r.Out, "mails received"))
	var done int
	require.NoError(t, db.Get(&done, "SELECT COUNT(*) FROM receivers WHERE status = 3"))
	assert.Equal(t, 4, done)
	got := map[string]int{}
	for _, e := range logOf(t, logs) {
		got[e.address]++
	}
	assert.Equal(t, map[string]int{"anna@post.example": 1, "joerg@post.example": 2}, got)
	var mode string
	require.NoError(t, db.Get(&mode, "PRAGMA journal_mode"))
	assert.Equal(t, "delete", mode, "a file of the user's keeps its mode")
}

func TestBadTables(t *testing.T) {
	path, _ := usersFile(t)
	before := files(t, filepath.Dir(path))
	for _, c := range []struct {
		args  string
		parts []string
	}{
		{"-existing -table nothing", []string{"nothing", "does not exist", "Table.Name"}},
		{"-existing -table Receivers", []string{"Receivers", "case-sensitive", `"receivers"`}},
		{"-existing -table bare", []string{`column "status" is missing`, `ALTER TABLE "bare" ADD COLUMN "status"`, "no index"}},
		{"-existing -table nameless", []string{`column "name"`, "is missing", "add the column"}},
		{"-existing -table texts", []string{`column "status" is of type TEXT`, "integer"}},
		{"-existing -table empty", []string{"empty", "nothing to send"}},
		{"-existing -table held", []string{"1 rows of table held", "wait until"}},
		{"-existing -table typos", []string{`"Anna <anna@post.example>"`, "mend it"}},
		{"-table receivers", []string{"table receivers is there and is not the quick start's", "another with -table"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			refusedWith(t, quickstart(t, append(strings.Fields(c.args), "-dsn", path)...), c.parts...)
		})
	}
	assert.Equal(t, before, files(t, filepath.Dir(path)), "nothing was changed")

	refusedWith(t, quickstart(t, "-existing", "-table", "x", "-dsn", path+".none"), "users.db.none", "no such file", "name a SQLite file that is there")
	assert.NoFileExists(t, path+".none")
}

// TestTableThatOnlyLooksOurs: the right columns, and types that don't fit.
func TestTableThatOnlyLooksOurs(t *testing.T) {
	path, db := usersFile(t)
	db.MustExec("CREATE TABLE " + defaultTable + " (" + strings.Join(ownColumns, " TEXT, ") + " TEXT)")
	before := files(t, filepath.Dir(path))
	refusedWith(t, quickstart(t, "-dsn", path), defaultTable, `column "token" is of type TEXT`)
	assert.Equal(t, before, files(t, filepath.Dir(path)), "nothing was changed")
}

// unprivileged runs the program as somebody whom permissions bind: they don't
// bind root.
func unprivileged(t *testing.T, args ...string) demotest.Result {
	t.Helper()
	cmd := exec.Command(program(), args...)
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return demotest.Finish(t, cmd)
}

// openFolder makes a folder that everybody can reach.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(buildDir, "open-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

func TestReadOnlyFile(t *testing.T) {
	path, db := usersFile(t)
	require.NoError(t, db.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	program()
	dir := openFolder(t)
	file := filepath.Join(dir, "users.db")
	require.NoError(t, os.WriteFile(file, text, 0o444))
	before := files(t, dir)
	refusedWith(t, unprivileged(t, "-dsn", file), "cannot make the table", "readonly database", "a database that can be written")
	refusedWith(t, unprivileged(t, "-dsn", file, "-existing", "-table", "receivers"), "table receivers", "cannot be written")
	assert.Equal(t, before, files(t, dir), "nothing was changed")
}

func TestReadOnlyFolder(t *testing.T) {
	program()
	dir := openFolder(t)
	require.NoError(t, os.Chmod(dir, 0o555))
	refusedWith(t, unprivileged(t, "-dsn", filepath.Join(dir, "new.db")), "cannot reach the database", "unable to open", "folder that can be written")
	refusedWith(t, unprivileged(t, "-dir", filepath.Join(dir, "new")), "permission denied", "name a new or an empty one that can be written")
	refusedWith(t, unprivileged(t, "-dir", dir), "permission denied")
	assert.Len(t, files(t, dir), 1)
}
