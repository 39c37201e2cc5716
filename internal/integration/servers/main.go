package servers

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// inMain says that TestMain has called Main, so that somebody will stop what is
// started.
var inMain atomic.Bool

// Main runs the tests of a package and stops every server that they started. It
// does not return: TestMain calls it, and nothing else.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for a TestMain that has more to do: it returns the exit code.
func Run(m *testing.M) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	if err := checkEnvironment(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if !testing.Short() {
		sweep()
	}
	inMain.Store(true)
	defer stopAll() // also when a test's panic comes through here
	return m.Run()
}

// required says whether a missing server of this kind fails the test.
func required(k *kind) bool { return slices.Contains(requiredNames(), k.name) }

func requiredNames() []string {
	var names []string
	for name := range strings.SplitSeq(os.Getenv("SENDONCE_TEST_REQUIRE"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// checkEnvironment refuses misspelt settings: a name that is silently ignored
// would make a test run prove less than it claims.
func checkEnvironment() error {
	for _, name := range requiredNames() {
		if !slices.ContainsFunc(kinds(), func(k *kind) bool { return k.name == name }) {
			return fmt.Errorf("servers: SENDONCE_TEST_REQUIRE names %q; known are postgres, mariadb, redis, pgbouncer", name)
		}
	}
	switch v := os.Getenv("SENDONCE_TEST_VIA"); v {
	case "", viaDSN, viaDocker, viaLocal:
		return nil
	default:
		return fmt.Errorf("servers: SENDONCE_TEST_VIA is %q; known are dsn, docker, local", v)
	}
}

var (
	runningMu sync.Mutex
	running   []runner
)

func remember(r runner) {
	runningMu.Lock()
	defer runningMu.Unlock()
	running = append(running, r)
}

func forget(r runner) {
	runningMu.Lock()
	defer runningMu.Unlock()
	running = slices.DeleteFunc(running, func(o runner) bool { return o == r })
}

func stopAll() {
	runningMu.Lock()
	all := slices.Clone(running)
	running = nil
	runningMu.Unlock()
	for _, r := range all {
		r.remove()
	}
}

// need skips or fails the test: it cannot have a server of this kind.
func need(t testing.TB, k *kind, err error) {
	t.Helper()
	report(k, "-", "MISSING: "+oneLine(err.Error()))
	if required(k) {
		t.Fatalf("servers: %s is required (SENDONCE_TEST_REQUIRE), and cannot be had:\n%v", k.title, err)
	}
	t.Skipf("servers: SKIPPED, not tested: %s cannot be had:\n%v", k.title, err)
}

// ready checks what every request for a server needs.
func ready(t testing.TB, k *kind) {
	t.Helper()
	if testing.Short() {
		t.Skipf("servers: SKIPPED, not tested: -short starts no %s", k.title)
	}
	if !inMain.Load() {
		t.Fatal("servers: TestMain of this package must call servers.Main")
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
