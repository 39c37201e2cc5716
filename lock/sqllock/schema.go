package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/sendonce/sendonce/internal/dialect"
)

// Schema returns the statement that makes the table.
func Schema(d Dialect, o *Options) (string, error) {
	t, err := newTable(d, o)
	if err != nil {
		return "", err
	}
	return t.verbs.create(), nil
}

// Migrate makes the table if it is missing, and changes nothing that is there.
// Running it again, or in several processes at once, is harmless.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, o *Options) error {
	t, err := newTable(d, o)
	if err != nil {
		return err
	}
	if db == nil {
		return errNoDB
	}
	_, err = db.ExecContext(ctx, t.verbs.create())
	if err == nil {
		return nil
	}
	// Two processes that do this at once can fail on PostgreSQL.
	if live, lookErr := t.d.Inspect(ctx, db, t.schema, t.name); lookErr == nil && live.Exists {
		return nil
	}
	return dialect.Wrap(t.d, "make the table of locks by: "+t.verbs.create(), err)
}

// Check compares the table with what Schema would make. The error, a *CheckError,
// names everything that is wrong. It changes nothing. New calls it.
func Check(ctx context.Context, db *sql.DB, d Dialect, o *Options) error {
	t, err := newTable(d, o)
	if err != nil {
		return err
	}
	return t.check(ctx, db)
}

// CheckError says what is wrong with the table of locks. Nothing was changed.
type CheckError struct {
	Table    string
	Problems []string
	Cure     string // the statement that makes a table which fits
}

func (e *CheckError) Error() string {
	return fmt.Sprintf("sendonce: table %s can't hold locks: %s; one that can is made by sqllock.Migrate, or by: %s",
		e.Table, strings.Join(e.Problems, "; "), e.Cure)
}

// Fatal tells sendonce.IsFatal that no repeat helps.
func (e *CheckError) Fatal() bool { return true }

var errNoDB = errors.New("sendonce: the database is nil: open it with sql.Open first")

func (t *table) check(ctx context.Context, db *sql.DB) error {
	if db == nil {
		return errNoDB
	}
	live, err := t.d.Inspect(ctx, db, t.schema, t.name)
	if err != nil {
		return dialect.Wrap(t.d, "read the catalogue for table "+t.name, err)
	}
	e := &CheckError{Table: t.name, Cure: t.verbs.create()}
	e.Problems = live.Misfits(t.verbs.columns(), "name")
	if len(e.Problems) > 0 {
		return e
	}
	return nil
}
