// Package unique makes rows unique by a key of theirs, a receiver say: a second row
// with the key is skipped, or waits, however many workers send and however the rows
// came into the table.
//
//	keys, err := sqlunique.New(ctx, db, sqlunique.Postgres, nil) // or redisunique.New(rdb, nil)
//	...
//	once, err := unique.New[Mail](deliver, keys, unique.Options[Mail]{
//		Key: func(m sendonce.Item[Mail]) string { return m.Value.Address },
//		For: time.Hour,
//	})
//	...
//	d, err := sendonce.New(mails, once, sendonce.Config{})
//
// sender.Unique is the same as New.
//
// # How it works
//
// While a row is sent, its key is held by a lease, which is renewed. Once the
// provider has accepted it the key is marked for the window, Options.For. A row that
// meets a key that another row has ends skipped, with a reason that names that row,
// or waits uncharged: see Conflict. A row is never in its own way.
//
// A key is free again as soon as
//
//   - the send has failed, by whatever answer but nil;
//   - its worker is gone: at most Options.Lease later (30 s), by nobody's doing;
//   - its window is over, or under UntilDone its row was sent;
//   - if it was reserved for a row that is not sent yet: that row is dead, skipped,
//     unknown, deleted or in a state of the application's, and Options.Grace has
//     passed since the reservation. Whoever wants the key looks.
//
// None of these waits for a time to live of hours to end.
//
// # What is promised
//
// Of the rows with one key no two are sent at one time, and none within the window
// after another, as long as the store keeps what it was told. These are the exceptions:
//
//   - A lease that can't be confirmed in time, or that the store has forgotten: the
//     context of the send ends before anybody else can have the key (its cause is a
//     *lock.LostError). What the Sender then answers counts as Ambiguous, unless it
//     uses a word of package sendonce. A Sender that ignores its context may go on
//     beside another row with the key. The row itself is protected by its claim, as
//     ever, and never by the key.
//   - A send whose fate is not known (Ambiguous, a worker that vanished) gives up its
//     key. Another row with the key may be sent, and the first is skipped when it
//     comes back; the receiver may then have both.
//   - A mark that can't be written within 3 s after the provider has accepted. The row
//     is done, and Options.Logger is told.
//   - Rows are told apart by their keys. A new row that the database gives the key of
//     a deleted one is taken for that one, and may be done without a send: see
//     claim.Table.DeleteDone.
//
// If the store doesn't answer nothing is sent: rows wait, uncharged.
//
// The mark is written after the provider has accepted, and before the row is done. So
// a row that finds its own mark, under its own idempotency key, was accepted before
// by a worker that could not record it: it is done without a second send. That
// narrows the window of docs/semantics.md for as long as marks last. It also
// means that a row which an operator puts back to be sent again within the window is
// done without that, unless it gets a new idempotency key (claim.Requeue.SendAgain).
//
// # Before the INSERT
//
// Sender.Reserve refuses a row before it is in the table, with a *TakenError that
// names the row in the way, since when and until when. Scope says how long a
// reservation lasts.
//
// # For those who know Laravel
//
//	there                            here
//	ShouldBeUnique                   Reserve before the INSERT, Scope: UntilDone
//	uniqueId                         Options.Key, and the key given to Reserve
//	uniqueFor                        Options.For: a bound only, as a reservation ends with its row
//	ShouldBeUniqueUntilProcessing    Reserve before the INSERT, Scope: UntilBegin
//	WithoutOverlapping(key)          Scope: UntilDone, Conflict: Wait
//	 ->releaseAfter(s)               Options.WaitFor; waiting costs no attempt
//	 ->dontRelease()                 Conflict: Skip, and the row says why
//	 ->expireAfter(s)                not needed: Options.Lease is renewed, and ends with the worker
//	 ->shared()                      keys are shared by all who share a store; Options.Table tells rows apart
//	uniqueVia                        the Store given to New
//	(nothing)                        Scope: Window: no second send within Options.For of the first
//	(nothing)                        Conflict: SkipSent: skipped only if the other was really sent
package unique
