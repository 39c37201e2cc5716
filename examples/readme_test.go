// Package examples runs what README.md shows.
package examples

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	return string(text)
}

// commands returns the command of each example.
func commands(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| \[(\w+)\].* \| .* \| (.*) \|$`).FindAllStringSubmatch(readme(t), -1) {
		assert.Regexp(t, "^`[^`]+`$", m[2], "one command")
		found[m[1]] = strings.Trim(m[2], "`")
	}
	return found
}

func TestAllExamplesAreListed(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	listed := commands(t)
	assert.Len(t, listed, len(mains))
	for _, path := range mains {
		assert.Contains(t, listed[filepath.Dir(path)], "./"+filepath.Dir(path))
	}
}

func TestCommandsWork(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs each example: a minute")
	}
	for name, command := range commands(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "-c", command)
			cmd.Dir, cmd.Env = "..", os.Environ()
			// A group of its own, so that all of it can be ended.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
			cmd.WaitDelay = 20 * time.Second
			if strings.Contains(command, "$DATABASE_URL") {
				cmd.Env = append(cmd.Env, "DATABASE_URL="+servers.Postgres(t).DSN)
			}
			if strings.Contains(command, "$REDIS_URL") {
				redis := servers.Redis(t)
				cmd.Env = append(cmd.Env, fmt.Sprintf("REDIS_URL=redis://%s/%d", redis.Addr, redis.DB))
			}
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			require.NoError(t, cmd.Run(), "%s%s", out.String(), errs.String())
			assert.Regexp(t, `(?m)^(1000 rows sent, .* 0 twice|300 rows of 300 sent once|OK, in .*)`, out.String())
			for line := range strings.Lines(errs.String()) {
				assert.Contains(t, line, "go: downloading ")
			}
		})
	}
}

// What README points to is there.
func TestLinksLead(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(readme(t), -1)
	require.NotEmpty(t, links)
	for _, l := range links {
		assert.FileExists(t, l[1])
	}
}
