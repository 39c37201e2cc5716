package claim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
	"github.com/sendonce/sendonce/internal/leases"
	"github.com/sendonce/sendonce/partition"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test ./claim -run Golden -update makes the files")
	wanted, gotten := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(wanted), len(gotten)) {
		if i >= len(wanted) || i >= len(gotten) || wanted[i] != gotten[i] {
			t.Fatalf("%s: line %d is now\n%s\nand was\n%s\nIf that is wanted, go test ./claim -run Golden -update", name, i+1,
				strings.Join(gotten[min(i, len(gotten)):min(i+1, len(gotten))], ""), strings.Join(wanted[min(i, len(wanted)):min(i+1, len(wanted))], ""))
		}
	}
}

// mail is the row type of the golden files.
type mail struct {
	Address string `db:"address"`
	Name    string `db:"name"`
}

var everyDialect = []Dialect{Postgres, MySQL, SQLite}

func fileName(d Dialect) string {
	return map[Dialect]string{Postgres: "postgres", MySQL: "mysql", SQLite: "sqlite"}[d]
}

// liveTable is what the catalogue says of a table with the default columns.
func liveTable(d dialect.Dialect, key dialect.Kind, columns ...string) *dialect.Live {
	ddl := d.DDL()
	live := &dialect.Live{Exists: true, Unique: map[string]bool{"id": true}, Leading: map[string]bool{"next_attempt": true}, Version: "15.4"}
	nextType := ddl.Time
	if d == dialect.Postgres {
		nextType = "timestamp with time zone"
	}
	live.Columns = []dialect.Column{
		{Name: "id", Type: "bigint", Kind: key},
		{Name: "status", Type: "smallint", Kind: dialect.KindInt},
		{Name: "token", Type: "bigint", Kind: dialect.KindInt},
		{Name: "attempts", Type: "integer", Kind: dialect.KindInt},
		{Name: "next_attempt", Type: nextType, Kind: dialect.KindTime, Nullable: true},
		{Name: "done_at", Type: nextType, Kind: dialect.KindTime, Nullable: true},
		{Name: "last_error", Type: "text", Kind: dialect.KindText, Nullable: true},
		{Name: "generation", Type: "integer", Kind: dialect.KindInt},
		{Name: "doubt_since", Type: nextType, Kind: dialect.KindTime, Nullable: true},
	}
	for _, c := range columns {
		live.Columns = append(live.Columns, dialect.Column{Name: c, Type: "text", Kind: dialect.KindText})
	}
	return live
}

// mapped is a table as the constructors know it, without a database.
func mapped(t *testing.T, d Dialect, tab Table, live *dialect.Live) *names {
	t.Helper()
	impl, err := d.impl()
	require.NoError(t, err)
	n, err := newNames(impl, tab, nil)
	require.NoError(t, err)
	if live == nil {
		live = liveTable(impl, dialect.KindInt, "address", "name", "priority", "campaign_id")
	}
	n.learn(live)
	return n
}

func claimerFor(t *testing.T, d Dialect, tab Table, locking string) *claimer[mail] {
	t.Helper()
	n := mapped(t, d, tab, nil)
	sh, err := newShape[mail](n)
	require.NoError(t, err)
	return newClaimer(newStore(nil, n), sh, locking)
}

var fullTable = Table{Name: "receivers", Columns: Columns{DoneAt: "done_at", LastError: "last_error", Generation: "generation", DoubtSince: "doubt_since"}}

// strategies are the ways to claim, as far as statements differ.
var strategies = []struct {
	name, locking string
	partitions    []int // of 4
}{
	{name: "atomic"}, {name: "skiplocked", locking: " FOR UPDATE SKIP LOCKED"}, {name: "locked"}, {name: "partitioned", partitions: []int{1, 3}},
}

