package dialect

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

func (postgres) Explain() string { return "EXPLAIN " }

func (postgres) BadPlan(plan string) string {
	switch {
	case strings.Contains(plan, "Seq Scan"):
		return "it reads the whole table for every claim"
	case strings.Contains(plan, "Sort"):
		return "it sorts all rows that could be claimed, for every claim"
	}
	return ""
}

func (postgres) FreshIndex(name, table, key, fresh string) string {
	return "CREATE INDEX " + name + " ON " + table + " (" + key + ") WHERE " + fresh
}

// An index with the status in its key or predicate is touched by every change of
// a status, so that no update can be HOT
// (https://www.postgresql.org/docs/current/storage-hot.html).
const pgLayout = `SELECT 'index', i.indexrelid::regclass::text FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND '"' || replace(a.attname, '"', '""') || '"' = $2
WHERE i.indrelid = $1::regclass AND (a.attnum = ANY (i.indkey) OR pg_get_expr(i.indpred, i.indrelid) LIKE '%' || a.attname || '%')
UNION ALL SELECT 'fillfactor', COALESCE((SELECT option_value FROM pg_options_to_table(c.reloptions) WHERE option_name = 'fillfactor'), '100') FROM pg_class c WHERE c.oid = $1::regclass
UNION ALL SELECT 'analyzed', (last_analyze IS NOT NULL OR last_autoanalyze IS NOT NULL)::text FROM pg_stat_user_tables WHERE relid = $1::regclass`

func (postgres) TableTips(ctx context.Context, db *sql.DB, table, status string) ([]Tip, error) {
	var tips []Tip
	err := each(ctx, db, pgLayout, []any{table, status}, func(scan func(...any) error) error {
		var what, value string
		if err := scan(&what, &value); err != nil {
			return err
		}
		switch {
		case what == "index":
			tips = append(tips, Tip{"the index " + value + " has the status in it", "every claim and every mark then rewrites all index entries of the row", "DROP INDEX " + value + ", if nothing else needs it: claims don't"})
		case what == "fillfactor" && value == "100":
			tips = append(tips, Tip{"pages of the table are filled to 100 %", "an update finds no room beside the old row, and rewrites all its index entries", "ALTER TABLE " + table + " SET (fillfactor = 50), before the rows are loaded"})
		case what == "analyzed" && value == "false":
			tips = append(tips, Tip{"the table was never analysed", "plans are guesses", "ANALYZE " + table})
		}
		return nil
	})
	return tips, err
}

func (postgres) ServerTips(ctx context.Context, db *sql.DB) ([]Tip, error) {
	wanted := map[string][]string{
		"fsync": {"on"}, "synchronous_commit": {"on", "remote_apply", "remote_write", "local"},
		"default_transaction_isolation": {"read committed"},
	}
	const query = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'default_transaction_isolation') ORDER BY name"
	return settingTips(ctx, db, query, wanted, func(name, value string) Tip {
		if name == "default_transaction_isolation" {
			return Tip{name + " is " + value, "claims that meet fail with a serialization error and are repeated", "ALTER ROLE ... SET default_transaction_isolation = 'read committed', for this service"}
		}
		return Tip{name + " is " + value, lossy, "set it to on"}
	})
}

func (mysql) Explain() string { return "EXPLAIN " }

func (mysql) BadPlan(plan string) string {
	switch {
	case strings.Contains(plan, "type=ALL "):
		return "it reads the whole table for every claim"
	case strings.Contains(plan, "Using filesort"):
		return "it sorts all rows that could be claimed, for every claim"
	}
	return ""
}

func (mysql) FreshIndex(_, _, _, _ string) string { return "" }

func (mysql) TableTips(ctx context.Context, db *sql.DB, table, status string) ([]Tip, error) {
	var tips []Tip
	err := each(ctx, db, "SHOW INDEX FROM "+table, nil, func(scan func(...any) error) error {
		// The statement has more columns in later versions; the names of index
		// and column are the third and the fifth in all.
		var name, column string
		var rest [12]any
		for i := range rest {
			rest[i] = new(sql.RawBytes)
		}
		dest := append([]any{rest[0], rest[1], &name, rest[2], &column}, rest[3:11]...)
		for len(dest) < 16 {
			if err := scan(dest...); err == nil {
				break
			}
			dest = append(dest, new(sql.RawBytes))
		}
		if strings.Trim(status, "`") == column {
			tips = append(tips, Tip{"the index " + name + " has the status in it", "every claim and every mark then moves the row in it", "DROP INDEX " + name + " ON " + table + ", if nothing else needs it: claims don't"})
		}
		return nil
	})
	return tips, err
}

