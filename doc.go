// Package sendonce hands every row of a table of yours to exactly one worker, in
// batches, across goroutines, processes and machines, and records what became of
// it. It is for the table of a million receivers and the ten workers that must
// not send the same message twice.
//
// # The promise, and its limit
//
// No two live workers hold one row at one time, under any strategy, pause,
// crash, clock step or network fault. No row is lost: whatever dies, every row
// ends done, dead, skipped or unknown, or is pending with a due time.
//
// A row is sent once. There is one window in which a second send can't be ruled
// out, by this or any other program outside of the provider: from the moment the
// provider accepts a message until that fact is durable in your database. If a
// worker dies or is cut off in between, or the database loses a commit, nobody
// can know. You choose what happens then, with [Config].Delivery:
//
//   - [AtLeastOnce], the default: the row is sent again, with the same
//     [Item].IdempotencyKey. A provider that honours the key delivers once.
//   - [AtMostOnce]: the row is never sent again. It becomes unknown, and
//     somebody decides.
//
// Neither is "exactly once", and we don't call it that. The window is kept
// small: each send is recorded within milliseconds of its end, so that a worker
// that is killed leaves about as many rows in doubt as it had sends in flight.
// Slow sends, lost replies, failed renewals, stepped clocks, database outages and
// rolling deploys are not in the window. The rules behind this are written down,
// with their reasons, in docs/semantics.md.
//
// # Quick start
//
// Give your table what a claim needs (package claim prints the SQL, or applies
// it with claim.Migrate): a status, a token, a counter of attempts, the time of
// the next attempt, and one index. Then:
//
//	type Mail struct {
//		Address string `db:"address"`
//		Name    string `db:"name"`
//	}
//
//	mails, err := claim.NewSkipLocked[Mail](ctx, db, claim.Postgres, claim.Table{Name: "receivers"}, nil)
//	...
//	d, err := sendonce.New(mails, sendonce.SenderFunc[Mail](deliver), sendonce.Config{})
//	...
//	err = d.Run(ctx)
//
// where deliver is the code that you have:
//
//	func deliver(ctx context.Context, m sendonce.Item[Mail]) error
//
// Start as many of these as you like, in as many processes as you like.
// [Dispatcher.Run] works until ctx ends; [Dispatcher.Drain] until nothing is
// left, for campaigns and cron jobs.
//
// # What a Sender says
//
// A nil error means sent. Other errors mean:
//
//	Permanent(err)      no retry helps: the row is dead
//	RetryAfter(d, err)  refused for now: retried then, not charged
//	Throttled(d, err)   the same, and nobody sends until then
//	Skip(reason)        not to be sent: the row is skipped
//	NotSent(err)        nothing reached the provider: retried, in both modes
//	Ambiguous(err)      it may have been accepted: retried with the same key
//	                    under AtLeastOnce, unknown under AtMostOnce
//	any other error     retried under AtLeastOnce, Ambiguous under AtMostOnce
//
// A send whose context ended, that panicked, or that called runtime.Goexit is
// Ambiguous: it costs its row, not the worker. Retries wait for Config.Backoff;
// after Config.MaxAttempts the row is dead, with the last reason. Dead rows stay
// in the table until you requeue or delete them.
//
// What may have been sent is not guessed: a row whose worker vanished, or whose
// send was Ambiguous, is InDoubt. A Sender that is a [Reconciler] is asked about it
// before it is sent again, and about rows that are unknown;
// Config.IdempotencyWindow keeps it from being sent when the provider has
// forgotten its key.
//
// Config.Limiter limits how fast rows are sent, in this process or in all.
//
// # Choosing a strategy
//
// The strategies of package claim share one interface, [Claimer]; a service
// changes from one to another by changing the constructor.
//
//	NewAtomic      a conditional UPDATE; every database
//	NewSkipLocked  SELECT ... FOR UPDATE SKIP LOCKED; PostgreSQL, MySQL 8,
//	               MariaDB 10.6: claims never wait for each other
//	NewLocked      the conditional UPDATE with a lock around it (package lock)
//	NewPartitioned the same, on keys whose modulo is this worker's own
//	               (package partition)
//	NewSerial      one row at a time, in the table's order
//	NewUnmarked    a SELECT on keys whose partition's lease it holds: the
//	               fastest, and for AtLeastOnce only
//
// On PostgreSQL and MySQL take NewSkipLocked; on SQLite NewAtomic, which is just
// as fast there. Package memclaim keeps rows in memory, for your tests.
// Implement [Claimer] for a store of your own and run package claimtest over it.
//
// # What happens when
//
//   - A worker is killed: its rows come back after its lease, and at most two
//     thirds of a lease more (30 s and 20 s by default). Nothing is to be done
//     at its restart. A row that kills its worker again and again is found and
//     dead within Config.MaxAttempts.
//   - The context of Run ends (SIGTERM, say): nothing new is claimed, rows never
//     begun are pending again at once, sends get Config.StopTimeout, finished
//     ones are recorded. Run then returns nil, or an error that names the rows
//     whose send would not end.
//   - The database is gone: nothing new is claimed, sends that are running
//     finish, their results are kept and written when it is back, before
//     anything else. Health says so meanwhile.
//   - The application sets a row to a status of its own (cancelled, say): it is
//     left alone, also in the middle of a send.
//
// # Time
//
// The database's clock is the only one that SQL compares. A process counts its
// own lease from before the claim was asked for, on its monotonic or wall clock,
// whichever went further, and starts no send that could outlast it. No statement
// holds a transaction open during a send, and nothing needs a database session,
// so transaction poolers such as PgBouncer are fine.
//
// # Connections
//
// A Dispatcher has up to six statements at once. A pool of database/sql keeps two
// idle connections unless SetMaxIdleConns says otherwise, and makes the others
// again for each statement, which can cost more than all else: let it keep six per
// Dispatcher besides what the rest of the process needs. A SQLite file has one
// writer, so one connection (SetMaxOpenConns) is best there: several only wait for
// each other, and read again what the others have written.
//
// # Watching it
//
// [Config].Hooks are told everything that happens, [Dispatcher.Stats] counts it,
// [Dispatcher.Health] fits a health endpoint, and [Config].Logger gets what an
// operator should know.
package sendonce
