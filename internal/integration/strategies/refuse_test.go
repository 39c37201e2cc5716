package strategies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// NewSkipLocked refuses what has no SKIP LOCKED, by name, and says what to use.
func TestSkipLockedRefuses(t *testing.T) {
	refused := func(t *testing.T, c combo.Combo, at *servers.Database, names ...string) {
		t.Helper()
		tb := c.On(t, at).Table(t, 3)
		db := at.Open(t, c.Database.Driver, c.Database.Params...)
		_, err := claim.NewSkipLocked[combo.Mail](t.Context(), db, c.Database.Dialect, tb.Mapping, nil)
		require.Error(t, err)
		for _, name := range append(names, "SKIP LOCKED", "use claim.NewAtomic") {
			assert.ErrorContains(t, err, name)
		}
		// What it says to use works there.
		exactlyOnce(t, tb, drain(t, once, tb.Worker(t)), oneInTwenty)
	}
	t.Run("SQLite", func(t *testing.T) {
		refused(t, combo.Combo{Strategy: combo.Atomic, Database: combo.SQLite, Key: "bigint"}, servers.SQLite(t), "SQLite")
	})
	// These servers only say that they are old: it is their word that counts.
	for version, needs := range map[string]string{"10.5.29-MariaDB": "MariaDB 10.6", "5.7.44": "MySQL 8.0.1"} {
		t.Run(version, func(t *testing.T) {
			old := servers.StartMariaDB(t, servers.Options{Local: true, Args: []string{"--version=" + version}})
			refused(t, combo.Combo{Strategy: combo.Atomic, Database: combo.MariaDB, Key: "bigint"}, old.Database, version, needs)
		})
	}
	t.Run("PostgreSQL 9.4", func(t *testing.T) {
		pg := servers.Postgres(t)
		db := pg.Open(t, "")
		for _, s := range []string{
			"CREATE SCHEMA old",
			`CREATE FUNCTION old.current_setting(name text) RETURNS text LANGUAGE sql AS
				'SELECT CASE name WHEN ''server_version'' THEN ''9.4.26'' ELSE pg_catalog.current_setting(name) END'`,
		} {
			_, err := db.Exec(s)
			require.NoError(t, err)
		}
		d := combo.Postgres
		d.Params = []string{"search_path=old,pg_catalog,public"}
		tb := combo.Combo{Strategy: combo.Atomic, Database: combo.Postgres, Key: "bigint"}.On(t, pg).Table(t, 3)
		_, err := claim.NewSkipLocked[combo.Mail](t.Context(), pg.Open(t, d.Driver, d.Params...), d.Dialect, tb.Mapping, nil)
		require.Error(t, err)
		for _, name := range []string{"9.4.26", "PostgreSQL 9.5", "SKIP LOCKED", "use claim.NewAtomic"} {
			assert.ErrorContains(t, err, name)
		}
	})
}
