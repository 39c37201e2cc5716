package mapping

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
)

const fitting = "status smallint NOT NULL DEFAULT 0, token bigint NOT NULL DEFAULT 0, attempts int NOT NULL DEFAULT 0, next_attempt {time} NULL"

// Each kind of problem is named, and what Check prints mends it. Where words are
// printed and no statement, byHand is what they ask for.
func TestEveryProblemCanBeCured(t *testing.T) {
	index := "CREATE INDEX due ON receivers (next_attempt)"
	for _, x := range []struct {
		name   string
		create []string
		table  claim.Table // Name is receivers
		says   []string
		byHand []string // a statement, or "Status=column"
		skip   claim.Dialect
	}{
		{name: "nothing there", create: []string{receivers}, says: []string{`column "status" is missing`, `column "token" is missing`, `column "attempts" is missing`, `column "next_attempt" is missing`, `no index begins with column "next_attempt"`, "claims table", "does not exist"}},
		{name: "all options", create: []string{receivers}, table: claim.Table{Columns: claim.Columns{DoneAt: "done_at", LastError: "last_error", Generation: "generation"}}, says: []string{`column "done_at" is missing`, `column "last_error" is missing`, `column "generation" is missing`}},
		{name: "no index", create: []string{"CREATE TABLE receivers (id {serial}, " + fitting + ")"}, says: []string{`no index begins with column "next_attempt"`}},
		{name: "no claims table", create: []string{"CREATE TABLE receivers (id {serial}, " + fitting + ")", index}, says: []string{"the claims table"}},
		{name: "string states", create: []string{receivers}, table: claim.Table{States: claim.StringStates}, says: []string{`column "status" is missing`}},
		{name: "odd states", create: []string{receivers}, table: claim.Table{States: states(`größe 'x' \`, "b", "c", "d", "e", "f", strings.Repeat("y", 40))}, says: []string{`column "status" is missing`}},
		{name: "large states", create: []string{receivers}, table: claim.Table{States: states(100_000, -1, 2, 3, 4, 5, int64(6_000_000_000))}, says: []string{`column "status" is missing`}},
		{name: "nullable token", create: []string{"CREATE TABLE receivers (id {serial}, " + strings.Replace(fitting, "token bigint NOT NULL DEFAULT 0", "token bigint", 1) + ")", "INSERT INTO receivers (status) VALUES (0)"}, says: []string{`column "token" may be NULL`}, skip: claim.SQLite},
		{name: "nullable attempts", create: []string{"CREATE TABLE receivers (id {serial}, " + strings.Replace(fitting, "attempts int NOT NULL DEFAULT 0", "attempts int", 1) + ")", "INSERT INTO receivers (status) VALUES (0)"}, says: []string{`column "attempts" may be NULL`}, skip: claim.SQLite},
		{name: "next_attempt must have a value", create: []string{"CREATE TABLE receivers (id {serial}, " + strings.Replace(fitting, "next_attempt {time} NULL", "next_attempt {time} NOT NULL", 1) + ")"}, says: []string{`column "next_attempt" is NOT NULL`}, skip: claim.SQLite},
		{name: "key not unique", create: []string{"CREATE TABLE receivers (id bigint NOT NULL, " + fitting + ")", index}, says: []string{`the key column "id" is not unique by itself`}, skip: claim.SQLite},
		{name: "key of two columns", create: []string{"CREATE TABLE receivers (id bigint NOT NULL, b bigint NOT NULL, PRIMARY KEY (id, b))"}, says: []string{`the key column "id" is not unique by itself`}, byHand: []string{"CREATE UNIQUE INDEX only_id ON receivers (id)"}},
		{name: "key may be null", create: []string{"CREATE TABLE receivers (id bigint UNIQUE)"}, says: []string{`column "id" may be NULL`}, byHand: []string{"DROP TABLE receivers", receivers}},
		{name: "status of text", create: []string{"CREATE TABLE receivers (id {serial}, status varchar(10))"}, says: []string{`column "status" is of type`, "and not an integer"}, byHand: []string{"Status=sendonce_status"}},
		{name: "status of integers", create: []string{"CREATE TABLE receivers (id {serial}, status int)"}, table: claim.Table{States: claim.StringStates}, says: []string{`column "status" is of type`, "and not text"}, byHand: []string{"Status=sendonce_status"}},
		{name: "narrow status", create: []string{"CREATE TABLE receivers (id {serial}, status varchar(3) NOT NULL DEFAULT 'new')"}, table: claim.Table{States: claim.StringStates}, says: []string{"room for 3 characters"}, byHand: []string{"ALTER TABLE receivers DROP COLUMN status"}, skip: claim.SQLite},
		{name: "token of text", create: []string{"CREATE TABLE receivers (id {serial}, token varchar(36))"}, says: []string{`column "token" is of type`}, byHand: []string{"Token=sendonce_token"}},
		{name: "a foreign claims table", create: []string{"CREATE TABLE receivers (id {serial}, " + fitting + ")", index, "CREATE TABLE sendonce_claims (id int)"}, says: []string{"has no column", "Options.ClaimsTable"}, byHand: []string{"DROP TABLE sendonce_claims"}},
		{name: "another case", create: []string{"CREATE TABLE receivers (id {serial}, {q}Status{q} smallint NOT NULL DEFAULT 0)"}, says: []string{`column "status" is missing`, `there is "Status"`}, byHand: []string{"Status=Status"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db target) {
				if db.d == x.skip {
					t.Skip("the database has no such thing, or no statement for it")
				}
				db.do(t, x.create...)
				tab := x.table
				tab.Name = "receivers"
				err := claim.Check(t.Context(), db.DB, db.d, tab, nil)
				require.Error(t, err)
				assert.True(t, sendonce.IsFatal(err))
				for _, s := range x.says {
					assert.Contains(t, err.Error(), s)
				}
				for _, s := range x.byHand {
					if field, column, ok := strings.Cut(s, "="); ok {
						set(&tab, field, column)
					} else {
						db.do(t, s)
					}
				}
				if len(x.byHand) == 0 || !strings.Contains(x.byHand[0], "=") {
					err = claim.Check(t.Context(), db.DB, db.d, tab, nil)
				}
				for round := 0; round < 3 && err != nil; round++ {
					for _, p := range problemsOf(t, err) {
						cure(t, db, p)
					}
					err = claim.Check(t.Context(), db.DB, db.d, tab, nil)
				}
				require.NoError(t, err)
				works(t, db, tab)
			})
		})
	}
}

func set(tab *claim.Table, field, column string) {
	switch field {
	case "Status":
		tab.Columns.Status = column
	case "Token":
		tab.Columns.Token = column
	}
}

// cure runs what a problem's cure has of SQL, as it was printed.
func cure(t *testing.T, db target, p claim.Problem) {
	t.Helper()
	for _, verb := range []string{"UPDATE ", "ALTER TABLE ", "CREATE "} {
		if i := strings.Index(p.Cure, verb); i == 0 || i > 0 && strings.HasSuffix(p.Cure[:i], ": ") {
			text, _, _ := strings.Cut(p.Cure[i:], ", or set Columns.")
			for s := range strings.SplitSeq(text, "; ") {
				_, err := db.Exec(s)
				require.NoError(t, err, p.Cure)
			}
			return
		}
	}
}

// works claims and marks a row through the mapping.
func works(t *testing.T, db target, tab claim.Table) {
	t.Helper()
	db.do(t, "DELETE FROM receivers")
	if len(db.column(t, "SELECT COUNT(*) FROM receivers")) == 1 {
		insert := "INSERT INTO receivers (id) VALUES (1)"
		if _, err := db.Exec(insert); err != nil {
			db.do(t, "INSERT INTO receivers (id, b) VALUES (1, 1)")
		}
	}
	c, err := claim.NewAtomic[struct {
		ID int64 `db:"id"`
	}](t.Context(), db.DB, db.d, tab, nil)
	require.NoError(t, err)
	b := take(t, c, 10)
	require.Len(t, b.Items, 1)
	assert.Equal(t, int64(1), b.Items[0].Key)
	assert.Empty(t, settle(t, c, b, sendonce.Done))
	counts, err := c.Counts(t.Context())
	require.NoError(t, err)
	assert.Equal(t, sendonce.Counts{Done: 1}, counts)
}

func TestNoTable(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers"}
		for _, err := range []error{claim.Check(t.Context(), db.DB, db.d, tab, nil), claim.Migrate(t.Context(), db.DB, db.d, tab, nil)} {
			require.ErrorContains(t, err, "table receivers cannot be used: it does not exist")
			assert.True(t, sendonce.IsFatal(err))
		}
		db.do(t, "CREATE TABLE {q}Receivers{q} (id {serial})")
		err := claim.Check(t.Context(), db.DB, db.d, tab, nil)
		require.ErrorContains(t, err, `there is "Receivers"`)
		_, err = claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
		require.ErrorContains(t, err, `there is "Receivers"`)
	})
}

// Two tables whose names differ in case only are told apart.
func TestTablesThatDifferInCase(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		if db.d == claim.SQLite {
			t.Skip("SQLite has no two such tables")
		}
		db.do(t, "CREATE TABLE {q}Receivers{q} (id varchar(10) PRIMARY KEY, token varchar(3), attempts {time}, next_attempt int, other int)", "CREATE INDEX x ON {q}Receivers{q} (next_attempt)", receivers)
		db.ready(t, claim.Table{Name: "receivers"})
		works(t, db, claim.Table{Name: "receivers"})
	})
}

// Migrate adds what is missing, once, whoever else is doing the same.
func TestMigrateIsIdempotent(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		tab := claim.Table{Name: "receivers", Columns: claim.Columns{DoneAt: "done_at", LastError: "last_error", Generation: "generation"}, States: claim.StringStates}
		db.do(t, receivers, "INSERT INTO receivers (address) VALUES ('a'), ('b')")
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() { errs[i] = claim.Migrate(t.Context(), db.DB, db.d, tab, nil) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		for range 2 {
			require.NoError(t, claim.Migrate(t.Context(), db.DB, db.d, tab, nil))
			require.NoError(t, claim.Check(t.Context(), db.DB, db.d, tab, nil))
		}
		assert.Equal(t, []string{"pending", "pending"}, db.column(t, "SELECT status FROM receivers"))
	})
}

// Schema's statements are what Migrate does, for a table that has nothing yet.
func TestSchemaCanBeRun(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		db.do(t, receivers)
		tab := claim.Table{Name: "receivers", Columns: claim.Columns{DoneAt: "done_at", LastError: "last_error", Generation: "generation"}}
		stmts, err := claim.Schema(db.d, tab, nil)
		require.NoError(t, err)
		for _, s := range stmts {
			_, err := db.Exec(s)
			require.NoError(t, err, s)
		}
		require.NoError(t, claim.Check(t.Context(), db.DB, db.d, tab, nil))
	})
}

// A mistake in the user's own SQL shows at the start, and says where it is.
func TestBadConditions(t *testing.T) {
	onEach(t, func(t *testing.T, db target) {
		db.ready(t, claim.Table{Name: "receivers"}, receivers)
		for _, x := range []struct {
			tab  claim.Table
			says string
		}{
			{claim.Table{Name: "receivers", Where: "no_such_column = ?", Args: []any{1}}, "Table.Where does not work on table receivers"},
			{claim.Table{Name: "receivers", Where: "address = ? AND", Args: []any{"x"}}, "Table.Where does not work on table receivers"},
			{claim.Table{Name: "receivers", Order: "no_such_column"}, "Table.Order does not work on table receivers"},
			{claim.Table{Name: "receivers", Where: "address = :address"}, "write ? for a value"},
		} {
			_, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, x.tab, nil)
			require.ErrorContains(t, err, x.says)
		}
	})
}

// A table whose first rows were deleted has empty pages at its beginning, which a
// look at a few rows must not read.
func TestCheckReadsLittleOfAnEmptiedTable(t *testing.T) {
	db := onPostgres(t)
	db.DB.SetMaxOpenConns(1) // whose statistics are read
	tab := claim.Table{Name: "receivers"}
	db.ready(t, tab, receivers)
	db.do(t, "INSERT INTO receivers (id, address) SELECT i, 'a' FROM generate_series(1000, 100000) i",
		"DELETE FROM receivers WHERE id BETWEEN 1000 AND 99900", "VACUUM receivers")
	pages := func() (n int) {
		db.do(t, "SELECT pg_stat_force_next_flush()")
		require.NoError(t, db.DB.Get(&n, "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE relname = 'receivers'"))
		return n
	}
	before := pages()
	_, err := claim.NewAtomic[mail](t.Context(), db.DB, db.d, tab, nil)
	require.NoError(t, err)
	assert.Less(t, pages()-before, 200)
}

// Pages of a table that is still to be filled keep room for updates. Somebody else's
// word on that stays, and a table that was there before is not made larger.
func TestMigrateMakesRoomInNewTables(t *testing.T) {
	db := onPostgres(t)
	tab := claim.Table{Name: "receivers"}
	for create, want := range map[string]string{
		"CREATE TABLE receivers (id bigint PRIMARY KEY, address text)":                                                                        "fillfactor=50",
		"CREATE TABLE receivers (id bigint PRIMARY KEY, address text) WITH (fillfactor = 70)":                                                 "fillfactor=70",
		"CREATE TABLE receivers AS SELECT 1::bigint AS id, 'a' AS address; ALTER TABLE receivers ADD PRIMARY KEY (id)":                        "",
		"CREATE TABLE receivers (id bigint PRIMARY KEY, address text) PARTITION BY RANGE (id)":                                                "",
		"CREATE TABLE receivers (id bigint PRIMARY KEY, address text) WITH (autovacuum_enabled = off)":                                        "autovacuum_enabled=off,fillfactor=50",
		"CREATE TABLE receivers (id bigint PRIMARY KEY, address text); ALTER TABLE receivers SET (fillfactor = 50, toast_tuple_target = 200)": "fillfactor=50,toast_tuple_target=200",
	} {
		db.do(t, "DROP TABLE IF EXISTS receivers, sendonce_claims")
		db.ready(t, tab, create)
		db.ready(t, tab) // again
		assert.Equal(t, []string{want}, db.column(t, "SELECT COALESCE(array_to_string(reloptions, ','), '') FROM pg_class WHERE relname = 'receivers'"), create)
	}
}
