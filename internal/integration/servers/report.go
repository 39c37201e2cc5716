package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

var reported sync.Map

// report appends a line about a server to the file that SENDONCE_TEST_REPORT
// names: scripts/server-table makes a table of the lines of all test binaries.
func report(k *kind, version, via string) {
	path := os.Getenv("SENDONCE_TEST_REPORT")
	line := strings.Join([]string{k.title, version, via, strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")}, "\t") + "\n"
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
