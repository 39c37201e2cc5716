package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// docs/faults.md, 10: the worker's process kills itself on one row of ten, and a
// supervisor starts it again, until nothing is left.
func TestFault10_OnlyTheRowThatKillsItsWorkerDies(t *testing.T) {
	each(t, one, func(t *testing.T, c combo.Combo) {
		for _, atOnce := range []int{1, 4} {
			t.Run(fmt.Sprint(atOnce, " at a time"), func(t *testing.T) {
				t.Parallel()
				killer(t, c, atOnce)
			})
		}
	})
}

func killer(t *testing.T, c combo.Combo, atOnce int) {
	const maxAttempts, starts = 3, 10
	s := on(t, c, nil, 10)
	deadly := s.Keys[6]
	o := order{
		Concurrency: atOnce, BatchSize: 10, MaxAttempts: maxAttempts, Drain: true,
		Timeout: 200 * time.Millisecond, Lease: time.Second, StopTimeout: time.Second, // New demands 0.9 s
		Deadly: deadly.(int64), Recorded: atOnce == 1,
	}
	code, n := -1, 0
	for ; code != 0 && n < starts; n++ {
		o.Name = fmt.Sprint("start ", n+1)
		p := s.spawn(t, o)
		code = p.wait(t, 30*time.Second)
		require.Contains(t, []int{-1, 0}, code, "a process that was killed, or has drained the table")
	}
	assert.Zero(t, code, "the last process has drained the table")

	rows := s.rows(t)
	assert.Equal(t, dead, rows[deadly].Status)
	assert.Contains(t, rows[deadly].Reason, "the worker vanished")
	deaths := len(s.sends(t).Sends(deadly))
	assert.GreaterOrEqual(t, deaths, maxAttempts)
	for key, r := range rows {
		if key != deadly {
			assert.Equal(t, done, r.Status, "the neighbour %v", key)
		}
	}
	s.judge(t, allowed{accepted: 1 + deaths, sends: func(key sendonce.Key) int {
		switch {
		case key == deadly:
			return maxAttempts + 1
		case atOnce == 1:
			return 1
		}
		return 1 + deaths // it was in flight beside the deadly one, or not yet recorded
	}})
}
