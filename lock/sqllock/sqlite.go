package sqllock

import (
	"context"
	"strings"
	"time"

	"github.com/sendonce/sendonce/internal/dialect"
)

// sqlite has no type for times: until is in microseconds since 1970.
type sqlite struct {
	table                                   string
	acquiring, asking, extending, releasing *dialect.Stmt
	reading, pruning                        *dialect.Stmt
}

// The clock has milliseconds, cut off: a lease gets one more, so that it doesn't
// end before its time.
const (
	liteAcquire = `INSERT INTO {table} AS l (name, token, fence, until) VALUES (:name, :token, {now}, {end})
ON CONFLICT (name) DO UPDATE SET token = excluded.token, until = excluded.until,
  fence = CASE WHEN l.token = excluded.token AND l.until > 0 THEN l.fence ELSE max(l.fence + 1, excluded.fence) END
WHERE l.token = excluded.token OR l.until <= {now}
RETURNING fence`

	liteAsk = `SELECT until - {now} FROM {table} WHERE name = :name`

	liteExtend = `UPDATE {table} SET until = {end} WHERE name = :name AND token = :token AND fence = :fence AND until > 0 RETURNING 'kept'`

	liteRelease = `UPDATE {table} SET until = 0 WHERE name = :name AND token = :token RETURNING 'kept'`

	liteRead = `SELECT CASE WHEN token = :token AND fence = :fence THEN 'gone' ELSE 'taken' END FROM {table} WHERE name = :name`

	litePrune = `DELETE FROM {table} WHERE until < {now} - :age AND fence < {now} - :age`
)

func newSQLite(table string) *sqlite {
	compile := func(text string) *dialect.Stmt {
		return dialect.SQLite.Compile(strings.NewReplacer(
			"{table}", table,
			"{end}", liteNow+" + :ttl + 1000",
			"{now}", liteNow,
		).Replace(text))
	}
	return &sqlite{
		table: table, acquiring: compile(liteAcquire), asking: compile(liteAsk), extending: compile(liteExtend),
		releasing: compile(liteRelease), reading: compile(liteRead), pruning: compile(litePrune),
	}
}

const liteNow = "(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000)"

func (s *sqlite) acquire(ctx context.Context, q dialect.Querier, a dialect.Args) (fence int64, held time.Duration, err error) {
	found, err := one(ctx, q, s.acquiring, a, &fence)
	if err != nil || found {
		return fence, 0, err
	}
	var micros int64
	_, err = one(ctx, q, s.asking, a, &micros)
	return 0, time.Duration(micros) * time.Microsecond, err
}

func (s *sqlite) extend(ctx context.Context, q dialect.Querier, a dialect.Args) (fate, error) {
	return s.wrote(ctx, q, s.extending, a)
}

func (s *sqlite) release(ctx context.Context, q dialect.Querier, a dialect.Args) (fate, error) {
	a["fence"] = int64(-1) // a row that is not ours is somebody else's
	return s.wrote(ctx, q, s.releasing, a)
}

func (s *sqlite) wrote(ctx context.Context, q dialect.Querier, stmt *dialect.Stmt, a dialect.Args) (fate, error) {
	f := gone
	found, err := one(ctx, q, stmt, a, &f)
	if err == nil && !found {
		_, err = one(ctx, q, s.reading, a, &f)
	}
	return f, err
}

func (s *sqlite) create() string {
	return "CREATE TABLE IF NOT EXISTS " + s.table +
		" (name TEXT NOT NULL PRIMARY KEY, token TEXT NOT NULL, fence INTEGER NOT NULL, until INTEGER NOT NULL)"
}

func (s *sqlite) columns() map[string]string {
	return map[string]string{"name": "TEXT", "token": "TEXT", "fence": "INTEGER", "until": "INTEGER"}
}

func (s *sqlite) prune() *dialect.Stmt { return s.pruning }

func (s *sqlite) look() string {
	return "SELECT fence, until, until <= " + liteNow + " FROM " + s.table + " WHERE name = :name"
}
