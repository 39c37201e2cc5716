package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/claim"
)

// column is what the catalogue says of a column.
type column struct {
	Name, Type string
	Nullable   bool
	Default    bool // it has one
	Generated  bool // and can't be written
	Enum       bool
	Unique     bool // it is a part of a unique index
	Primary    bool // or of the primary key
}

// catalogue asks for the columns of a table: for the name on PostgreSQL and SQLite,
// for the schema ("" is the current one) and the name on MySQL.
var catalogue = map[claim.Dialect]string{
	// An expression in an index is seen by what the index depends on.
	claim.Postgres: `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, NOT a.attnotnull AS nullable,
	a.atthasdef OR a.attidentity <> '' AS "default", a.attgenerated <> '' AS generated, t.typtype = 'e' AS enum,
	EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND (i.indisunique OR i.indisexclusion) AND (a.attnum = ANY (i.indkey)
		OR EXISTS (SELECT FROM pg_depend p WHERE p.objid = i.indexrelid AND p.refobjid = a.attrelid AND p.refobjsubid = a.attnum))) AS "unique",
	EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey)) AS "primary"
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
	claim.MySQL: "SELECT c.COLUMN_NAME AS name, c.COLUMN_TYPE AS type, c.IS_NULLABLE = 'YES' AS nullable, " +
		"c.COLUMN_DEFAULT IS NOT NULL OR c.EXTRA LIKE '%auto_increment%' AS `default`, COALESCE(c.GENERATION_EXPRESSION, '') <> '' AS generated, " +
		"c.DATA_TYPE IN ('enum', 'set') AS enum, EXISTS (SELECT 1 FROM information_schema.STATISTICS s WHERE s.TABLE_SCHEMA = c.TABLE_SCHEMA " +
		"AND s.TABLE_NAME = c.TABLE_NAME AND s.COLUMN_NAME = c.COLUMN_NAME AND s.NON_UNIQUE = 0) AS `unique`, EXISTS (SELECT 1 FROM information_schema.STATISTICS s " +
		"WHERE s.TABLE_SCHEMA = c.TABLE_SCHEMA AND s.TABLE_NAME = c.TABLE_NAME AND s.COLUMN_NAME = c.COLUMN_NAME AND s.INDEX_NAME = 'PRIMARY') AS `primary` " +
		"FROM information_schema.COLUMNS c WHERE c.TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND c.TABLE_NAME = ? ORDER BY c.ORDINAL_POSITION",
	claim.SQLite: `SELECT x.name, x.type, NOT x."notnull" AND x.pk = 0 AS nullable, x.dflt_value IS NOT NULL AS "default", x.hidden > 1 AS generated, 0 AS enum,
	x.pk > 0 OR EXISTS (SELECT 1 FROM pragma_index_list(?1) l, pragma_index_info(l.name) i WHERE l."unique" AND i.name = x.name) AS "unique", x.pk > 0 AS "primary"
FROM pragma_table_xinfo(?1) x WHERE x.hidden <> 1 ORDER BY x.cid`,
}

func readColumns(ctx context.Context, db *sqlx.DB, d claim.Dialect, schema, name string) (cs []column, err error) {
	args := []any{qualified(d, schema, name)}
	switch d {
	case claim.MySQL:
		args = []any{schema, name}
	case claim.SQLite:
		args = []any{name}
	}
	return cs, db.SelectContext(ctx, &cs, catalogue[d], args...)
}

// key finds the column that is the primary key, or the one that is named.
func key(cs []column, table, name string) (string, error) {
	if len(cs) == 0 {
		return "", fmt.Errorf("there is no table %q in this database: correct -table (upper and lower case count), or -dsn", table)
	}
	if name != "" {
		if !slices.ContainsFunc(cs, func(c column) bool { return c.Name == name && c.Unique }) {
			return "", fmt.Errorf("table %s has no unique column %q: correct -key", table, name)
		}
		return name, nil
	}
	var of []string
	for _, c := range cs {
		if c.Primary {
			of = append(of, c.Name)
		}
	}
	switch len(of) {
	case 0:
		return "", fmt.Errorf("table %s has no primary key: give it one, or a unique column by -key", table)
	case 1:
		return of[0], nil
	}
	return "", fmt.Errorf("the primary key of table %s has several columns (%s): give a column that is unique by itself by -key", table, strings.Join(of, ", "))
}

func quote(d claim.Dialect, name string) string {
	q := `"`
	if d == claim.MySQL {
		q = "`"
	}
	return q + strings.ReplaceAll(name, q, q+q) + q
}

