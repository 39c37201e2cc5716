package partition

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a key column holds.
type Kind uint8

// The kinds of key columns.
const (
	KindInt  Kind = iota + 1 // a signed integer: Int
	KindUint                 // an unsigned integer, on MySQL: Uint
	KindText                 // a text: Text
	KindUUID                 // a UUID, where the database has a type for it: Text of its printed form
)

// Postgres returns an expression of PostgreSQL whose value, from 0 to n-1, is the
// partition of a row: to be compared, as in expr + " = 2". The column is given
// quoted. No index can answer it, so it filters rows that are found otherwise.
// PostgreSQL has no unsigned integers: KindUint is an error. A char(n) counts
// without the blanks at its end.
func Postgres(column string, kind Kind, n int) (string, error) {
	if err := checkSQL(column, n); err != nil {
		return "", err
	}
	switch kind {
	case KindInt:
		return signed(column, n), nil
	case KindText, KindUUID:
		// By the bytes in UTF-8, whatever the database is encoded in.
		return fmt.Sprintf("(('x' || substr(md5(convert_to((%s)::text, 'UTF8')), 1, 8))::bit(32)::bigint %% %d)", column, n), nil
	}
	return "", noKind("PostgreSQL", kind)
}

// MySQL is Postgres for MySQL and MariaDB. KindUUID is MariaDB's type: a UUID in a
// text column is KindText, and counts as it is written there.
func MySQL(column string, kind Kind, n int) (string, error) {
	if err := checkSQL(column, n); err != nil {
		return "", err
	}
	switch kind {
	case KindInt:
		return signed(column, n), nil
	case KindUint:
		return fmt.Sprintf("(%s %% %d)", column, n), nil
	case KindText, KindUUID:
		// By the bytes in UTF-8, whatever the column is encoded in.
		return fmt.Sprintf("(CAST(CONV(SUBSTR(MD5(CONVERT(%s USING utf8mb4)), 1, 8), 16, 10) AS UNSIGNED) %% %d)", column, n), nil
	}
	return "", noKind("MySQL", kind)
}

// SQLite is Postgres for SQLite, which has no MD5 and no unsigned integers: it
// takes KindInt alone.
func SQLite(column string, kind Kind, n int) (string, error) {
	if err := checkSQL(column, n); err != nil {
		return "", err
	}
	if kind == KindInt {
		return signed(column, n), nil
	}
	if kind == KindText || kind == KindUUID {
		return "", errors.New("sendonce: partitions by a text need MD5, which SQLite does not have: use an integer key")
	}
	return "", noKind("SQLite", kind)
}

// signed makes the remainder non-negative: it takes the sign of the key in SQL.
func signed(column string, n int) string {
	count := strconv.Itoa(n)
	return "((" + column + " % " + count + " + " + count + ") % " + count + ")"
}

func checkSQL(column string, n int) error {
	if strings.TrimSpace(column) == "" {
		return errors.New("sendonce: partitions need the name of the key column, quoted")
	}
	return checkCount(n)
}

func noKind(database string, kind Kind) error {
	name := fmt.Sprintf("Kind(%d)", kind)
	if kind == KindUint {
		name = "unsigned integers"
	}
	return fmt.Errorf("sendonce: no partitions by %s on %s", name, database)
}
