package servers_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

// The tests named TestChild run only in a child process, this test binary
// again, that another test starts: they fail, panic and die on purpose.
const childVar = "SENDONCE_TEST_SERVERS_CHILD"

func onlyInChild(t *testing.T) {
	if os.Getenv(childVar) == "" {
		t.Skip("runs only as the child of another test")
	}
}

// child runs the named test in a child process with more environment and none of
// the settings of this one.
func child(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("-short starts no servers")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SENDONCE_TEST_") || strings.Contains(e, "_IMAGE=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(append(cmd.Env, childVar+"=1"), env...)
	return cmd
}

const all = "SENDONCE_TEST_REQUIRE=postgres,mariadb,redis"

// TestChildUsesAll uses each kind of server once, and writes the addresses.
func TestChildUsesAll(t *testing.T) {
	onlyInChild(t)
	useAll(t)
}

func useAll(t *testing.T) {
	p, m, r := servers.Postgres(t), servers.MariaDB(t), servers.Redis(t)
	require.NoError(t, p.Open(t, "").Ping())
	require.NoError(t, m.Open(t, "").Ping())
	require.NoError(t, r.Client(t).Set(t.Context(), r.Prefix+"k", 1, 0).Err())
	writeAddresses(t, p.Addr, m.Addr, r.Addr)
}

func writeAddresses(t *testing.T, addrs ...string) {
	if path := os.Getenv("SENDONCE_SERVERS_ADDRESSES"); path != "" {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(addrs, "\n")), 0o644))
	}
}

func TestChildFails(t *testing.T) {
	onlyInChild(t)
	useAll(t)
	t.Fatal("on purpose")
}

func TestChildPanics(t *testing.T) {
	onlyInChild(t)
	useAll(t)
	panic("on purpose")
}

// TestChildHangs is killed, with one server paused.
func TestChildHangs(t *testing.T) {
	onlyInChild(t)
	p := servers.StartPostgres(t, servers.Options{Local: true})
	require.NoError(t, p.Open(t, "").Ping())
	p.Pause(t)
	writeAddresses(t, p.Addr)
	time.Sleep(time.Minute)
}

// A server of somebody else's is left as it was found.
func TestWayDSN(t *testing.T) {
	child := child(t, "TestChildUsesAll", "SENDONCE_TEST_VIA=dsn", all)
	p, m, r := servers.StartPostgres(t), servers.StartMariaDB(t), servers.StartRedis(t)
	pdb, mdb, c := p.Open(t, ""), m.Open(t, ""), r.Client(t)
	require.NoError(t, c.Set(t.Context(), "theirs", 1, 0).Err())
	url := fmt.Sprintf("redis://%s/%d", r.Addr, r.DB)
	proveWay(t, child, "dsn", p.Addr, "SENDONCE_TEST_POSTGRES_DSN="+p.DSN,
		"SENDONCE_TEST_MYSQL_DSN="+m.With("parseTime=true"), "SENDONCE_TEST_REDIS_URL="+url)

	var names []string
	require.NoError(t, pdb.Select(&names, "SELECT datname FROM pg_database WHERE datname LIKE 'sendonce%'"))
	assert.Equal(t, []string{p.Name}, names)
	names = nil
	require.NoError(t, mdb.Select(&names, "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'sendonce%'"))
	assert.Equal(t, []string{m.Name}, names)
	assert.Equal(t, []string{"theirs"}, c.Keys(t.Context(), "*").Val())
}

func TestWayLocal(t *testing.T) {
	proveWay(t, child(t, "TestChildUsesAll", "SENDONCE_TEST_VIA=local", all), "local (", "")
}

func TestWayDocker(t *testing.T) {
	child := child(t, "TestChildUsesAll", "SENDONCE_TEST_VIA=docker", all)
	pool, err := dockertest.NewPool("")
	if err == nil {
		err = pool.Client.Ping()
	}
	if err != nil {
		t.Skipf("SKIPPED, not tested: no Docker daemon: %v", err)
	}
	for _, image := range []string{"POSTGRES", "MYSQL", "REDIS"} {
		if os.Getenv("SENDONCE_TEST_"+image+"_IMAGE") == "" {
			t.Skip("SKIPPED, not tested: no image is named, and pulling one is left to those who want it")
		}
	}
	proveWay(t, child, "docker (", "")
}

// proveWay checks that the child passes, that its report names all three servers
// with the way, and that none of what it started is left.
func proveWay(t *testing.T, child *exec.Cmd, via, addr string, env ...string) {
	t.Helper()
	report, addresses := filepath.Join(t.TempDir(), "report"), filepath.Join(t.TempDir(), "addresses")
	child.Env = append(child.Env, "SENDONCE_TEST_REPORT="+report, "SENDONCE_SERVERS_ADDRESSES="+addresses)
	child.Env = append(child.Env, env...)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 3, "%s", text)
	for i, title := range []string{"PostgreSQL", "MariaDB/MySQL", "Redis"} {
		fields := strings.Split(lines[i], "\t")
		require.Len(t, fields, 4)
		assert.Equal(t, title, fields[0])
		assert.Regexp(t, `^[A-Za-z]+ \d+\.\d+`, fields[1])
		assert.True(t, strings.HasPrefix(fields[2], via), fields[2])
	}
	if addr != "" {
		text, err := os.ReadFile(addresses)
		require.NoError(t, err)
		assert.Equal(t, addr, strings.Split(string(text), "\n")[0])
		return
	}
	gone(t, child.Process.Pid, addresses, 0)
}

