// Package unmarked tests what keeps processes apart that do not mark the rows
// they claim: the leases of their partitions (docs/semantics.md, section 11).
package unmarked

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/sqllock"
	"github.com/sendonce/sendonce/partition"
	"github.com/sendonce/sendonce/sender/sendertest"
)

func TestMain(m *testing.M) { servers.Main(m) }

const lease = 1500 * time.Millisecond

// place is a table in a database of one test's own.
type place struct{ *combo.Table }

func onEach(t *testing.T, rows int, f func(t *testing.T, p place)) {
	t.Helper()
	for _, d := range combo.Databases() {
		t.Run(d.Name, func(t *testing.T) { f(t, in(t, d, "bigint", rows)) })
	}
}

func in(t *testing.T, d combo.Database, key string, rows int) place {
	t.Helper()
	return place{combo.Combo{Strategy: combo.Unmarked, Database: d, Key: key}.Start(t).Table(t, rows)}
}

// process is a worker with a pool of its own and partition k of n.
func (p place) process(t *testing.T, k, n int) *claim.Unmarked[combo.Mail] {
	t.Helper()
	db := p.At.Open(t, p.Database.Driver, p.Database.Params...)
	part, err := partition.Static(k, n)
	require.NoError(t, err)
	u, err := claim.NewUnmarked[combo.Mail](t.Context(), db, p.Database.Dialect, p.Mapping, part, nil)
	require.NoError(t, err)
	return u
}

func request(limit int) sendonce.ClaimRequest {
	return sendonce.ClaimRequest{Limit: limit, Lease: lease, MaxAttempts: 5, Owner: "test"}
}

func claimed(t *testing.T, u *claim.Unmarked[combo.Mail], limit int) sendonce.Batch[combo.Mail] {
	t.Helper()
	b, err := u.Claim(t.Context(), request(limit))
	require.NoError(t, err)
	require.NotEmpty(t, b.Items)
	assert.WithinDuration(t, time.Now().Add(lease), b.Until, lease)
	return b
}

func settle(t *testing.T, u *claim.Unmarked[combo.Mail], b sendonce.Batch[combo.Mail], o sendonce.Outcome) []sendonce.Exception {
	t.Helper()
	var rs []sendonce.Result
	for _, m := range b.Items {
		rs = append(rs, sendonce.Result{Key: m.Key, Token: b.Token, Outcome: o})
	}
	es, err := u.Settle(t.Context(), rs)
	require.NoError(t, err)
	return es
}

// awaitClaim claims again and again, as a Dispatcher does, until there are rows.
func awaitClaim(t *testing.T, u *claim.Unmarked[combo.Mail]) (sendonce.Batch[combo.Mail], error) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(lease / 20) {
		b, err := u.Claim(t.Context(), request(100))
		if err == nil && len(b.Items) > 0 {
			return b, last
		}
		if err != nil {
			last = err
		}
	}
	t.Fatalf("nothing was claimed; the last error was: %v", last)
	return sendonce.Batch[combo.Mail]{}, nil
}

// A second process with the same partition waits, and says why; it has the
// partition as soon as that is released.
func TestSecondOwnerWaits(t *testing.T) {
	onEach(t, 10, func(t *testing.T, p place) {
		first, second := p.process(t, 0, 1), p.process(t, 0, 1)
		b := claimed(t, first, 4)
		_, err := second.Claim(t.Context(), request(4))
		require.Error(t, err)
		assert.False(t, sendonce.IsFatal(err))
		for _, part := range []string{"partition 0 of 1", p.Mapping.Name, "another process works on it", "sendonce partition"} {
			assert.ErrorContains(t, err, part)
		}
		assert.Equal(t, []int{0}, first.Partitions())
		assert.Empty(t, second.Partitions())
		for range 20 { // longer than a lease, which is renewed
			time.Sleep(lease / 10)
			ext, err := first.Extend(t.Context(), []int64{b.Token})
			require.NoError(t, err)
			require.Empty(t, ext.Lost)
			_, err = second.Claim(t.Context(), request(4))
			require.Error(t, err)
		}
		assert.Empty(t, settle(t, first, b, sendonce.Done))
		require.NoError(t, first.Release(t.Context()))
		time.Sleep(lease / 10)
		released := time.Now()
		b, _ = awaitClaim(t, second)
		assert.Len(t, b.Items, 6)
		assert.Less(t, time.Since(released), lease, "at once")
	})
}

