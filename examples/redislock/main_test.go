package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sendonce/sendonce/examples/internal/demotest"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func address(r *servers.RedisDB) string { return fmt.Sprintf("redis://%s/%d", r.Addr, r.DB) }

func TestSQLite(t *testing.T) {
	redis, lite := address(servers.Redis(t)), servers.SQLite(t)
	for range 2 { // the lock of the first run is not in the way
		demotest.Sent(t, demotest.Run(t, "-redis", redis, "-dsn", lite.Name, "-n", "400"), lite.Open(t, ""), 400)
	}
}

func TestServers(t *testing.T) {
	demotest.OnServers(t, func(t *testing.T, driver string, db *servers.Database) {
		r := demotest.Run(t, "-redis", address(servers.Redis(t)), "-driver", driver, "-dsn", db.DSN, "-n", "400")
		demotest.Sent(t, r, db.Open(t, ""), 400)
	})
}

func TestBadRedis(t *testing.T) {
	lite := servers.SQLite(t)
	for _, c := range []struct {
		redis string
		parts []string
	}{
		{"redis://me:secret@127.0.0.1:1/0", []string{"cannot reach Redis", "127.0.0.1:1", "start the server, or correct -redis"}},
		{"http://me:secret@127.0.0.1/", []string{"-redis is not understood", "http", "give it as in redis://"}},
		{"redis://me:secret@%zz", []string{"-redis is not understood", "%zz", "give it as in redis://"}},
		{"redis://me:secret@127.0.0.1/first", []string{"-redis is not understood", "first", "give it as in redis://"}},
	} {
		t.Run(strings.ReplaceAll(c.redis, "/", "|"), func(t *testing.T) {
			demotest.Refused(t, demotest.Run(t, "-redis", c.redis, "-dsn", lite.Name), c.parts...)
		})
	}
	assert.NoFileExists(t, lite.Name)
}

func TestBadInput(t *testing.T) {
	demotest.RefusesBadInput(t, "-redis", address(servers.Redis(t)))
}
