package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var reported sync.Map

// report appends a line about a server to the file that SENDONCE_TEST_REPORT
// names: scripts/server-table makes a table of the lines of all test binaries.
func report(k *kind, version, via string) {
	appendReport(k.title, version, via, binary())
}

// Ran appends a line to the same file that says, when the test has ended, what
// became of a combination of parts: "ran", "FAILED" or "SKIPPED".
func Ran(t testing.TB, combination string) {
	t.Helper()
	t.Cleanup(func() {
		verdict := "ran"
		switch {
		case t.Failed():
			verdict = "FAILED"
		case t.Skipped():
			verdict = "SKIPPED"
		}
		appendReport("combination", combination, verdict, binary())
	})
}

// binary is the name of this test binary.
func binary() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".test") }

func appendReport(fields ...string) {
	path := os.Getenv("SENDONCE_TEST_REPORT")
	line := strings.Join(fields, "\t") + "\n"
	if _, again := reported.LoadOrStore(line, true); again || path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(line) // one write: lines of several binaries don't mix
		err = joinClose(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers: SENDONCE_TEST_REPORT:", err)
	}
}

func joinClose(err, closeErr error) error {
	if err != nil {
		return err
	}
	return closeErr
}
