// Package unique tests sender/unique on its stores, on real servers and with real
// Dispatchers.
package unique

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/sender/unique"
	"github.com/sendonce/sendonce/sender/unique/redisunique"
	"github.com/sendonce/sendonce/sender/unique/sqlunique"
	"github.com/sendonce/sendonce/sender/unique/uniquetest"
)

// workerVar makes a process of this binary a worker and not a test.
const workerVar = "SENDONCE_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) != "" {
		if err := work(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	servers.Main(m)
}

// database is one way to have keys in a database.
type database struct {
	name    string
	dialect sqlunique.Dialect
	open    func(testing.TB) *servers.Database
	driver  string
	params  []string
}

func databases() []database {
	return []database{
		{name: "Postgres/pgx", dialect: sqlunique.Postgres, open: servers.Postgres, driver: "pgx"},
		{name: "Postgres/pq", dialect: sqlunique.Postgres, open: servers.Postgres, driver: "postgres"},
		{name: "MariaDB", dialect: sqlunique.MySQL, open: servers.MariaDB, driver: "mysql"},
		{name: "MariaDB/found rows", dialect: sqlunique.MySQL, open: servers.MariaDB, driver: "mysql", params: []string{"clientFoundRows=true"}},
		{name: "SQLite/modernc", dialect: sqlunique.SQLite, open: servers.SQLite, driver: "sqlite"},
		{name: "SQLite/mattn", dialect: sqlunique.SQLite, open: servers.SQLite, driver: "sqlite3"},
	}
}

// store opens a pool of its own, as another process would.
func (d database) store(t testing.TB, at *servers.Database, o *sqlunique.Options) *sqlunique.Store {
	t.Helper()
	db := at.Open(t, d.driver, d.params...)
	db.SetMaxIdleConns(8)
	s, err := sqlunique.New(t.Context(), db.DB, d.dialect, o)
	require.NoError(t, err)
	return s
}

func redisStore(t testing.TB, client redis.UniversalClient, prefix string) *redisunique.Store {
	t.Helper()
	s, err := redisunique.New(client, &redisunique.Options{Prefix: prefix})
	require.NoError(t, err)
	return s
}

func TestSuiteSQL(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			at, tables := d.open(t), 0
			db := at.Open(t, d.driver, d.params...)
			uniquetest.Run(t, uniquetest.Harness{Open: func(t testing.TB) uniquetest.Store {
				tables++
				o := &sqlunique.Options{Table: fmt.Sprint("keys", tables)}
				require.NoError(t, sqlunique.Migrate(t.Context(), db.DB, d.dialect, o))
				require.NoError(t, sqlunique.Migrate(t.Context(), db.DB, d.dialect, o), "again")
				s := d.store(t, at, o)
				return uniquetest.Store{
					New: func() unique.Store { return s },
					Forget: func(string) {
						_, err := db.Exec("DELETE FROM " + o.Table)
						require.NoError(t, err)
					},
				}
			}})
		})
	}
}

func TestSuiteRedis(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	uniquetest.Run(t, redisHarness(client, r.Prefix))
}

func redisHarness(client redis.UniversalClient, prefix string) uniquetest.Harness {
	n := 0
	return uniquetest.Harness{Open: func(t testing.TB) uniquetest.Store {
		n++
		s := redisStore(t, client, fmt.Sprint(prefix, n, ":"))
		t.Cleanup(func() { everyKeyExpires(t, client, prefix) })
		return uniquetest.Store{
			New:    func() unique.Store { return s },
			Forget: func(key string) { require.NoError(t, client.Del(context.Background(), s.Name(key)).Err()) },
		}
	}}
}

// everyKeyExpires checks that no key of ours stays in Redis for ever.
func everyKeyExpires(t testing.TB, client redis.UniversalClient, prefix string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		require.Positive(t, client.PTTL(ctx, keys.Val()).Val(), keys.Val())
	}
	require.NoError(t, keys.Err())
}
