package sendonce_test

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// BenchmarkDispatch is what the loop itself costs per row, with a store in memory
// and a Sender that does nothing. memclaim's own share is in it.
func BenchmarkDispatch(b *testing.B) {
	rows := memclaim.New[struct{}](&memclaim.Options{ForgetDone: true})
	for i := range b.N {
		if err := rows.Add(memclaim.Row[struct{}]{Key: i}); err != nil {
			b.Fatal(err)
		}
	}
	nothing := func(context.Context, sendonce.Item[struct{}]) error { return nil }
	d, err := sendonce.New(rows, sendonce.SenderFunc[struct{}](nothing), sendonce.Config{
		BatchSize: 1000, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := d.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
}
