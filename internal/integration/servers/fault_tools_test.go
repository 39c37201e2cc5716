package servers_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

// A proxy breaks the line in each of its ways, and heals.
func TestProxy(t *testing.T) {
	pg := servers.Postgres(t)
	direct := pg.Open(t, "")
	_, err := direct.Exec("CREATE TABLE x (n int)")
	require.NoError(t, err)
	proxy := servers.NewProxy(t, pg.Addr)
	line := pg.At(proxy.Addr).Open(t, "")

	insert := func(n int) error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := line.ExecContext(ctx, "INSERT INTO x VALUES ($1)", n)
		return err
	}
	there := func(n int) bool {
		var count int
		require.NoError(t, direct.Get(&count, "SELECT count(*) FROM x WHERE n = $1", n))
		return count == 1
	}
	works := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return insert(n) == nil }, 5*time.Second, 10*time.Millisecond)
		require.True(t, there(n))
	}
	works(1) // prepared from now on
	proxy.LoseReplies(t)
	require.ErrorIs(t, insert(2), context.DeadlineExceeded)
	require.Eventually(t, func() bool { return there(2) }, 5*time.Second, 10*time.Millisecond, "the server has acted")
	proxy.Heal(t)

	works(3)
	works(4) // pgx looks at its second use of a connection whether it lives
	proxy.BlackHole(t)
	require.ErrorIs(t, insert(5), context.DeadlineExceeded)
	proxy.Heal(t)
	works(50)
	require.False(t, there(5), "the server has heard nothing")

	proxy.Delay(t, 100*time.Millisecond)
	begin := time.Now()
	require.NoError(t, insert(6))
	assert.GreaterOrEqual(t, time.Since(begin), 90*time.Millisecond)
	proxy.Heal(t)

	works(7)
	proxy.CutAfter(t, 3)
	require.Error(t, insert(8))
	proxy.Heal(t)

	works(9)
	proxy.Refuse(t)
	require.Error(t, insert(10))
	proxy.Accept(t)
	works(11)
	proxy.Disconnect(t)
	works(12)
}

// PgBouncer gives a session to somebody else after each transaction: that is
// what it is here for.
func TestPgBouncer(t *testing.T) {
	pg := servers.Postgres(t)
	for _, driver := range []string{"pgx", "postgres"} {
		b := servers.PgBouncer(t, pg, "default_pool_size = 1")
		assert.Regexp(t, `^PgBouncer \d`, b.Server())
		db := b.Open(t, driver, simple(driver)...)
		one, two := conn(t, db), conn(t, db)
		backend := func(c *sqlx.Conn) (pid int) {
			require.NoError(t, c.GetContext(t.Context(), &pid, "SELECT pg_backend_pid()"))
			return pid
		}
		assert.Equal(t, backend(one), backend(two), "two client connections, one session of the server")
	}
}

func simple(driver string) []string {
	if driver == "pgx" {
		return []string{"default_query_exec_mode=exec"}
	}
	return nil
}

func conn(t *testing.T, db *sqlx.DB) *sqlx.Conn {
	c, err := db.Connx(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestChildLeaks(t *testing.T) {
	onlyInChild(t)
	servers.NoLeaks(t)
	if os.Getenv("SENDONCE_SERVERS_LEAK") != "" {
		go func() { select {} }()
	}
}

func TestNoLeaks(t *testing.T) {
	out, err := child(t, "TestChildLeaks").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = child(t, "TestChildLeaks", "SENDONCE_SERVERS_LEAK=1").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "found unexpected goroutines")
}

// Restarts of a test's own server, its pools and a proxy are no leak.
func TestNoLeaksWithServers(t *testing.T) {
	s := servers.StartRedis(t, servers.Options{Local: true})
	pg := servers.Postgres(t)
	servers.NoLeaks(t)
	s.Kill(t)
	s.Start(t)
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
	require.NoError(t, pg.At(servers.NewProxy(t, pg.Addr).Addr).Open(t, "").Ping())
}
