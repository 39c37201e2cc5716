// Package serial tests claim.NewSerial on every database: one row at a time, in
// order, whatever happens to who is at work.
package serial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/sender/sendertest"
)

func TestMain(m *testing.M) { servers.Main(m) }

type job struct {
	Place int64 `db:"place"`
}

// queue is a table of the user's with an order of its own.
type queue struct {
	*testing.T
	at    combo.Database
	base  *servers.Database
	admin *sqlx.DB
	table claim.Table
}

func onEach(t *testing.T, f func(q *queue)) {
	for _, at := range combo.Databases() {
		t.Run(at.Name, func(t *testing.T) {
			t.Parallel()
			base := at.New(t)
			q := &queue{T: t, at: at, base: base, admin: base.Open(t, at.Driver, at.Params...)}
			q.table = claim.Table{Name: "jobs", Order: "place, id", Columns: claim.Columns{LastError: "last_error"}}
			q.exec("CREATE TABLE jobs (id bigint PRIMARY KEY, place bigint NOT NULL)")
			require.NoError(t, claim.Migrate(t.Context(), q.admin, at.Dialect, q.table, nil))
			f(q)
		})
	}
}

func (q *queue) exec(statement string, args ...any) {
	q.Helper()
	_, err := q.admin.ExecContext(q.Context(), q.admin.Rebind(statement), args...)
	require.NoError(q, err, statement)
}

// add inserts rows whose keys tell nothing of their order.
func (q *queue) add(n int) {
	for i, id := range rand.Perm(n) {
		q.exec("INSERT INTO jobs (id, place) VALUES (?, ?)", 1+id, i)
	}
}

// process is a Claimer with a pool of its own.
func (q *queue) process() *claim.Serial[job] {
	q.Helper()
	s, err := claim.NewSerial[job](q.Context(), q.base.Open(q, q.at.Driver, q.at.Params...), q.at.Dialect, q.table, nil)
	require.NoError(q, err)
	return s
}

// line is what was sent, in order, and whether two were sent at one time.
type line struct {
	mu     sync.Mutex
	places []int64
	busy   atomic.Int32
	over   atomic.Bool
}

func (l *line) enter(m sendonce.Item[job]) func() {
	if l.busy.Add(1) > 1 {
		l.over.Store(true)
	}
	l.mu.Lock()
	l.places = append(l.places, m.Value.Place)
	l.mu.Unlock()
	return func() { l.busy.Add(-1) }
}

func (l *line) all() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int64(nil), l.places...)
}

func config(name string) sendonce.Config {
	return sendonce.Config{
		Owner: name, SendTimeout: 300 * time.Millisecond, Lease: 1500 * time.Millisecond, PollInterval: 50 * time.Millisecond, MaxAttempts: 4,
		Backoff: func(int) time.Duration { return 60 * time.Millisecond }, Logger: slog.New(slog.DiscardHandler),
	}
}

