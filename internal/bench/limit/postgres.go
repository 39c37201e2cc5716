package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sendonce/sendonce/internal/bench/child"
)

// The statements of claim.SkipLocked.
const (
	pgClaim = `WITH c AS (UPDATE receivers SET status = 1, token = $1, attempts = attempts + 1, next_attempt = NULL
WHERE id = ANY (ARRAY(SELECT id FROM receivers WHERE id > $2 AND id <= $3 AND (status = 0) IS TRUE AND next_attempt IS NULL
ORDER BY id LIMIT %d FOR UPDATE SKIP LOCKED)) AND (status = 0) IS TRUE AND next_attempt IS NULL RETURNING id, attempts, address),
l AS (INSERT INTO sendonce_claims (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
SELECT $1, 'receivers', 'limit', json_agg(id)::text, 0, 0, 30000, now(), now() + interval '30 s' FROM c HAVING count(*) > 0) SELECT * FROM c`
	pgSettle = `UPDATE receivers SET status = 3, next_attempt = NULL WHERE id = ANY ($1::text::bigint[]) AND token = $2 AND status IN (1, 2)`
	pgEnd    = `DELETE FROM sendonce_claims WHERE token = $1`
	// A lease in each row: the least that another design needs.
	pgRow = `UPDATE receivers SET status = 1, token = $1, attempts = attempts + 1, next_attempt = NULL, lease_until = now() + interval '30 s'
WHERE id = ANY (ARRAY(SELECT id FROM receivers WHERE status = 0 AND id > $2 AND id <= $3 ORDER BY id LIMIT %d FOR UPDATE SKIP LOCKED)) RETURNING id, attempts, address`
	pgModulo = `SELECT id, address FROM receivers WHERE id > $1 AND id <= $2 AND (status = 0) IS TRUE AND next_attempt IS NULL
AND id %% %d = %d ORDER BY id LIMIT %d`
	pgDone = `UPDATE receivers SET status = 3, next_attempt = NULL, attempts = attempts + 1 WHERE id = ANY ($1::text::bigint[]) AND status = 0`
)

func (l *loop) pool(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(l.job.DSN)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(l.job.Workers)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return pool, child.Connect(ctx, l.job.Workers, pool.Acquire)
}

// pgWorker claims as SkipLocked does, in one round trip, and settles and ends the
// claim in another.
type pgWorker struct {
	*loop
	cursor
	pool     *pgxpool.Pool
	claim    string
	rowLease bool // there is no claim to be ended
	keys     []int64
	list     []byte
}

func (l *loop) postgres(ctx context.Context) ([]worker, func(), error) {
	pool, err := l.pool(ctx)
	if err != nil {
		return nil, nil, err
	}
	var ws []worker
	claim, rowLease := pgClaim, l.job.Contender == "limit-row"
	if rowLease {
		claim = pgRow
	}
	for range l.job.Workers {
		ws = append(ws, &pgWorker{
			loop: l, pool: pool, cursor: cursor{end: int64(l.job.Rows)}, claim: fmt.Sprintf(claim, l.job.Batch), rowLease: rowLease,
		})
	}
	return ws, pool.Close, nil
}

func (w *pgWorker) batch(ctx context.Context, _ int) (int, error) {
	token, began := newToken(), time.Now()
	rows, err := w.pool.Query(ctx, w.claim, token, w.at, w.at+window)
	if err != nil {
		return 0, err
	}
	w.keys = w.keys[:0]
	var id int64
	var attempts int
	var address string
	_, err = pgx.ForEachRow(rows, []any{&id, &attempts, &address}, func() error {
		w.keys = append(w.keys, id)
		return nil
	})
	if err != nil {
		return 0, err
	}
	w.timed(began, len(w.keys))
	w.moved(w.keys)
	if len(w.keys) == 0 {
		return 0, nil
	}
	w.list = keyList(w.list, w.keys, '{', '}')
	var b pgx.Batch
	b.Queue(pgSettle, string(w.list), token)
	if !w.rowLease {
		b.Queue(pgEnd, token)
	}
	return len(w.keys), w.pool.SendBatch(ctx, &b).Close()
}

// moduloWorker reads rows of its own and writes only their result.
type moduloWorker struct {
	*loop
	cursor
	pool  *pgxpool.Pool
	claim string
	keys  []int64
	list  []byte
}

func (l *loop) modulo(ctx context.Context) ([]worker, func(), error) {
	pool, err := l.pool(ctx)
	if err != nil {
		return nil, nil, err
	}
	var ws []worker
	for k := range l.job.Workers {
		ws = append(ws, &moduloWorker{
			loop: l, pool: pool, cursor: cursor{end: int64(l.job.Rows)}, claim: fmt.Sprintf(pgModulo, l.job.Workers, k, l.job.Batch),
		})
	}
	return ws, pool.Close, nil
}

func (w *moduloWorker) batch(ctx context.Context, _ int) (int, error) {
	began := time.Now()
	rows, err := w.pool.Query(ctx, w.claim, w.at, w.at+window)
	if err != nil {
		return 0, err
	}
	w.keys = w.keys[:0]
	var id int64
	var address string
	if _, err = pgx.ForEachRow(rows, []any{&id, &address}, func() error {
		w.keys = append(w.keys, id)
		return nil
	}); err != nil {
		return 0, err
	}
	w.timed(began, len(w.keys))
	w.moved(w.keys)
	if len(w.keys) == 0 {
		return 0, nil
	}
	w.list = keyList(w.list, w.keys, '{', '}')
	tag, err := w.pool.Exec(ctx, pgDone, string(w.list))
	return int(tag.RowsAffected()), err
}
