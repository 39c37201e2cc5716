package claim

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// Alive reports whether the row may still be sent by itself: it is there, and is
// pending, claimed or sending. It reads one row by its key, with a lock on nothing.
// It is what unique.Options.Alive asks for.
func (s *store) Alive(ctx context.Context, key sendonce.Key) (alive bool, err error) {
	keys, err := s.keysAs([]sendonce.Key{key})
	if err != nil {
		return false, fmt.Errorf("sendonce: is row %v of table %s alive: its key is a %T, and those of the table are not", key, s.source, key)
	}
	err = s.query(ctx, s.db, "look up a row", s.settle.look, dialect.Args{"keys": keys}, func(rows *sql.Rows) error {
		var status sql.NullString
		var token int64
		if err := rows.Scan(&keyCell{kind: s.keyKind}, &status, &token); err != nil {
			return err
		}
		switch s.state(status.String) {
		case pending, claimed, sending:
			alive = true
		}
		return nil
	})
	return alive, err
}

// Alive reports whether the row may still be sent by itself: see the method of the
// same name of other strategies.
func (u *Unmarked[T]) Alive(ctx context.Context, key sendonce.Key) (bool, error) {
	return u.store.Alive(ctx, key)
}
