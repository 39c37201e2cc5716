package servers_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func TestPostgresDatabaseOfItsOwn(t *testing.T) {
	databaseOfItsOwn(t, servers.Postgres, `SELECT count(*) FROM pg_database WHERE datname = $1`, "pgx", "postgres")
}

func TestMariaDBDatabaseOfItsOwn(t *testing.T) {
	databaseOfItsOwn(t, servers.MariaDB, `SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?`, "mysql")
}

// databaseOfItsOwn checks that two tests see different databases, by every
// driver, and that a test's database is gone after it.
func databaseOfItsOwn(t *testing.T, get func(testing.TB) *servers.Database, exists string, drivers ...string) {
	outer := get(t)
	assert.Equal(t, drivers[0], outer.Driver)
	assert.Regexp(t, `^(PostgreSQL|MariaDB|MySQL) \d+\.\d+`, outer.Version)
	db := outer.Open(t, "")
	_, err := db.Exec("CREATE TABLE x (n int)")
	require.NoError(t, err)

	count := func(name string) (n int) {
		require.NoError(t, db.Get(&n, exists, name))
		return n
	}
	var inner *servers.Database
	t.Run("inner", func(t *testing.T) {
		inner = get(t)
		assert.NotEqual(t, outer.Name, inner.Name)
		assert.Equal(t, outer.Addr, inner.Addr, "one server for all tests")
		for i, driver := range drivers {
			db := inner.Open(t, driver)
			if i == 0 {
				_, err := db.Exec("CREATE TABLE x (n int)")
				require.NoError(t, err, "the database is empty")
			}
			_, err = db.Exec("INSERT INTO x VALUES (1)")
			require.NoError(t, err, driver)
		}
		assert.Equal(t, 1, count(inner.Name))
	})
	assert.Equal(t, 0, count(inner.Name), "dropped after its test")
	assert.Equal(t, 1, count(outer.Name))
}

func TestMariaDBParameters(t *testing.T) {
	m := servers.MariaDB(t)
	affected := func(params ...string) int64 {
		db := m.Open(t, "", params...)
		_, err := db.Exec("CREATE TABLE IF NOT EXISTS x (n int)")
		require.NoError(t, err)
		_, err = db.Exec("REPLACE INTO x VALUES (1)")
		require.NoError(t, err)
		r, err := db.Exec("UPDATE x SET n = 1 LIMIT 1")
		require.NoError(t, err)
		n, err := r.RowsAffected()
		require.NoError(t, err)
		return n
	}
	assert.EqualValues(t, 0, affected(), "changed rows")
	assert.EqualValues(t, 1, affected("clientFoundRows=true"), "matched rows")
	assert.EqualValues(t, 1, affected("parseTime=true", "clientFoundRows=true"))
}

func TestPostgresParameters(t *testing.T) {
	var zone string
	for _, driver := range []string{"pgx", "postgres"} {
		require.NoError(t, servers.Postgres(t).Open(t, driver, "TimeZone=Asia/Tokyo").Get(&zone, "SHOW TimeZone"))
		assert.Equal(t, "Asia/Tokyo", zone, driver)
	}
}

func TestRedisDatabaseOfItsOwn(t *testing.T) {
	ctx := t.Context()
	outer := servers.Redis(t)
	c := outer.Client(t)
	require.NoError(t, c.Set(ctx, outer.Prefix+"k", 1, 0).Err())
	var inner *servers.RedisDB
	t.Run("inner", func(t *testing.T) {
		inner = servers.Redis(t)
		assert.NotEqual(t, outer.Prefix, inner.Prefix)
		assert.Equal(t, outer.Addr, inner.Addr, "one server for all tests")
		c := inner.Client(t)
		assert.Equal(t, redis.Nil, c.Get(ctx, inner.Prefix+"k").Err())
		require.NoError(t, c.Set(ctx, inner.Prefix+"k", 2, 0).Err())
	})
	assert.Equal(t, "1", c.Get(ctx, outer.Prefix+"k").Val())
	again := redis.NewClient(inner.Options())
	defer again.Close()
	assert.Equal(t, redis.Nil, again.Get(ctx, inner.Prefix+"k").Err(), "emptied after its test")
}

