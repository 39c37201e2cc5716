package sendonce

import (
	"log/slog"
	"time"
)

// Delivery is what happens to a row whose send may or may not have been
// accepted: the window that nobody outside the provider can close.
type Delivery uint8

const (
	// AtLeastOnce sends such a row again, with the same idempotency key.
	AtLeastOnce Delivery = iota
	// AtMostOnce never does: the row becomes unknown, and somebody decides. It
	// needs a Claimer that is a Beginner, and costs one more write per send.
	AtMostOnce
)

// String returns the mode's name.
func (d Delivery) String() string {
	switch d {
	case AtLeastOnce:
		return "at least once"
	case AtMostOnce:
		return "at most once"
	}
	return "Delivery(?)"
}

// Config tunes a Dispatcher. The zero value works. Durations are real time;
// negative values are refused by New, which names the field.
type Config struct {
	// Concurrency is the number of Send calls at once. Default: 16.
	Concurrency int

	// BatchSize is the most rows taken by one claim. A claim asks for fewer
	// where sends are slow: never more than can be started in half a lease at
	// the rate observed. Default: 100, or Concurrency if that is more.
	BatchSize int

	// GroupSize is the most items given to one Send. Default: 1.
	GroupSize int

	// SendTimeout is how long one Send may take. Default: 10 s.
	SendTimeout time.Duration

	// Lease is how long a claim lasts without renewal: the rows of a worker
	// that died are back after at most 5/3 of it. It must leave room for a send,
	// a margin and a renewal that comes late (docs/semantics.md, section 2): New
	// names the least, which is 26.5 s for sends of 10 s and 4.4 s for those of
	// 1 s. Default: twice SendTimeout plus 10 s, and at least 30 s.
	Lease time.Duration

	// StopTimeout is how long sends may go on after Run's context has ended.
	// Default: SendTimeout.
	StopTimeout time.Duration

	// PollInterval is the longest wait after an empty claim; waits grow up to
	// it, with jitter. Default: 1 s.
	PollInterval time.Duration

	// MaxAttempts is the attempt after which a row that fails is dead.
	// Default: 5.
	MaxAttempts int

	// Backoff is the delay before the retry that follows the given attempt (1
	// is the first). It is called from several goroutines. Default: exponential
	// from 1 s to 5 min, each between half and the whole of it at random.
	Backoff func(attempt int) time.Duration

	// Delivery is the promise. Default: AtLeastOnce.
	Delivery Delivery

	// IdempotencyWindow is how long the provider remembers an idempotency key. A
	// row that has been in doubt for longer than that (Item.InDoubt) would be a
	// new message to it: instead of being sent again it becomes unknown. An
	// operator who wants it sent requeues it. It needs a Claimer that is a
	// DoubtKeeper: for package claim, a table with Columns.DoubtSince. Default: no
	// such limit.
	IdempotencyWindow time.Duration

	// Limiter is asked before each Send whether it may begin: once per Send and
	// never per poll, before SendTimeout begins and before AtMostOnce records
	// its intent. Rows that wait for it are released at once when Run stops, and
	// when they have waited for a lease. *rate.Limiter of golang.org/x/time/rate
	// fits as it is and limits this process; sender.RateLimit limits all that
	// share its key. Default: no limit.
	Limiter Limiter

	// MarkLinger is how long a finished send may wait for others to be recorded
	// in the same statement. A process that dies in this time leaves its
	// finished sends unrecorded. Default: 2 ms.
	MarkLinger time.Duration

	// ReclaimByClockOnly gives up the second witness before a vanished worker's
	// rows are taken (see ReapRequest.ClockOnly). Default: false.
	ReclaimByClockOnly bool

	// Owner names this process for operators. Default: host name, process id
	// and a random suffix.
	Owner string

	// Wake, if not nil, ends the wait after an empty claim whenever something
	// can be received from it: a hint that there are new rows. A closed channel
	// is not a hint. Default: nil.
	Wake <-chan struct{}

	// Hooks are told what happens. Default: none.
	Hooks Hooks

	// Logger is told what an operator should know: outages and their end, lost
	// claims, dead rows (the first ten, and then one now and then).
	// Default: slog.Default().
	Logger *slog.Logger
}

// Hooks are functions that the Dispatcher calls when something happens: for
// metrics, traces and alarms. Each may be nil. They are called from several
// goroutines and must be quick: the work waits for them. A hook that panics is
// recovered and logged.
type Hooks struct {
	// Claimed: a claim returned. n is the number of rows, 0 for an empty one.
	Claimed func(n int, took time.Duration, err error)
	// Sent: a Send returned; one call per row.
	Sent func(key Key, outcome Outcome, attempt int, took time.Duration, err error)
	// Reconciled: the provider knew what became of an earlier send, or nobody
	// can know it any more (IdempotencyWindow), and the row was not sent again.
	Reconciled func(key Key, outcome Outcome, err error)
	// Settled: results were recorded, or could not be (they are tried again).
	Settled func(n int, took time.Duration, err error)
	// Extended: a renewal of n claims returned.
	Extended func(n int, took time.Duration, err error)
	// Lost: a claim is lost; its rows that were not settled are not ours.
	Lost func(token int64, rows int)
	// Excepted: a result did not go as usual (Late, Overtaken, Foreign, ...).
	Excepted func(e Exception)
	// Unrecorded: rows were sent, and recording that has failed for a while.
	Unrecorded func(rows int, since time.Duration, err error)
	// Stuck: a Send has ignored the end of its context for that long.
	Stuck func(key Key, since time.Duration)
	// Reaped: rows of vanished workers were given back.
	Reaped func(r Reaped)
}

// Stats counts what a Dispatcher has done since it was made.
type Stats struct {
	Claims   int64 // claims that returned rows
	Claimed  int64 // rows
	Sent     int64 // rows recorded as done
	Retried  int64 // rows recorded for a retry
	Dead     int64
	Skipped  int64
	Unknown  int64
	Released int64
	Lost     int64 // rows whose claim was lost before they were settled
	Late     int64 // sends recorded although the row had gone back meanwhile
	Overtook int64 // sends that could not be recorded because another claim holds the row
	Returned int64 // rows of vanished workers that were given back

	Reconciled int64 // rows that were not sent again, because of what the provider knew or has forgotten
}

// Health says how a Dispatcher is doing at this moment.
type Health struct {
	// OK: the store answers and nothing is stuck.
	OK bool
	// Problem says what is wrong, in words; empty when OK.
	Problem string
	// Unrecorded is the number of rows that were sent and are not yet recorded.
	Unrecorded int
	// Stuck is the number of Sends that ignore the end of their context.
	Stuck int
	// InFlight is the number of Sends now.
	InFlight int
}
