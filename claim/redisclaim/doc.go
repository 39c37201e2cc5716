// Package redisclaim is an ordered queue in Redis, 5 and later, or a server that
// speaks its scripts, alone or as a cluster. It is a [sendonce.Claimer]: a
// Dispatcher works on it as on a table.
//
//	q, err := redisclaim.New[Event](ctx, rdb, "events", nil)
//	...
//	id, err := q.Add(ctx, redisclaim.Item[Event]{Key: order, Value: event}) // any process
//	...
//	d, err := sendonce.New(q, sender, sendonce.Config{}) // any other
//	err = d.Run(ctx)
//
// # Order
//
// Items of one Key are handed out one at a time, by (Item.At, order of arrival), and
// keys go side by side. The first of a key holds up those behind it while it is at
// work and while it waits for its retry. When it is done, dead, skipped or unknown,
// the next one follows.
//
//   - Item.At zero: the place is that of the arrival, on the server alone. Of two
//     items the one whose Add returned first is first, also within one microsecond,
//     from producers whose clocks differ, and when the server's clock is set back.
//   - Item.At given: by that stamp among the items that wait at the moment of
//     claiming, and equal stamps by arrival. An item that comes later with an earlier
//     stamp goes first, unless another one was begun: nothing that was tried is
//     overtaken. So when producers' clocks differ by a minute, their items are out of
//     order by up to a minute. A stamp in the future is nothing to wait for.
//   - An item without Key has no order; the ones that have waited longest go first.
//
// What is released and was never tried, or is requeued, stands by its stamp again.
//
// # What is promised
//
// All that a Claimer can (docs/semantics.md): a lease for each claim, reclaim by two
// witnesses, facts accepted late, Begin for AtMostOnce, doubt, reasons, dead letters
// (Dead, Requeue, Delete). A claim is one script for any number of items, and takes
// time by what it hands out and not by the length of the queue; Settle is one script
// for all results. Item.Fence grows with each claim of a key, also when Redis has
// lost its memory: it is never less than the server's time in microseconds. Hand it
// to a resource that refuses smaller ones; it is what protects that resource from a
// worker that was paused and doesn't know.
//
// Redis is the table here: what it loses is lost. Set appendonly yes, appendfsync
// always if an item must survive a crash of the machine, and maxmemory-policy
// noeviction; New warns of less. A failover to a replica can lose what was written
// last: such an item is gone, or is sent again. Even a Redis that was emptied never
// uses an id again, so that idempotency keys stay apart.
//
// # Unique keys
//
// An item with Item.Unique refuses others with the same one until it is done, dead,
// skipped or deleted, and for Item.UniqueFor after it is done. One that is unknown
// keeps it: it may have been sent. The refusal is a *TakenError with the id, state
// and age of the item in the way. Requeue refuses an item whose unique key was taken
// meanwhile.
//
// # Keys in Redis
//
// A queue is these keys, all with one hash tag, "sendonce:queue:{name}:" before each.
// Keys that are empty don't exist, so that an idle queue is its state alone.
//
//	items, values      what there is, by id; all that follows is made again from them
//	order              places of waiting items in their lanes, by text
//	active             the item that each key is busy with
//	fresh, back, suspects
//	                   keys by their next item: never tried, due again, back from
//	                   a worker that vanished
//	claims, leases:1, leases:2
//	                   live claims, and their ends
//	dead, skipped, unknown, done
//	                   ids of items that ended; done only with Options.KeepDone
//	unique, windows    unique keys in use
//	state              counters of ids and fences; expires a week after the last use
//	added:...          one for each Add, which expires after a minute
//
// Nothing of these need be deleted by hand. If somebody does, work that is listed as
// running without a claim is found by Reap and given back, and indexes are made again
// from the items. That is done by a slow walk over them.
package redisclaim
