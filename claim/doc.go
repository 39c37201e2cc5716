// Package claim has the claim strategies for tables of PostgreSQL, MySQL or
// MariaDB, and SQLite. They hand out rows of a table of yours, each to one
// worker.
//
// # Mapping a table
//
// A [Table] names the table and its columns, the values of its status, and a
// further condition if only some rows are meant. T is a struct with `db` tags:
// exactly those columns are selected. [Check] compares the mapping with the live
// table, and the constructors call it: what is missing is named together with
// the SQL that mends it. [Schema] gives all the SQL at once; [Migrate] applies
// what is missing.
//
// The table needs a unique key (an integer, a text or a UUID), a status, a
// token, a count of attempts, and the time of the next attempt with an index on
// it. One more small table, sendonce_claims, has a row per live claim: who holds
// which rows until when. It is the reason that a renewal writes one row, and not
// one per message, and that no index on the status is needed.
//
// # Choosing a strategy
//
// All strategies but NewUnmarked mark a row in the same way (claimed, and the claim's
// token), and differ in how claims of several workers keep out of each other's way:
//
//   - [NewSkipLocked] passes over rows that another claim is taking at this
//     moment. PostgreSQL 9.5, MySQL 8.0.1, MariaDB 10.6 and later. The first
//     choice there.
//   - [NewAtomic] picks rows without a lock and marks those that are still
//     pending. Every database. Workers start at different places of the table; a
//     claim that others have emptied tries again at once.
//   - [NewLocked] is Atomic with a lock around the claim (package lock: in
//     Redis, in a table, in memory), so that workers take turns. The lock saves
//     work and carries no correctness: without it claims go on as in Atomic.
//   - [NewPartitioned] is Atomic on this worker's own part of the keys, by their
//     modulo or hash (package partition), so that workers never meet. A part
//     that no process owns waits.
//   - [NewUnmarked] holds a lease on its part of the keys, and then reads rows
//     without marking them: the only write is the result. It is the fastest, and
//     promises less; what that is stands at [Unmarked].
//   - [NewSerial] is for order: one row at a time, and the next one when it has
//     come to an end. Everybody who claims from the table must use it.
//
// A service changes the strategy by changing the constructor; workers of different
// marking strategies may even share a table during a deploy.
//
// # Which rows are claimed
//
// Rows that were never tried are found in the order of the key by a cursor of
// each process, which needs no index but that of the key and never looks back at
// finished rows. Rows that come back (retries, released ones, those of vanished
// workers) and rows scheduled for later are found by their next attempt. The two
// take turns. A slow patrol looks at the whole table now and then, so that no
// row is forgotten whatever the cursor has passed. [Table].Order gives up the
// cursor for an order of yours.
//
// # For operators
//
// Each strategy has methods for them: Holders says who holds how many rows,
// Overview how many rows there are in each state and what waits too long, and
// Requeue puts rows back that are dead, skipped or unknown. With
// [Columns].DoubtSince a row says since when an earlier send of it may have been
// accepted. [Doctor] looks at
// plans, indexes, isolation and durability and says what to do.
//
// The rules behind all of this, with their reasons, are in docs/semantics.md.
package claim
