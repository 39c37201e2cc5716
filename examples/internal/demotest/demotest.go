// Package demotest runs the examples as programs, in their tests.
package demotest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

// asProgram makes a test binary the example itself, built with -race as it is.
const asProgram = "SENDONCE_EXAMPLE_MAIN"

// Main is TestMain of an example whose main function is main.
func Main(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		flag.CommandLine = flag.NewFlagSet("", flag.ContinueOnError) // without those of package testing
		main()
		os.Exit(0)
	}
	servers.Main(m)
}

// Command is the example, not started yet. Its children are the example, too.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// Result is how a run ended.
type Result struct {
	Code        int
	Out, Errors string
}

// Run runs the example to its end.
func Run(t *testing.T, args ...string) Result {
	t.Helper()
	return Finish(t, Command(args...))
}

// Finish runs a command to its end.
func Finish(t *testing.T, cmd *exec.Cmd) Result {
	t.Helper()
	return FinishWhile(t, cmd, func(*os.Process) {})
}

// FinishWhile runs a command to its end, and meanwhile does something to it.
func FinishWhile(t *testing.T, cmd *exec.Cmd, during func(p *os.Process)) Result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, cmd.Start())
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	during(cmd.Process)
	err := cmd.Wait()
	require.True(t, stop(), "it did not end:\n%s%s", out.String(), errs.String())
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return Result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// Refused checks that a run was refused as bad input is: by one line that names
// the thing and the cure, and exit code 2.
func Refused(t *testing.T, r Result, parts ...string) {
	t.Helper()
	assert.Equal(t, 2, r.Code, r.Errors)
	assert.Empty(t, r.Out)
	assert.Equal(t, 1, strings.Count(r.Errors, "\n"), "one line: %s", r.Errors)
	for _, part := range parts {
		assert.Contains(t, r.Errors, part)
	}
	assert.NotContains(t, r.Errors, "secret")
}

// Sent checks that a run sent so many rows, and none twice: by the program's own
// count of what its sender was given, and by the table.
func Sent(t *testing.T, r Result, db *sqlx.DB, n int) {
	t.Helper()
	require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
	assert.Empty(t, r.Errors)
	m := regexp.MustCompile(`(\d+) rows sent, (\d+) of them after a retry, (\d+) twice\n$`).FindStringSubmatch(r.Out)
	require.NotNil(t, m, r.Out)
	// Each twentieth row fails at first.
	assert.Equal(t, []string{fmt.Sprint(n), fmt.Sprint(n / 20), "0"}, m[1:], r.Out)
	var byWorkers, k int
	for _, line := range regexp.MustCompile(`(?m)^worker-\d+ sent (\d+) rows`).FindAllStringSubmatch(r.Out, -1) {
		_, err := fmt.Sscan(line[1], &k)
		require.NoError(t, err)
		byWorkers += k
	}
	assert.Equal(t, n, byWorkers, r.Out)
	var done, claims, retried int
	require.NoError(t, db.Get(&done, "SELECT COUNT(*) FROM sendonce_demo WHERE status = 3"))
	require.NoError(t, db.Get(&retried, "SELECT COUNT(*) FROM sendonce_demo WHERE attempts = 2"))
	require.NoError(t, db.Get(&claims, "SELECT COUNT(*) FROM sendonce_claims"))
	assert.Equal(t, []int{n, n / 20, 0}, []int{done, retried, claims}, "done, retried, live claims")
}

// OnServers runs a test on an empty database of each kind that needs a server.
func OnServers(t *testing.T, test func(t *testing.T, driver string, db *servers.Database)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) { test(t, "postgres", servers.Postgres(t)) })
	t.Run("MariaDB", func(t *testing.T) { test(t, "mysql", servers.MariaDB(t)) })
}

// RefusesBadInput checks what all examples refuse alike. The arguments come
// before those of each case.
func RefusesBadInput(t *testing.T, args ...string) {
	t.Helper()
	for _, c := range []struct {
		args  string
		parts []string
	}{
		{"-nonsense", []string{"-nonsense", "run with -h"}},
		{"-n many", []string{"many", "run with -h"}},
		{"postgres", []string{`"postgres"`, "run with -h"}},
		{"-n -1", []string{"-n is -1", "give 0 or more"}},
		{"-workers 0", []string{"-workers is 0", "give from 1 to 64"}},
		{"-driver oracle", []string{`-driver is "oracle"`, "give sqlite, postgres or mysql"}},
		{"-driver postgres", []string{"-driver postgres needs a database", "give -dsn, such as postgres://"}},
		{"-driver mysql", []string{"-driver mysql needs a database", "@tcp(host:3306)/"}},
		{"-driver mysql -dsn nonsense", []string{"-dsn is not understood", "give it as in"}},
		{"-driver postgres -dsn postgres://me:secret@%zz", []string{"%zz", "correct -dsn"}},
		{"-driver postgres -dsn postgres://me:secret@127.0.0.1:1/x", []string{"cannot reach the postgres database", "refused", "start the server, or correct -dsn"}},
		{"-driver mysql -dsn me:secret@tcp(127.0.0.1:1)/x", []string{"cannot reach the mysql database", "refused", "start the server, or correct -dsn"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			Refused(t, Run(t, append(args[:len(args):len(args)], strings.Fields(c.args)...)...), c.parts...)
		})
	}
}
