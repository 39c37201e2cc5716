package sendonce

import (
	"context"
	"time"
)

// Key identifies a row of the user's table. It is an int64, a uint64 or a
// string, as the table holds it (a UUID is a string), so it is comparable.
type Key any

// Ref names one row under one claim. Every write to a row is bound to both: the
// key finds the row, and the token proves that it is still the same claim.
type Ref struct {
	Key   Key
	Token int64
}

// Item is one row, handed out.
type Item[T any] struct {
	Key   Key
	Value T

	// Attempt counts the sends of this row, this one included: 1 on the first
	// try. A try whose worker vanished counts; a release does not.
	Attempt int

	// IdempotencyKey is the same over attempts, processes and strategies: pass
	// it to a provider that dedupes by it. 32 hex characters from the SQL
	// strategies; never empty from a Claimer that passes claimtest.
	IdempotencyKey string

	// InDoubt: an earlier send of this row may have been accepted. Its worker
	// vanished, or it was answered as Ambiguous. A Claimer that keeps no account
	// of that (see DoubtKeeper) says so for rows of vanished workers only.
	InDoubt bool

	// DoubtAge is how long ago the first such send can have begun, on the
	// store's clock. Zero if that is not known, or there is none.
	DoubtAge time.Duration

	// Fence grows with each claim of a row under one ordering key, also when the
	// store lost its memory; 0 if the store has none. Hand it to a resource that
	// refuses smaller ones.
	Fence int64

	// Err is set when the row could not be read as a T. Value is then zero, and
	// the Dispatcher marks the row Dead with this reason and never sends it.
	Err error
}

// Batch is what one claim took. A Batch without Items is an empty claim: it
// leaves nothing behind and needs no Extend, Settle or End.
type Batch[T any] struct {
	Items []Item[T]

	// Token is random, never 0, and new for every claim.
	Token int64

	// Until, if not zero, is an end earlier than the lease that was asked for
	// (a strategy whose partition is itself only leased has one). Zero: the
	// claim lasts for ClaimRequest.Lease from the moment Claim was called.
	Until time.Time

	// Alone says that this is the last try of a row which came back from a
	// vanished worker: the process sends nothing else meanwhile, so that if it
	// dies again, it is known which row did it.
	Alone bool

	// More says that the claim was short only because it had searched for long
	// enough: claim again at once. An empty Batch without More means that
	// nothing was due when it was looked for, a moment ago at the most, and not
	// that the table is empty.
	More bool
}

// ClaimRequest is what a Dispatcher asks of a claim. Policy travels with each
// request, so that a Claimer holds no copy of it that could differ.
type ClaimRequest struct {
	// Limit is the most rows to hand out, at least 1.
	Limit int

	// Suspects is the most rows to hand out at once if they came back from a
	// vanished worker. Zero means Limit.
	Suspects int

	// Lease is how long the claim lasts unless it is extended.
	Lease time.Duration

	// MaxAttempts is the attempt after which a row is not tried again. A row
	// that comes back from a vanished worker is handed out Alone on it.
	MaxAttempts int

	// Delivery is the promise that the rows are sent under. All dispatchers of
	// one table use one: a Claimer that meets a live claim of the other hands
	// out nothing and returns an error that says why.
	Delivery Delivery

	// Owner names this process for operators. It carries no meaning.
	Owner string
}

// Claimer hands out rows that nobody else holds. It is the one interface that
// all strategies share; package claim has those for SQL tables, and claimtest
// the suite that every implementation must pass.
//
// A Claimer speaks one statement, or one short transaction, per call and
// returns: it never retries, sleeps, logs or starts goroutines, and it holds
// nothing open between calls. The Dispatcher does all of that. Methods are
// called from several goroutines at once. They return when ctx ends. An error
// says that the outcome is not known: the call may have acted, and the
// Dispatcher repeats it. Slices passed in belong to the caller and are not kept;
// slices returned belong to the caller too.
type Claimer[T any] interface {
	// Claim takes up to req.Limit due rows for req.Lease, counted from a moment
	// not before the call: until then no other Claim returns them, whatever
	// happens to this process or to clocks. Each row's attempts are counted up,
	// durably, before Claim returns. It hands out pending rows only; a row
	// whose lease is over comes back through Reaper alone.
	//
	// A Claim whose reply is lost (it acted and returned an error) leaves rows
	// claimed that the caller does not know. The Claimer hands them out by a
	// later Claim, or leaves them to the Reaper.
	Claim(ctx context.Context, req ClaimRequest) (Batch[T], error)

	// Extend makes the claims with these tokens last for their lease again,
	// counted from a moment not before the call. A claim that is not there any
	// more is named in Lost; that one is lost is no error. Empty tokens do
	// nothing.
	Extend(ctx context.Context, tokens []int64) (Extension, error)

	// Settle records results, of any number of claims. A Done is a fact: it is
	// written as long as the row still carries the result's token, also when
	// the row has gone back to pending, dead or unknown meanwhile. Every other
	// outcome is an opinion: it is written only while the row is claimed by
	// that token. Settle returns what did not go as usual, and nothing for
	// results written as asked. Repeating a Settle that acted is harmless and
	// reports nothing new. A key stands at most once in rs. A row in a state
	// that is not one of ours is left alone.
	Settle(ctx context.Context, rs []Result) ([]Exception, error)
}

