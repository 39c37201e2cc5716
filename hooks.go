package sendonce

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// recovered returns hooks that can all be called, never panic and never end the
// goroutine that calls them: a test's require does that. Sent is called for each
// row, so it is called where its end does no harm.
func (h Hooks) recovered(log *slog.Logger) Hooks {
	guard := func(name string) {
		if v := recover(); v != nil {
			log.Error("sendonce: a hook panicked", "hook", name, "panic", fmt.Sprint(v))
		}
	}
	apart := func(name string, f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer guard(name)
			f()
		}()
		<-done
	}
	return Hooks{
		Sent: func(key Key, o Outcome, attempt int, took time.Duration, err error) {
			if h.Sent != nil {
				defer guard("Sent")
				h.Sent(key, o, attempt, took, err)
			}
		},
		Reconciled: func(key Key, o Outcome, err error) {
			if h.Reconciled != nil {
				defer guard("Reconciled")
				h.Reconciled(key, o, err)
			}
		},
		Claimed: func(n int, took time.Duration, err error) {
			if h.Claimed != nil {
				apart("Claimed", func() { h.Claimed(n, took, err) })
			}
		},
		Settled: func(n int, took time.Duration, err error) {
			if h.Settled != nil {
				apart("Settled", func() { h.Settled(n, took, err) })
			}
		},
		Extended: func(n int, took time.Duration, err error) {
			if h.Extended != nil {
				apart("Extended", func() { h.Extended(n, took, err) })
			}
		},
		Lost: func(token int64, rows int) {
			if h.Lost != nil {
				apart("Lost", func() { h.Lost(token, rows) })
			}
		},
		Excepted: func(e Exception) {
			if h.Excepted != nil {
				apart("Excepted", func() { h.Excepted(e) })
			}
		},
		Unrecorded: func(rows int, since time.Duration, err error) {
			if h.Unrecorded != nil {
				apart("Unrecorded", func() { h.Unrecorded(rows, since, err) })
			}
		},
		Stuck: func(key Key, since time.Duration) {
			if h.Stuck != nil {
				apart("Stuck", func() { h.Stuck(key, since) })
			}
		},
		Reaped: func(r Reaped) {
			if h.Reaped != nil {
				apart("Reaped", func() { h.Reaped(r) })
			}
		},
	}
}

// counters are Stats that several goroutines count.
type counters struct {
	claims, claimed, sent, retried, dead, skipped, unknown atomic.Int64
	released, lost, late, overtook, returned, reconciled   atomic.Int64
}

func (c *counters) stats() Stats {
	return Stats{
		Claims: c.claims.Load(), Claimed: c.claimed.Load(), Sent: c.sent.Load(), Retried: c.retried.Load(),
		Dead: c.dead.Load(), Skipped: c.skipped.Load(), Unknown: c.unknown.Load(), Released: c.released.Load(),
		Lost: c.lost.Load(), Late: c.late.Load(), Overtook: c.overtook.Load(), Returned: c.returned.Load(),
		Reconciled: c.reconciled.Load(),
	}
}

func (c *counters) recorded(o Outcome) {
	switch o {
	case Done:
		c.sent.Add(1)
	case Retry:
		c.retried.Add(1)
	case Dead:
		c.dead.Add(1)
	case Skipped:
		c.skipped.Add(1)
	case Unknown:
		c.unknown.Add(1)
	case Released:
		c.released.Add(1)
	}
}