// statements renders what the strategy says to find and take rows.
func statements(t *testing.T, d Dialect, tab Table, locking string, partitions []int) string {
	t.Helper()
	c := claimerFor(t, d, tab, locking)
	if partitions != nil {
		only, err := (&Partitioned[mail]{claimer: c}).partitionCondition(partition.Assignment{Count: 4, Mine: partitions})
		require.NoError(t, err)
		c.ours.Store(&only)
	}
	var b strings.Builder
	const limit = 100
	write(&b, "look whether a window has fresh rows, from its start", c.due.fresh(false, c.only()))
	write(&b, "look whether a window has fresh rows", c.due.fresh(true, c.only()))
	write(&b, "look for rows that come back", c.due.returning(limit, lowest, c.only()))
	write(&b, "look for rows that come back, above the low mark", c.due.returning(limit, 1, c.only()))
	if c.order != "" {
		write(&b, "look for rows by the user's order", c.due.ordered(limit, c.only()))
	}
	picks := []struct {
		what string
		pick
	}{
		{"fresh rows from the start of a window", pick{kind: freshRows, limit: limit}},
		{"fresh rows", pick{kind: freshRows, lower: true, limit: limit}},
		{"rows by the user's order", pick{kind: orderedRows}},
		{"rows that come back", pick{kind: returningRows}},
		{"suspects", pick{kind: suspectRows}},
		{"a suspect on its last attempt", pick{kind: lastTryRows}},
	}
	for _, p := range picks {
		p.locked, p.only = c.locking, c.only()
		st := c.takes.get(p.pick)
		write(&b, "pick "+p.what, st.pick)
		write(&b, "claim "+p.what, st.mark)
		write(&b, "read back "+p.what, st.readBack)
		write(&b, "record the claim of "+p.what, st.insert)
	}
	return b.String()
}

// write puts one statement down, a clause a line.
func write(b *strings.Builder, what string, st *dialect.Stmt) {
	if st != nil {
		fmt.Fprintf(b, "-- %s\n%s;\n\n", what, clauses(st.Text()))
	}
}

var breaks = strings.NewReplacer("(epoch FROM ", "(epoch FROM ", "), l AS (", "),\nl AS (", " FROM ", "\nFROM ", " WHERE ", "\nWHERE ", " AND ", "\n  AND ", " SET ", "\nSET ",
	" RETURNING ", "\nRETURNING ", " ORDER BY ", "\nORDER BY ", " VALUES ", "\nVALUES ", " GROUP BY ", "\nGROUP BY ")

func clauses(text string) string { return breaks.Replace(text) }

// Each strategy's own statements, for a DBA to read.
func TestGoldenStrategies(t *testing.T) {
	for _, d := range everyDialect {
		for _, s := range strategies {
			if s.name == "skiplocked" && d == SQLite {
				continue // refused there
			}
			golden(t, s.name+"."+fileName(d)+".sql", statements(t, d, fullTable, s.locking, s.partitions))
		}
	}
}

// What all strategies say: to find their way, to keep claims, to record results,
// to give back what vanished workers held, to patrol.
func TestGoldenCommon(t *testing.T) {
	for _, d := range everyDialect {
		c := claimerFor(t, d, fullTable, "")
		for _, f := range []windowForm{{rows: 2000}, {lower: true, rows: 2000}, {upper: true, rows: 2000}, {lower: true, upper: true, rows: 2000}} {
			c.walker.window(f)
		}
		c.behind()
		var b strings.Builder
		writeAll(&b, "", reflect.ValueOf(c.store).Elem())
		writeAll(&b, "due", reflect.ValueOf(c.due).Elem())
		write(&b, "due.rowsOf", c.due.rowsOf(c.shape.list()))
		golden(t, "common."+fileName(d)+".sql", b.String())
	}
}

