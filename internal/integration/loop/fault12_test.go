package loop

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// panics is an error that can't say what it is.
type panics struct{}

func (panics) Error() string { panic("no text") }

// faulty is a Sender that does with each row what its number says.
func faulty(n int64) error {
	switch n {
	case 0:
		var m *item
		return errors.New(m.IdempotencyKey)
	case 1:
		panic(nil)
	case 2:
		runtime.Goexit()
	case 3:
		return panics{}
	}
	return nil
}

// docs/faults.md, 12: two at a time; the database hangs while the first is recorded,
// and again while Run is to return.
func TestFault12_NoSlotIsLostAndStopEnds(t *testing.T) {
	each(t, one, func(t *testing.T, c combo.Combo) {
		s := on(t, c, nil, 0)
		lastWords := make(chan struct{})
		var first atomic.Bool
		hung := make(chan func(), 1)
		w := s.start(t, post{
			name: "A",
			tune: func(cfg *sendonce.Config) { cfg.Concurrency, cfg.MaxAttempts, cfg.Lease = 2, 1, 4*time.Second },
			sender: func(_ context.Context, m item) error {
				n := m.Key.(int64) - 1000
				if n < 6 && first.CompareAndSwap(false, true) {
					hung <- s.hang(t)
				}
				if n == 7 {
					<-lastWords
				}
				return faulty(n)
			},
		})
		w.idle(t)
		s.Add(t, 6)
		letGo := <-hung
		await(t, 10*time.Second, "Health tells that results wait", func() bool { return w.Health().Unrecorded > 0 })
		time.Sleep(1500 * time.Millisecond) // the hang itself
		letGo()
		await(t, 10*time.Second, "two are done", func() bool { return s.count(t, done) == 2 })
		await(t, 10*time.Second, "four have failed", func() bool { return s.count(t, dead) == 4 })
		await(t, 5*time.Second, "all slots are free", func() bool { h := w.Health(); return h.InFlight == 0 && h.Stuck == 0 && h.OK })

		// Both slots work, and the database hangs when they are through.
		s.Add(t, 2)
		await(t, 10*time.Second, "one of two is done", func() bool { return s.count(t, done) == 3 && w.Health().InFlight == 1 })
		letGo = s.hang(t)
		defer letGo()
		close(lastWords)
		began := time.Now()
		err := isStopped(t, w.stop(t))
		// StopTimeout, ten seconds for the last results, and as long for what was
		// asked when they began.
		assert.Less(t, time.Since(began), w.cfg.StopTimeout+25*time.Second)
		assert.Equal(t, []sendonce.Key{s.Keys[7]}, err.Unrecorded)
		assert.Empty(t, err.Stuck)
		letGo()
		s.start(t, post{name: "B"})
		s.judge(t, allowed{accepted: 2, within: 40 * time.Second, sends: func(key sendonce.Key) int {
			if key == s.Keys[7] {
				return 2
			}
			return 1
		}})
	})
}

// hang makes the database hang for all who want the table, until it lets go.
func (s *scene) hang(t *testing.T) (letGo func()) {
	t.Helper()
	db, err := sqlx.Open(s.Place.Database.Driver, s.Spec().DSN)
	require.NoError(t, err)
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	statements := []string{"BEGIN", "LOCK TABLE " + s.Name + ", sendonce_claims IN ACCESS EXCLUSIVE MODE"}
	if s.Place.Database.Dialect == claim.MySQL {
		statements = []string{"LOCK TABLES " + s.Name + " WRITE, sendonce_claims WRITE"}
	}
	for _, statement := range statements {
		_, err = conn.ExecContext(context.Background(), statement)
		require.NoError(t, err)
	}
	return func() { _ = conn.Close(); _ = db.Close() }
}
