//go:build linux

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// processes are those that run this program.
func processes(t *testing.T, path string) (pids []int) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == path {
			pid, err := strconv.Atoi(strings.Split(link, "/")[2])
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// started runs a copy of the program, so that its processes can be told from
// others, until it has sent some mails.
func started(t *testing.T, args ...string) (cmd *exec.Cmd, path string, out *bytes.Buffer) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "quickstart")
	text, err := os.ReadFile(program())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o755))
	cmd = exec.Command(path, args...)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	out = &bytes.Buffer{}
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		out.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "sent ") {
			break
		}
	}
	require.Len(t, processes(t, path), 5, "the parent and four workers")
	go func() {
		for lines.Scan() {
			out.WriteString(lines.Text() + "\n")
		}
	}()
	return cmd, path, out
}

func TestInterruptStopsCleanly(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "db")
	cmd, path, _ := started(t, "-kill=false", "-dsn", file)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	begin := time.Now()
	_ = cmd.Wait()
	assert.Equal(t, 130, cmd.ProcessState.ExitCode())
	assert.Less(t, time.Since(begin), 5*time.Second)
	assert.Empty(t, processes(t, path))

	var held, pending, done int
	db := openFile(t, file)
	require.NoError(t, db.Get(&held, "SELECT COUNT(*) FROM sendonce_quickstart WHERE status IN (1, 2)"))
	require.NoError(t, db.Get(&pending, "SELECT COUNT(*) FROM sendonce_quickstart WHERE status = 0"))
	require.NoError(t, db.Get(&done, "SELECT COUNT(*) FROM sendonce_quickstart WHERE status = 3"))
	assert.Zero(t, held, "rows were left in nobody's hands")
	assert.Positive(t, pending)
	assert.Positive(t, done)
}

func TestInterruptOfAllProcessesStopsCleanly(t *testing.T) {
	cmd, path, _ := started(t, "-kill=false") // Ctrl-C reaches the workers too
	for _, pid := range processes(t, path) {
		_ = syscall.Kill(pid, syscall.SIGINT)
	}
	_ = cmd.Wait()
	assert.Equal(t, 130, cmd.ProcessState.ExitCode())
	assert.Empty(t, processes(t, path))
}

func TestWorkersDieWithTheirParent(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "db")
	cmd, path, _ := started(t, "-kill=false", "-dsn", file, "-dir", filepath.Join(dir, "logs"))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return len(processes(t, path)) == 0 }, 15*time.Second, 50*time.Millisecond)
	var held int
	require.NoError(t, openFile(t, file).Get(&held, "SELECT COUNT(*) FROM sendonce_quickstart WHERE status IN (1, 2)"))
	assert.Zero(t, held, "they put their rows back before they ended")
}