// A vanished owner's partition is taken on two witnesses, and its rows are handed
// out again.
func TestVanishedOwner(t *testing.T) {
	onEach(t, 10, func(t *testing.T, p place) {
		first, second := p.process(t, 0, 1), p.process(t, 0, 1)
		lost := claimed(t, first, 4)
		time.Sleep(lease + lease/10) // it is over already when the other one sees it first
		began := time.Now()
		_, err := second.Claim(t.Context(), request(4))
		require.Error(t, err)
		b, why := awaitClaim(t, second)
		assert.GreaterOrEqual(t, time.Since(began), lease, "a whole lease of looking on")
		assert.ErrorContains(t, why, "has not renewed its lease")
		require.Len(t, b.Items, 10)
		for _, m := range b.Items {
			assert.Equal(t, 1, m.Attempt, "attempts of vanished workers are not counted")
		}

		// It was not dead. What it has sent comes too late, and is told.
		es := settle(t, first, lost, sendonce.Done)
		require.Len(t, es, 4)
		assert.Equal(t, sendonce.Overtaken, es[0].Cause)
		ext, err := first.Extend(t.Context(), []int64{lost.Token})
		require.NoError(t, err)
		assert.Equal(t, []int64{lost.Token}, ext.Lost)
		for _, e := range settle(t, first, lost, sendonce.Retry) {
			assert.Equal(t, sendonce.NotHeld, e.Cause)
		}
		_, err = first.Claim(t.Context(), request(4))
		assert.Error(t, err, "now it waits itself")

		assert.Empty(t, settle(t, second, b, sendonce.Done))
		c, err := second.Counts(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 10, c.Done)
	})
}

// docs/semantics.md, section 4: a look that fails is a gap. An outage that the
// owner lives through doesn't cost it the partition, though its lease is over.
func TestOutageDoesNotCostThePartition(t *testing.T) {
	db := servers.StartPostgres(t)
	p := place{combo.Combo{Strategy: combo.Unmarked, Database: combo.Postgres, Key: "bigint"}.On(t, db.Database).Table(t, 10)}
	owner, rival := p.process(t, 0, 1), p.process(t, 0, 1)
	b := claimed(t, owner, 10)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // the rival looks on all the time
		for ctx.Err() == nil {
			short, cancel := context.WithTimeout(ctx, lease/4)
			got, err := rival.Claim(short, request(10))
			cancel()
			if err == nil && len(got.Items) > 0 {
				t.Error("the rival was handed rows of an owner that lives")
			}
			time.Sleep(lease / 20)
		}
	})
	time.Sleep(lease / 2)
	db.Pause(t)
	time.Sleep(2 * lease)
	db.Resume(t)
	time.Sleep(lease / 6) // the owner comes back a little later than the rival
	ext, err := owner.Extend(t.Context(), []int64{b.Token})
	require.NoError(t, err)
	assert.Empty(t, ext.Lost)
	assert.Empty(t, settle(t, owner, b, sendonce.Done))
	stop()
	wg.Wait()
}

// A take-over waits for a result that is being written, and a result for a
// take-over: no result is written by who is not the owner any more.
func TestSettleAndTakeOverAreSerialised(t *testing.T) {
	for _, d := range []combo.Database{combo.Postgres, combo.MariaDB} {
		t.Run(d.Name, func(t *testing.T) {
			p := in(t, d, "bigint", 1)
			db := p.At.Open(t, d.Driver, d.Params...)
			locker, err := sqllock.New(t.Context(), db.DB, d.LockDialect(), nil)
			require.NoError(t, err)
			held, err := locker.Acquire(t.Context(), "k", lock.NewToken(), time.Millisecond)
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
			tx, err := db.BeginTxx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, locker.Verify(t.Context(), tx, held), "its lease is over, and nobody has taken it")
			taken := make(chan lock.Lease)
			go func() {
				l, err := locker.Acquire(context.WithoutCancel(t.Context()), "k", lock.NewToken(), time.Minute)
				assert.NoError(t, err)
				taken <- l
			}()
			select {
			case <-taken:
				t.Fatal("it was taken while a result was being written")
			case <-time.After(500 * time.Millisecond):
			}
			require.NoError(t, tx.Commit())
			l := <-taken
			assert.Greater(t, l.Fence, held.Fence)
			tx, err = db.BeginTxx(t.Context(), nil)
			require.NoError(t, err)
			defer tx.Rollback()
			assert.ErrorIs(t, locker.Verify(t.Context(), tx, held), lock.ErrLost)
			assert.NoError(t, locker.Verify(t.Context(), tx, l))
		})
	}
}

