// Package wake tests the wakers of package claim/pgwake and claim/rediswake on
// real servers. It is a module of its own, so that what tests them doesn't
// become a need of those that test the rest.
package wake

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/claim/pgwake"
	"github.com/sendonce/sendonce/claim/rediswake"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// soon is far below the PollInterval of a minute.
const soon = 40 * time.Second

type mail struct {
	Address string `db:"address"`
}

// sink is a Sender that counts.
type sink struct{ sent atomic.Int64 }

func (s *sink) Send(context.Context, []sendonce.Item[mail]) error { s.sent.Add(1); return nil }

func (s *sink) reaches(t *testing.T, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return s.sent.Load() == n }, soon, 2*time.Millisecond, "sends")
}

// run runs a Dispatcher that polls once in a minute, and returns when it has
// found nothing.
func run(t *testing.T, rows sendonce.Claimer[mail], s *sink, wake <-chan struct{}) {
	t.Helper()
	idle := make(chan struct{}, 1)
	d, err := sendonce.New(rows, s, sendonce.Config{
		Wake: wake, PollInterval: time.Minute,
		Hooks: sendonce.Hooks{Claimed: func(n int, _ time.Duration, err error) {
			if n == 0 && err == nil {
				select {
				case idle <- struct{}{}:
				default:
				}
			}
		}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	<-idle
	// Waits grow up to the minute: let the first, short ones pass.
	time.Sleep(500 * time.Millisecond)
}

// table makes a table that notifies of its rows.
func table(t *testing.T, d *servers.Database) (sendonce.Claimer[mail], func()) {
	t.Helper()
	db := d.Open(t, "pgx")
	for _, statement := range []string{
		`CREATE TABLE "the receivers" (id bigserial PRIMARY KEY, address text NOT NULL)`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	spec := claim.Table{Name: `the receivers`}
	require.NoError(t, claim.Migrate(t.Context(), db, claim.Postgres, spec, nil))
	for range 2 { // it may be run again
		_, err := db.ExecContext(t.Context(), pgwake.Trigger("the receivers", "it's new"))
		require.NoError(t, err)
	}
	rows, err := claim.NewSkipLocked[mail](t.Context(), db, claim.Postgres, spec, nil)
	require.NoError(t, err)
	return rows, func() {
		_, err := db.ExecContext(t.Context(), `INSERT INTO "the receivers" (address) VALUES ('ann@example.com')`)
		require.NoError(t, err)
	}
}

// quiet doesn't log what the tests do to servers.
var quiet = slog.New(slog.DiscardHandler)

// drained empties the channel of hints.
func drained(c <-chan struct{}) {
	for {
		select {
		case <-c:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}

func woken(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		t.Fatal("nobody was woken")
	}
}

func TestPostgresWakesADispatcherAtOnce(t *testing.T) {
	own := servers.StartPostgres(t)
	servers.NoLeaks(t)
	rows, insert := table(t, own.Database)
	l, err := pgwake.Listen(t.Context(), own.DSN, "it's new", &pgwake.Options{Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	var s sink
	run(t, rows, &s, l.C)
	insert()
	s.reaches(t, 1)
	insert()
	s.reaches(t, 2)

	own.Kill(t)
	own.Start(t)
	woken2 := s.sent.Load()
	require.EqualValues(t, 2, woken2)
	require.Eventually(t, func() bool { return listening(t, own.Database) == 1 }, soon, 20*time.Millisecond, "it listens again")
	time.Sleep(500 * time.Millisecond)
	insert()
	s.reaches(t, 3)
}

// listening is the number of sessions whose last statements were a Listener's.
func listening(t *testing.T, d *servers.Database) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.DSN)
	if err != nil {
		return 0
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_backend_pid()%' AND pid <> pg_backend_pid()").Scan(&n); err != nil {
		return 0
	}
	return n
}

// What came while there was no connection is asked for when there is one again.
func TestPostgresWakesAfterANewConnection(t *testing.T) {
	pg := servers.Postgres(t)
	p := servers.NewProxy(t, pg.Addr)
	l, err := pgwake.Listen(t.Context(), pg.At(p.Addr).DSN, "c", &pgwake.Options{Logger: quiet, CheckInterval: 100 * time.Millisecond})
	require.NoError(t, err)
	defer l.Close()
	p.Disconnect(t)
	woken(t, l.C)
	drained(l.C)
	p.Refuse(t)
	time.Sleep(200 * time.Millisecond)
	p.Accept(t)
	woken(t, l.C)
}

func TestPostgresBurstNeverBlocks(t *testing.T) {
	pg := servers.Postgres(t)
	l, err := pgwake.Listen(t.Context(), pg.DSN, "c", nil)
	require.NoError(t, err)
	defer l.Close()
	db := pg.Open(t, "pgx")
	for i := range 2000 { // nobody receives
		_, err := db.ExecContext(t.Context(), "SELECT pg_notify('c', $1)", strconv.Itoa(i))
		require.NoError(t, err)
	}
	woken(t, l.C)
	drained(l.C)
	_, err = db.ExecContext(t.Context(), "NOTIFY c")
	require.NoError(t, err)
	woken(t, l.C)
}

func TestPostgresLeavesNothingBehind(t *testing.T) {
	pg := servers.Postgres(t)
	for _, black := range []bool{false, true} {
		t.Run("black hole "+strconv.FormatBool(black), func(t *testing.T) {
			p := servers.NewProxy(t, pg.Addr)
			servers.NoLeaks(t)
			ctx, cancel := context.WithCancel(t.Context())
			l, err := pgwake.Listen(ctx, pg.At(p.Addr).DSN, "c", &pgwake.Options{Logger: quiet, CheckInterval: 50 * time.Millisecond})
			require.NoError(t, err)
			if black {
				p.BlackHole(t)
				time.Sleep(150 * time.Millisecond) // it looks after its connection
			}
			start := time.Now()
			cancel()
			l.Close()
			assert.Less(t, time.Since(start), 5*time.Second)
			p.Heal(t)
		})
	}
}

// Notifications don't come through a pooler of transactions; one of sessions is
// as good as the server.
func TestPostgresPoolersAreTold(t *testing.T) {
	pg := servers.Postgres(t)
	for _, pooled := range []*servers.SQLServer{servers.PgBouncer(t, pg), servers.PgBouncer(t, pg, "default_pool_size = 5")} {
		_, err := pgwake.Listen(t.Context(), pooled.DSN, "c", nil)
		require.ErrorIs(t, err, pgwake.ErrPooled)
	}
	for _, size := range []string{"1", "5"} {
		sessions := servers.PgBouncer(t, pg, "pool_mode = session", "default_pool_size = "+size)
		l, err := pgwake.Listen(t.Context(), sessions.DSN, "c", nil)
		require.NoError(t, err)
		_, err = pg.Open(t, "pgx").ExecContext(t.Context(), "NOTIFY c")
		require.NoError(t, err)
		woken(t, l.C)
		l.Close()
	}
}

func TestRedisWakesADispatcherAtOnce(t *testing.T) {
	own := servers.StartRedis(t)
	servers.NoLeaks(t)
	client := redis.NewClient(own.Options())
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	l, err := rediswake.Listen(t.Context(), client, "new rows", &rediswake.Options{Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	rows := memclaim.New[mail](nil)
	key := 0
	insert := func() {
		key++
		require.NoError(t, rows.Add(memclaim.Row[mail]{Key: key}))
	}
	var s sink
	run(t, rows, &s, l.C)
	insert()
	require.NoError(t, rediswake.Publish(t.Context(), client, "new rows"))
	s.reaches(t, 1)

	own.Kill(t)
	insert() // its message is lost: the new connection wakes
	require.Error(t, rediswake.Publish(t.Context(), client, "new rows"))
	own.Start(t)
	s.reaches(t, 2)
	insert()
	require.NoError(t, rediswake.Publish(t.Context(), client, "new rows"))
	s.reaches(t, 3)
}

func TestRedisBurstNeverBlocks(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	l, err := rediswake.Listen(t.Context(), client, r.Prefix, nil)
	require.NoError(t, err)
	defer l.Close()
	for range 5000 { // nobody receives
		require.NoError(t, rediswake.Publish(t.Context(), client, r.Prefix))
	}
	woken(t, l.C)
	drained(l.C)
	require.NoError(t, rediswake.Publish(t.Context(), client, r.Prefix))
	woken(t, l.C)
}

// A line that is cut without a word is found out, and replaced.
func TestRedisWakesAfterASilentLine(t *testing.T) {
	r := servers.Redis(t)
	p := servers.NewProxy(t, r.Addr)
	client := r.At(p.Addr).Client(t)
	l, err := rediswake.Listen(t.Context(), client, r.Prefix, &rediswake.Options{Logger: quiet, CheckInterval: 100 * time.Millisecond})
	require.NoError(t, err)
	defer l.Close()
	time.Sleep(350 * time.Millisecond) // looks that are answered change nothing
	drained(l.C)
	p.BlackHole(t)
	time.Sleep(300 * time.Millisecond)
	p.Heal(t)
	woken(t, l.C)
	drained(l.C)
	require.NoError(t, rediswake.Publish(t.Context(), r.Client(t), r.Prefix))
	woken(t, l.C)
}

func TestRedisLeavesNothingBehind(t *testing.T) {
	r := servers.Redis(t)
	for _, black := range []bool{false, true} {
		t.Run("black hole "+strconv.FormatBool(black), func(t *testing.T) {
			p := servers.NewProxy(t, r.Addr)
			servers.NoLeaks(t)
			o := r.At(p.Addr).Options()
			o.ContextTimeoutEnabled = true
			client := redis.NewClient(o)
			defer client.Close()
			ctx, cancel := context.WithCancel(t.Context())
			l, err := rediswake.Listen(ctx, client, r.Prefix, &rediswake.Options{Logger: quiet, CheckInterval: 50 * time.Millisecond})
			require.NoError(t, err)
			if black {
				p.BlackHole(t)
				time.Sleep(250 * time.Millisecond) // it makes a new connection, in vain
			}
			start := time.Now()
			cancel()
			l.Close()
			assert.Less(t, time.Since(start), 5*time.Second)
			p.Heal(t)
		})
	}
}
