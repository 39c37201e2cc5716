package redisclaim

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape writes a key in printable characters, of which none is in reserved.
// Different keys stay different: what is not written as itself, and the percent
// sign, is written as %XX. Keys in any language stay readable.
func escape(key, reserved string) string {
	var b strings.Builder
	for len(key) > 0 {
		r, n := utf8.DecodeRuneInString(key)
		if r == '%' || r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) || strings.ContainsRune(reserved, r) {
			for _, c := range []byte(key[:n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(key[:n])
		}
		key = key[n:]
	}
	return b.String()
}

// unescape is the reverse of escape.
func unescape(s string) string {
	if key, err := url.PathUnescape(s); err == nil {
		return key
	}
	return s
}
