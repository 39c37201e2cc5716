package sendonce

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever is done to a queue, it has what a slice would have, and keeps nothing
// else in memory.
func TestQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q queue[int]
	var want []*held
	for step := range 20_000 {
		switch n := len(want); {
		case n > 0 && r.IntN(2) == 0:
			i := r.IntN(n)
			if r.IntN(4) > 0 {
				i = 0
			}
			require.Same(t, want[i], q.take(i).b, "step %d", step)
			want = append(want[:i:i], want[i+1:]...)
		case r.IntN(8) == 0:
			b := &held{token: int64(step)}
			q.putFirst(job[int]{b: b})
			want = append([]*held{b}, want...)
		default:
			b := &held{token: int64(step)}
			q.add(job[int]{b: b})
			want = append(want, b)
		}
		require.Equal(t, len(want), q.len())
		for i := range want {
			require.Same(t, want[i], q.at(i).b, "step %d", step)
		}
		kept := 0
		for _, j := range q.jobs[:cap(q.jobs)] {
			if j.b != nil {
				kept++
			}
		}
		require.Equal(t, len(want), kept, "step %d: what was taken is not kept in memory", step)
	}
}

// Batch after batch, a queue uses the same memory.
func TestQueueUsesItsMemoryAgain(t *testing.T) {
	var q queue[int]
	b := &held{}
	batch := func() {
		for range 1000 {
			q.add(job[int]{b: b})
		}
		for q.len() > 300 {
			q.take(0)
		}
	}
	for range 3 {
		batch()
	}
	assert.Zero(t, testing.AllocsPerRun(100, batch))
}
