package redisclaim

import "net/url"

// unescape is the reverse of kit.Escape.
func unescape(s string) string {
	if key, err := url.PathUnescape(s); err == nil {
		return key
	}
	return s
}
