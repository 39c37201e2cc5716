package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/examples/internal/demotest"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func address(r *servers.RedisDB) string { return fmt.Sprintf("redis://%s/%d", r.Addr, r.DB) }

// inOrder checks the ledger of a run by means of its own, and returns how many
// invoices were begun again although their first try did not fail.
func inOrder(t *testing.T, rdb *redis.Client, name string, invoices int) (again int) {
	t.Helper()
	entries, err := newBook(rdb, name).ledger(t.Context())
	require.NoError(t, err)
	byCustomer := map[string][]entry{}
	for _, e := range entries {
		byCustomer[e.Customer] = append(byCustomer[e.Customer], e)
	}
	total := 0
	for customer, es := range byCustomer {
		now, last, number := "", "", 0
		for i, e := range es {
			switch {
			case e.Step != begun:
				assert.Equal(t, now, e.ID, "%s, line %d: the one that was begun, and no other, ends", customer, i)
			case e.ID == last && es[i-1].Step != failed:
				again++
			}
			require.GreaterOrEqual(t, e.ID, last, "%s, line %d: ids sort by arrival", customer, i)
			require.True(t, e.ID == last || i == 0 || es[i-1].Step == made, "%s, line %d: begins after the one before is made", customer, i)
			if e.Step == made && e.Number == number+1 {
				number++
			}
			now, last = e.ID, e.ID
		}
		assert.Equal(t, number, es[len(es)-1].Number, customer)
		total += number
	}
	assert.Equal(t, invoices, total)
	return again
}

func TestOrder(t *testing.T) {
	db := servers.Redis(t)
	r := demotest.Run(t, "-redis", address(db), "-name", "kept", "-rate", "400")
	require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
	assert.Empty(t, r.Errors)
	assert.Contains(t, r.Out, "400 accepted")
	assert.Contains(t, r.Out, "20 at the second try, 0 begun by an instance that was killed")
	assert.Contains(t, r.Out, "\nOK, in order: 400 invoices for 8 customers\n")
	assert.Regexp(t, `400 invoices made: [1-9]\d* by .*, [1-9]\d* by `, r.Out, "both instances work")
	assert.Zero(t, inOrder(t, db.Client(t), "kept", 400))
}

func TestKill(t *testing.T) {
	db := servers.Redis(t)
	r := demotest.Run(t, "-redis", address(db), "-name", "kept", "-rate", "300", "-work", "20ms", "-kill")
	require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
	assert.Empty(t, r.Errors)
	m := regexp.MustCompile(`was killed \(SIGKILL\) while it made (.*): these`).FindStringSubmatch(r.Out)
	require.NotNil(t, m, r.Out)
	held := len(strings.Split(m[1], ", "))
	again := inOrder(t, db.Client(t), "kept", 400)
	// What was made and not yet recorded as done is begun again too: at most one for
	// each customer.
	assert.GreaterOrEqual(t, again, held, r.Out)
	assert.LessOrEqual(t, again, 8, r.Out)
	assert.Contains(t, r.Out, fmt.Sprintf(", %d begun by an instance that was killed", again))
	assert.Contains(t, r.Out, "\nOK, in order: 400 invoices for 8 customers\n")
}

// Nothing is left behind, also after Ctrl-C, but what expires by itself.
func TestLeavesNothing(t *testing.T) {
	db := servers.Redis(t)
	rdb := db.Client(t)
	left := func() {
		keys, err := rdb.Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		for _, key := range keys {
			ttl, err := rdb.TTL(t.Context(), key).Result()
			require.NoError(t, err)
			assert.Positive(t, ttl, key)
			assert.LessOrEqual(t, ttl, time.Minute, key)
		}
	}
	r := demotest.Run(t, "-redis", address(db), "-n", "20")
	require.Zero(t, r.Code, "%s%s", r.Out, r.Errors)
	left()

	cmd := demotest.Command("-redis", address(db), "-n", "100000")
	r = demotest.FinishWhile(t, cmd, func(p *os.Process) {
		require.Eventually(t, func() bool {
			keys, err := rdb.Keys(t.Context(), "sendonce:ordered:*:ledger").Result()
			return err == nil && len(keys) > 0
		}, time.Minute, 10*time.Millisecond)
		require.NoError(t, p.Signal(syscall.SIGINT))
	})
	assert.Equal(t, 130, r.Code)
	assert.Equal(t, "ordered: interrupted\n", r.Errors)
	left()
}

// startOne starts one instance by itself.
func startOne(t *testing.T, db *servers.RedisDB) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = demotest.Command("-redis", address(db), "-serve", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if _, err := fmt.Sscanf(line, readyLine, &url); err == nil {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return cmd, "http://" + url
		}
	}
}

func TestServe(t *testing.T) {
	cmd, url := startOne(t, servers.Redis(t))
	call := func(method, path, key string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		require.NoError(t, err)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	first := call("POST", "/customers/ann/invoices", "1")
	again := call("POST", "/customers/ann/invoices", "1")
	other := call("POST", "/customers/bob/invoices", "1")
	second := call("POST", "/customers/ann/invoices", "2")
	for _, r := range []*http.Response{first, again, other, second} {
		assert.Equal(t, http.StatusAccepted, r.StatusCode)
	}
	where := func(r *http.Response) string { return r.Header.Get("Location") }
	assert.Equal(t, where(first), where(again), "asked again with its key it is the same request")
	assert.NotEqual(t, where(first), where(other))
	number := func(r *http.Response) (n int) {
		require.Eventually(t, func() bool {
			resp := call("GET", where(r), "")
			_, err := fmt.Fscan(resp.Body, &n)
			return resp.StatusCode == http.StatusOK && err == nil
		}, time.Minute, 10*time.Millisecond)
		return n
	}
	assert.Equal(t, []int{1, 2, 1}, []int{number(first), number(second), number(other)})
	assert.Equal(t, where(first), where(call("POST", "/customers/ann/invoices", "1")), "also when it is made")
	assert.NotEqual(t, where(first), where(call("POST", "/customers/ann/invoices", "")), "without a key it is another one")
	assert.Equal(t, http.StatusNotFound, call("GET", "/invoices/0000000000000001", "").StatusCode)

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Eventually(t, func() bool {
		state, err := cmd.Process.Wait()
		return err == nil && state.Success()
	}, time.Minute, time.Millisecond)
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args  string
		parts []string
	}{
		{"-nonsense", []string{"-nonsense", "run with -h"}},
		{"-n many", []string{"many", "run with -h"}},
		{"now", []string{`"now"`, "run with -h"}},
		{"-n 0", []string{"-n is 0", "give from 1"}},
		{"-customers -1", []string{"-customers is -1", "give from 1"}},
		{"-rate 0", []string{"-rate is 0", "give from 1"}},
		{"-work 1s", []string{"-work is 1s", "give from 0 to 500ms"}},
		{"-redis redis://me:secret@127.0.0.1:1/0", []string{"cannot reach Redis", "start the server, or correct -redis"}},
		{"-redis http://me:secret@127.0.0.1/", []string{"-redis is not understood", "give it as in redis://"}},
	} {
		t.Run(strings.ReplaceAll(c.args, "/", "|"), func(t *testing.T) {
			demotest.Refused(t, demotest.Run(t, strings.Fields(c.args)...), c.parts...)
		})
	}
	redis := address(servers.Redis(t))
	demotest.Refused(t, demotest.Run(t, "-redis", redis, "-serve", "nowhere"), "nowhere", "another address with -serve")
}