func qualified(d claim.Dialect, schema, name string) string {
	if schema == "" {
		return quote(d, name)
	}
	return quote(d, schema) + "." + quote(d, name)
}

var (
	firstWord = regexp.MustCompile(`^[a-z0-9]*`)
	length    = regexp.MustCompile(`\((\d+)\)`)
)

// madeUp is an expression for a value of the column in row s.i, "" if none is known.
// Those of columns that are in unique indexes are all different.
func (c column) madeUp(d claim.Dialect, isKey bool) string {
	of := func(postgres, mysql, sqlite string) string {
		return map[claim.Dialect]string{claim.Postgres: postgres, claim.MySQL: mysql, claim.SQLite: sqlite}[d]
	}
	typ, expr := strings.ToLower(c.Type), ""
	most := 1 << 30 // characters
	if m := length.FindStringSubmatch(typ); m != nil {
		most, _ = strconv.Atoi(m[1])
	}
	hex := of("MD5(s.i::text)", "MD5(s.i)", "LOWER(HEX(RANDOMBLOB(16)))")
	switch word := firstWord.FindString(typ); {
	case c.Enum:
		expr = of("(enum_range(NULL::"+c.Type+"))[1]", "1", "")
	case strings.HasSuffix(typ, "[]"):
		expr = "'{}'"
	case slices.Contains([]string{"int", "integer", "bigint", "smallint", "mediumint", "tinyint", "numeric", "decimal", "real", "double", "float"}, word):
		if expr = "s.i % 100"; c.Unique {
			expr = "s.i"
		}
	case strings.Contains(word, "char") || strings.Contains(word, "text"):
		expr = of("s.i || '@example.org'", "CONCAT(s.i, '@example.org')", "s.i || '@example.org'")
		if isKey && most >= 16 {
			expr = hex // like those of users, they don't grow
		}
		if d == claim.MySQL && word != "text" && most < 64 {
			expr = fmt.Sprintf("LEFT(%s, %d)", expr, most)
		}
		if word == "longtext" { // which is also what JSON is on MariaDB, with a check
			expr = `CONCAT('"', s.i, '@example.org"')`
		}
	case word == "uuid":
		// MariaDB wants a version and a variant.
		expr = of(hex, "INSERT(INSERT(MD5(s.i), 13, 1, '4'), 17, 1, '8')", hex)
	case strings.HasPrefix(word, "bool"):
		expr = "FALSE"
	case slices.Contains([]string{"timestamp", "datetime", "date", "time"}, word):
		expr = of("CURRENT_TIMESTAMP + s.i * INTERVAL '1 second'", "CURRENT_TIMESTAMP + INTERVAL s.i SECOND", "DATETIME('now', s.i || ' seconds')")
	case word == "year":
		expr = "2000"
	case strings.HasPrefix(word, "json"):
		expr = "'{}'"
	case word == "bytea" || strings.Contains(word, "blob") || strings.Contains(word, "binary") || word == "" && d == claim.SQLite:
		expr = of("DECODE(MD5(s.i::text), 'hex')", fmt.Sprintf("LEFT(UNHEX(MD5(s.i)), %d)", most), "RANDOMBLOB(16)")
	}
	if d == claim.Postgres && expr != "" {
		return "CAST(" + expr + " AS " + c.Type + ")" // which cuts texts, too
	}
	return expr
}
