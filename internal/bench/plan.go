package bench

import (
	"fmt"
	"time"

	"github.com/sendonce/sendonce/internal/bench/child"
)

// Names of contenders that bars speak of. A Dispatcher records a batch while it
// claims the next one, so with W=1 it has two sessions at work: as many as the
// hand-written loops have with W=2.
const (
	river      = "River"
	skip       = "PostgreSQL SkipLocked B=1000 W=1"
	limitSkip  = "PostgreSQL hand-written SkipLocked B=1000 W=2"
	limitSQL   = "PostgreSQL hand-written SkipLocked B=1000 W=2, database/sql"
	partial    = "PostgreSQL SkipLocked B=1000 W=1, index on pending rows"
	atomicPG   = "PostgreSQL Atomic B=1000 W=1"
	skip100    = "PostgreSQL SkipLocked B=100 W=4"
	locked     = "PostgreSQL Locked (Redis) B=100 W=4"
	unmarked   = "PostgreSQL Unmarked B=1000 W=1"
	lite       = "SQLite Atomic B=1000 W=1"
	limitLite  = "SQLite hand-written Atomic B=1000 W=1"
	maria      = "MariaDB SkipLocked B=1000 W=2"
	limitMaria = "MariaDB hand-written SkipLocked B=1000 W=2"
	memory     = "loop, rows in memory B=1000 W=1"
	bare       = "rows in memory, without the loop B=1000 W=1"
	long       = "PostgreSQL SkipLocked B=1000 W=1, long"
	longOld    = "PostgreSQL SkipLocked B=1000 W=1, long, old snapshot"
	behind     = "first batch behind finished rows"
	renew      = "renewal of 10,000 rows in flight"
	single     = "PostgreSQL SkipLocked B=1 W=2"
	limitRow   = "PostgreSQL hand-written lease per row B=1 W=2"
)

// Group is contenders that are measured in the same rounds.
type Group struct {
	Title  string
	Rounds int
	Specs  []Spec
}

// Scale is how much is measured.
type Scale struct {
	Rows   int
	Rounds int
	Quick  bool
}

type maker struct{ Scale }

func (m maker) spec(name, database, contender string, batch, workers int) Spec {
	return Spec{Name: name, Database: database, Redis: contender == "locked", Job: child.Job{
		Contender: contender, Rows: m.Rows, Batch: batch, Workers: workers,
	}}
}

func (s Spec) layout(l string) Spec { s.Layout = l; return s }
func (s Spec) rows(n int) Spec      { s.Job.Rows = n; return s }

func (m maker) rival(name, folder, database string, rows int) Spec {
	return Spec{Name: name, Database: database, Layout: "own", Rival: folder, Job: child.Job{Contender: name, Rows: rows}}
}

// Plan is all that is measured. A quick one has what the bars need, at a smaller
// size.
func Plan(s Scale) []Group {
	m := maker{s}
	groups := []Group{
		{Title: "Against rivals and the limit, no-op sender", Rounds: s.Rounds, Specs: m.heads()},
		{Title: "One row at a time", Rounds: min(s.Rounds, 3), Specs: []Spec{
			m.spec(single, "postgres", "skiplocked", 1, 2).rows(m.part(50)),
			m.spec(limitRow, "postgres", "limit-row", 1, 2).layout("lease").rows(m.part(50)),
		}},
		{Title: "The loop alone", Rounds: s.Rounds, Specs: []Spec{m.spec(memory, "", "memory", 1000, 1), m.spec(bare, "", "bare", 1000, 1)}},
		{Title: "Single acts", Rounds: min(s.Rounds, 3), Specs: m.acts()},
		{Title: "Long runs: 5 % retried once, an inserter beside the workers", Rounds: 1, Specs: m.longs()},
	}
	if !s.Quick {
		groups = append(groups, m.matrix(), m.layouts(), m.sends())
	}
	return groups
}

// part is a share of the rows, for what is slow.
func (m maker) part(n int) int { return max(100, m.Rows/n) }

