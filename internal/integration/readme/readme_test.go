// Package readme runs what README.md shows.
package readme

import (
	"bytes"
	"context"
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

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

const root = "../../.."

// blocks returns the fenced blocks of a language, in order.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	return out
}

// build compiles a program with the modules at hand.
func build(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, file).CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// The SQL makes a table fit, and the program below it sends its rows and stops
// on SIGTERM.
func TestProgramSendsATableThatTheSQLMadeFit(t *testing.T) {
	pg := servers.Postgres(t)
	db := pg.Open(t, "pgx")
	db.MustExec(`CREATE TABLE receivers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, address text NOT NULL, name text NOT NULL)`)
	for _, s := range strings.Split(strings.TrimSpace(blocks(t, "sql")[0]), ";\n") {
		db.MustExec(s)
	}
	db.MustExec(`INSERT INTO receivers (address, name) SELECT 'a' || g || '@example.org', 'Ada' FROM generate_series(1, 50) g`)

	cmd := exec.CommandContext(t.Context(), build(t, blocks(t, "go")[0]))
	cmd.Env = append(os.Environ(), "DATABASE_URL="+pg.DSN)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })

	require.Eventually(t, func() bool {
		var done int
		return db.Get(&done, `SELECT count(*) FROM receivers WHERE status = 3`) == nil && done == 50
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), log.String())
	assert.Equal(t, 50, strings.Count(log.String(), ", try 1"), log.String())
}

func TestSQLIsWhatSchemaPrints(t *testing.T) {
	stmts, err := claim.Schema(claim.Postgres, claim.Table{Name: "receivers"}, nil)
	require.NoError(t, err)
	assert.Equal(t, strings.Join(stmts, ";\n")+";\n", blocks(t, "sql")[0])
}

func TestMappingCompilesAndIsAccepted(t *testing.T) {
	program := build(t, `package main

import (
	"fmt"

	"github.com/sendonce/sendonce/claim"
)

func main() {
	stmts, err := claim.Schema(claim.Postgres, `+strings.TrimSpace(blocks(t, "go")[1])+`, nil)
	fmt.Println(stmts, err)
}
`)
	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	require.NoError(t, err)
	assert.Contains(t, string(out), `"app"."receivers"`)
	assert.Contains(t, string(out), "<nil>")
}

// "make test" is what runs this test; that it is a target is all that can be
// shown here.
func TestCommandsWork(t *testing.T) {
	for _, command := range blocks(t, "sh") {
		command = strings.TrimSpace(command)
		t.Run(command, func(t *testing.T) {
			if command == "make test" {
				out, err := exec.CommandContext(t.Context(), "make", "-C", root, "-n", "test").CombinedOutput()
				require.NoError(t, err, string(out))
				return
			}
			if testing.Short() {
				t.Skip("-short runs no quick start")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "-c", command)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			t.Log(string(out))
		})
	}
}

// What README points to is there.
func TestLinksLead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "")
	links := regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(prose, -1)
	require.NotEmpty(t, links)
	for _, l := range links {
		assert.FileExists(t, filepath.Join(root, l[1]))
	}
}
