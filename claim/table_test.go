package claim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/dialect"
)

// Every bad mapping names the thing and the cure.
func TestBadMappings(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, x := range []struct {
		name  string
		table Table
		opts  *Options
		on    Dialect // 0: all
		says  []string
	}{
		{"no name", Table{}, nil, 0, []string{"no name", "Table.Name"}},
		{"no name behind the dot", Table{Name: "app."}, nil, 0, []string{"no name", "Table.Name"}},
		{"no schema before the dot", Table{Name: ".mail"}, nil, 0, []string{".mail", "Table.Schema"}},
		{"two dots", Table{Name: "db.app.mail"}, nil, 0, []string{"db.app.mail", "Table.Schema"}},
		{"NUL", Table{Name: "a\x00b"}, nil, 0, []string{`a\x00b`, "NUL"}},
		{"NUL in the schema", Table{Schema: "a\x00", Name: "b"}, nil, 0, []string{"NUL"}},
		{"NUL in a column", Table{Name: "t", Columns: Columns{Token: "a\x00"}}, nil, 0, []string{"NUL"}},
		{"much too long", Table{Name: long + long}, nil, 0, []string{"128 bytes"}},
		{"too long", Table{Name: long}, nil, Postgres, []string{"63 bytes"}},
		{"a column too long", Table{Name: "t", Columns: Columns{DoneAt: long}}, nil, Postgres, []string{long, "63 bytes"}},
		{"a column too long", Table{Name: "t", Columns: Columns{DoneAt: long}}, nil, MySQL, []string{long, "64 characters"}},
		{"one column twice", Table{Name: "t", Columns: Columns{Status: "id"}}, nil, 0, []string{"Columns.Key", "Columns.Status", `"id"`}},
		{"one column twice", Table{Name: "t", Columns: Columns{DoneAt: "x", LastError: "x"}}, nil, 0, []string{"Columns.DoneAt", "Columns.LastError"}},
		{"claims table", Table{Name: "t"}, &Options{ClaimsTable: "a.b.c"}, 0, []string{"Options.ClaimsTable", "a.b.c"}},
		{"claims table", Table{Name: "t"}, &Options{ClaimsTable: "a\x00"}, 0, []string{"Options.ClaimsTable", "NUL"}},
		{"one state only", Table{Name: "t", States: States{Pending: 1}}, nil, 0, []string{"States.Claimed", "set all"}},
		{"mixed states", Table{Name: "t", States: States{0, 1, 2, "done", 4, 5, 6}}, nil, 0, []string{"States.Done", "all integers or all strings"}},
		{"equal states", Table{Name: "t", States: States{0, 1, 2, 1, 4, 5, 6}}, nil, 0, []string{"States.Claimed", "States.Done", "must differ"}},
		{"equal states", Table{Name: "t", States: States{0, 1, 2, int64(1), 4, 5, 6}}, nil, 0, []string{"States.Claimed", "States.Done", "must differ"}},
		{"alike in case", Table{Name: "t", States: States{"p", "c", "s", "D", "d", "k", "u"}}, nil, MySQL, []string{"States.Done", "States.Dead", "differ in case only"}},
		{"a float", Table{Name: "t", States: States{0, 1, 2, 3.0, 4, 5, 6}}, nil, 0, []string{"States.Done", "float64", "an int, an int64 or a string"}},
		{"bytes", Table{Name: "t", States: States{Pending: []byte("x")}}, nil, 0, []string{"States.Pending", "[]uint8"}},
		{"a boolean", Table{Name: "t", States: States{Pending: false, Done: true}}, nil, 0, []string{"States.Pending", "bool"}},
		{"an empty state", Table{Name: "t", States: States{"", "b", "c", "d", "e", "f", "g"}}, nil, 0, []string{"States.Pending", `""`}},
		{"a space at its end", Table{Name: "t", States: States{"a", "b ", "c", "d", "e", "f", "g"}}, nil, 0, []string{"States.Claimed", "ends in a space"}},
		{"NUL in a state", Table{Name: "t", States: States{"a", "b\x00", "c", "d", "e", "f", "g"}}, nil, 0, []string{"States.Claimed", `b\x00`}},
		{"Args and no Where", Table{Name: "t", Args: []any{1}}, nil, 0, []string{"Table.Args", "Table.Where is empty"}},
		{"too few Args", Table{Name: "t", Where: "a = ? AND b = ?", Args: []any{1}}, nil, 0, []string{"Table.Where", "2 question marks and 1 arguments"}},
		{"too many Args", Table{Name: "t", Where: "a = '?'", Args: []any{1}}, nil, 0, []string{"Table.Where", "0 question marks and 1 arguments"}},
		{"a named argument", Table{Name: "t", Where: "a = :a"}, nil, 0, []string{"Table.Where", `":a"`, "write ?"}},
		{"one of our names", Table{Name: "t", Where: "token = :token"}, nil, 0, []string{"Table.Where", `":token"`}},
		{"an open quotation", Table{Name: "t", Where: "a = 'x"}, nil, 0, []string{"Table.Where", "'x", "no end"}},
		{"an apostrophe in a comment", Table{Name: "t", Where: "a = 1 -- don't"}, nil, 0, []string{"Table.Where", "comment"}},
		{"a name in the order", Table{Name: "t", Order: "a > :x"}, nil, 0, []string{"Table.Order", `":x"`}},
		{"an open quotation in the order", Table{Name: "t", Order: `"a`}, nil, 0, []string{"Table.Order", "no end"}},
	} {
		for _, d := range everyDialect {
			if x.on != 0 && x.on != d {
				continue
			}
			_, err := Schema(d, x.table, x.opts)
			require.Error(t, err, "%s on %s", x.name, d)
			assert.Contains(t, err.Error(), "sendonce: ", x.name)
			for _, s := range x.says {
				assert.Contains(t, err.Error(), s, x.name)
			}
		}
	}
	for _, d := range []Dialect{0, 4} {
		_, err := Schema(d, Table{Name: "t"}, nil)
		require.ErrorContains(t, err, "claim.Postgres, claim.MySQL, claim.SQLite")
		assert.Contains(t, d.String(), "Dialect(")
	}
}