func (q *queue) drain(workers int, send sendonce.SenderFunc[job]) *sendertest.Log {
	q.Helper()
	rec := sendertest.New[job](send)
	ctx, cancel := context.WithTimeout(q.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range workers {
		c := q.process()
		wg.Go(func() {
			name := fmt.Sprint("worker ", i)
			d, err := sendonce.New(c, rec.As(name), config(name))
			if assert.NoError(q, err) {
				_, err = d.Drain(ctx)
				assert.NoError(q, err)
			}
		})
	}
	wg.Wait()
	return rec.Log
}

// Three workers, rows whose keys are in another order than their places, some of
// which fail now and then: each is sent once it is first, and never two at a time.
func TestInOrderOneAtATime(t *testing.T) {
	onEach(t, func(q *queue) {
		const n = 60
		q.add(n)
		var l line
		log := q.drain(3, func(ctx context.Context, m sendonce.Item[job]) error {
			defer l.enter(m)()
			time.Sleep(time.Millisecond)
			switch {
			case m.Value.Place%10 == 3 && m.Attempt < 3:
				return errors.New("not yet")
			case m.Value.Place == 7:
				return sendonce.Permanent(errors.New("never"))
			}
			return nil
		})
		var want []int64
		for p := range int64(n) {
			want = append(want, p)
			if p%10 == 3 {
				want = append(want, p, p)
			}
		}
		assert.Equal(q, want, l.all(), "a row that fails keeps its place")
		assert.False(q, l.over.Load(), "two at a time")
		assert.Empty(q, log.Overlaps())
		workers := map[string]int{}
		for _, s := range log.All() {
			workers[s.Worker]++
		}
		q.Logf("sends by worker: %v", workers)
		var dead int
		require.NoError(q, q.admin.Get(&dead, "SELECT id FROM jobs WHERE status = 4"))
		var claims int
		require.NoError(q, q.admin.Get(&claims, "SELECT COUNT(*) FROM sendonce_claims WHERE source = 'jobs'"))
		assert.Zero(q, claims)
	})
}

// While the first row is held, waits for a retry, or its worker has vanished,
// nobody gets anything; then another worker goes on with the same row.
func TestHeadOfLine(t *testing.T) {
	onEach(t, func(q *queue) {
		q.add(3)
		a, b := q.process(), q.process()
		req := sendonce.ClaimRequest{Limit: 10, Lease: 1200 * time.Millisecond, MaxAttempts: 4, Owner: "test"}
		first := q.claim(a, req)
		require.Len(q, first.Items, 1, "one row, whatever the limit is")
		assert.Zero(q, first.Items[0].Value.Place)
		assert.Empty(q, q.claim(b, req).Items, "it is held")
		assert.Empty(q, q.claim(a, req).Items)

		// A row that comes earlier in the order waits, too.
		q.exec("INSERT INTO jobs (id, place) VALUES (?, ?)", 100, -1)
		assert.Empty(q, q.claim(b, req).Items, "two would be at work")

		q.settle(a, first, sendonce.Result{Outcome: sendonce.Retry, After: 400 * time.Millisecond})
		early := q.claim(b, req)
		require.Len(q, early.Items, 1)
		assert.EqualValues(q, -1, early.Items[0].Value.Place)
		q.settle(b, early, sendonce.Result{Outcome: sendonce.Done})

		assert.Empty(q, q.claim(b, req).Items, "the first one waits for its retry, and the others behind it")
		var again sendonce.Batch[job]
		require.Eventually(q, func() bool { again = q.claim(b, req); return len(again.Items) > 0 }, 10*time.Second, 20*time.Millisecond)
		assert.Zero(q, again.Items[0].Value.Place)
		assert.Equal(q, 2, again.Items[0].Attempt)

		// b vanishes: a sees it for long enough, and goes on.
		require.Eventually(q, func() bool {
			_, err := a.Reap(q.Context(), sendonce.ReapRequest{MaxAttempts: 4})
			require.NoError(q, err)
			again = q.claim(a, req)
			return len(again.Items) > 0
		}, 20*time.Second, 50*time.Millisecond)
		assert.Zero(q, again.Items[0].Value.Place)
		assert.Equal(q, 3, again.Items[0].Attempt)
		assert.True(q, again.Items[0].InDoubt)
		q.settle(a, again, sendonce.Result{Outcome: sendonce.Dead, Reason: "never"})
		next := q.claim(b, req)
		require.Len(q, next.Items, 1)
		assert.EqualValues(q, 1, next.Items[0].Value.Place, "a dead row lets the next one pass")
	})
}

// Rows that Table.Order doesn't tell apart go in the order of the key: the one that
// waits for its retry is still the first, and nobody passes it.
func TestTiesKeepTheirOrder(t *testing.T) {
	onEach(t, func(q *queue) {
		q.table.Order = "place"
		for _, id := range []int{3, 1, 5, 2, 4} {
			q.exec("INSERT INTO jobs (id, place) VALUES (?, 7)", id)
		}
		a, b := q.process(), q.process()
		req := sendonce.ClaimRequest{Limit: 10, Lease: time.Minute, MaxAttempts: 4, Owner: "test"}
		for id := range 5 {
			first := q.claim(a, req)
			require.Len(q, first.Items, 1)
			assert.EqualValues(q, 1+id, first.Items[0].Key)
			q.settle(a, first, sendonce.Result{Outcome: sendonce.Retry, After: time.Hour})
			assert.Empty(q, q.claim(b, req).Items, "row %v waits for its retry", first.Items[0].Key)
			q.exec("UPDATE jobs SET status = 3 WHERE id = ?", 1+id)
		}
	})
}

func (q *queue) claim(s *claim.Serial[job], req sendonce.ClaimRequest) sendonce.Batch[job] {
	q.Helper()
	for {
		b, err := s.Claim(q.Context(), req)
		if err != nil && sendonce.IsTransient(err) {
			continue
		}
		require.NoError(q, err)
		return b
	}
}

func (q *queue) settle(s *claim.Serial[job], b sendonce.Batch[job], r sendonce.Result) {
	q.Helper()
	r.Key, r.Token = b.Items[0].Key, b.Token
	es, err := s.Settle(q.Context(), []sendonce.Result{r})
	require.NoError(q, err)
	assert.Empty(q, es)
	require.NoError(q, s.End(q.Context(), []int64{b.Token}))
}

// slowMarks makes a claim take its time between its look and its end.
func (q *queue) slowMarks() {
	switch q.at.Dialect {
	case claim.Postgres:
		q.exec("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.status = 1 THEN PERFORM pg_sleep(0.02); END IF; RETURN NEW; END'")
		q.exec("CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION slow()")
	case claim.MySQL:
		q.exec("CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF NEW.status = 1 THEN DO SLEEP(0.02); END IF; END")
	}
}

// Many claims at once, while rows are inserted before each other: never two rows
// are held.
func TestClaimsTakeTurns(t *testing.T) {
	onEach(t, func(q *queue) {
		const workers, rounds = 4, 12
		q.slowMarks()
		var held atomic.Int32
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range workers * rounds {
				q.exec("INSERT INTO jobs (id, place) VALUES (?, ?)", i, -i)
			}
		})
		for range workers {
			s := q.process()
			wg.Go(func() {
				for done := 0; done < rounds && !q.Failed(); {
					b := q.claim(s, sendonce.ClaimRequest{Limit: 1, Lease: time.Minute, MaxAttempts: 4, Owner: "test"})
					if len(b.Items) == 0 {
						time.Sleep(time.Millisecond)
						continue
					}
					if n := held.Add(1); n != 1 {
						q.Errorf("%d rows are held", n)
					}
					time.Sleep(30 * time.Millisecond)
					held.Add(-1)
					q.settle(s, b, sendonce.Result{Outcome: sendonce.Done})
					done++
				}
			})
		}
		wg.Wait()
	})
}