func (mysql) ServerTips(ctx context.Context, db *sql.DB) ([]Tip, error) {
	wanted := map[string][]string{"innodb_flush_log_at_trx_commit": {"1"}, "sync_binlog": {"1"}, "log_bin": {"OFF"}}
	binlog := false
	const query = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog')"
	tips, err := settingTips(ctx, db, query, wanted, func(name, value string) Tip {
		binlog = binlog || name == "log_bin"
		return Tip{name + " is " + value, lossy, "SET GLOBAL " + name + " = 1"}
	})
	var out []Tip
	for _, t := range tips {
		if strings.HasPrefix(t.What, "log_bin ") || strings.HasPrefix(t.What, "sync_binlog ") && !binlog {
			continue // the binary log matters only where there is one
		}
		out = append(out, t)
	}
	return out, err
}

func (sqlite) Explain() string { return "EXPLAIN QUERY PLAN " }

func (sqlite) BadPlan(plan string) string {
	switch {
	case strings.Contains(plan, "USE TEMP B-TREE"):
		return "it sorts all rows that could be claimed, for every claim"
	case strings.Contains(plan, "detail=SCAN "):
		return "it reads the whole table for every claim"
	}
	return ""
}

func (sqlite) FreshIndex(_, _, _, _ string) string { return "" }

func (sqlite) TableTips(context.Context, *sql.DB, string, string) ([]Tip, error) { return nil, nil }

// GivesKeysAgain reports whether the database by itself gives a new row the key of
// one that was deleted: SQLite does, where the key is its rowid, unless that is
// AUTOINCREMENT (https://www.sqlite.org/autoinc.html).
func GivesKeysAgain(ctx context.Context, d Dialect, db *sql.DB, schema, table, key string) (again bool, err error) {
	if d != SQLite {
		return false, nil
	}
	if schema == "" {
		schema = "main"
	}
	// A primary key that is not the rowid has an index.
	query := `SELECT m.sql FROM ` + d.Quote(schema) + `.sqlite_master m
WHERE m.type = 'table' AND m.name = ? AND EXISTS (SELECT 1 FROM pragma_table_info(?, ?) WHERE pk > 0 AND name = ?)
AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?, ?) WHERE origin = 'pk')`
	err = each(ctx, db, query, []any{table, table, schema, key, table, schema}, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		again = !strings.Contains(strings.ToUpper(text), "AUTOINCREMENT")
		return nil
	})
	return again, err
}

// ServerTips looks at the settings of one connection, which come from the DSN
// and so are the same for all.
func (sqlite) ServerTips(ctx context.Context, db *sql.DB) ([]Tip, error) {
	var mode, synchronous, busy string
	for _, p := range []struct {
		name string
		into *string
	}{{"journal_mode", &mode}, {"synchronous", &synchronous}, {"busy_timeout", &busy}} {
		if err := db.QueryRowContext(ctx, "PRAGMA "+p.name).Scan(p.into); err != nil {
			return nil, fmt.Errorf("PRAGMA %s: %w", p.name, err)
		}
	}
	var tips []Tip
	if mode != "wal" && mode != "memory" {
		tips = append(tips, Tip{"journal_mode is " + mode, "readers and the writer wait for each other", "set journal_mode to WAL in the DSN"})
	}
	if synchronous == "0" {
		tips = append(tips, Tip{"synchronous is OFF", lossy, "set synchronous to NORMAL or FULL in the DSN"})
	}
	if busy == "0" {
		tips = append(tips, Tip{"busy_timeout is 0", "a statement that meets another process's fails at once and has to be repeated", "set busy_timeout to 5000 in the DSN"})
	}
	return tips, nil
}
