package redisqueue

import (
	"fmt"
	"testing"

	"github.com/sendonce/sendonce/claim/claimtest"
)

func BenchmarkQueue(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) { claimtest.Bench(b, harness(keysOf["a key each"], 0), batch) })
	}
}
