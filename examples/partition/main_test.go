package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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
	"github.com/sendonce/sendonce/partition"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// fleetSent checks what a whole fleet printed and what is in its table.
func fleetSent(t *testing.T, r demotest.Result, db *sqlx.DB, rows, workers int) {
	t.Helper()
	require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
	assert.Empty(t, r.Errors)
	var want strings.Builder
	for k := range workers {
		fmt.Fprintf(&want, "partition %d sent %d rows\n", k, rows/workers)
	}
	fmt.Fprintf(&want, "%d rows sent, 0 of them by another partition, 0 twice; %[1]d are marked\n", rows)
	assert.Equal(t, want.String(), r.Out)
	var done, claims int
	require.NoError(t, db.Get(&done, "SELECT COUNT(*) FROM sendonce_demo WHERE status = 3 AND attempts = 1"))
	require.NoError(t, db.Get(&claims, "SELECT COUNT(*) FROM sendonce_claims"))
	assert.Equal(t, []int{rows, 0}, []int{done, claims}, "done, live claims")
}

func TestFleetOnSQLite(t *testing.T) {
	lite := servers.SQLite(t)
	for _, workers := range []int{1, 4} { // the table is made anew
		r := demotest.Run(t, "-dsn", lite.Name, "-n", "200", "-workers", strconv.Itoa(workers))
		fleetSent(t, r, lite.Open(t, ""), 200, workers)
	}
}

func TestFleetOnServers(t *testing.T) {
	demotest.OnServers(t, func(t *testing.T, driver string, db *servers.Database) {
		r := demotest.Run(t, "-driver", driver, "-dsn", db.DSN, "-n", "400")
		fleetSent(t, r, db.Open(t, ""), 400, 4)
	})
}

func TestInterruptedFleet(t *testing.T) {
	lite := servers.SQLite(t)
	db := lite.Open(t, "")
	cmd := demotest.Command("-dsn", lite.Name, "-n", "2000", "-send", "100ms")
	r := demotest.FinishWhile(t, cmd, func(p *os.Process) {
		eventuallyDone(t, db, "sendonce_demo", 1)
		require.NoError(t, p.Signal(os.Interrupt))
	})
	assert.Equal(t, 130, r.Code, r.Errors)
	assert.Equal(t, "partition: interrupted; rows that were not sent are pending\n", r.Errors)
	var held int
	require.NoError(t, db.Get(&held, "SELECT COUNT(*) FROM sendonce_demo WHERE status NOT IN (0, 3)"))
	assert.Zero(t, held)
}

func TestWorkersEndWithTheirParent(t *testing.T) {
	lite := servers.SQLite(t)
	db := lite.Open(t, "")
	cmd := demotest.Command("-dsn", lite.Name, "-n", "2000", "-send", "100ms")
	r := demotest.FinishWhile(t, cmd, func(p *os.Process) {
		eventuallyDone(t, db, "sendonce_demo", 1)
		require.NoError(t, p.Kill())
	})
	assert.Equal(t, -1, r.Code)
	require.Eventually(t, func() bool {
		claims := -1
		return db.Get(&claims, "SELECT COUNT(*) FROM sendonce_claims") == nil && claims == 0
	}, time.Minute, 10*time.Millisecond, "the workers go on")
}

func eventuallyDone(t *testing.T, db *sqlx.DB, table string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var done int
		return db.Get(&done, "SELECT COUNT(*) FROM "+table+" WHERE status = 3") == nil && done >= n
	}, time.Minute, 5*time.Millisecond)
}

// receivers makes a table of n rows, as a user would have it.
func receivers(t *testing.T, db *sqlx.DB, d claim.Dialect, n int) {
	t.Helper()
	db.MustExec("CREATE TABLE receivers (id bigint PRIMARY KEY, address varchar(200) NOT NULL)")
	require.NoError(t, claim.Migrate(t.Context(), db, d, claim.Table{Name: "receivers"}, nil))
	tx := db.MustBegin()
	for i := range n {
		tx.MustExec(fmt.Sprintf("INSERT INTO receivers (id, address) VALUES (%d, 'a%[1]d@example.org')", i))
	}
	require.NoError(t, tx.Commit())
}

// worker is a running worker.
type worker struct {
	cmd       *exec.Cmd
	out, errs bytes.Buffer
}

func startWorker(t *testing.T, env []string, args ...string) *worker {
	t.Helper()
	w := &worker{cmd: demotest.Command(args...)}
	w.cmd.Env = append(w.cmd.Env, env...)
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.errs
	require.NoError(t, w.cmd.Start())
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}

