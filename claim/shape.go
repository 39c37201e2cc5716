package claim

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx/reflectx"

	"github.com/sendonce/sendonce"
)

// shape is how rows become values of T: the columns to select and where each
// goes.
type shape[T any] struct {
	columns []string // as tagged
	quoted  []string
	index   [][]int
	noNulls []bool // the field can't hold a NULL
	names   *names

	// Some are reached through pointers, which each value of T has of its own.
	pointers bool
}

func newShape[T any](n *names) (*shape[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("sendonce: rows are read into %s, which is no struct: use a struct whose fields have `db` tags", t)
	}
	fields, err := taggedFields(t)
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("sendonce: no field of %s has a `db` tag: tag those that your Sender needs, as in `db:\"address\"`", t)
	}
	s := &shape[T]{names: n}
	for _, f := range fields {
		if _, ok := n.live.Column(f.column); !ok {
			return nil, n.noSuchColumn(f.column, t)
		}
		s.columns = append(s.columns, f.column)
		s.quoted = append(s.quoted, n.d.Quote(f.column))
		s.index = append(s.index, f.index)
		s.noNulls = append(s.noNulls, f.noNulls)
		s.pointers = s.pointers || throughPointer(t, f.index)
	}
	return s, nil
}

func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// taggedField is a field of T, or of a struct that T embeds, with a `db` tag.
type taggedField struct {
	column, name string
	index        []int
	depth        int
	noNulls      bool
}