// Extension is the answer to Extend.
type Extension struct {
	// Lost names the claims that are gone: taken from us, or ended.
	Lost []int64

	// Until, if not zero, ends all the extended claims earlier than their lease
	// would (compare Batch.Until).
	Until time.Time
}

// Ender is a Claimer that keeps a record of live claims. The Dispatcher calls
// End, with the tokens of claims whose rows are all settled or lost, soon after
// they are. Ending a claim that is not there does nothing.
type Ender interface {
	End(ctx context.Context, tokens []int64) error
}

// Beginner is a Claimer that can record the intent to send before the send.
// AtMostOnce needs one: New refuses a Claimer without it.
type Beginner interface {
	// Begin makes it durable that these rows are about to be sent. It returns
	// those that may not be: their claim is over, or the row is not claimed by
	// it any more. After an error no row may be sent.
	Begin(ctx context.Context, refs []Ref) (lost []Ref, err error)
}

// Reaper is a Claimer that can give back what vanished workers held. The
// Dispatcher calls Reap again and again, from one goroutine, in every process.
//
// A claim is taken from its owner only on two witnesses: its lease is over by
// the store's clock, and this process has itself seen it unchanged for two
// thirds of its lease without a gap in its view (docs/semantics.md, section 4).
type Reaper interface {
	Reap(ctx context.Context, req ReapRequest) (Reaped, error)
}

// ReapRequest is the policy of one look for vanished workers.
type ReapRequest struct {
	// MaxAttempts: a row on its last attempt that was claimed Alone and
	// vanished with its worker is dead.
	MaxAttempts int

	// ClockOnly takes the store's clock as the only witness: faster by two
	// thirds of a lease, for workers that live shorter than that (cron jobs).
	// A stepped clock, or an outage that all workers live through, can then
	// cause second sends.
	ClockOnly bool
}

// Reaped says what one Reap did.
type Reaped struct {
	Returned int // rows that are pending again
	Dead     int // rows on their last attempt, whose worker vanished sending them alone
	Unknown  int // rows that were being sent under AtMostOnce

	// Next is when to look again at the latest: live claims with short leases
	// ask for a shorter interval than the caller's own. Zero: the caller's own.
	Next time.Duration
}

// DoubtKeeper is a Claimer that remembers, for each row, since when an earlier
// send may have been accepted. Config.IdempotencyWindow needs one.
type DoubtKeeper interface {
	// KeepsDoubt returns nil, or an error that says what is missing.
	KeepsDoubt() error
}

// Examiner is a Claimer that can show rows whose fate is unknown, and take the
// word of somebody who knows it. A Sender that is a Reconciler is asked about
// them.
type Examiner[T any] interface {
	// Unknowns returns up to limit rows that are unknown, in the order of their
	// keys, from the first one after the given key; nil: from the first one. It
	// may read the whole table. A row that turns out to be sent is settled as
	// Done under its Token, late.
	Unknowns(ctx context.Context, after Key, limit int) ([]UnknownRow[T], error)

	// Resume puts unknown rows that were surely not accepted back to pending,
	// due at once, if they still carry that token. It returns their number.
	Resume(ctx context.Context, refs []Ref) (int, error)
}

// UnknownRow is a row whose fate is unknown, under the claim of its last send.
type UnknownRow[T any] struct {
	Item  Item[T]
	Token int64
}

// Counter is a Claimer that can count its rows. Drain needs one to know when
// nothing is left. Counting may read the whole table: it is not for a hot path.
type Counter interface {
	Counts(ctx context.Context) (Counts, error)
}

// Counts is the number of rows in each state.
type Counts struct {
	Pending int64 // due or not
	Claimed int64
	Sending int64
	Done    int64
	Dead    int64
	Skipped int64
	Unknown int64
	Other   int64 // in a state that is not one of ours
}

// Left is the number of rows that have not come to an end.
func (c Counts) Left() int64 { return c.Pending + c.Claimed + c.Sending }
