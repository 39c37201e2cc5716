package claimtest

import (
	"context"
	"testing"
	"time"

	"github.com/sendonce/sendonce"
)

// Bench measures a Claimer: b.N rows are claimed and recorded as done, batch at a
// time, by one goroutine, and each claim is ended. It reports rows/s; making the
// rows is not counted.
func Bench[T any](b *testing.B, h Harness[T], batch int) {
	s := h.New(b, b.N, 1)
	c, ctx := s.Claimers[0], context.Background()
	req := sendonce.ClaimRequest{Limit: batch, Lease: time.Hour, MaxAttempts: maxAttempts, Owner: "bench"}
	b.ResetTimer()
	empty := 0
	for n := 0; n < b.N; {
		got, err := c.Claim(ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		if len(got.Items) == 0 {
			if empty++; empty > 1000 && !got.More {
				b.Fatalf("%d of %d rows were handed out", n, b.N)
			}
			continue
		}
		n, empty = n+len(got.Items), 0
		if es, err := c.Settle(ctx, results(heldBy(got), sendonce.Done)); err != nil || len(es) > 0 {
			b.Fatal(es, err)
		}
		if x, ok := c.(sendonce.Ender); ok {
			if err := x.End(ctx, []int64{got.Token}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