// stop does what Supervisor and systemd do, and returns the rows that the worker
// has sent.
func (w *worker) stop(t *testing.T) []int {
	t.Helper()
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	late := time.AfterFunc(time.Minute, func() { _ = w.cmd.Process.Kill() })
	defer late.Stop()
	require.NoError(t, w.cmd.Wait(), "%s%s", w.out.String(), w.errs.String())
	assert.NotContains(t, w.errs.String(), "ERROR")
	var rows []int
	for _, m := range regexp.MustCompile(`(?m)^partition \d of \d: sent row (\d+) to a\d+@example.org$`).FindAllStringSubmatch(w.out.String(), -1) {
		row, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		rows = append(rows, row)
	}
	assert.Len(t, rows, strings.Count(w.out.String(), "\n"), w.out.String())
	return rows
}

func numbered(k, n int) []string {
	return []string{partition.EnvPartition + "=" + strconv.Itoa(k), partition.EnvCount + "=" + strconv.Itoa(n)}
}

func TestWorkerStopsInGoodOrder(t *testing.T) {
	lite := servers.SQLite(t)
	db := lite.Open(t, "")
	receivers(t, db, claim.SQLite, 1000)
	w := startWorker(t, append(numbered(1, 2), envDSN+"="+lite.Name), "-table", "receivers", "-send", "200ms")
	eventuallyDone(t, db, "receivers", 20)
	sent := w.stop(t)
	var done []int
	require.NoError(t, db.Select(&done, "SELECT id FROM receivers WHERE status = 3"))
	assert.ElementsMatch(t, sent, done, "what was being sent has its end recorded")
	for _, row := range sent {
		assert.Equal(t, 1, row%2)
	}
	var untouched, claims int
	require.NoError(t, db.Get(&untouched, "SELECT COUNT(*) FROM receivers WHERE status = 0 AND attempts = 0 AND token = 0"))
	require.NoError(t, db.Get(&claims, "SELECT COUNT(*) FROM sendonce_claims"))
	assert.Equal(t, 1000-len(sent), untouched, "what was not begun is given back")
	assert.Zero(t, claims)
}

// Two workers with one number are a mistake that sends nothing twice.
func TestTwoWorkersOfOnePartition(t *testing.T) {
	demotest.OnServers(t, func(t *testing.T, driver string, server *servers.Database) {
		db := server.Open(t, "")
		receivers(t, db, map[string]claim.Dialect{"postgres": claim.Postgres, "mysql": claim.MySQL}[driver], 600)
		var workers []*worker
		for _, k := range []int{0, 1, 1, 2} {
			workers = append(workers, startWorker(t, numbered(k, 3), "-driver", driver, "-dsn", server.DSN, "-table", "receivers"))
		}
		allSentOnce(t, db, workers, 600)
	})
}

// allSentOnce waits until all is sent, stops the workers, and counts.
func allSentOnce(t *testing.T, db *sqlx.DB, workers []*worker, n int) {
	t.Helper()
	eventuallyDone(t, db, "receivers", n)
	times := map[int]int{}
	for _, w := range workers {
		for _, row := range w.stop(t) {
			times[row]++
		}
	}
	assert.Len(t, times, n)
	for row, k := range times {
		assert.Equal(t, 1, k, "row %d", row)
	}
}

func TestBadInput(t *testing.T) {
	demotest.RefusesBadInput(t)
	lite := servers.SQLite(t)
	receivers(t, lite.Open(t, ""), claim.SQLite, 1)
	none := filepath.Join(t.TempDir(), "none.db")
	for _, c := range []struct {
		env   string
		args  string
		parts []string
	}{
		{"WORKER_PARTITION=0", "", []string{"WORKER_COUNT is not set", "must be the number of workers"}},
		{"WORKER_PARTITION=4 WORKER_COUNT=4", "", []string{`WORKER_PARTITION is "4"`, "from 0 to 3"}},
		{"WORKER_PARTITION=one WORKER_COUNT=4", "", []string{`WORKER_PARTITION is "one"`, "from 0 to 3"}},
		{"WORKER_PARTITION=0 WORKER_COUNT=none", "", []string{`WORKER_COUNT is "none"`, "from 1 to"}},
		{"WORKER_PARTITION=0 WORKER_COUNT=4", "", []string{"-driver sqlite needs a database", "give -dsn"}},
		{"WORKER_PARTITION=0 WORKER_COUNT=4", "-dsn " + none, []string{"cannot reach the sqlite database", "give -dsn"}},
		{"WORKER_PARTITION=0 WORKER_COUNT=4", "-table none -dsn " + lite.Name, []string{"table none", "does not exist", "-table"}},
	} {
		t.Run(c.env+c.args, func(t *testing.T) {
			cmd := demotest.Command(strings.Fields(c.args)...)
			cmd.Env = append(cmd.Env, strings.Fields(c.env)...)
			demotest.Refused(t, demotest.Finish(t, cmd), c.parts...)
		})
	}
	assert.NoFileExists(t, none)
}