func TestGoodMappings(t *testing.T) {
	for _, where := range []string{"a = ?", "data ?? 'k' AND a = ?", "a = ? -- all of it", "a = 'it''s' AND b = ?", "a::text = ?", "tags[1:2] = ?", "a = ? /* ok */"} {
		for _, d := range everyDialect {
			_, err := Schema(d, Table{Name: "t", Where: where, Args: []any{1}}, nil)
			require.NoError(t, err, "%s: %s", d, where)
		}
	}
	_, err := Schema(MySQL, Table{Name: "t", Where: `a = 'it\'s' AND b = ?`, Args: []any{1}}, nil)
	require.NoError(t, err)
	_, err = Schema(Postgres, Table{Name: "t", States: States{"p", "c", "s", "D", "d", "k", "u"}}, nil)
	require.NoError(t, err, "PostgreSQL tells D from d")
}

func TestNamesOf(t *testing.T) {
	n := mapped(t, Postgres, Table{Name: "app.mail"}, nil)
	assert.Equal(t, []string{`"app"."mail"`, "app.mail", "app.mail", `"app"."sendonce_claims"`}, []string{n.quoted, n.source, n.namespace, n.claims})
	n = mapped(t, MySQL, Table{Schema: "app", Name: "mail.queue", Namespace: "spring"}, nil)
	assert.Equal(t, []string{"`app`.`mail.queue`", "app.mail.queue", "spring", "`app`.`sendonce_claims`"}, []string{n.quoted, n.source, n.namespace, n.claims})
}

