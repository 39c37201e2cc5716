package servers

import (
	"os"
	"testing"
)

// MissingTool is for a program or library that a test needs besides servers, and
// that is not on the machine: it skips the test aloud, or fails it where servers
// are required, as "make test" does.
func MissingTool(t testing.TB, tool, pkg string) {
	t.Helper()
	if os.Getenv("SENDONCE_TEST_REQUIRE") != "" && !testing.Short() {
		t.Fatalf("%s is required (SENDONCE_TEST_REQUIRE is set), and is not there: install the package %s", tool, pkg)
	}
	t.Skipf("SKIPPED, not tested: there is no %s; it is in the package %s", tool, pkg)
}
