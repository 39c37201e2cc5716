package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/examples/internal/demotest"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func address(r *servers.RedisDB) string { return fmt.Sprintf("redis://%s/%d", r.Addr, r.DB) }

// played checks what the program says of each scene, and what is in the table.
func played(t *testing.T, db *sqlx.DB, r demotest.Result) {
	t.Helper()
	require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
	assert.Empty(t, r.Errors)
	for _, s := range scenes {
		for line := range strings.Lines(s.promise) {
			assert.Contains(t, r.Out, "    "+strings.TrimSpace(line)+"\n")
		}
	}
	assert.True(t, strings.HasSuffix(r.Out, "\nOK, in all 6 scenes it went as promised\n"), r.Out)

	var rows []struct {
		ID     int64   `db:"id"`
		Status int     `db:"status"`
		Reason *string `db:"last_error"`
	}
	require.NoError(t, db.Select(&rows, "SELECT id, status, last_error FROM sendonce_demo ORDER BY id"))
	var done, others []int64
	for _, row := range rows {
		if row.Status == 3 {
			done = append(done, row.ID)
			continue
		}
		others = append(others, row.ID)
		require.NotNil(t, row.Reason)
		assert.Contains(t, *row.Reason, `is taken by row 31, being sent`)
	}
	assert.Equal(t, []int64{1, 6, 11, 13, 21, 22, 23, 31, 41, 42, 51, 52, 53}, done)
	assert.Equal(t, []int64{32}, others, "2, 3, 4 and 12 were refused, and 5 was deleted")
}

func TestSQLite(t *testing.T) {
	lite := servers.SQLite(t)
	played(t, lite.Open(t, ""), demotest.Run(t, "-dsn", lite.Name))
}

func TestServers(t *testing.T) {
	demotest.OnServers(t, func(t *testing.T, driver string, db *servers.Database) {
		played(t, db.Open(t, ""), demotest.Run(t, "-driver", driver, "-dsn", db.DSN))
	})
}

func TestRedis(t *testing.T) {
	lite, redis := servers.SQLite(t), servers.Redis(t)
	for range 2 { // the keys of the first run are not in the way
		played(t, lite.Open(t, ""), demotest.Run(t, "-dsn", lite.Name, "-redis", address(redis)))
	}
	require.Eventually(t, func() bool {
		n, err := redis.Client(t).DBSize(t.Context()).Result()
		return err == nil && n == 0
	}, time.Minute, 10*time.Millisecond, "no key stays")
}

func TestInterrupt(t *testing.T) {
	lite := servers.SQLite(t)
	cmd := demotest.Command("-dsn", lite.Name)
	r := demotest.FinishWhile(t, cmd, func(p *os.Process) {
		require.Eventually(t, func() bool {
			_, err := os.Stat(lite.Name)
			return err == nil
		}, time.Minute, time.Millisecond)
		require.NoError(t, p.Signal(syscall.SIGINT))
	})
	assert.Equal(t, 130, r.Code)
	assert.Equal(t, "unique: interrupted\n", r.Errors)
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args  string
		parts []string
	}{
		{"-nonsense", []string{"-nonsense", "run with -h"}},
		{"now", []string{`"now"`, "run with -h"}},
		{"-driver oracle", []string{`-driver is "oracle"`, "give sqlite, postgres or mysql"}},
		{"-driver postgres", []string{"-driver postgres needs a database", "give -dsn, such as postgres://"}},
		{"-driver mysql -dsn me:secret@tcp(127.0.0.1:1)/x", []string{"cannot reach the mysql database", "refused", "start the server, or correct -dsn"}},
		{"-redis redis://me:secret@127.0.0.1:1/0", []string{"cannot reach Redis", "start the server, or correct -redis"}},
		{"-redis http://me:secret@127.0.0.1/", []string{"-redis is not understood", "give it as in redis://"}},
	} {
		t.Run(strings.ReplaceAll(c.args, "/", "|"), func(t *testing.T) {
			demotest.Refused(t, demotest.Run(t, strings.Fields(c.args)...), c.parts...)
		})
	}
}
