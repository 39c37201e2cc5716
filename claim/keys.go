package claim

import (
	"cmp"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

var errMoved = errors.New("sendonce: a row moved on while its result was recorded")

// compareKeys orders keys as most databases do; the order of texts may differ
// by collation, which costs a little where locks meet and no more.
func compareKeys(a, b sendonce.Key) int {
	switch a := a.(type) {
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	case uint64:
		if b, ok := b.(uint64); ok {
			return cmp.Compare(a, b)
		}
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b)
		}
	}
	return 0
}

func sortKeys(ks dialect.Keys) { slices.SortFunc(ks, compareKeys) }

// newToken draws the name of a claim: 63 random bits, never 0.
func newToken() int64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
		if t := int64(binary.BigEndian.Uint64(b[:]) >> 1); t != 0 {
			return t
		}
	}
}

// keyCell takes a key as a row has it. Where the driver's value is one of Key's
// types it is kept as it is, which costs no memory.
type keyCell struct {
	kind dialect.KeyKind
	key  sendonce.Key
}

// Scan implements sql.Scanner.
func (c *keyCell) Scan(src any) (err error) {
	_, isInt := src.(int64)
	_, isText := src.(string)
	switch c.kind {
	case dialect.KeyInt:
		if isInt {
			c.key = src
			return nil
		}
		c.key, err = scanned[int64](src)
	case dialect.KeyUint:
		c.key, err = scanned[uint64](src)
	default:
		if isText {
			c.key = src
			return nil
		}
		c.key, err = scanned[string](src)
	}
	return err
}

func scanned[K any](src any) (sendonce.Key, error) {
	var n sql.Null[K]
	err := n.Scan(src)
	if err == nil && !n.Valid {
		err = errors.New("the key is NULL")
	}
	return n.V, err
}
