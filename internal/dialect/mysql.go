package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MySQL is MySQL, 5.7 and later, and MariaDB, 10.3 and later.
var MySQL Dialect = mysql{}

type mysql struct{}

func (mysql) Name() string          { return "MySQL/MariaDB" }
func (mysql) Caps() Caps            { return Caps{SkipLocked: true} }
func (mysql) Quote(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// Text is written in hexadecimal: what a backslash means depends on sql_mode.
func (mysql) Text(s string) string { return hexText(s) }

// UTC_TIMESTAMP does not depend on the session's time zone; that is also why
// TIMESTAMP columns, which convert, are refused.
func (mysql) Now(string) string { return "UTC_TIMESTAMP(6)" }

func (mysql) NowPlus(_, micros string) string {
	return "UTC_TIMESTAMP(6) + INTERVAL (" + micros + ") MICROSECOND"
}

func (mysql) Micros(column string) string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + column + ")"
}

func (mysql) FromMicros(_, micros string) string {
	return "CAST('1970-01-01' AS DATETIME(6)) + INTERVAL (" + micros + ") MICROSECOND"
}

func (mysql) KeysIn(column string, _ KeyKind) string { return column + " IN (:keys)" }
func (mysql) TokensIn(column string) string          { return column + " IN (:tokens)" }
func (mysql) PairsIn(key, token string, _ KeyKind) string {
	return key + " IN (:keys) AND (" + key + ", " + token + ") IN (:pairs)"
}
func (mysql) Key(arg string, _ KeyKind) string { return arg }
func (mysql) Int(arg string) string            { return arg }
func (mysql) Str(arg string) string            { return arg }
func (mysql) ForShare() string                 { return " LOCK IN SHARE MODE" }
func (mysql) KeyList(string) string            { panic("sendonce: no statement of MySQL's lists keys") }

func (mysql) IsNull(column string, _ KeyKind) string { return "(" + column + " IS NULL) IS TRUE" }

func (mysql) Is(column, literal string, _ KeyKind) string {
	return "(" + column + " = " + literal + ") IS TRUE"
}

func (mysql) Opaque(condition string) string { return condition }

func (mysql) SkipLockedSince(version string) string {
	if strings.Contains(version, "MariaDB") {
		if older(strings.TrimPrefix(version, "5.5.5-"), 10, 6, 0) {
			return "MariaDB 10.6"
		}
	} else if older(version, 8, 0, 1) {
		return "MySQL 8.0.1"
	}
	return ""
}

func (d mysql) Compile(text string) *Stmt { return literal(text, d) }

func (d mysql) keys(ks Keys) any {
	var b strings.Builder
	for i, k := range ks {
		if i > 0 {
			b.WriteByte(',')
		}
		lit, _ := d.literal(k)
		b.WriteString(lit)
	}
	return raw(b.String())
}

func (d mysql) pairs(p Pairs) any {
	var b strings.Builder
	for i, k := range p.Keys {
		if i > 0 {
			b.WriteByte(',')
		}
		lit, _ := d.literal(k)
		b.WriteString("(" + lit + "," + strconv.FormatInt(p.Tokens[i], 10) + ")")
	}
	return raw(b.String())
}

func (mysql) literal(v any) (string, bool) {
	switch v := v.(type) {
	case raw:
		return string(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case int:
		return strconv.Itoa(v), true
	case bool:
		return strconv.FormatBool(v), true
	case string:
		return hexText(v), true
	case nil:
		return "NULL", true
	}
	return "", false
}

func (mysql) Begin(ctx context.Context, db *sql.DB) (Tx, error) { return beginReadCommitted(ctx, db) }

// Classify goes by the error number. The driver's type has it in a field, and
// prints it: reading it there spares the library the driver.
func (mysql) Classify(err error) Class {
	switch mysqlNumber(err) {
	case 1213, 1205, 1020: // deadlock, lock wait timeout, record changed since last read
		return Transient
	case 1044, 1045, 1049, 1054, 1064, 1142, 1143, 1146, 1698:
		return Fatal
	case 1048, 1062, 1264, 1265, 1292, 1300, 1366, 1406, 1451, 1452, 1644, 1690, 3819, 4025:
		return BadData
	}
	return Other
}

func mysqlNumber(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		var n int
		if _, scanErr := fmt.Sscanf(err.Error(), "Error %d", &n); scanErr == nil {
			return n
		}
	}
	return 0
}

