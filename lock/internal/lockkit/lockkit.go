// Package lockkit is what the Lockers share: the checks of their arguments, and
// names of keys that no key can break.
package lockkit

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

// Escape writes a key in printable characters, of which none is in reserved.
// Different keys stay different: what is not written as itself, and the percent
// sign, is written as %XX. Keys in any language stay readable.
func Escape(key, reserved string) string {
	var b strings.Builder
	for i := 0; i < len(key); {
		r, n := utf8.DecodeRuneInString(key[i:])
		broken := r == utf8.RuneError && n == 1
		if broken || r == '%' || !unicode.IsPrint(r) || strings.ContainsRune(reserved, r) {
			for _, c := range []byte(key[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(key[i : i+n])
		}
		i += n
	}
	return b.String()
}

// NextFence is the rule for fences: larger than the last one, and, in case that
// is forgotten, larger than any that was given before now. Fences are counted in
// microseconds since 1970, which fit a double until the year 2255.
func NextFence(last int64, now time.Time) int64 { return max(last+1, now.UnixMicro()) }

// Await returns what call returns, or the cause of ctx's end if that comes first.
// Some clients go on waiting for an answer that never comes, whatever ctx says;
// call is then left behind until they give up. So it must write nothing that its
// caller reads.
func Await[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := call()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