func (m maker) heads() []Spec {
	specs := []Spec{
		m.spec(skip, "postgres", "skiplocked", 1000, 1),
		m.rival(river, "river", "postgres", m.Rows),
		m.spec(limitSkip, "postgres", "limit-skiplocked", 1000, 2),
		m.spec(limitSQL, "postgres", "limit-sql-postgres", 1000, 2),
		m.spec(partial, "postgres", "skiplocked", 1000, 1).layout("partial"),
		m.spec(atomicPG, "postgres", "atomic", 1000, 1),
		m.spec("PostgreSQL Partitioned B=1000 W=1", "postgres", "partitioned", 1000, 1),
		m.spec(unmarked, "postgres", "unmarked", 1000, 1),
		m.spec("PostgreSQL hand-written Unmarked B=1000 W=2", "postgres", "limit-unmarked", 1000, 2),
		m.spec(skip100, "postgres", "skiplocked", 100, 4),
		m.spec(locked, "postgres", "locked", 100, 4),
		m.spec(lite, "sqlite", "atomic", 1000, 1),
		m.spec(limitLite, "sqlite", "limit-sql-sqlite", 1000, 1),
		m.spec(maria, "mariadb", "skiplocked", 1000, 2),
		m.spec(limitMaria, "mariadb", "limit-sql-mariadb", 1000, 2),
	}
	if !m.Quick { // no bar speaks of them
		specs = append(specs, m.rival("gue", "gue", "postgres", m.part(10)), m.rival("asynq", "asynq", "redis", m.part(5)))
	}
	return specs
}

func (m maker) acts() []Spec {
	first := m.spec(behind, "postgres", "first", 1000, 1).rows(min(m.Rows, 10000))
	first.Open, first.Job.Finished = true, m.Rows*30
	again := m.spec(renew, "postgres", "renew", 1000, 1).rows(10000)
	again.Open = true
	return []Spec{first, again}
}

func (m maker) longs() []Spec {
	a := m.spec(long, "postgres", "skiplocked", 1000, 1).rows(m.Rows * 10)
	a.Job.Retry, a.Job.Insert = true, true
	b := a
	b.Name, b.Snapshot = longOld, true
	return []Spec{a, b}
}

// matrix is every strategy on every database, by batch and workers.
func (m maker) matrix() Group {
	g := Group{Title: "Strategies, by batch and workers", Rounds: min(m.Rounds, 3)}
	for _, database := range []string{"postgres", "mariadb", "sqlite"} {
		for _, strategy := range []string{"skiplocked", "atomic", "locked", "partitioned", "unmarked"} {
			if database == "sqlite" && strategy == "skiplocked" {
				continue // it has no such locks
			}
			for _, batch := range []int{10, 100, 1000} {
				for _, workers := range []int{1, 4} {
					name := fmt.Sprintf("%s %s B=%d W=%d, matrix", database, strategy, batch, workers)
					g.Specs = append(g.Specs, m.spec(name, database, strategy, batch, workers).rows(m.part(1000/batch)))
				}
			}
		}
	}
	return g
}

func (m maker) layouts() Group {
	g := Group{Title: "Table layouts on PostgreSQL, SkipLocked B=1000 W=2", Rounds: m.Rounds}
	for _, l := range []string{"schema", "ff100", "ff33", "partial"} {
		g.Specs = append(g.Specs, m.spec("layout "+l, "postgres", "skiplocked", 1000, 2).layout(l))
	}
	return g
}

func (m maker) sends() Group {
	g := Group{Title: "A Sender that takes 1 ms", Rounds: min(m.Rounds, 3)}
	for _, strategy := range []string{"skiplocked", "atomic", "locked", "partitioned", "unmarked"} {
		s := m.spec("postgres "+strategy+" B=1000 W=2, 1 ms", "postgres", strategy, 1000, 2)
		s.Job.Send = time.Millisecond
		g.Specs = append(g.Specs, s)
	}
	r := m.rival("River, 1 ms", "river", "postgres", m.Rows)
	r.Job.Send = time.Millisecond
	g.Specs = append(g.Specs, r)
	return g
}
