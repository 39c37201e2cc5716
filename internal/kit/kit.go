// Package kit is what stores outside of a process share: names that no key can
// break, and calls that end with their context.
package kit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// MaxName is the longest name: it fits an index of the oldest MySQL, in bytes.
const MaxName = 255

// Name is Escape for keys of any length: what would be longer than MaxName is named
// by its hash.
func Name(key, reserved string) string {
	// An escaped key is never shorter than the key.
	if len(key) <= MaxName {
		if name := Escape(key, reserved); len(name) <= MaxName {
			return name
		}
	}
	sum := sha256.Sum256([]byte(key))
	return "%sha256:" + hex.EncodeToString(sum[:]) // no name of the other kind begins so
}

// Await returns what call returns, or the cause of ctx's end if that comes first;
// call is not made on a context that has ended. Some clients go on waiting for an
// answer that never comes, whatever ctx says; call is then left behind until they
// give up. So it must write nothing that its caller reads.
func Await[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
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
		return none, context.Cause(ctx)
	}
}
