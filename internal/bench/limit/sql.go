package limit

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sendonce/sendonce/internal/bench/table"
)

// The statements of claim.SkipLocked on MariaDB, and of claim.Atomic on SQLite.
const (
	myPick   = `SELECT id, address FROM receivers WHERE id > ? AND id <= ? AND status = 0 AND (next_attempt IS NULL) IS TRUE ORDER BY id LIMIT %d FOR UPDATE SKIP LOCKED`
	myMark   = `UPDATE receivers SET status = 1, token = %d, attempts = attempts + 1, next_attempt = NULL WHERE id IN %s`
	myRecord = `INSERT INTO sendonce_claims (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (%d, 'receivers', 'limit', '[%s]', 0, 0, 30000, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 30 SECOND)`
	mySettle = `UPDATE receivers SET status = 3, next_attempt = NULL WHERE id IN %s AND token = %d AND status IN (1, 2)`
	liteMark = `UPDATE receivers SET status = 1, token = ?, attempts = attempts + 1, next_attempt = NULL WHERE id IN
(SELECT id FROM receivers WHERE id > ? AND id <= ? AND +status = 0 AND +next_attempt IS NULL ORDER BY id LIMIT %d) RETURNING id, attempts, address`
	liteRecord = `INSERT INTO sendonce_claims (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (?, 'receivers', 'limit', ?, 0, 0, 30000, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', '+30 seconds'))`
	liteSettle = `UPDATE receivers SET status = 3, next_attempt = NULL WHERE id IN (SELECT value FROM json_each(?)) AND token = ? AND status IN (1, 2)`
	sqlEnd     = `DELETE FROM sendonce_claims WHERE token = %d`
)

// sqlWorker goes through database/sql.
type sqlWorker struct {
	*loop
	cursor
	db   *sql.DB
	keys []int64
	list []byte
	do   func(w *sqlWorker, ctx context.Context, n int) error
}

func (l *loop) sql(ctx context.Context) ([]worker, func(), error) {
	db, err := table.Open(ctx, l.job.DSN)
	if err != nil {
		return nil, nil, err
	}
	if err := table.Connect(ctx, db, l.job.Workers); err != nil {
		return nil, nil, err
	}
	do := map[string]func(*sqlWorker, context.Context, int) error{
		"limit-sql-postgres": (*sqlWorker).postgresBatch, "limit-sql-mariadb": (*sqlWorker).mariaBatch, "limit-sql-sqlite": (*sqlWorker).sqliteBatch,
	}[l.job.Contender]
	var ws []worker
	for range l.job.Workers {
		ws = append(ws, &sqlWorker{loop: l, db: db.DB, cursor: cursor{end: int64(l.job.Rows)}, do: do})
	}
	return ws, func() { _ = db.Close() }, nil
}

func (w *sqlWorker) batch(ctx context.Context, n int) (int, error) {
	w.keys = w.keys[:0]
	err := w.do(w, ctx, n)
	w.moved(w.keys)
	return len(w.keys), err
}

// read keeps the keys of what a claim has returned.
func (w *sqlWorker) read(rows *sql.Rows, err error, more ...any) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	var id int64
	var address string
	into := append(append([]any{&id}, more...), &address)
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		w.keys = append(w.keys, id)
	}
	return rows.Err()
}

func (w *sqlWorker) postgresBatch(ctx context.Context, n int) error {
	token, began, attempts := newToken(), time.Now(), 0
	rows, err := w.db.QueryContext(ctx, fmt.Sprintf(pgClaim, n), token, w.at, w.at+window)
	if err := w.read(rows, err, &attempts); err != nil || len(w.keys) == 0 {
		return err
	}
	w.timed(began, len(w.keys))
	w.list = keyList(w.list, w.keys, '{', '}')
	if _, err := w.db.ExecContext(ctx, pgSettle, string(w.list), token); err != nil {
		return err
	}
	_, err = w.db.ExecContext(ctx, pgEnd, token)
	return err
}

// mariaBatch claims in three round trips: pick; mark, record and commit; and
// then settles and ends in one.
func (w *sqlWorker) mariaBatch(ctx context.Context, n int) error {
	token, began := newToken(), time.Now()
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(myPick, n), w.at, w.at+window)
	if err := w.read(rows, err); err != nil || len(w.keys) == 0 {
		return err
	}
	w.list = keyList(w.list, w.keys, '(', ')')
	in := string(w.list)
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(myMark+";"+myRecord, token, in, token, in[1:len(in)-1])); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	w.timed(began, len(w.keys))
	_, err = w.db.ExecContext(ctx, fmt.Sprintf(mySettle+";"+sqlEnd, in, token, token))
	return err
}

func (w *sqlWorker) sqliteBatch(ctx context.Context, n int) error {
	token, began, attempts := newToken(), time.Now(), 0
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(liteMark, n), token, w.at, w.at+window)
	if err := w.read(rows, err, &attempts); err != nil || len(w.keys) == 0 {
		return err
	}
	w.list = keyList(w.list, w.keys, '[', ']')
	list := string(w.list)
	if _, err := tx.ExecContext(ctx, liteRecord, token, list); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	w.timed(began, len(w.keys))
	if _, err := w.db.ExecContext(ctx, liteSettle, list, token); err != nil {
		return err
	}
	_, err = w.db.ExecContext(ctx, fmt.Sprintf(sqlEnd, token))
	return err
}
