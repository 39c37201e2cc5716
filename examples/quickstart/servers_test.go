package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

// onServers runs a test on an empty database of each kind.
func onServers(t *testing.T, test func(t *testing.T, driver string, db *servers.Database)) {
	t.Run("PostgreSQL", func(t *testing.T) { test(t, "postgres", servers.Postgres(t)) })
	t.Run("MariaDB", func(t *testing.T) { test(t, "mysql", servers.MariaDB(t)) })
}

// tables are those of the database, by name, with the names of their columns.
func tables(t *testing.T, driver string, db *servers.Database) map[string]string {
	t.Helper()
	schema := map[string]string{"postgres": "current_schema()", "mysql": "database()"}[driver]
	rows, err := db.Open(t, "").Queryx("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = " + schema +
		" ORDER BY table_name, ordinal_position")
	require.NoError(t, err)
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var table, column string
		require.NoError(t, rows.Scan(&table, &column))
		found[table] += column + " "
	}
	require.NoError(t, rows.Err())
	return found
}

func TestServersRunWithKill(t *testing.T) {
	onServers(t, func(t *testing.T, driver string, db *servers.Database) {
		dir := filepath.Join(t.TempDir(), "kept")
		r := quickstart(t, "-driver", driver, "-dsn", db.DSN, "-n", "300", "-dir", dir, "-seed", "5")
		checkRun(t, r, dir, 300, true)
		assert.Len(t, tables(t, driver, db), 2, "the quick start's table and its claims, and no other")

		again := filepath.Join(t.TempDir(), "again")
		checkRun(t, quickstart(t, "-driver", driver, "-dsn", db.DSN, "-n", "100", "-dir", again, "-kill=false"), again, 100, false)
		var rows int
		require.NoError(t, db.Open(t, "").Get(&rows, "SELECT COUNT(*) FROM sendonce_quickstart WHERE name <> '' AND status IN (3, 4)"))
		assert.Equal(t, 400, rows)
	})
}

func TestServersRefuseBadTables(t *testing.T) {
	onServers(t, func(t *testing.T, driver string, database *servers.Database) {
		db := database.Open(t, "")
		db.MustExec("CREATE TABLE mine (id bigint PRIMARY KEY, name varchar(100), address varchar(100), status varchar(20))")
		db.MustExec("CREATE TABLE looks (" + strings.Join(ownColumns, " varchar(20), ") + " varchar(20))")
		before := tables(t, driver, database)
		for _, c := range []struct {
			args  string
			parts []string
		}{
			{"-table mine", []string{"table mine is there and is not the quick start's", "another with -table"}},
			{"-table looks", []string{"table looks", `column "token" is of type`}},
			{"-table nowhere.x", []string{"cannot make the table nowhere.x", "another name with -table"}},
			{"-existing -table none", []string{"table none", "does not exist"}},
			{"-existing -table mine", []string{"table mine", `column "status" is of type`, `column "token" is missing`, "ADD COLUMN"}},
		} {
			r := quickstart(t, append(strings.Fields(c.args), "-driver", driver, "-dsn", database.DSN)...)
			refusedWith(t, r, c.parts...)
		}
		assert.Equal(t, before, tables(t, driver, database), "nothing was changed")
	})
}

func TestServerWithoutTheRightToWrite(t *testing.T) {
	db := servers.Postgres(t)
	r := quickstart(t, "-driver", "postgres", "-dsn", db.With("default_transaction_read_only=on"))
	refusedWith(t, r, "cannot make the table sendonce_quickstart", "read-only", "a database that can be written")
	assert.Empty(t, tables(t, "postgres", db))
}

func TestServersThatAreNotThere(t *testing.T) {
	for _, c := range [][]string{
		{"-driver", "postgres", "-dsn", "postgres://me:secret@127.0.0.1:1/x"},
		{"-driver", "mysql", "-dsn", "me:secret@tcp(127.0.0.1:1)/x"},
	} {
		r := quickstart(t, c...)
		refusedWith(t, r, "cannot reach the database", "refused", "start the server, or correct -dsn")
		assert.NotContains(t, r.Errors, "secret")
	}
}