func TestStateOf(t *testing.T) {
	n := mapped(t, Postgres, Table{Name: "t", States: StringStates}, nil)
	for text, want := range map[string]state{"pending": pending, "done": done, "unknown": unknown, "done   ": done, "": foreign, "cancelled": foreign, "Done": foreign, "3": foreign} {
		assert.Equal(t, want, n.state(text), text)
	}
	n = mapped(t, Postgres, Table{Name: "t"}, nil)
	for text, want := range map[string]state{"0": pending, "6": unknown, "7": foreign, "-1": foreign} {
		assert.Equal(t, want, n.state(text), text)
	}
}

// Names of indexes fit and differ, however long the table's.
func TestIndexNames(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range []string{"mail", strings.Repeat("a", 50), strings.Repeat("a", 60) + "b", strings.Repeat("a", 60) + "c", strings.Repeat("ä", 31)} {
		n := mapped(t, Postgres, Table{Name: table}, nil)
		name, _, _ := strings.Cut(strings.TrimPrefix(n.createIndex(), "CREATE INDEX "), " ON ")
		assert.True(t, strings.HasSuffix(name, `_sendonce_due"`), name)
		assert.LessOrEqual(t, len(name), 65, name)
		assert.NotContains(t, name, "\ufffd")
		assert.Equal(t, name, strings.ToValidUTF8(name, "?"))
		assert.False(t, seen[name], name)
		seen[name] = true
	}
}

func TestStatesFitTheirColumn(t *testing.T) {
	long := strings.Repeat("x", 30)
	for _, x := range []struct {
		states States
		ddl    string
	}{
		{States{}, "smallint NOT NULL DEFAULT 0"},
		{States{1, 2, 3, 4, 5, 6, 40_000}, "integer NOT NULL DEFAULT 1"},
		{States{1, 2, 3, 4, 5, 6, -1 << 40}, "bigint NOT NULL DEFAULT 1"},
		{StringStates, "varchar(20) NOT NULL DEFAULT 'pending'"},
		{States{"a", "b", "c", "d", "e", "f", long}, "varchar(30) NOT NULL DEFAULT 'a'"},
	} {
		stmts, err := Schema(Postgres, Table{Name: "t", States: x.states}, nil)
		require.NoError(t, err)
		assert.Equal(t, `ALTER TABLE "t" ADD COLUMN "status" `+x.ddl, stmts[1])
	}
}