func TestSQLiteOpensByBothDrivers(t *testing.T) {
	s := servers.SQLite(t)
	a, b := s.Open(t, "sqlite"), s.Open(t, "sqlite3")
	_, err := a.Exec("CREATE TABLE x (n int)")
	require.NoError(t, err)
	_, err = b.Exec("INSERT INTO x VALUES (1)")
	require.NoError(t, err, "the same file")
	for _, db := range []*sqlx.DB{a, b} {
		var mode string
		var timeout int
		require.NoError(t, db.Get(&mode, "PRAGMA journal_mode"))
		require.NoError(t, db.Get(&timeout, "PRAGMA busy_timeout"))
		assert.Equal(t, "wal", mode)
		assert.Equal(t, 10000, timeout)
	}
}

// A test's own server can be stopped, killed and paused, and comes back with
// what was committed.
func TestOwnPostgres(t *testing.T) {
	s := servers.StartPostgres(t, servers.Options{Args: []string{"-c", "work_mem=12MB"}})
	var setting string
	require.NoError(t, s.Open(t, "").Get(&setting, "SHOW work_mem"))
	assert.Equal(t, "12MB", setting)
	ownSQL(t, s)
}

func TestOwnMariaDB(t *testing.T) { ownSQL(t, servers.StartMariaDB(t)) }

func ownSQL(t *testing.T, s *servers.SQLServer) {
	db := s.Open(t, "")
	_, err := db.Exec("CREATE TABLE x (n int)")
	require.NoError(t, err)
	insert := func(n int) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := db.ExecContext(ctx, db.Rebind("INSERT INTO x VALUES (?)"), n)
		return err
	}
	require.NoError(t, insert(1))
	s.Stop(t)
	require.Error(t, insert(2))
	s.Start(t)
	require.Eventually(t, func() bool { return insert(3) == nil }, 5*time.Second, 10*time.Millisecond)
	s.Kill(t)
	require.Error(t, insert(4))
	s.Start(t)
	require.Eventually(t, func() bool { return insert(5) == nil }, 5*time.Second, 10*time.Millisecond)

	s.Pause(t)
	begin := time.Now()
	require.Error(t, insert(6))
	assert.GreaterOrEqual(t, time.Since(begin), 900*time.Millisecond, "it hangs, it does not refuse")
	s.Resume(t)
	require.Eventually(t, func() bool { return insert(7) == nil }, 5*time.Second, 10*time.Millisecond)

	var ns []int
	require.NoError(t, db.Select(&ns, "SELECT n FROM x WHERE n <> 6 ORDER BY n")) // 6 may have been in flight
	assert.Equal(t, []int{1, 3, 5, 7}, ns)
}

func TestOwnRedis(t *testing.T) {
	s := servers.StartRedis(t, servers.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	c := s.Client(t)
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	s.Kill(t)
	require.Error(t, c.Get(ctx, "k").Err())
	s.Start(t)
	require.Eventually(t, func() bool { return c.Get(ctx, "k").Val() == "v" }, 5*time.Second, 10*time.Millisecond)
	s.Pause(t)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	require.ErrorIs(t, c.Get(short, "k").Err(), context.DeadlineExceeded)
	s.Resume(t)
	require.Eventually(t, func() bool { return c.Get(ctx, "k").Val() == "v" }, 5*time.Second, 10*time.Millisecond)
	s.Stop(t)
	require.Error(t, c.Get(ctx, "k").Err())
	s.Start(t)
}

// A database is reached through another address as well.
func TestAt(t *testing.T) {
	p, m, r := servers.Postgres(t), servers.MariaDB(t), servers.Redis(t)
	for _, db := range []*servers.Database{p, m} {
		other := db.At(forward(t, db.Addr))
		assert.NotEqual(t, db.Addr, other.Addr)
		require.NoError(t, other.Open(t, "").Ping())
	}
	require.NoError(t, r.At(forward(t, r.Addr)).Client(t).Ping(t.Context()).Err())
}

// forward is a TCP forwarder: the address to use instead of the one given.
func forward(t *testing.T, to string) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go pipe(in, out)
			go pipe(out, in)
		}
	}()
	return l.Addr().String()
}

func pipe(from, to net.Conn) {
	defer to.Close()
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func TestDirIsLocal(t *testing.T) {
	s := servers.StartRedis(t, servers.Options{Local: true})
	info, err := os.Stat(s.Dir())
	require.NoError(t, err)
	assert.True(t, info.IsDir())
}