// writeAll writes every statement that a struct holds, so that none is left out.
// Of those for several rows of one outcome it writes the smallest two.
func writeAll(b *strings.Builder, path string, v reflect.Value) {
	if v.Type() == reflect.TypeFor[*dialect.Stmt]() {
		write(b, path, (*dialect.Stmt)(v.UnsafePointer()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "names" && name != "db" && name != "n" {
				writeAll(b, strings.TrimPrefix(path+"."+name, "."), v.Field(i))
			}
		}
	case reflect.Array:
		if v.Type().Elem() != reflect.TypeFor[*dialect.Stmt]() {
			return
		}
		for i, name := range []string{"from the start", "behind a key"} {
			writeAll(b, path+", "+name, v.Index(i))
		}
	case reflect.Map:
		if v.Type().Elem() != reflect.TypeFor[*dialect.Stmt]() {
			return
		}
		keys := v.MapKeys()
		label := func(k reflect.Value) string { return fmt.Sprintf("%+v", k) }
		slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(label(x), label(y)) })
		for _, k := range keys {
			if k.Type() == reflect.TypeFor[opinionForm]() && (k.FieldByName("size").Int() > 4) {
				continue
			}
			name := label(k)
			if k.Type() == reflect.TypeFor[opinionForm]() {
				name = fmt.Sprintf("%s, %d at once, with reason %t", sendonce.Outcome(k.Field(0).Uint()), k.Field(1).Int(), k.Field(2).Bool())
			}
			writeAll(b, path+", "+name, v.MapIndex(k))
		}
	}
}

// Mappings, each with all that makes a statement differ.
var mappings = []struct {
	name  string
	table Table
}{
	{"plain", Table{Name: "receivers"}},
	{"full", fullTable},
	{"schema", Table{Name: "app.receivers"}},
	{"dotted", Table{Schema: "app", Name: "mail.receivers"}},
	{"reserved", Table{Name: "order", Columns: Columns{Key: "select", Status: "case", Token: "group", Attempts: "limit", NextAttempt: "when"}}},
	{"mixedcase", Table{Name: "MailQueue", Columns: Columns{Key: "MailId", Status: "State", Token: "Token", Attempts: "Tries", NextAttempt: "NextTry", DoneAt: "SentAt"}}},
	{"hostile", Table{Name: "a\"b`c; DROP TABLE x --", Columns: Columns{Key: `i"d`, Status: "s`t", Token: "t:oken", Attempts: "att?empts"}}},
	{"strings", Table{Name: "receivers", States: StringStates}},
	{"oddstrings", Table{Name: "receivers", States: States{"wartend", "it's", `back\slash`, `qu"ote`, "größe", "über-sprungen", "??"}}},
	{"integers", Table{Name: "receivers", States: States{10, 20, 30, 40, -1, int64(60), 70}}},
	{"bigintegers", Table{Name: "receivers", States: States{1, 2, 3, 4, 5, 6, 100_000}}},
	{"where", Table{Name: "receivers", Where: "campaign_id = ? AND name <> 'who?' -- a comment", Args: []any{42}}},
	{"order", Table{Name: "receivers", Order: "priority DESC, id"}},
	{"deletedone", Table{Name: "receivers", DeleteDone: true}},
}

func TestGoldenSchema(t *testing.T) {
	for _, d := range everyDialect {
		var b strings.Builder
		for _, m := range mappings {
			stmts, err := Schema(d, m.table, nil)
			require.NoError(t, err, m.name)
			fmt.Fprintf(&b, "-- %s\n%s;\n\n", m.name, strings.Join(stmts, ";\n"))
		}
		stmts, err := Schema(d, Table{Name: "receivers"}, &Options{ClaimsTable: "ops.claims"})
		require.NoError(t, err)
		fmt.Fprintf(&b, "-- another claims table\n%s;\n", strings.Join(stmts, ";\n"))
		golden(t, "schema."+fileName(d)+".sql", b.String())
	}
}

// Of each mapping, the claim of fresh rows and a mark.
func TestGoldenMappings(t *testing.T) {
	for _, d := range everyDialect {
		var b strings.Builder
		for _, m := range mappings {
			impl, err := d.impl()
			require.NoError(t, err)
			n, err := newNames(impl, m.table, nil)
			require.NoError(t, err)
			n.keyKind, n.live = dialect.KeyInt, &dialect.Live{}
			take := takeSQL{n: n, list: func() string { return n.key + " AS c0" }}
			fmt.Fprintf(&b, "-------- %s\n\n", m.name)
			p := pick{kind: freshRows, lower: true, limit: 100}
			if n.order != "" {
				p = pick{kind: orderedRows}
				write(&b, "look", newDueSQL(n).ordered(100, ""))
			}
			st := take.get(p)
			write(&b, "pick", st.pick)
			write(&b, "claim", st.mark)
			set := newSettleSQL(n)
			write(&b, "done", set.done)
			write(&b, "retry", set.opinions[opinionForm{outcome: sendonce.Retry, size: 1, reason: n.lastError != ""}])
		}
		golden(t, "mappings."+fileName(d)+".sql", b.String())
	}
}

