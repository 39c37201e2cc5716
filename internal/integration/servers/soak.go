package servers

import (
	"os"
	"testing"
)

// Soak is the first line of a long programme: it skips the test unless make soak
// runs it.
func Soak(t testing.TB) {
	t.Helper()
	if os.Getenv("SENDONCE_SOAK") == "" {
		t.Skip("a long programme: set SENDONCE_SOAK=1")
	}
}

// Full says that long programmes run whole (make full), and not as samples.
func Full() bool { return os.Getenv("SENDONCE_FULL") != "" }