// Problems of a live table, each with its cure.
func TestProblems(t *testing.T) {
	column := func(l *dialect.Live, name string) *dialect.Column {
		for i := range l.Columns {
			if l.Columns[i].Name == name {
				return &l.Columns[i]
			}
		}
		return nil
	}
	for _, x := range []struct {
		name   string
		tab    Table
		change func(table, claims *dialect.Live)
		what   string
		cure   string
	}{
		{"missing", Table{}, func(l, _ *dialect.Live) { l.Exists = false }, "it does not exist", "set Table.Name"},
		{"alike", Table{}, func(l, _ *dialect.Live) { l.Exists, l.Similar = false, []string{"Receivers"} }, "it does not exist", `there is "Receivers"`},
		{"read-only", Table{}, func(l, _ *dialect.Live) { l.ReadOnly = "the server is a standby" }, "it cannot be written", "standby"},
		{"no key", Table{}, func(l, _ *dialect.Live) { column(l, "id").Name = "pk" }, `column "id" is missing`, "set Columns.Key"},
		{"another case", Table{}, func(l, _ *dialect.Live) { column(l, "token").Name = "Token" }, `column "token" is missing`, `there is "Token": set Columns.Token`},
		{"key of bytes", Table{}, func(l, _ *dialect.Live) { column(l, "id").Kind, column(l, "id").Type = dialect.KindOther, "bytea" }, `column "id" is of type bytea`, "set Columns.Key"},
		{"key may be null", Table{}, func(l, _ *dialect.Live) { column(l, "id").Nullable = true }, `column "id" may be NULL`, "declare it NOT NULL"},
		{"key not unique", Table{}, func(l, _ *dialect.Live) { l.Unique["id"] = false }, `"id" is not unique`, `ADD UNIQUE ("id")`},
		{"boolean status", Table{}, func(l, _ *dialect.Live) {
			column(l, "status").Kind, column(l, "status").Type = dialect.KindBool, "boolean"
		}, `column "status" is of type boolean, and not an integer`, `ADD COLUMN "sendonce_status" smallint`},
		{"text status", Table{States: StringStates}, nil, `column "status" is of type smallint, and not text`, `ADD COLUMN "sendonce_status" varchar(20)`},
		{"null token", Table{}, func(l, _ *dialect.Live) { column(l, "token").Nullable = true }, `column "token" may be NULL`, `ALTER COLUMN "token" SET NOT NULL`},
		{"next not null", Table{}, func(l, _ *dialect.Live) { column(l, "next_attempt").Nullable = false }, `column "next_attempt" is NOT NULL`, `DROP NOT NULL`},
		{"next a date", Table{}, func(l, _ *dialect.Live) {
			column(l, "next_attempt").Kind, column(l, "next_attempt").Type = dialect.KindOther, "date"
		}, `is of type date, and not a time (timestamptz)`, `ADD COLUMN "sendonce_nextattempt" timestamptz`},
		{"no index", Table{}, func(l, _ *dialect.Live) { l.Leading = nil }, `no index begins with column "next_attempt"`, `CREATE INDEX "receivers_sendonce_due"`},
		{"narrow status", Table{States: StringStates}, func(l, _ *dialect.Live) {
			c := column(l, "status")
			c.Kind, c.Type, c.MaxChars = dialect.KindText, "character varying", 3
		}, "has room for 3 characters, and the States need 7", "make it wider"},
		{"enum", Table{States: StringStates}, func(l, _ *dialect.Live) {
			c := column(l, "status")
			c.Kind, c.Type = dialect.KindText, "enum('pending','Claimed','sending','done','dead')"
		}, `lacks the States ["skipped" "unknown"]`, "add them to the type"},
		{"no claims", Table{}, func(_, c *dialect.Live) { c.Exists = false }, `the claims table "sendonce_claims" does not exist`, `CREATE TABLE IF NOT EXISTS "sendonce_claims"`},
		{"other claims", Table{}, func(_, c *dialect.Live) { c.Columns = c.Columns[:3] }, `no column "row_keys"`, "Options.ClaimsTable"},
		{"claims engine", Table{}, func(_, c *dialect.Live) { c.ReadOnly = "its engine is MyISAM" }, `claims table "sendonce_claims" cannot be written`, "MyISAM"},
	} {
		tab := x.tab
		tab.Name = "receivers"
		n := mapped(t, Postgres, tab, nil)
		live := liveTables{table: liveTable(n.d, dialect.KindInt), claims: &dialect.Live{Exists: true}}
		for _, w := range n.claimsColumns() {
			live.claims.Columns = append(live.claims.Columns, dialect.Column{Name: w.name, Kind: w.kinds[0], Type: w.ddl})
		}
		if x.change != nil {
			x.change(live.table, live.claims)
		} else {
			tab.Name = "receivers"
		}
		err := n.problems(live)
		var ce *CheckError
		require.ErrorAs(t, err, &ce, x.name)
		found := false
		for _, p := range ce.Problems {
			found = found || strings.Contains(p.What, x.what) && strings.Contains(p.Cure, x.cure)
		}
		assert.True(t, found, "%s: %v", x.name, err)
		assert.Contains(t, err.Error(), "table receivers cannot be used")
		assert.True(t, ce.Fatal())
	}
}

func TestNoProblems(t *testing.T) {
	n := mapped(t, Postgres, fullTable, nil)
	live := liveTables{table: liveTable(n.d, dialect.KindInt), claims: &dialect.Live{Exists: true}}
	for _, w := range n.claimsColumns() {
		live.claims.Columns = append(live.claims.Columns, dialect.Column{Name: w.name, Kind: w.kinds[0], Type: w.ddl})
	}
	require.NoError(t, n.problems(live))
}
