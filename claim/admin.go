package claim

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// Holder is a live claim: who holds rows, and for how long.
type Holder struct {
	Owner    string
	Token    int64
	Rows     int // taken by the claim
	Unmarked int // of them not yet settled
	Delivery sendonce.Delivery
	Alone    bool          // the last try of a row that came back from a vanished worker
	Held     time.Duration // since the claim, by the database's clock
	Left     time.Duration // until the lease ends; negative if it is over and nobody has taken the claim
}

// Holders lists the live claims of the table, the oldest first. It reads the
// claims table, and the rows of each claim by key.
func (s *store) Holders(ctx context.Context) ([]Holder, error) {
	now := s.d.Micros(s.d.Now(""))
	list := s.d.Compile("SELECT token, owner, mode, alone, " + now + " - " + s.d.Micros("since") + ", " + s.d.Micros("until") + " - " + now + ", row_keys FROM " +
		s.claims + " WHERE source = " + s.d.Str(":source") + " ORDER BY since, token")
	held := s.d.Compile("SELECT COUNT(*) FROM " + s.quoted + " WHERE " + s.keysIn() + " AND " + s.byToken() + " AND " + s.in(claimed, sending))

	var out []Holder
	var keys []dialect.Keys
	err := s.query(ctx, s.db, "list the claims", list, dialect.Args{"source": s.source}, func(rows *sql.Rows) error {
		var h Holder
		var alone, since, left int64
		var text string
		if err := rows.Scan(&h.Token, &h.Owner, &h.Delivery, &alone, &since, &left, &text); err != nil {
			return err
		}
		ks, err := dialect.ParseKeys(text, s.keyKind)
		h.Alone, h.Rows = alone != 0, len(ks)
		h.Held, h.Left = time.Duration(since)*time.Microsecond, time.Duration(left)*time.Microsecond
		out, keys = append(out, h), append(keys, ks)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		args := dialect.Args{"keys": keys[i], "token": out[i].Token}
		err := s.query(ctx, s.db, "count the rows of a claim", held, args, func(rows *sql.Rows) error {
			return rows.Scan(&out[i].Unmarked)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Requeue says which rows to put back to pending.
type Requeue struct {
	// From are the states to take rows from: Dead, Unknown, Skipped. At least
	// one, so that rows are never sent again by omission.
	From []sendonce.Outcome

	// Keys, if not nil, are the rows. An empty list is none.
	Keys []sendonce.Key

	// Where is a condition on the rows, with "?" for each of Args; compare
	// Table.Where, which holds as well.
	Where string
	Args  []any

	// SendAgain gives the rows new idempotency keys, so that a provider takes
	// them for something new. It needs Columns.Generation.
	SendAgain bool
}

// Requeue puts rows that were put aside back to pending, due at once, with no
// attempts charged. Their old token is cleared, so that a late result of an old
// attempt can't swallow the new order. It returns the number of rows. It is for
// operators: nothing else brings a row back from these states.
func (s *store) Requeue(ctx context.Context, r Requeue) (int64, error) {
	if len(r.From) == 0 {
		return 0, fmt.Errorf("sendonce: Requeue.From is empty: say which of Dead, Unknown, Skipped to requeue")
	}
	var from []state
	for _, o := range r.From {
		if o != sendonce.Dead && o != sendonce.Unknown && o != sendonce.Skipped {
			return 0, fmt.Errorf("sendonce: Requeue.From has %v: only dead, unknown and skipped rows can be requeued", o)
		}
		from = append(from, finalOf[o])
	}
	set := s.is(pending) + ", " + s.token + " = 0, " + s.attempts + " = 0, " + s.next + " = " + s.d.Now(s.nextType)
	if s.doubtSince != "" {
		set += ", " + s.doubtSince + " = NULL"
	}
	if r.SendAgain {
		if s.generation == "" {
			return 0, fmt.Errorf("sendonce: Requeue.SendAgain needs a column that counts: set Columns.Generation")
		}
		set += ", " + s.generation + " = " + s.generation + " + 1"
	}
	args := s.bind(dialect.Args{})
	where := []string{s.in(from...) + s.where}
	if r.Keys != nil {
		if len(r.Keys) == 0 {
			return 0, nil
		}
		keys, err := s.keysAs(r.Keys)
		if err != nil {
			return 0, err
		}
		where, args["keys"] = append(where, s.keysIn()), keys
	}
	if r.Where != "" {
		cond, err := s.condition(r.Where, r.Args, args)
		if err != nil {
			return 0, err
		}
		where = append(where, cond)
	}
	return s.exec(ctx, s.db, "requeue rows", s.d.Compile(s.update(set, where...)), args)
}

// keysAs makes the keys that an operator gave of the type that the table's have.
func (s *store) keysAs(given []sendonce.Key) (dialect.Keys, error) {
	keys := make(dialect.Keys, len(given))
	for i, k := range given {
		v := reflect.ValueOf(k)
		ok := false
		switch s.keyKind {
		case dialect.KeyInt:
			if ok = v.CanInt(); ok {
				keys[i] = v.Int()
			}
		case dialect.KeyUint:
			if v.CanInt() && v.Int() >= 0 {
				v = reflect.ValueOf(uint64(v.Int()))
			}
			if ok = v.CanUint(); ok {
				keys[i] = v.Uint()
			}
		default:
			if ok = v.Kind() == reflect.String; ok {
				keys[i] = v.String()
			}
		}
		if !ok {
			return nil, fmt.Errorf("sendonce: Requeue.Keys has %v, a %T, and keys of table %s are of another type", k, k, s.source)
		}
	}
	sortKeys(keys)
	return keys, nil
}

// Overview is what a dashboard shows of a table.
type Overview struct {
	sendonce.Counts
	OldestDue   time.Duration // how long the row that has been due longest has waited; 0: none is
	OldestClaim time.Duration // since the oldest live claim; 0: there is none
}

// Overview counts the rows, as Counts does, and looks for what waits too long.
func (s *store) Overview(ctx context.Context) (Overview, error) {
	var o Overview
	var err error
	if o.Counts, err = s.Counts(ctx); err != nil {
		return o, err
	}
	now := s.d.Micros(s.d.Now(""))
	due := "SELECT " + s.d.Micros(s.next) + " FROM " + s.quoted + " WHERE " + s.next + " <= " + s.d.Now(s.nextType) + " AND " + s.is(pending) + s.where +
		" ORDER BY " + s.next + " LIMIT 1"
	for _, q := range []struct {
		text string
		into *time.Duration
	}{
		{"SELECT " + now + ", (" + due + ")", &o.OldestDue},
		{"SELECT " + now + ", (SELECT MIN(" + s.d.Micros("since") + ") FROM " + s.claims + " WHERE source = " + s.d.Str(":source") + ")", &o.OldestClaim},
	} {
		args := s.bind(dialect.Args{"source": s.source})
		err := s.query(ctx, s.db, "look for what waits", s.d.Compile(q.text), args, func(rows *sql.Rows) error {
			var at int64
			var since sql.NullInt64
			err := rows.Scan(&at, &since)
			if since.Valid {
				*q.into = max(time.Duration(at-since.Int64)*time.Microsecond, time.Microsecond)
			}
			return err
		})
		if err != nil {
			return o, err
		}
	}
	return o, nil
}
