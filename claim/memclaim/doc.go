// Package memclaim is a [sendonce.Claimer] whose table is in memory. It is the
// reference for all others: each rule of docs/semantics.md in its smallest form.
//
// It serves three ends. Unit tests of your own Sender run a real Dispatcher on
// it, without a database:
//
//	rows := memclaim.New[Mail](nil)
//	rows.Add(memclaim.Row[Mail]{Key: 1, Value: mail})
//	d, err := sendonce.New(rows, sender, sendonce.Config{})
//	stats, err := d.Drain(ctx)
//	row, _ := rows.Row(1) // row.Status, row.Attempts, row.Reason
//
// It takes time from time.Now, so that such tests run in virtual time within
// testing/synctest. It is also a queue for one process, where losing all rows at
// the end of the process is acceptable: rows come out in the order of their due
// time, or of the time when they were added, and equal times in the order in
// which the calls of Add returned; see Options.ForgetDone. Rows that come back
// and fresh rows share a claim, so that neither starves the other.
//
// Several processes on one table are played by handles: [Claimer.Process] returns
// another handle on the same rows, with a memory of its own for the second
// witness of Reap.
//
// # What it promises
//
// All that a Claimer can: leases, reclaim by two witnesses, facts accepted late,
// Begin for AtMostOnce, counts. Durability it has none. A method returns the
// cause of a context that has ended before it acted, and otherwise no errors but
// those that it documents. It starts no goroutines.
package memclaim
