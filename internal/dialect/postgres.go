package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Postgres is PostgreSQL, 9.5 and later.
var Postgres Dialect = postgres{}

type postgres struct{}

func (postgres) Name() string { return "PostgreSQL" }
func (postgres) Caps() Caps {
	return Caps{WriteCTE: true, UpdateReturning: true, SkipLocked: true}
}
func (postgres) Quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// Text doubles quotes. A backslash means itself only in an E string, whatever
// standard_conforming_strings says.
func (postgres) Text(s string) string {
	s = strings.ReplaceAll(s, `'`, `''`)
	if strings.Contains(s, `\`) {
		return `E'` + strings.ReplaceAll(s, `\`, `\\`) + `'`
	}
	return `'` + s + `'`
}

// now() is the start of the statement here, as each runs by itself or in a
// transaction shorter than any lease.
func (postgres) Now(columnType string) string {
	if columnType == "timestamp without time zone" {
		return "timezone('UTC', now())"
	}
	return "now()"
}

func (d postgres) NowPlus(columnType, micros string) string {
	return d.Now(columnType) + " + (" + micros + ")::bigint * interval '1 microsecond'"
}

func (postgres) Micros(column string) string {
	return "(extract(epoch FROM " + column + ") * 1000000)::bigint"
}

func (postgres) FromMicros(columnType, micros string) string {
	epoch := "timestamptz 'epoch'"
	if columnType == "timestamp without time zone" {
		epoch = "timestamp 'epoch'"
	}
	return epoch + " + " + micros + "::bigint * interval '1 microsecond'"
}

// array is the type of a list of keys. A list travels as one text, which any
// driver can bind.
func (postgres) array(k KeyKind) string {
	return map[KeyKind]string{KeyInt: "bigint[]", KeyText: "text[]", KeyUUID: "uuid[]", KeyChar: "bpchar[]"}[k]
}

func (d postgres) KeysIn(column string, k KeyKind) string {
	return column + " = ANY (:keys::text::" + d.array(k) + ")"
}

func (postgres) TokensIn(column string) string {
	return column + " = ANY (:tokens::text::bigint[])"
}

// PairsIn finds the rows by key and then asks for the pair in a hash. IS TRUE
// keeps the planner from making a join of it, which it would misjudge.
func (d postgres) PairsIn(key, token string, k KeyKind) string {
	return d.KeysIn(key, k) + " AND ((" + key + ", " + token + ") IN (SELECT * FROM unnest(:keys::text::" +
		d.array(k) + ", :tokens::text::bigint[]))) IS TRUE"
}

func (postgres) Key(arg string, k KeyKind) string {
	return arg + map[KeyKind]string{KeyInt: "::bigint", KeyText: "::text", KeyUUID: "::uuid", KeyChar: "::bpchar"}[k]
}
func (postgres) Int(arg string) string { return arg + "::bigint" }
func (postgres) Str(arg string) string { return arg + "::text" }
func (postgres) ForShare() string      { return " FOR SHARE" }

func (postgres) KeyList(column string) string { return "json_agg(" + column + ")::text" }

// IsNull is what few rows are, for a planner that was told nothing. It is plain
// where the index that FreshIndex makes is to be taken.
func (d postgres) IsNull(column string, k KeyKind) string {
	if k == KeyInt {
		return d.Opaque(column + " IS NULL")
	}
	return column + " IS NULL"
}

// Is hides the comparison from an index that has the status alone, which the
// planner takes on a table that was never analysed, and then sorts. Keys that
// don't grow are better off with the partial index that FreshIndex makes.
func (d postgres) Is(column, literal string, k KeyKind) string {
	if k == KeyInt {
		return d.Opaque(column + " = " + literal)
	}
	return column + " = " + literal
}

func (postgres) Opaque(condition string) string {
	return "CASE WHEN " + condition + " THEN true ELSE false END"
}

func (postgres) SkipLockedSince(version string) string {
	if older(version, 9, 5, 0) {
		return "PostgreSQL 9.5"
	}
	return ""
}

func (d postgres) Compile(text string) *Stmt { return numbered(text, d) }

func (postgres) keys(ks Keys) any {
	b := append(make([]byte, 0, listSize(len(ks))), '{')
	for i, k := range ks {
		if i > 0 {
			b = append(b, ',')
		}
		switch k := k.(type) {
		case int64:
			b = strconv.AppendInt(b, k, 10)
		case string:
			b = append(b, '"')
			b = append(b, arrayEscape.Replace(k)...)
			b = append(b, '"')
		default:
			panic(fmt.Sprintf("sendonce: a key of type %T", k))
		}
	}
	return string(append(b, '}'))
}

var arrayEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func (postgres) pairs(Pairs) any            { return nil }
func (postgres) literal(any) (string, bool) { return "", false }

func (postgres) Begin(ctx context.Context, db *sql.DB) (Tx, error) {
	return beginReadCommitted(ctx, db)
}

// Classify goes by SQLSTATE (appendix A of the manual). Both common drivers'
// errors have the method.
func (postgres) Classify(err error) Class {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || len(state.SQLState()) != 5 {
		return Other
	}
	switch code := state.SQLState(); {
	case code == "40001", code == "40P01", code == "55P03":
		return Transient
	case code[:2] == "28", code == "3D000", code[:2] == "42":
		return Fatal
	case code[:2] == "22", code[:2] == "23", code == "P0001":
		return BadData
	}
	return Other
}

func (postgres) DDL() DDL {
	return DDL{
		Int: "integer", SmallInt: "smallint", BigInt: "bigint", Time: "timestamptz", Bool: "boolean", LongText: "text",
		Varchar: func(n int) string { return fmt.Sprintf("varchar(%d)", n) },
		DueIndex: func(name, table, column string) string {
			return "CREATE INDEX " + name + " ON " + table + " (" + column + ") WHERE " + column + " IS NOT NULL"
		},
		NotNull: func(table, column, def string) string {
			_, value, _ := strings.Cut(def, " DEFAULT ")
			return fmt.Sprintf("UPDATE %[1]s SET %[2]s = %[3]s WHERE %[2]s IS NULL; ALTER TABLE %[1]s ALTER COLUMN %[2]s SET DEFAULT %[3]s, ALTER COLUMN %[2]s SET NOT NULL", table, column, value)
		},
		Null: func(table, column, _ string) string {
			return "ALTER TABLE " + table + " ALTER COLUMN " + column + " DROP NOT NULL"
		},
		// Longer names are cut without an error.
		NameLimit: func(name string) string {
			if len(name) > 63 {
				return "63 bytes"
			}
			return ""
		},
	}
}

const pgTable = `SELECT c.oid, current_setting('server_version'),
  CASE WHEN pg_is_in_recovery() THEN 'the server is a standby'
       WHEN current_setting('transaction_read_only') = 'on' THEN 'transactions are read-only here'
       WHEN NOT has_any_column_privilege(c.oid, 'UPDATE') THEN 'GRANT SELECT, UPDATE ON it TO ' || quote_ident(current_user) ELSE '' END
FROM pg_class c WHERE c.oid = to_regclass($1::text)::oid AND c.relkind IN ('r', 'p', 'v', 'f')`

const pgColumns = `SELECT a.attname, format_type(a.atttypid, NULL), b.typname, b.typtype::text, a.attnotnull OR t.typnotnull,
  a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL, CASE WHEN a.atttypmod > 4 AND b.typname IN ('varchar', 'bpchar') THEN a.atttypmod - 4 ELSE 0 END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

// An index with a predicate serves only if the predicate is "column IS NOT NULL".
const pgIndexes = `SELECT a.attname, i.indisunique AND i.indnatts = 1 AND i.indpred IS NULL,
  i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) = '(' || quote_ident(a.attname) || ' IS NOT NULL)'
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = $1::bigint::oid AND i.indisvalid`

func (d postgres) Inspect(ctx context.Context, db *sql.DB, schema, table string) (*Live, error) {
	live := newLive()
	var oid int64
	err := db.QueryRowContext(ctx, pgTable, Qualified(d, schema, table)).Scan(&oid, &live.Version, &live.ReadOnly)
	if errors.Is(err, sql.ErrNoRows) {
		return live, similarTables(ctx, db, live, `SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v') AND lower(relname) = lower($1::text) AND pg_table_is_visible(oid)`, table)
	}
	if err != nil {
		return nil, err
	}
	live.Exists = true
	err = each(ctx, db, pgColumns, []any{oid}, func(scan func(...any) error) error {
		var c Column
		var base, typtype string
		var notNull bool
		if err := scan(&c.Name, &c.Type, &base, &typtype, &notNull, &c.Default, &c.MaxChars); err != nil {
			return err
		}
		c.Nullable, c.Kind, c.Padded = !notNull, pgKind(base, typtype), base == "bpchar"
		live.Columns = append(live.Columns, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return live, readIndexes(ctx, db, live, pgIndexes, oid)
}

func pgKind(base, typtype string) Kind {
	switch base {
	case "int2", "int4", "int8":
		return KindInt
	case "text", "varchar", "bpchar", "citext":
		return KindText
	case "uuid":
		return KindUUID
	case "bool":
		return KindBool
	case "timestamptz", "timestamp":
		return KindTime
	}
	if typtype == "e" {
		return KindText
	}
	return KindOther
}

func newLive() *Live { return &Live{Unique: map[string]bool{}, Leading: map[string]bool{}} }

// each calls f for every row. Rows are read to their end before it returns: with
// a pool of one connection nothing else could run meanwhile.
func each(ctx context.Context, q Querier, query string, args []any, f func(scan func(...any) error) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func similarTables(ctx context.Context, db *sql.DB, live *Live, query string, args ...any) error {
	return each(ctx, db, query, args, func(scan func(...any) error) error {
		var name string
		if err := scan(&name); err != nil {
			return err
		}
		live.Similar = append(live.Similar, name)
		return nil
	})
}

// readIndexes expects rows of (first column, unique by itself, usable to search).
func readIndexes(ctx context.Context, db *sql.DB, live *Live, query string, args ...any) error {
	return each(ctx, db, query, args, func(scan func(...any) error) error {
		var column string
		var unique, usable bool
		if err := scan(&column, &unique, &usable); err != nil {
			return err
		}
		live.Unique[column] = live.Unique[column] || unique
		live.Leading[column] = live.Leading[column] || usable
		return nil
	})
}

func (postgres) Room(table string) string { return "ALTER TABLE " + table + " SET (fillfactor = 50)" }

// A partitioned table has no pages of its own.
func (postgres) TakesRoom(ctx context.Context, db *sql.DB, table string) (takes bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT relkind = 'r' AND NOT EXISTS (SELECT 1 FROM unnest(reloptions) o WHERE o LIKE 'fillfactor=%') AND NOT EXISTS (SELECT 1 FROM "+table+
		") FROM pg_class WHERE oid = $1::regclass", table).Scan(&takes)
	return takes, err
}
