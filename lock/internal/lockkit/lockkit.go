// Package lockkit is what the Lockers share: the checks of their arguments, and the
// rule for fences.
package lockkit

import (
	"fmt"
	"time"

	"github.com/sendonce/sendonce/lock"
)

// The limits on keys and tokens: an escaped key of the longest fits an index of
// the oldest MySQL, and a token its column.
const (
	MaxKey     = 255
	MaxToken   = 64
	MaxEscaped = 3 * MaxKey
)

// CheckTTL returns the ttl in whole units of the store's clock.
func CheckTTL(ttl, unit time.Duration) (time.Duration, error) {
	if ttl < time.Millisecond {
		return 0, refuse("a lease of %v: it must be at least 1ms", ttl)
	}
	// Rounded down, or the holder would count on more than the store keeps.
	return ttl.Truncate(unit), nil
}

// CheckName refuses keys and tokens that no Locker takes.
func CheckName(key string, token lock.Token) error {
	if key == "" {
		return refuse("the key of a lock is empty")
	}
	if len(key) > MaxKey {
		return refuse("the key of a lock has %d bytes, and may have %d: %.40q...", len(key), MaxKey, key)
	}
	if token == "" || len(token) > MaxToken {
		return refuse("the token for lock %q has %d characters instead of 1 to %d: draw it with lock.NewToken", key, len(token), MaxToken)
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return refuse("the token for lock %q is not printable ASCII: draw it with lock.NewToken", key)
		}
	}
	return nil
}

// argument is an error that no repeat can help (sendonce.IsFatal).
type argument string

func (a argument) Error() string { return "sendonce: " + string(a) }
func (a argument) Fatal() bool   { return true }

func refuse(format string, args ...any) error { return argument(fmt.Sprintf(format, args...)) }

// NextFence is the rule for fences: larger than the last one, and, in case that
// is forgotten, larger than any that was given before now. Fences are counted in
// microseconds since 1970, which fit a double until the year 2255.
func NextFence(last int64, now time.Time) int64 { return max(last+1, now.UnixMicro()) }
