package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sendonce/sendonce/examples/internal/demotest"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestServers(t *testing.T) {
	demotest.OnServers(t, func(t *testing.T, driver string, db *servers.Database) {
		for range 2 { // the table is made anew
			r := demotest.Run(t, "-driver", driver, "-dsn", db.DSN, "-n", "400")
			demotest.Sent(t, r, db.Open(t, ""), 400)
		}
	})
}

func TestSQLiteIsRefused(t *testing.T) {
	lite := servers.SQLite(t)
	for _, args := range [][]string{nil, {"-dsn", lite.Name}} {
		demotest.Refused(t, demotest.Run(t, args...), "SQLite has no SKIP LOCKED", "give -driver postgres or mysql")
	}
	assert.NoFileExists(t, lite.Name)
}

func TestBadInput(t *testing.T) { demotest.RefusesBadInput(t) }