// taggedFields lists them by column. A field hides those of the same tag in
// structs that are embedded beside it, as in Go; two at one depth are a mistake.
func taggedFields(t reflect.Type) ([]taggedField, error) {
	type level struct {
		t     reflect.Type
		index []int
	}
	var out []taggedField
	seen := map[reflect.Type]bool{t: true}
	for queue := []level{{t: t}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for i := range at.t.NumField() {
			f := at.t.Field(i)
			index := append(slices.Clone(at.index), i)
			column, _, _ := strings.Cut(f.Tag.Get("db"), ",")
			switch inner := reflectx.Deref(f.Type); {
			case column == "-":
			case f.Anonymous && column == "" && inner.Kind() == reflect.Struct && !seen[inner]:
				if f.Type.Kind() == reflect.Pointer && !f.IsExported() {
					return nil, fmt.Errorf("sendonce: %s embeds a pointer to %s, which is not exported and so can't be set: embed the struct itself", at.t, inner)
				}
				seen[inner] = true
				queue = append(queue, level{inner, index})
			case column == "":
			case !f.IsExported():
				return nil, fmt.Errorf("sendonce: the field %s of %s has a db tag but is not exported", f.Name, at.t)
			default:
				out = append(out, taggedField{column, f.Name, index, len(index), noNulls(f.Type)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b taggedField) int {
		return cmp.Or(strings.Compare(a.column, b.column), cmp.Compare(a.depth, b.depth))
	})
	for i := 1; i < len(out); i++ {
		if a, b := out[i-1], out[i]; a.column == b.column && a.depth == b.depth {
			return nil, fmt.Errorf("sendonce: the fields %s and %s of %s both have the tag `db:%q`: one of them would stay empty", a.name, b.name, t, a.column)
		}
	}
	return slices.CompactFunc(out, func(a, b taggedField) bool { return a.column == b.column }), nil
}

var scannerType = reflect.TypeFor[sql.Scanner]()

// noNulls is true for types that database/sql can't scan a NULL into.
func noNulls(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return false
	}
	return !reflect.PointerTo(t).Implements(scannerType)
}

func (n *names) noSuchColumn(name string, t reflect.Type) error {
	cure := "remove the tag, or add the column"
	if like := n.live.LikeColumn(name); like != "" {
		cure = fmt.Sprintf("names are case-sensitive here, and there is %q", like)
	}
	return &CheckError{Table: n.source, Problems: []Problem{{fmt.Sprintf("column %q, which a field of %s is tagged with, is missing", name, t), cure}}}
}

// list is what a claim selects: key, attempts, the generation and the age of the
// doubt if there are such columns, and the columns of T.
func (s *shape[T]) list() string {
	cols := append(s.ours(), s.quoted...)
	for i, c := range cols {
		cols[i] = fmt.Sprintf("%s AS c%d", c, i)
	}
	return strings.Join(cols, ", ")
}

// ours are the columns before those of T.
func (s *shape[T]) ours() []string {
	n := s.names
	cols := []string{n.key, n.attempts}
	if n.generation != "" {
		cols = append(cols, n.generation)
	}
	if n.doubtSince != "" {
		cols = append(cols, n.d.Micros(n.d.Now(""))+" - "+n.d.Micros(n.doubtSince))
	}
	return cols
}

// firstColumn is the number of T's first column in the list.
func (s *shape[T]) firstColumn() int {
	n := 2
	if s.names.generation != "" {
		n++
	}
	if s.names.doubtSince != "" {
		n++
	}
	return n
}

// scanner reads the rows of a claim one after the other.
type scanner[T any] struct {
	*shape[T]
	cell       keyCell
	item       sendonce.Item[T] // the current one
	dest       []any            // where its columns go
	attempts   int64
	generation sql.NullInt64
	doubt      sql.NullInt64 // microseconds
	ids        idempotency
	ignore     []sql.RawBytes
}

func (s *shape[T]) scanner() *scanner[T] {
	return &scanner[T]{shape: s, cell: keyCell{kind: s.names.keyKind}, ids: newIdempotency(s.names.namespace)}
}

// aim makes the list of where the columns of a row go.
func (sc *scanner[T]) aim() {
	sc.dest = append(sc.dest[:0], &sc.cell, &sc.attempts)
	if sc.names.generation != "" {
		sc.dest = append(sc.dest, &sc.generation)
	}
	if sc.names.doubtSince != "" {
		sc.dest = append(sc.dest, &sc.doubt)
	}
	v := reflect.ValueOf(&sc.item.Value).Elem()
	for _, index := range sc.index {
		sc.dest = append(sc.dest, reflectx.FieldByIndexes(v, index).Addr().Interface())
	}
}

// scan reads the current row into item, and also what follows the list. An error is
// about the row set; a row that does not fit into T gives an Item with Err.
func (sc *scanner[T]) scan(rows *sql.Rows, also ...any) error {
	sc.item = sendonce.Item[T]{}
	if sc.dest == nil || sc.pointers {
		sc.aim()
	}
	list := sc.firstColumn() + len(sc.columns)
	sc.dest = append(sc.dest[:list], also...)
	if err := rows.Scan(sc.dest...); err != nil {
		if again := sc.scanKeyOnly(rows, also); again != nil {
			return again
		}
		var zero T
		sc.item.Value, sc.item.Err = zero, fmt.Errorf("sendonce: the row does not fit into %T: %w", zero, err)
	}
	item := &sc.item
	if item.InDoubt = sc.doubt.Valid; item.InDoubt {
		item.DoubtAge = max(time.Duration(sc.doubt.Int64)*time.Microsecond, 1)
	}
	item.Key = sc.cell.key
	item.Attempt = int(sc.attempts)
	item.IdempotencyKey = sc.ids.key(item.Key, sc.generation.Int64)
	return nil
}

// scanKeyOnly reads the row again without its value: the key must be known, so
// that the row can be put aside.
func (sc *scanner[T]) scanKeyOnly(rows *sql.Rows, also []any) error {
	if sc.ignore == nil {
		sc.ignore = make([]sql.RawBytes, len(sc.columns))
	}
	dest := slices.Clone(sc.dest[:sc.firstColumn()])
	for i := range sc.ignore {
		dest = append(dest, &sc.ignore[i])
	}
	return rows.Scan(append(dest, also...)...)
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
	var text [32]byte
	hex.Encode(text[:], sum[:16])
	return string(text[:])
}