func (mysql) DDL() DDL {
	return DDL{
		Int: "int", SmallInt: "smallint", BigInt: "bigint", Time: "datetime(6)", Bool: "boolean", LongText: "longtext",
		Varchar: func(n int) string { return fmt.Sprintf("varchar(%d)", n) },
		DueIndex: func(name, table, column string) string {
			return "CREATE INDEX " + name + " ON " + table + " (" + column + ")"
		},
		NotNull: func(table, column, def string) string {
			_, value, _ := strings.Cut(def, " DEFAULT ")
			return fmt.Sprintf("UPDATE %[1]s SET %[2]s = %[3]s WHERE %[2]s IS NULL; ALTER TABLE %[1]s MODIFY COLUMN %[2]s %[4]s", table, column, value, def)
		},
		Null: func(table, column, def string) string {
			return "ALTER TABLE " + table + " MODIFY COLUMN " + column + " " + def + " NULL"
		},
		NameLimit: func(name string) string {
			if utf8.RuneCountInString(name) > 64 {
				return "64 characters"
			}
			return ""
		},
		ClaimsSuffix: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
	}
}

const myTable = `SELECT table_name, VERSION(), IF(@@global.read_only, 'the server is read-only', ''), COALESCE(engine, 'VIEW')
FROM information_schema.tables WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND BINARY table_name = ?`

const myColumns = `SELECT column_name, column_type, data_type, is_nullable = 'YES', column_default IS NOT NULL OR extra LIKE '%auto_increment%', COALESCE(character_maximum_length, 0)
FROM information_schema.columns WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ? ORDER BY ordinal_position`

// An index that begins with an expression has no name there.
const myIndexes = `SELECT MIN(CASE WHEN seq_in_index = 1 THEN column_name END), MAX(non_unique) = 0 AND COUNT(*) = 1 AND MAX(sub_part) IS NULL, 1
FROM information_schema.statistics WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ? GROUP BY index_name
HAVING MIN(CASE WHEN seq_in_index = 1 THEN column_name END) IS NOT NULL`

func (mysql) Inspect(ctx context.Context, db *sql.DB, schema, table string) (*Live, error) {
	live := newLive()
	var name, engine string
	err := db.QueryRowContext(ctx, myTable, schema, table).Scan(&name, &live.Version, &live.ReadOnly, &engine)
	if errors.Is(err, sql.ErrNoRows) {
		return live, similarTables(ctx, db, live, `SELECT table_name FROM information_schema.tables WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND LOWER(table_name) = LOWER(?)`, schema, table)
	}
	if err != nil {
		return nil, err
	}
	live.Exists = true
	if engine != "InnoDB" && engine != "VIEW" {
		live.ReadOnly = "its engine is " + engine + ", which has no transactions: ALTER TABLE ... ENGINE=InnoDB"
	}
	err = each(ctx, db, myColumns, []any{schema, table}, func(scan func(...any) error) error {
		var c Column
		var base string
		var maxChars int64
		if err := scan(&c.Name, &c.Type, &base, &c.Nullable, &c.Default, &maxChars); err != nil {
			return err
		}
		c.Kind = myKind(base, c.Type)
		c.MaxChars = int(min(maxChars, 1<<30))
		live.Columns = append(live.Columns, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return live, readIndexes(ctx, db, live, myIndexes, schema, table)
}

func myKind(base, full string) Kind {
	switch base {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		if strings.Contains(full, "unsigned") {
			return KindUint
		}
		return KindInt
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum":
		return KindText
	case "uuid":
		return KindUUID
	case "datetime":
		return KindTime
	}
	return KindOther
}

func (mysql) Room(string) string { return "" }

func (mysql) TakesRoom(context.Context, *sql.DB, string) (bool, error) { return false, nil }
