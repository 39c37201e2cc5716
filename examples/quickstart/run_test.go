package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/examples/internal/demotest"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "quickstart-test-"); err != nil {
		panic(err)
	}
	code := servers.Run(m)
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

// program builds the quick start once, and returns its path.
var program = sync.OnceValue(func() string {
	path := filepath.Join(buildDir, "quickstart")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go build: %v\n%s", err, out))
	}
	// For the tests that run it as somebody else.
	if err := os.Chmod(buildDir, 0o755); err != nil {
		panic(err)
	}
	return path
})

// quickstart runs the program to its end.
func quickstart(t *testing.T, args ...string) demotest.Result {
	t.Helper()
	return demotest.Finish(t, exec.Command(program(), args...))
}

// logOf reads the mail server's log of a run with -dir.
func logOf(t *testing.T, dir string) []entry {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "mailserver.log"))
	require.NoError(t, err)
	defer file.Close()
	entries, err := readLedger(file)
	require.NoError(t, err)
	return entries
}

// expectedOf is whom a run with -n is to send to.
func expectedOf(t *testing.T, n int) map[string]int {
	t.Helper()
	report, err := readCSV("", n)
	require.NoError(t, err)
	addresses := map[string]int{}
	for _, r := range report.Receivers {
		addresses[r.Address]++
	}
	return addresses
}

// number finds a line of the final table.
func number(t *testing.T, out, label string) int {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(label) + ` +(\d+)`).FindStringSubmatch(out)
	require.NotNil(t, m, "no %q in:\n%s", label, out)
	var n int
	_, err := fmt.Sscan(m[1], &n)
	require.NoError(t, err)
	return n
}

// checkRun judges a run by its mail server's log alone, with a count of the
// test's own, and compares that with what the run printed.
func checkRun(t *testing.T, r demotest.Result, dir string, n int, kill bool) (twice int) {
	t.Helper()
	require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
	assert.Empty(t, r.Errors)
	mails, reached := map[string]int{}, map[string]bool{}
	received := 0
	for _, e := range logOf(t, dir) {
		if e.answer == accepted {
			received++
			mails[e.messageID]++
		}
		if e.answer != deferred {
			reached[e.address] = true
		}
	}
	for address := range expectedOf(t, n) {
		assert.True(t, reached[address], "%s got nothing", address)
	}
	assert.Len(t, reached, n)
	for _, k := range mails {
		if k > 1 {
			twice++
		}
	}
	assert.Equal(t, n, number(t, r.Out, "addresses expected"))
	assert.Equal(t, received, number(t, r.Out, "mails received"))
	assert.Equal(t, twice, number(t, r.Out, "received twice"))
	assert.Zero(t, number(t, r.Out, "never received"))
	if !kill {
		assert.Zero(t, twice)
		assert.NotContains(t, r.Out, "killed")
		return twice
	}
	m := regexp.MustCompile(`killed; held (\d+) rows, (\d+) of them begun`).FindStringSubmatch(r.Out)
	require.NotNil(t, m, r.Out)
	var begun int
	_, err := fmt.Sscan(m[2], &begun)
	require.NoError(t, err)
	assert.Positive(t, begun, "the kill hit nothing: the run shows nothing")
	assert.LessOrEqual(t, twice, begun)
	return twice
}

func TestRunWithoutKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	r := quickstart(t, "-n", "300", "-kill=false", "-dir", dir)
	checkRun(t, r, dir, 300, false)
	assert.Contains(t, r.Out, "Imported receivers.csv: 301 lines, 300 receivers")
	assert.Contains(t, r.Out, "everybody got one mail")
	for _, file := range []string{"receivers.db", "worker-1.log", "worker-4.log"} {
		assert.FileExists(t, filepath.Join(dir, file))
	}
}

func TestRunWithKill(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease")
	}
	dir := filepath.Join(t.TempDir(), "kept")
	r := quickstart(t, "-n", "300", "-dir", dir, "-seed", "3", "-workers", "3")
	checkRun(t, r, dir, 300, true)
	assert.Contains(t, r.Out, "was killed (SIGKILL)")
	assert.Regexp(t, `worker-\d has given back \d+ rows of a vanished worker`, r.Out)
}

func TestTemporaryFolderIsRemoved(t *testing.T) {
	tmp := t.TempDir()
	cmd := exec.Command(program(), "-n", "20", "-kill=false")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	require.Zero(t, demotest.Finish(t, cmd).Code)
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// openFile opens a SQLite file beside the program.
func openFile(t *testing.T, path string) *sqlx.DB {
	t.Helper()
	db, err := openDatabase("sqlite", sqliteFile{path: path, ours: true}.dsn())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// tamper runs the program on a file and changes its table once some mails are
// sent.
func tamper(t *testing.T, change string) demotest.Result {
	t.Helper()
	if testing.Short() {
		t.Skip("sends 2,000 mails")
	}
	dir := t.TempDir()
	file, logs := filepath.Join(dir, "db"), filepath.Join(dir, "logs")
	cmd := exec.Command(program(), "-n", "2000", "-kill=false", "-dsn", file, "-dir", logs)
	done := make(chan demotest.Result, 1)
	go func() { done <- demotest.Finish(t, cmd) }()
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(logs, "mailserver.log"))
		return bytes.Count(text, []byte("\n")) > 200
	}, 30*time.Second, 5*time.Millisecond)
	_, err := openFile(t, file).Exec(change)
	require.NoError(t, err)
	return <-done
}

func TestLostReceiversAreNoticed(t *testing.T) {
	r := tamper(t, "DELETE FROM sendonce_quickstart WHERE id > 1997")
	assert.Equal(t, 1, r.Code, r.Out)
	assert.Equal(t, 3, number(t, r.Out, "never received"))
	assert.Contains(t, r.Errors, "FAILED: 3 receivers got nothing")
	assert.Equal(t, 1, strings.Count(r.Errors, "\n"))
}

func TestSecondMailsAreNoticed(t *testing.T) {
	r := tamper(t, "UPDATE sendonce_quickstart SET status = 0, token = 0, next_attempt = '2020-01-01 00:00:00.000' WHERE status = 3 AND id < 20")
	assert.Equal(t, 1, r.Code, r.Out)
	assert.Positive(t, number(t, r.Out, "received twice"))
	assert.Contains(t, r.Errors, "that no killed worker had in flight")
}

func TestRunsShareATable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "our own?#%.db") // names that a URI would misread
	for i, n := range []string{"60", "40"} {
		logs := filepath.Join(dir, fmt.Sprint("logs", i))
		r := quickstart(t, "-n", n, "-kill=false", "-dsn", file, "-dir", logs)
		require.Zero(t, r.Code, r.Errors)
	}
	var done []int
	require.NoError(t, openFile(t, file).Select(&done, "SELECT COUNT(*) FROM sendonce_quickstart WHERE status IN (3, 4) GROUP BY campaign ORDER BY campaign"))
	assert.Equal(t, []int{60, 40}, done)
}
