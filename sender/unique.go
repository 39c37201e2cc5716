package sender

import (
	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/sender/unique"
)

// UniqueOptions say what is unique, and for how long: see package unique.
type UniqueOptions[T any] = unique.Options[T]

// Unique returns inner with keys that no two rows share: a second row with a key is
// skipped, or waits. It is unique.New; package unique has all about it, and needs no
// Redis.
func Unique[T any](inner sendonce.Sender[T], store unique.Store, o UniqueOptions[T]) (*unique.Sender[T], error) {
	return unique.New(inner, store, o)
}