// gone checks that no server of the child lives.
func gone(t *testing.T, pid int, addresses string, within time.Duration) {
	t.Helper()
	text, err := os.ReadFile(addresses)
	require.NoError(t, err, "the child has had its servers")
	refused := func() bool {
		for addr := range strings.SplitSeq(string(text), "\n") {
			if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
				_ = c.Close()
				return false
			}
		}
		return true
	}
	left := func() (pids []int) {
		dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), servers.DirPrefix+strconv.Itoa(pid)+"-*"))
		for _, dir := range dirs {
			pids = append(pids, servers.WorkingIn(dir)...)
		}
		return pids
	}
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if len(left()) == 0 && refused() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("servers of the child are alive: processes %v", left())
		}
	}
}

func TestStoppedAfterAFailedTest(t *testing.T) {
	c := child(t, "TestChildFails", all, "SENDONCE_TEST_VIA=local")
	addresses := filepath.Join(t.TempDir(), "addresses")
	c.Env = append(c.Env, "SENDONCE_SERVERS_ADDRESSES="+addresses)
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "on purpose")
	gone(t, c.Process.Pid, addresses, 0)
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), servers.DirPrefix+strconv.Itoa(c.Process.Pid)+"-*"))
	assert.Empty(t, dirs, "folders are removed")
}

// A panic ends the test binary on the spot: the kernel ends the servers.
func TestStoppedAfterAPanic(t *testing.T) {
	c := child(t, "TestChildPanics", all, "SENDONCE_TEST_VIA=local")
	addresses := filepath.Join(t.TempDir(), "addresses")
	c.Env = append(c.Env, "SENDONCE_SERVERS_ADDRESSES="+addresses)
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "panic: on purpose")
	gone(t, c.Process.Pid, addresses, 10*time.Second)
}

// What a killed test binary left behind, here the paused processes of a
// PostgreSQL, is ended by the next one.
func TestSweptAfterAKill(t *testing.T) {
	c := child(t, "TestChildHangs", "SENDONCE_TEST_REQUIRE=postgres")
	addresses := filepath.Join(t.TempDir(), "addresses")
	c.Env = append(c.Env, "SENDONCE_SERVERS_ADDRESSES="+addresses)
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(addresses); return err == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, c.Process.Signal(syscall.SIGKILL))
	_ = c.Wait()
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), servers.DirPrefix+strconv.Itoa(c.Process.Pid)+"-*"))
	require.Len(t, dirs, 1)
	left := servers.WorkingIn(dirs[0])
	require.NotEmpty(t, left, "stopped processes don't notice that their parent died")
	next := child(t, "TestNothing")
	out, err := next.CombinedOutput()
	require.NoError(t, err, "%s", out)
	gone(t, c.Process.Pid, addresses, 5*time.Second)
	assert.NoDirExists(t, dirs[0])
	require.Eventually(t, func() bool { return !slices.ContainsFunc(left, servers.Alive) }, 5*time.Second, 10*time.Millisecond)
}

func TestMissing(t *testing.T) {
	run := func(env ...string) (string, error) {
		out, err := child(t, "TestChildUsesAll", env...).CombinedOutput()
		return string(out), err
	}
	out, err := run("SENDONCE_TEST_VIA=dsn")
	require.NoError(t, err, out)
	assert.Contains(t, out, "--- SKIP: TestChildUsesAll")
	assert.Contains(t, out, "SKIPPED, not tested: PostgreSQL cannot be had")
	assert.Contains(t, out, "SENDONCE_TEST_POSTGRES_DSN")

	out, err = run("SENDONCE_TEST_VIA=dsn", all)
	require.Error(t, err)
	assert.Contains(t, out, "--- FAIL: TestChildUsesAll")
	assert.Contains(t, out, "PostgreSQL is required")

	// A server that was named and does not answer is not replaced by another.
	out, err = run("SENDONCE_TEST_POSTGRES_DSN=postgres://nobody@127.0.0.1:1/x", all)
	require.Error(t, err)
	assert.Contains(t, out, "PostgreSQL does not answer")
	assert.NotContains(t, out, "local:")

	out, err = run("SENDONCE_TEST_REQUIRE=postgress")
	require.Error(t, err)
	assert.Contains(t, out, `names "postgress"`)
	out, err = run("SENDONCE_TEST_VIA=podman")
	require.Error(t, err)
	assert.Contains(t, out, `is "podman"`)
}

// Under -short a test that needs a server is skipped, also where one is required.
func TestShort(t *testing.T) {
	c := child(t, "TestChildUsesAll", all)
	c.Args = append(c.Args, "-test.short")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "-short starts no PostgreSQL")
}