// Atomic relies on the conditional UPDATE alone and SkipLocked on a lock that
// passes rows over. If one were a name for the other, nobody would see it in the
// results.
func TestAtomicAndSkipLockedDiffer(t *testing.T) {
	for _, d := range []Dialect{Postgres, MySQL} {
		for _, m := range mappings {
			if m.name == "reserved" || m.name == "mixedcase" || m.name == "hostile" {
				continue // these have no columns of mail
			}
			atomic, skip := statements(t, d, m.table, "", nil), statements(t, d, m.table, " FOR UPDATE SKIP LOCKED", nil)
			assert.NotEqual(t, atomic, skip)
			assert.NotContains(t, atomic, "SKIP LOCKED")
			assert.NotContains(t, atomic, "FOR UPDATE")
			for text := range strings.SplitSeq(skip, ";\n\n") {
				if strings.HasPrefix(text, "-- pick") || strings.HasPrefix(text, "-- claim") && d == Postgres {
					assert.Contains(t, text, "FOR UPDATE SKIP LOCKED")
				}
			}
			// With the lock taken out they are the same, but for what MySQL reads
			// under it: nothing else differs.
			same := strings.ReplaceAll(skip, " FOR UPDATE SKIP LOCKED", "")
			if d == MySQL {
				picked := regexp.MustCompile(`(-- pick .*\nSELECT (\S+))( AS c0, .*)\n`)
				same = picked.ReplaceAllString(same, "$1\n")
				assert.NotRegexp(t, picked, atomic)
			}
			assert.Equal(t, atomic, same)
			assert.Equal(t, atomic, statements(t, d, m.table, strategies[2].locking, nil), "Locked claims as Atomic does")
		}
	}
}

// A statement that claims says in itself that rows must be pending, whatever was
// true when they were picked.
func TestEveryClaimIsGuarded(t *testing.T) {
	for _, d := range everyDialect {
		for _, s := range strategies {
			for text := range strings.SplitSeq(statements(t, d, fullTable, s.locking, s.partitions), ";\n\n") {
				if !strings.HasPrefix(text, "-- claim") {
					continue
				}
				n := mapped(t, d, fullTable, nil)
				guards := 1 // in the condition of the UPDATE
				if n.d.Caps().UpdateReturning {
					guards = 2 // and in the sub-select
				}
				assert.Equal(t, guards, strings.Count(text, n.d.Is(n.status, n.lit[pending], n.keyKind)), text)
			}
		}
	}
}

// The statements of Unmarked: what it reads, and its results.
func TestGoldenUnmarked(t *testing.T) {
	for _, d := range everyDialect {
		c := claimerFor(t, d, fullTable, "")
		var b strings.Builder
		for _, p := range []pick{{kind: freshRows, lower: true, limit: 100}, {kind: returningRows}} {
			write(&b, "read", c.d.Compile(c.selectRows(c.shape.list(), p)))
		}
		plain := newPlainSQL(c.names, leases.Verify(c.d, c.d.Quote("sendonce_locks")))
		writeAll(&b, "settle", reflect.ValueOf(&plain).Elem())
		golden(t, "unmarked."+fileName(d)+".sql", b.String())
	}
}

// The statements of Serial: its turns, its look at the first row, and its claim.
func TestGoldenSerial(t *testing.T) {
	for _, d := range everyDialect {
		tab := fullTable
		tab.Order = "priority DESC, id"
		c := claimerFor(t, d, tab, "")
		var b strings.Builder
		serial := newSerialSQL(c.names)
		writeAll(&b, "serial", reflect.ValueOf(&serial).Elem())
		take := c.takes.get(pick{kind: headRow})
		writeAll(&b, "take", reflect.ValueOf(&take).Elem())
		golden(t, "serial."+fileName(d)+".sql", b.String())
	}
}
