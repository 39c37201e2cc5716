package claim

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx/reflectx"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// shape is how rows become values of T: the columns to select and where each
// goes.
type shape[T any] struct {
	columns []string // as tagged
	quoted  []string
	index   [][]int
	names   *names
}

func newShape[T any](n *names) (*shape[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("sendonce: rows are read into %s, which is no struct: use a struct whose fields have `db` tags", t)
	}
	s := &shape[T]{names: n}
	tree := reflectx.NewMapper("db").TypeMap(t)
	for path, field := range tree.Names {
		tag, ok := field.Field.Tag.Lookup("db")
		name, _, _ := strings.Cut(tag, ",")
		if !ok || name == "" || name == "-" || strings.Contains(path, ".") {
			continue
		}
		if field.Field.PkgPath != "" {
			return nil, fmt.Errorf("sendonce: the field %s of %s has a db tag but is not exported", field.Field.Name, t)
		}
		s.columns = append(s.columns, name)
	}
	if len(s.columns) == 0 {
		return nil, fmt.Errorf("sendonce: no field of %s has a `db` tag: tag those that your Sender needs, as in `db:\"address\"`", t)
	}
	sort.Strings(s.columns)
	for _, name := range s.columns {
		if _, ok := n.live.Column(name); !ok {
			return nil, n.noSuchColumn(name, t)
		}
		s.quoted = append(s.quoted, n.d.Quote(name))
		s.index = append(s.index, tree.GetByPath(name).Index)
	}
	return s, nil
}

func (n *names) noSuchColumn(name string, t reflect.Type) error {
	cure := "remove the tag, or add the column"
	if like := n.live.LikeColumn(name); like != "" {
		cure = fmt.Sprintf("names are case-sensitive here, and there is %q", like)
	}
	return &CheckError{Table: n.source, Problems: []Problem{{fmt.Sprintf("column %q, which a field of %s is tagged with, is missing", name, t), cure}}}
}

// list is what a claim selects: key, attempts, the generation if there is one,
// and the columns of T, each after the prefix.
func (s *shape[T]) list(prefix string) string {
	cols := []string{s.names.key, s.names.attempts}
	if s.names.generation != "" {
		cols = append(cols, s.names.generation)
	}
	cols = append(cols, s.quoted...)
	for i, c := range cols {
		cols[i] = fmt.Sprintf("%s%s AS c%d", prefix, c, i)
	}
	return strings.Join(cols, ", ")
}

// scanner reads the rows of a claim one after the other.
type scanner[T any] struct {
	*shape[T]
	cell       any // *int64, *uint64 or *string: the key
	dest       []any
	attempts   int64
	generation sql.NullInt64
	ids        idempotency
	ignore     []sql.RawBytes
}

func (s *shape[T]) scanner() *scanner[T] {
	sc := &scanner[T]{shape: s, cell: newKey(s.names.keyKind), ids: newIdempotency(s.names.namespace)}
	sc.dest = make([]any, 0, len(s.columns)+3)
	return sc
}

// scan reads the current row. An error is about the row set; a row that does not
// fit into T gives an Item with Err.
func (sc *scanner[T]) scan(rows *sql.Rows) (sendonce.Item[T], error) {
	var item sendonce.Item[T]
	sc.dest = append(sc.dest[:0], sc.cell, &sc.attempts)
	if sc.names.generation != "" {
		sc.dest = append(sc.dest, &sc.generation)
	}
	v := reflect.ValueOf(&item.Value).Elem()
	for _, index := range sc.index {
		sc.dest = append(sc.dest, reflectx.FieldByIndexes(v, index).Addr().Interface())
	}
	if err := rows.Scan(sc.dest...); err != nil {
		if again := sc.scanKeyOnly(rows); again != nil {
			return item, again
		}
		var zero T
		item.Value, item.Err = zero, fmt.Errorf("sendonce: the row does not fit into %T: %w", zero, err)
	}
	item.Key = keyOf(sc.cell)
	item.Attempt = int(sc.attempts)
	item.IdempotencyKey = sc.ids.key(item.Key, sc.generation.Int64)
	return item, nil
}

// scanKeyOnly reads the row again without its value: the key must be known, so
// that the row can be put aside.
func (sc *scanner[T]) scanKeyOnly(rows *sql.Rows) error {
	if sc.ignore == nil {
		sc.ignore = make([]sql.RawBytes, len(sc.columns))
	}
	first := len(sc.dest) - len(sc.columns)
	for i := range sc.ignore {
		sc.dest[first+i] = &sc.ignore[i]
	}
	return rows.Scan(sc.dest...)
}

func newKey(k dialect.KeyKind) any {
	switch k {
	case dialect.KeyInt:
		return new(int64)
	case dialect.KeyUint:
		return new(uint64)
	}
	return new(string)
}

func keyOf(p any) sendonce.Key {
	switch p := p.(type) {
	case *int64:
		return *p
	case *uint64:
		return *p
	}
	return *p.(*string)
}

// idempotency derives the keys that providers dedupe by: a hash of namespace,
// row and generation, with nothing in it that changes from one attempt to the
// next (docs/semantics.md, section 9).
type idempotency struct {
	buf    []byte
	prefix int
}

func newIdempotency(namespace string) idempotency {
	buf := strconv.AppendInt(nil, int64(len(namespace)), 10)
	buf = append(append(append(buf, ':'), namespace...), ':')
	return idempotency{buf: buf, prefix: len(buf)}
}

func (d *idempotency) key(k sendonce.Key, generation int64) string {
	b := strconv.AppendInt(d.buf[:d.prefix], generation, 10)
	b = append(b, ':')
	switch k := k.(type) {
	case int64:
		b = strconv.AppendInt(b, k, 10)
	case uint64:
		b = strconv.AppendUint(b, k, 10)
	case string:
		b = append(b, k...)
	}
	d.buf = b
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
