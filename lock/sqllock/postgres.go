package sqllock

import (
	"context"
	"strings"
	"time"

	"github.com/sendonce/sendonce/internal/dialect"
)

// postgres reads clock_timestamp(), which moves on while a statement waits, where
// the row's lock is held already.
type postgres struct {
	table                           string
	acquiring, extending, releasing *dialect.Stmt
	pruning                         *dialect.Stmt
}

// The SELECT at the end sees the table as it was before; it is asked only for
// what is good to know.
const (
	pgAcquire = `WITH granted AS (
  INSERT INTO {table} AS l (name, token, fence, until)
  VALUES (:name::text, :token::text, {now}, {end})
  ON CONFLICT (name) DO UPDATE SET token = excluded.token, until = {end},
    fence = CASE WHEN l.token = excluded.token AND l.until > {released} THEN l.fence ELSE greatest(l.fence + 1, {now}) END
  WHERE l.token = excluded.token OR l.until <= clock_timestamp()
  RETURNING fence)
SELECT fence, 0::bigint FROM granted
UNION ALL
SELECT 0::bigint, (extract(epoch FROM until - clock_timestamp()) * 1000000)::bigint FROM {table}
WHERE name = :name::text AND NOT EXISTS (SELECT 1 FROM granted)`

	pgExtend = `WITH kept AS (
  UPDATE {table} SET until = {end}
  WHERE name = :name::text AND token = :token::text AND fence = :fence::bigint AND until > {released}
  RETURNING 1)
SELECT 'kept' FROM kept
UNION ALL
SELECT CASE WHEN token = :token::text AND fence = :fence::bigint THEN 'gone' ELSE 'taken' END FROM {table}
WHERE name = :name::text AND NOT EXISTS (SELECT 1 FROM kept)`

	pgRelease = `WITH freed AS (
  UPDATE {table} SET until = {released} WHERE name = :name::text AND token = :token::text RETURNING 1)
SELECT 'kept' FROM freed
UNION ALL
SELECT 'taken' FROM {table} WHERE name = :name::text AND NOT EXISTS (SELECT 1 FROM freed)`

	pgPrune = `DELETE FROM {table} WHERE until < clock_timestamp() - :age::bigint * interval '1 microsecond'
AND fence < {now} - :age::bigint`
)

func newPostgres(table string) *postgres {
	compile := func(text string) *dialect.Stmt {
		return dialect.Postgres.Compile(strings.NewReplacer(
			"{table}", table,
			"{now}", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
			"{end}", "clock_timestamp() + :ttl::bigint * interval '1 microsecond'",
			"{released}", "timestamptz 'epoch'",
		).Replace(text))
	}
	return &postgres{table: table, acquiring: compile(pgAcquire), extending: compile(pgExtend), releasing: compile(pgRelease), pruning: compile(pgPrune)}
}

func (p *postgres) acquire(ctx context.Context, q dialect.Querier, a dialect.Args) (fence int64, held time.Duration, err error) {
	var micros int64
	_, err = one(ctx, q, p.acquiring, a, &fence, &micros)
	return fence, time.Duration(micros) * time.Microsecond, err
}

func (p *postgres) extend(ctx context.Context, q dialect.Querier, a dialect.Args) (fate, error) {
	f := gone
	_, err := one(ctx, q, p.extending, a, &f)
	return f, err
}

func (p *postgres) release(ctx context.Context, q dialect.Querier, a dialect.Args) (fate, error) {
	f := gone
	_, err := one(ctx, q, p.releasing, a, &f)
	return f, err
}

// create leaves room for new versions of a row on its page.
func (p *postgres) create() string {
	return "CREATE TABLE IF NOT EXISTS " + p.table +
		` (name text COLLATE "C" PRIMARY KEY, token text NOT NULL, fence bigint NOT NULL, until timestamptz NOT NULL) WITH (fillfactor = 50)`
}

func (p *postgres) columns() map[string]string {
	return map[string]string{"name": "text", "token": "text", "fence": "bigint", "until": "timestamp with time zone"}
}

func (p *postgres) prune() *dialect.Stmt { return p.pruning }

func (p *postgres) look() string {
	return "SELECT fence, (extract(epoch FROM until) * 1000000)::bigint, (until <= clock_timestamp())::int FROM " + p.table + " WHERE name = :name::text"
}