// The same of Settle itself, whose look at the lease is in the statement that writes,
// where the database can do that.
func TestResultsAndTakeOversWaitForEachOther(t *testing.T) {
	for _, d := range []combo.Database{combo.Postgres, combo.MariaDB} {
		t.Run(d.Name, func(t *testing.T) {
			p := in(t, d, "bigint", 2)
			u := p.process(t, 0, 1)
			db := p.At.Open(t, d.Driver, d.Params...)
			const takeOver = "UPDATE sendonce_locks SET fence = fence + 1, token = 'another'"
			b, later := claimed(t, u, 1), claimed(t, u, 1)

			row, err := db.BeginTxx(t.Context(), nil) // the statement stands still at this row
			require.NoError(t, err)
			defer row.Rollback()
			_, err = row.ExecContext(t.Context(), "UPDATE "+p.Mapping.Name+" SET attempts = attempts")
			require.NoError(t, err)
			settled, taken := make(chan []sendonce.Exception), make(chan error)
			go func() { settled <- settle(t, u, b, sendonce.Done) }()
			time.Sleep(200 * time.Millisecond)
			take, err := db.BeginTxx(t.Context(), nil)
			require.NoError(t, err)
			defer take.Rollback()
			go func() {
				_, err := take.ExecContext(context.WithoutCancel(t.Context()), takeOver)
				taken <- err
			}()
			select {
			case <-taken:
				t.Fatal("the partition was taken while a result was being written")
			case <-settled:
				t.Fatal("the result did not wait for the row")
			case <-time.After(300 * time.Millisecond):
			}
			require.NoError(t, row.Rollback())
			assert.Empty(t, <-settled)
			require.NoError(t, <-taken)

			go func() { settled <- settle(t, u, later, sendonce.Done) }()
			select {
			case <-settled:
				t.Fatal("a result was written, or refused, while the partition was being taken")
			case <-time.After(300 * time.Millisecond):
			}
			require.NoError(t, take.Commit())
			es := <-settled
			require.Len(t, es, 1)
			assert.Equal(t, sendonce.Overtaken, es[0].Cause)
			c, err := u.Counts(t.Context())
			require.NoError(t, err)
			assert.Equal(t, sendonce.Counts{Done: 1, Pending: 1}, c)
		})
	}
}

// Real Dispatchers, each row once and those that fail once more.
func TestDispatch(t *testing.T) {
	for _, c := range []struct {
		db  combo.Database
		key string
	}{{combo.Postgres, "bigint"}, {combo.Postgres, "uuid"}, {combo.MariaDB, "bigint"}, {combo.MariaDB, "varchar(60)"}, {combo.SQLite, "bigint"}} {
		t.Run(c.db.Name+"/"+c.key, func(t *testing.T) {
			const rows = 1200
			p := in(t, c.db, c.key, rows)
			var mu sync.Mutex
			tries := map[sendonce.Key]int{}
			log := sendertest.New[combo.Mail](sendonce.SenderFunc[combo.Mail](func(_ context.Context, m sendonce.Item[combo.Mail]) error {
				mu.Lock()
				defer mu.Unlock()
				tries[m.Key]++
				if tries[m.Key] == 1 && len(tries)%20 == 0 {
					return errors.New("busy")
				}
				return nil
			}))
			var wg sync.WaitGroup
			for k := range 3 {
				d, err := sendonce.New[combo.Mail](p.process(t, k, 3), log.As(fmt.Sprint("worker ", k)), sendonce.Config{
					BatchSize: 50, Concurrency: 4, Backoff: func(int) time.Duration { return 50 * time.Millisecond },
				})
				require.NoError(t, err)
				wg.Go(func() {
					_, err := d.Drain(t.Context())
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			assert.Empty(t, log.Missing(p.Keys))
			assert.Empty(t, log.MoreThanOnce())
			assert.Equal(t, rows+rows/20, log.Count())
			var total int
			require.NoError(t, sqlx.GetContext(t.Context(), p.Admin, &total, "SELECT SUM(attempts) FROM "+p.Name))
			assert.Equal(t, rows+rows/20, total)
		})
	}
}

func TestRefusals(t *testing.T) {
	onEach(t, 10, func(t *testing.T, p place) {
		u := p.process(t, 0, 1)
		_, err := sendonce.New[combo.Mail](u, sendonce.SenderFunc[combo.Mail](nil), sendonce.Config{Delivery: sendonce.AtMostOnce})
		assert.ErrorContains(t, err, "AtMostOnce")

		part, err := partition.Static(0, 1)
		require.NoError(t, err)
		marking, err := claim.NewPartitioned[combo.Mail](t.Context(), p.Admin, p.Database.Dialect, p.Mapping, part, nil)
		require.NoError(t, err)
		b, err := marking.Claim(t.Context(), request(2))
		require.NoError(t, err)
		_, err = u.Claim(t.Context(), request(2))
		assert.ErrorIs(t, err, sendonce.ErrDelivery)
		assert.ErrorContains(t, err, "marks rows")
		require.NoError(t, marking.End(t.Context(), []int64{b.Token}))

		_, err = claim.NewUnmarked[combo.Mail](t.Context(), p.Admin, p.Database.Dialect, p.Mapping, part, &claim.Options{LocksTable: "no_such_locks"})
		assert.ErrorContains(t, err, "no_such_locks")
		assert.ErrorContains(t, err, "CREATE TABLE")
		assert.True(t, sendonce.IsFatal(err))
		_, err = claim.NewUnmarked[combo.Mail](t.Context(), p.Admin, p.Database.Dialect, p.Mapping, nil, nil)
		assert.ErrorContains(t, err, "Partitioner")
	})
	t.Run("text keys on SQLite", func(t *testing.T) {
		p := in(t, combo.SQLite, "text", 1)
		part, err := partition.Static(0, 2)
		require.NoError(t, err)
		_, err = claim.NewUnmarked[combo.Mail](t.Context(), p.Admin, p.Database.Dialect, p.Mapping, part, nil)
		assert.ErrorContains(t, err, "id")
	})
}
