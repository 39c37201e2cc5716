// Package mapping tests on real databases how the user's table is mapped: what
// Check finds and Migrate makes, names and keys of every kind, and what operators
// do with rows.
package mapping

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// target is a database of one test's own.
type target struct {
	*sqlx.DB
	d    claim.Dialect
	name string // of the database
}

// onEach runs a test on the three databases.
func onEach(t *testing.T, test func(t *testing.T, db target)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		s := servers.Postgres(t)
		test(t, target{s.Open(t, ""), claim.Postgres, s.Name})
	})
	t.Run("mariadb", func(t *testing.T) {
		s := servers.MariaDB(t)
		test(t, target{s.Open(t, "", "parseTime=true"), claim.MySQL, s.Name})
	})
	t.Run("sqlite", func(t *testing.T) {
		test(t, target{servers.SQLite(t).Open(t, ""), claim.SQLite, "main"})
	})
}

// words are what the databases call things.
var words = map[claim.Dialect]*strings.Replacer{
	claim.Postgres: strings.NewReplacer("{time}", "timestamptz", "{serial}", "bigserial PRIMARY KEY", "{uuid}", "uuid", "{q}", `"`, "{true}", "true", "{false}", "false", "{now}", "now()"),
	claim.MySQL:    strings.NewReplacer("{time}", "datetime(6)", "{serial}", "bigint AUTO_INCREMENT PRIMARY KEY", "{uuid}", "char(36)", "{q}", "`", "{true}", "1", "{false}", "0", "{now}", "utc_timestamp(6)"),
	claim.SQLite:   strings.NewReplacer("{time}", "datetime", "{serial}", "integer PRIMARY KEY", "{uuid}", "text", "{q}", `"`, "{true}", "1", "{false}", "0", "{now}", "strftime('%Y-%m-%d %H:%M:%f', 'now')"),
}

// do runs statements in the words of the database.
func (db target) do(t *testing.T, stmts ...string) {
	t.Helper()
	for _, s := range stmts {
		_, err := db.Exec(words[db.d].Replace(s))
		require.NoError(t, err, s)
	}
}

// column reads one column of a query as texts.
func (db target) column(t *testing.T, query string) []string {
	t.Helper()
	var out []string
	require.NoError(t, db.Select(&out, words[db.d].Replace(query)), query)
	return out
}

// receivers are rows as most tests have them.
const receivers = "CREATE TABLE receivers (id {serial}, address varchar(200), name varchar(200))"

type mail struct {
	Address string `db:"address"`
}

// ready makes a table and all that a claim needs.
func (db target) ready(t *testing.T, tab claim.Table, create ...string) {
	t.Helper()
	db.do(t, create...)
	require.NoError(t, claim.Migrate(t.Context(), db.DB, db.d, tab, nil))
	require.NoError(t, claim.Check(t.Context(), db.DB, db.d, tab, nil))
}

// sent collects what a sender was given.
type sent[T any] struct {
	mu    sync.Mutex
	items []sendonce.Item[T]
}

func (s *sent[T]) keys() map[any]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[any]int{}
	for _, it := range s.items {
		out[it.Key]++
	}
	return out
}

// claimers are all strategies that the database has.
func claimers[T any](t *testing.T, db target, tab claim.Table) map[string]full[T] {
	t.Helper()
	a, err := claim.NewAtomic[T](t.Context(), db.DB, db.d, tab, nil)
	require.NoError(t, err)
	out := map[string]full[T]{"atomic": a}
	if db.d != claim.SQLite {
		s, err := claim.NewSkipLocked[T](t.Context(), db.DB, db.d, tab, nil)
		require.NoError(t, err)
		out["skiplocked"] = s
	}
	return out
}

// full is what the strategies of package claim can do.
type full[T any] interface {
	sendonce.Claimer[T]
	sendonce.Ender
	sendonce.Beginner
	sendonce.Reaper
	sendonce.Counter
	Holders(ctx context.Context) ([]claim.Holder, error)
	Requeue(ctx context.Context, r claim.Requeue) (int64, error)
	Overview(ctx context.Context) (claim.Overview, error)
}

// drain sends all rows that there are.
func drain[T any](t *testing.T, c sendonce.Claimer[T], answer func(sendonce.Item[T]) error) *sent[T] {
	t.Helper()
	got := &sent[T]{}
	d, err := sendonce.New(c, sendonce.SenderFunc[T](func(_ context.Context, it sendonce.Item[T]) error {
		got.mu.Lock()
		got.items = append(got.items, it)
		got.mu.Unlock()
		if answer == nil {
			return nil
		}
		return answer(it)
	}), sendonce.Config{MaxAttempts: 2, Backoff: func(int) time.Duration { return time.Millisecond }})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = d.Drain(ctx)
	require.NoError(t, err)
	return got
}

// take claims once.
func take[T any](t *testing.T, c sendonce.Claimer[T], limit int) sendonce.Batch[T] {
	t.Helper()
	var b sendonce.Batch[T]
	for range 20 {
		var err error
		b, err = c.Claim(t.Context(), sendonce.ClaimRequest{Limit: limit, Lease: time.Minute, MaxAttempts: 5, Owner: "a test", Delivery: sendonce.AtLeastOnce})
		require.NoError(t, err)
		if len(b.Items) > 0 || !b.More {
			break
		}
	}
	return b
}

func problemsOf(t *testing.T, err error) []claim.Problem {
	t.Helper()
	if err == nil {
		return nil
	}
	var ce *claim.CheckError
	require.True(t, errors.As(err, &ce), "%v", err)
	return ce.Problems
}

func settle[T any](t *testing.T, c sendonce.Claimer[T], b sendonce.Batch[T], o sendonce.Outcome) []sendonce.Exception {
	t.Helper()
	var rs []sendonce.Result
	for _, it := range b.Items {
		rs = append(rs, sendonce.Result{Key: it.Key, Token: b.Token, Outcome: o, Reason: fmt.Sprintf("because of %v", it.Key)})
	}
	es, err := c.Settle(t.Context(), rs)
	require.NoError(t, err)
	return es
}

// states are the values of the status column, in the order of claim.States.
func states(p, c, s, done, dead, skipped, unknown any) claim.States {
	return claim.States{Pending: p, Claimed: c, Sending: s, Done: done, Dead: dead, Skipped: skipped, Unknown: unknown}
}

func onPostgres(t *testing.T) target {
	s := servers.Postgres(t)
	return target{s.Open(t, ""), claim.Postgres, s.Name}
}
