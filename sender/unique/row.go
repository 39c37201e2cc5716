package unique

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/sendonce/sendonce"
)

// maxRow is the longest name of a row.
const maxRow = 255

// nameRow writes a row's key so that it can be read again, by people too: a number
// as it is, a text in quotes, after the table and a colon if there is one. One too long is
// named by its hash.
func nameRow(table string, key sendonce.Key) string {
	var name string
	switch key := key.(type) {
	case int:
		name = strconv.Itoa(key)
	case int64:
		name = strconv.FormatInt(key, 10)
	case uint64:
		name = strconv.FormatUint(key, 10)
	case string:
		name = strconv.Quote(key)
	}
	if table != "" {
		name = strconv.Quote(table) + ":" + name // a quoted text ends at its quote
	}
	if len(name) > maxRow {
		sum := sha256.Sum256([]byte(name))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return name
}

// rowKey reads a key of the given table back; false if the row is not one of it, or
// is known by its hash only.
func rowKey(table, name string) (sendonce.Key, bool) {
	if table != "" {
		var own bool
		prefix := nameRow(table, nil)
		if name, own = strings.CutPrefix(name, prefix); !own {
			return nil, false
		}
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil {
		return n, true
	}
	if n, err := strconv.ParseUint(name, 10, 64); err == nil {
		return n, true
	}
	if text, err := strconv.Unquote(name); err == nil && strings.HasPrefix(name, `"`) {
		return text, true
	}
	return nil, false
}
