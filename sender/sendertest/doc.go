// Package sendertest records what was sent, when and by whom: the truth that
// tests judge by, kept outside of the table and of the Dispatcher.
//
//	rec := sendertest.New[Mail](nil) // or a Sender that decides each answer
//	d, err := sendonce.New(rows, rec, sendonce.Config{})
//	...
//	rec.Overlaps()     // two sends of one row at one time: must be empty
//	rec.MoreThanOnce() // rows that were accepted twice
//	rec.Missing(keys)  // rows that were never accepted
//
// Several Dispatchers share one Recorder, each under a name of its own: see
// [Recorder.As]. Workers that are processes of their own write files, which
// survive a SIGKILL, and [Read] merges them: see [NewFile].
package sendertest
