package sendonce

import (
	"fmt"
	"time"
)

// Outcome is what became of one attempt.
type Outcome uint8

const (
	// Done: it was sent. A fact, accepted late.
	Done Outcome = iota + 1
	// Retry: pending again, due after Result.After.
	Retry
	// Released: never begun; pending again at once, the attempt given back.
	Released
	// Dead: put aside, because it cannot succeed or was tried often enough.
	Dead
	// Skipped: put aside on purpose, for example as a duplicate.
	Skipped
	// Unknown: whether it was sent cannot be known; never sent again unless an
	// operator says so.
	Unknown
)

var outcomeNames = [...]string{Done: "done", Retry: "retry", Released: "released", Dead: "dead", Skipped: "skipped", Unknown: "unknown"}

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	if o == 0 || int(o) >= len(outcomeNames) {
		return fmt.Sprintf("Outcome(%d)", uint8(o))
	}
	return outcomeNames[o]
}

// Result is the outcome of one row's attempt, to be recorded. It holds values
// only, so that it can be kept and replayed.
type Result struct {
	Key     Key
	Token   int64 // of the claim that the attempt ran under
	Outcome Outcome

	// After is the delay of a Retry, on the store's clock. Zero: due at once.
	// It means nothing for other outcomes.
	After time.Duration

	// Uncharged gives the attempt of a Retry back: the provider deferred it, or
	// nothing was begun that could have reached it.
	Uncharged bool

	// Doubt, if not zero, says that the attempt may have been accepted all the
	// same, and how long before now it began. A DoubtKeeper remembers the
	// earliest; it is no part of what makes a result right or late.
	Doubt time.Duration

	// Reason says why, for people: the error text, valid UTF-8 without NUL,
	// already cut to a bearable length. Empty for Done and Released. A store
	// that has no room for it cuts it further or leaves it out; it never fails
	// for it.
	Reason string
}

// Cause says why a result did not go as usual.
type Cause uint8

const (
	// Late: the Done was written although the row had gone back meanwhile.
	Late Cause = iota + 1
	// NotHeld: the opinion was not written, because the row is not claimed by
	// that token any more.
	NotHeld
	// Overtaken: nothing was written, because another token stands there, that
	// of a later claim, or none: a later attempt was recorded, or an operator
	// requeued the row. For a Done this is a send that may be done twice.
	Overtaken
	// Foreign: nothing was written, because the application has moved the row
	// to a state of its own.
	Foreign
	// Missing: the row is not there any more.
	Missing
)

var causeNames = [...]string{Late: "late", NotHeld: "not held", Overtaken: "overtaken", Foreign: "foreign state", Missing: "missing"}

// String returns the cause in words.
func (c Cause) String() string {
	if c == 0 || int(c) >= len(causeNames) {
		return fmt.Sprintf("Cause(%d)", uint8(c))
	}
	return causeNames[c]
}

// Exception is a Result that did not go as usual. It is an answer, not an
// error: the result needs no repeat.
type Exception struct {
	Result Result
	Cause  Cause
	Status string // what the row's status is, where it is known
}
