package combo

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/lock/memlock"
)

// Table is a table of a user's, migrated and filled.
type Table struct {
	*Place
	Admin   *sqlx.DB // a pool to look at it
	Mapping claim.Table
	Name    string         // quoted
	Keys    []sendonce.Key // of its rows, ascending
	memory  *memlock.Locker
}

var tables atomic.Int64

// Table makes a table with so many pending rows that were never tried.
func (p *Place) Table(t testing.TB, rows int) *Table {
	t.Helper()
	db := p.At.Open(t, p.Database.Driver, p.Database.Params...)
	db.SetMaxOpenConns(4)
	return p.TableOn(t, db, rows)
}

// TableOn is Table on a pool that there is.
func (p *Place) TableOn(t testing.TB, admin *sqlx.DB, rows int) *Table {
	t.Helper()
	name := fmt.Sprint("mails", tables.Add(1))
	tb := &Table{
		Place: p, Admin: admin, Name: name, memory: memlock.New(),
		Mapping: claim.Table{Name: name, Columns: claim.Columns{DoneAt: "done_at", LastError: "last_error", DoubtSince: "doubt_since"}},
	}
	tb.create(t)
	tb.Add(t, rows)
	return tb
}

// Add adds rows behind those that there are.
func (tb *Table) Add(t testing.TB, rows int) {
	t.Helper()
	n := len(tb.Keys)
	for i := range rows {
		tb.Keys = append(tb.Keys, tb.KeyOf(1000+n+i))
	}
	tb.Insert(t, tb.Keys[n:]...)
}

// create makes the first table by Migrate, as a user does, and others like it.
func (tb *Table) create(t testing.TB) {
	t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch {
	case tb.model == "" || tb.Database.Dialect == claim.SQLite:
		tb.Exec(t, fmt.Sprintf("CREATE TABLE %s (id %s PRIMARY KEY, value text)", tb.Name, tb.Key))
		require.NoError(t, claim.Migrate(t.Context(), tb.Admin, tb.Database.Dialect, tb.Mapping, nil))
		tb.model = tb.Name
	case tb.Database.Dialect == claim.Postgres:
		tb.Exec(t, "CREATE TABLE "+tb.Name+" (LIKE "+tb.model+" INCLUDING ALL)")
	default:
		tb.Exec(t, "CREATE TABLE "+tb.Name+" LIKE "+tb.model)
	}
}

// Exec runs one statement.
func (tb *Table) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	_, err := tb.Admin.ExecContext(t.Context(), tb.Admin.Rebind(statement), args...)
	require.NoError(t, err, statement)
}

// Insert adds rows whose value tells their key.
func (tb *Table) Insert(t testing.TB, keys ...sendonce.Key) {
	t.Helper()
	const atOnce = 500
	for len(keys) > 0 {
		n := min(len(keys), atOnce)
		var rows []string
		for _, k := range keys[:n] {
			rows = append(rows, "("+tb.literal(k)+", "+tb.literal(ValueOf(k))+")")
		}
		tb.Exec(t, "INSERT INTO "+tb.Name+" (id, value) VALUES "+strings.Join(rows, ", "))
		keys = keys[n:]
	}
}

// ValueOf is the value that the row with this key has.
func ValueOf(k sendonce.Key) string { return fmt.Sprint("value of ", k) }

func (tb *Table) literal(k sendonce.Key) string {
	s, ok := k.(string)
	if !ok {
		return fmt.Sprint(k)
	}
	if tb.Database.Dialect == claim.MySQL {
		s = strings.ReplaceAll(s, `\`, `\\`)
	}
	return "'" + s + "'"
}

// KeyOf is the key of row n, of the column's type; they ascend with n.
func (p *Place) KeyOf(n int) sendonce.Key {
	switch kind := strings.ToLower(p.Key); {
	case strings.Contains(kind, "unsigned"):
		return uint64(n)
	case strings.Contains(kind, "int"):
		return int64(n)
	case kind == "uuid":
		return fmt.Sprintf("%08x-2fa1-41d2-883f-0016d3cca4%02x", n, n&0xff)
	}
	return fmt.Sprintf("row %08d", n)
}
