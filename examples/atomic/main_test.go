package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/examples/internal/demotest"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestSQLite(t *testing.T) {
	lite := servers.SQLite(t)
	for range 2 { // the table is made anew
		demotest.Sent(t, demotest.Run(t, "-dsn", lite.Name, "-n", "400"), lite.Open(t, ""), 400)
	}
}

func TestItsOwnFileIsRemoved(t *testing.T) {
	cmd, dir := demotest.Command("-n", "40"), t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	r := demotest.Finish(t, cmd)
	require.Zero(t, r.Code, r.Errors)
	assert.Contains(t, r.Out, "40 rows sent, 2 of them after a retry, 0 twice\n")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestServers(t *testing.T) {
	demotest.OnServers(t, func(t *testing.T, driver string, db *servers.Database) {
		r := demotest.Run(t, "-driver", driver, "-dsn", db.DSN, "-n", "400")
		demotest.Sent(t, r, db.Open(t, ""), 400)
	})
}

func TestBadInput(t *testing.T) {
	demotest.RefusesBadInput(t)
	dir := t.TempDir()
	none := filepath.Join(dir, "none", "x.db")
	demotest.Refused(t, demotest.Run(t, "-dsn", none), "cannot reach the sqlite database", "give -dsn the path of a SQLite file in a folder that can be written")
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("this is no database, and it is long enough to be seen as none of them"), 0o600))
	demotest.Refused(t, demotest.Run(t, "-dsn", text), "not a database", "give -dsn the path of a SQLite file")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing was made")
}

func TestDatabaseWithoutTheRightToWrite(t *testing.T) {
	db := servers.Postgres(t)
	r := demotest.Run(t, "-driver", "postgres", "-dsn", db.With("default_transaction_read_only=on"))
	demotest.Refused(t, r, "cannot make the table sendonce_demo", "read-only", "name a database in which you may create tables")
}

func TestHelp(t *testing.T) {
	r := demotest.Run(t, "-h")
	assert.Zero(t, r.Code)
	assert.Contains(t, r.Out, "Flags of atomic:\n  -driver")
	assert.NotContains(t, r.Out, "-test.")
	assert.Empty(t, r.Errors)
}

// An interrupted run gives its rows back and says so.
func TestInterrupt(t *testing.T) {
	lite := servers.SQLite(t)
	db := lite.Open(t, "")
	r := demotest.FinishWhile(t, demotest.Command("-dsn", lite.Name, "-n", "5000"), func(p *os.Process) {
		require.Eventually(t, func() bool {
			var done int
			return db.Get(&done, "SELECT COUNT(*) FROM sendonce_demo WHERE status = 3") == nil && done > 0
		}, time.Minute, time.Millisecond)
		require.NoError(t, p.Signal(syscall.SIGTERM))
	})
	assert.Equal(t, 130, r.Code, r.Errors)
	assert.Equal(t, "atomic: interrupted; rows that were not sent are pending\n", r.Errors)
	var held, pending int
	require.NoError(t, db.Get(&held, "SELECT COUNT(*) FROM sendonce_demo WHERE status NOT IN (0, 3)"))
	require.NoError(t, db.Get(&pending, "SELECT COUNT(*) FROM sendonce_demo WHERE status = 0"))
	assert.Zero(t, held)
	assert.NotZero(t, pending)
}
