package servers

import (
	"testing"

	"go.uber.org/goleak"
)

// NoLeaks fails the test if a goroutine that starts from now on is there when
// the test has ended. Call it after the test's servers and before what is
// tested: pools that Open makes afterwards are closed before it looks.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before,
			// Servers of ours that were started again meanwhile.
			goleak.IgnoreAnyFunction("github.com/sendonce/sendonce/internal/integration/servers.(*process).wait"),
			goleak.IgnoreAnyFunction("github.com/sendonce/sendonce/internal/integration/servers.forker"),
			// A proxy that was started before answers before its last goroutine is there.
			goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*Proxy).freeBlocker"))
	})
}
