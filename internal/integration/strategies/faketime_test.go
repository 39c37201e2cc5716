package strategies

import (
	"path/filepath"
	"testing"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

// fakeTime starts a server whose wall clock is that many seconds off. Its clock
// that only grows is left alone.
func fakeTime(t *testing.T, seconds string) servers.Options {
	t.Helper()
	libs, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(libs) == 0 {
		servers.MissingTool(t, "libfaketime.so.1", "libfaketime")
	}
	return servers.Options{Local: true, Env: []string{"LD_PRELOAD=" + libs[0], "FAKETIME=" + seconds, "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}}
}
