// Package combo makes every claim strategy on every database, for the tests of
// packages conformance and strategies.
package combo

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/lock/sqllock"
)

// Mail is a row as the tests read it.
type Mail struct {
	Value string `db:"value"`
}

// Database is one way to reach one kind of database.
type Database struct {
	Name    string
	Dialect claim.Dialect
	New     func(testing.TB) *servers.Database
	Driver  string
	Params  []string // of every connection
}

// The databases, by their common drivers.
var (
	Postgres   = Database{"Postgres", claim.Postgres, servers.Postgres, "pgx", nil}
	PostgresPQ = Database{"Postgres/pq", claim.Postgres, servers.Postgres, "postgres", nil}
	MariaDB    = Database{"MariaDB", claim.MySQL, servers.MariaDB, "mysql", nil}
	// FoundRows counts the rows that an UPDATE matched, and not those changed.
	FoundRows = Database{"MariaDB/found rows", claim.MySQL, servers.MariaDB, "mysql", []string{"clientFoundRows=true"}}
	SQLite    = Database{"SQLite", claim.SQLite, servers.SQLite, "sqlite3", nil}
	// ModernC is SQLite in Go, which the race detector slows down a lot.
	ModernC = Database{"SQLite/modernc", claim.SQLite, servers.SQLite, "sqlite", nil}
)

// Databases are those that every strategy is tested on.
func Databases() []Database { return []Database{Postgres, MariaDB, SQLite} }

// Strategy is how claims are made.
type Strategy string

// The strategies. Locked has three, by where its lock is.
const (
	Atomic      Strategy = "Atomic"
	SkipLocked  Strategy = "SkipLocked"
	LockedMem   Strategy = "Locked/memlock"
	LockedSQL   Strategy = "Locked/sqllock"
	LockedRedis Strategy = "Locked/redislock"
	Partitioned Strategy = "Partitioned"

	// Unmarked is apart: its partitions have one owner at a time, so workers that
	// meet at the same rows, as most tests want them, can't be had.
	Unmarked Strategy = "Unmarked"

	// Serial is apart, too: one row at a time, whoever asks.
	Serial Strategy = "Serial"
)

// Strategies are those that the database can do.
func (d Database) Strategies() []Strategy {
	all := []Strategy{Atomic, SkipLocked, LockedMem, LockedSQL, LockedRedis, Partitioned}
	if d.Dialect == claim.SQLite {
		all = slices.DeleteFunc(all, func(s Strategy) bool { return s == SkipLocked })
	}
	return all
}

// Combo is a strategy on a database.
type Combo struct {
	Strategy Strategy
	Database Database
	Key      string // the key column's type
}

// Name is the combination for people.
func (c Combo) Name() string {
	return c.Database.Name + "/" + string(c.Strategy) + "/" + c.Key
}

// All returns every strategy on every database, with keys of type bigint.
func All() []Combo {
	var all []Combo
	for _, d := range Databases() {
		for _, s := range d.Strategies() {
			all = append(all, Combo{s, d, "bigint"})
		}
	}
	return all
}

// AllUnmarked returns the strategy that marks nothing, on every database.
func AllUnmarked() []Combo {
	var all []Combo
	for _, d := range Databases() {
		all = append(all, Combo{Unmarked, d, "bigint"})
	}
	return all
}

// Each runs f for every strategy on every database, one after the other, and
// reports those that ran.
func Each(t *testing.T, f func(t *testing.T, p *Place)) {
	t.Helper()
	Run(t, All(), f)
}

// Run is Each for some combinations.
func Run(t *testing.T, combos []Combo, f func(t *testing.T, p *Place)) {
	t.Helper()
	for _, c := range combos {
		t.Run(c.Name(), func(t *testing.T) {
			servers.Ran(t, c.Name())
			f(t, c.Start(t))
		})
	}
}

// Place is a new database of one test's own, with all that a combination needs.
type Place struct {
	Combo
	At    *servers.Database
	Redis *servers.RedisDB // nil unless the strategy locks there

	mu        sync.Mutex
	all, free []*Link
	model     string // the first table: others are made like it
}

// Start makes the place.
func (c Combo) Start(t testing.TB) *Place {
	t.Helper()
	p := &Place{Combo: c, At: c.Database.New(t)}
	p.prepare(t)
	return p
}

// On is a place in a database that there is.
func (c Combo) On(t testing.TB, at *servers.Database) *Place {
	t.Helper()
	p := &Place{Combo: c, At: at}
	p.prepare(t)
	return p
}

func (p *Place) prepare(t testing.TB) {
	t.Helper()
	t.Cleanup(p.closeAll)
	switch p.Strategy {
	case LockedSQL, Unmarked:
		db := p.At.Open(t, p.Database.Driver, p.Database.Params...)
		require.NoError(t, sqllock.Migrate(t.Context(), db.DB, p.Database.LockDialect(), nil))
	case LockedRedis:
		p.Redis = servers.Redis(t)
	}
}

// LockDialect is what sqllock calls the database.
func (d Database) LockDialect() sqllock.Dialect {
	return map[claim.Dialect]sqllock.Dialect{claim.Postgres: sqllock.Postgres, claim.MySQL: sqllock.MySQL, claim.SQLite: sqllock.SQLite}[d.Dialect]
}
