package claim

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// KeepsDoubt implements sendonce.DoubtKeeper: it needs Columns.DoubtSince.
func (s *store) KeepsDoubt() error {
	if s.doubtSince == "" {
		return fmt.Errorf("sendonce: table %s has no column for it: set Columns.DoubtSince, and let Migrate add it", s.source)
	}
	return nil
}

// Unknowns implements sendonce.Examiner. It goes through the table in the order
// of the key.
func (c *claimer[T]) Unknowns(ctx context.Context, after sendonce.Key, limit int) ([]sendonce.UnknownRow[T], error) {
	if limit < 1 {
		return nil, nil
	}
	args, where := dialect.Args{}, ""
	if after != nil {
		where, args["from"] = " AND "+c.key+" > "+c.d.Key(":from", c.keyKind), after
	}
	st := c.due.compile("SELECT " + c.shape.list() + ", " + c.token + " FROM " + c.quoted + " WHERE " + c.is(unknown) + c.where + where +
		" ORDER BY " + c.key + " LIMIT " + strconv.Itoa(limit))
	var out []sendonce.UnknownRow[T]
	sc := c.shape.scanner()
	err := c.query(ctx, c.db, "look for unknown rows", st, c.bind(args), func(rows *sql.Rows) error {
		var token int64
		err := sc.scan(rows, &token)
		out = append(out, sendonce.UnknownRow[T]{Item: sc.item, Token: token})
		return err
	})
	return out, err
}

// Resume implements sendonce.Examiner: transition 14.
func (s *store) Resume(ctx context.Context, refs []sendonce.Ref) (int, error) {
	set := s.is(pending) + ", " + s.token + " = 0, " + s.next + " = " + s.d.Now(s.nextType)
	if s.doubtSince != "" {
		set += ", " + s.doubtSince + " = NULL"
	}
	st := s.d.Compile(s.update(set, s.keysIn(), s.byToken(), s.is(unknown)))
	resumed := 0
	for token, keys := range byToken(refs) {
		n, err := s.exec(ctx, s.db, "resume rows", st, dialect.Args{"keys": keys, "token": token})
		if err != nil {
			return resumed, err
		}
		resumed += int(n)
	}
	return resumed, nil
}
