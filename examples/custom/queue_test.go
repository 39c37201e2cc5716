package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/claimtest"
)

// TestConformance runs the suite. The queue has no state of a process's own, so
// that all handles are the queue itself.
func TestConformance(t *testing.T) {
	claimtest.Run(t, claimtest.Harness[Mail]{
		New: newStore,
		Caps: claimtest.Caps{
			NoReaper:   true, // rows and workers live in one process, and die together
			NoEnder:    true, // claims have no record of their own
			NoBeginner: true, // so AtLeastOnce is the only promise,
			NoDelivery: true, // and there is no other to notice

			NoDoubtKeeper: true, // what may have been sent is not remembered,
			NoExaminer:    true, // and nothing is unknown
		},
		Virtual: true, // all time is from package time
	})
}

func newStore(_ testing.TB, rows, handles int) *claimtest.Store[Mail] {
	q := &Queue{}
	s := &claimtest.Store[Mail]{
		Row: func(key sendonce.Key) (claimtest.Row, error) {
			r := q.at(key)
			return claimtest.Row{Found: true, Status: r.status, Attempts: r.attempts, Reason: r.reason}, nil
		},
		Check: func(item sendonce.Item[Mail]) error {
			if item.Value.Address != fmt.Sprint("row ", item.Key) {
				return fmt.Errorf("it is %v", item.Value)
			}
			return nil
		},
		SetStatus: func(key sendonce.Key, status string) error { return q.change(key, func(r *row) { r.status = status }) },
		Schedule: func(key sendonce.Key, after time.Duration) error {
			return q.change(key, func(r *row) { r.due = time.Now().Add(after) })
		},
		Requeue: func(key sendonce.Key) error {
			return q.change(key, func(r *row) { *r = row{mail: r.mail, status: pending, due: time.Now()} })
		},
	}
	for i := range rows {
		s.Keys = append(s.Keys, q.Add(Mail{Address: fmt.Sprint("row ", i)}))
	}
	for range handles {
		s.Claimers = append(s.Claimers, q)
	}
	return s
}

func (q *Queue) at(key sendonce.Key) (r row) {
	_ = q.change(key, func(stored *row) { r = *stored })
	return r
}

func (q *Queue) change(key sendonce.Key, change func(r *row)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(&q.rows[key.(int64)])
	return nil
}

func TestRun(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	assert.Equal(t, "300 rows of 300 sent once\n", out.String())
}
