package locks

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/locktest"
	"github.com/sendonce/sendonce/lock/sqllock"
)

// database is one way to have locks in a database.
type database struct {
	name    string
	dialect sqllock.Dialect
	open    func(testing.TB) *servers.Database
	driver  string
	params  []string
	pooled  bool
}

func databases() []database {
	return []database{
		{name: "Postgres/pgx", dialect: sqllock.Postgres, open: servers.Postgres, driver: "pgx", pooled: true},
		{name: "Postgres/pq", dialect: sqllock.Postgres, open: servers.Postgres, driver: "postgres"},
		{name: "MariaDB", dialect: sqllock.MySQL, open: servers.MariaDB, driver: "mysql"},
		{name: "MariaDB/found rows", dialect: sqllock.MySQL, open: servers.MariaDB, driver: "mysql", params: []string{"clientFoundRows=true"}},
		{name: "SQLite/modernc", dialect: sqllock.SQLite, open: servers.SQLite, driver: "sqlite"},
		{name: "SQLite/mattn", dialect: sqllock.SQLite, open: servers.SQLite, driver: "sqlite3"},
	}
}

// locker opens a pool of its own, as another process would.
func (d database) locker(t testing.TB, at *servers.Database, params ...string) *sqllock.Locker {
	t.Helper()
	db := at.Open(t, d.driver, append(params, d.params...)...)
	db.SetMaxIdleConns(8)
	l, err := sqllock.New(t.Context(), db.DB, d.dialect, nil)
	require.NoError(t, err)
	return l
}

// migrated returns a database with the table.
func (d database) migrated(t testing.TB) (*servers.Database, *sql.DB) {
	t.Helper()
	at := d.open(t)
	db := at.Open(t, d.driver, d.params...).DB
	require.NoError(t, sqllock.Migrate(t.Context(), db, d.dialect, nil))
	return at, db
}

// PostgreSQL goes beside the others: most of the time cases wait for leases.
func TestConformance(t *testing.T) {
	lanes := map[bool][]database{}
	for _, d := range databases() {
		postgres := d.dialect == sqllock.Postgres
		lanes[postgres] = append(lanes[postgres], d)
	}
	var wg sync.WaitGroup
	for _, ds := range lanes {
		wg.Go(func() {
			for _, d := range ds {
				t.Run(d.name, d.conforms)
			}
		})
	}
	wg.Wait()
}

func (d database) conforms(t *testing.T) {
	h := locktest.Harness{
		TTL:  ttl,
		Caps: locktest.Caps{Fenced: true, PoolerSafe: d.pooled},
		Open: d.store,
	}
	if d.driver == "sqlite" { // in Go, which the race detector slows down a lot
		h.Interleavings = 200
	}
	locktest.Run(t, h)
}

func (d database) store(t testing.TB) locktest.Store {
	at, admin := d.migrated(t)
	first := d.locker(t, at)
	s := locktest.Store{
		New: func() lock.Locker { return first },
		Forget: func(key string) {
			_, err := admin.ExecContext(context.Background(), "DELETE FROM sendonce_locks WHERE name = '"+key+"'")
			require.NoError(t, err)
		},
	}
	if d.dialect != sqllock.SQLite {
		s.Line = func() (lock.Locker, locktest.Line) {
			p := servers.NewProxy(t, at.Addr)
			var params []string
			if d.driver == "postgres" {
				// In one round trip, or the reply that is lost is that to Parse.
				params = []string{"binary_parameters=yes"}
			}
			return d.locker(t, at.At(p.Addr), params...), line{t, p}
		}
		s.Pausing = func(pause func()) lock.Locker {
			l, err := sqllock.New(context.Background(), pausingDB(t, admin, at.With(d.params...), pause), d.dialect, nil)
			require.NoError(t, err)
			return l
		}
	}
	if d.pooled {
		bouncer := func() *servers.Database { return servers.PgBouncer(t, at).Database }
		s.Pooled = func() func() lock.Locker {
			var once *servers.Database
			return func() lock.Locker {
				if once == nil {
					once = bouncer()
				}
				return d.locker(t, once, "default_query_exec_mode=exec")
			}
		}()
	}
	return s
}

// Leases are kept by the database, so that they outlive its crash.
func TestDurable(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...servers.Options) *servers.SQLServer{
		"Postgres": servers.StartPostgres, "MariaDB": servers.StartMariaDB,
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			d := database{dialect: sqllock.Postgres}
			if name == "MariaDB" {
				d.dialect = sqllock.MySQL
			}
			db := server.Open(t, "").DB
			require.NoError(t, sqllock.Migrate(t.Context(), db, d.dialect, nil))
			l, err := sqllock.New(t.Context(), db, d.dialect, nil)
			require.NoError(t, err)
			lease, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
			require.NoError(t, err)

			server.Kill(t)
			_, err = l.Extend(t.Context(), lease, time.Hour)
			require.Error(t, err)
			require.NotErrorIs(t, err, lock.ErrLost, "an outage is no loss")
			server.Start(t)

			require.EventuallyWithT(t, func(c *assertCollect) {
				_, err = l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
				require.ErrorIs(c, err, lock.ErrHeld)
			}, 20*time.Second, 50*time.Millisecond)
			_, err = l.Extend(t.Context(), lease, time.Hour)
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context(), lease))
			next, err := l.Acquire(t.Context(), "k", lock.NewToken(), time.Hour)
			require.NoError(t, err)
			require.Greater(t, next.Fence, lease.Fence)
		})
	}
}
