package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSoakQuickstart: many runs with the kill, and each is as promised.
func TestSoakQuickstart(t *testing.T) {
	if os.Getenv("SENDONCE_SOAK") == "" {
		t.Skip("set SENDONCE_SOAK=1 to run this")
	}
	const runs, n = 20, 2000
	total := 0
	for seed := 1; seed <= runs; seed++ {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("run", seed))
		r := quickstart(t, "-n", fmt.Sprint(n), "-seed", fmt.Sprint(seed), "-dir", dir)
		total += checkRun(t, r, dir, n, true)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s%s", seed, r.Out, r.Errors)
		}
	}
	// Without a single second mail the kills would have hit nothing.
	require.Positive(t, total)
	t.Logf("%d runs of %d mails: nobody lost, %d mails received twice, all in flight at the kill", runs, n, total)
}
