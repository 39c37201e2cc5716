// Package demo is what the examples of single strategies share: a table, workers
// and a count of what each row got.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
)

// Mail is a row of the table.
type Mail struct {
	Address string `db:"address"`
}

// Flags say which database to use.
type Flags struct {
	Driver, DSN   string
	Rows, Workers int

	// Existing says that a SQLite file must be there: it is not made.
	Existing bool
}

// Table is what the examples work on. Its rows are sent and stay.
var Table = claim.Table{Name: "sendonce_demo", Columns: claim.Columns{LastError: "last_error"}}

// Open opens the database and makes the table anew. If no database is named, it
// writes to the flags which one it has made.
func Open(ctx context.Context, f *Flags) (db *sqlx.DB, d claim.Dialect, done func(), err error) {
	dir := ""
	if f.Driver == "sqlite" && f.DSN == "" {
		if dir, err = os.MkdirTemp("", "sendonce-demo-"); err != nil {
			return nil, 0, nil, err
		}
		f.DSN = filepath.Join(dir, "demo.db")
	}
	removeDir := func() {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	if db, d, err = Connect(ctx, *f); err != nil {
		removeDir()
		return nil, 0, nil, err
	}
	done = func() {
		_ = db.Close()
		removeDir()
	}
	if err := fill(ctx, db, d, f.Rows); err != nil {
		done()
		return nil, 0, nil, fmt.Errorf("cannot make the table %s: %w: name a database in which you may create tables", Table.Name, err)
	}
	return db, d, done, nil
}

func fill(ctx context.Context, db *sqlx.DB, d claim.Dialect, rows int) error {
	for _, s := range []string{
		"DROP TABLE IF EXISTS sendonce_demo",
		"CREATE TABLE sendonce_demo (id bigint PRIMARY KEY, address varchar(200) NOT NULL)",
	} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	if err := claim.Migrate(ctx, db, d, Table, nil); err != nil {
		return err
	}
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for i := 1; i <= rows; i++ {
		if _, err := tx.ExecContext(ctx, db.Rebind("INSERT INTO sendonce_demo (id, address) VALUES (?, ?)"), i, fmt.Sprintf("a%d@example.org", i)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Work drains the table with several workers and prints who sent how many. It
// returns an error if a row was left out or sent twice.
func Work(ctx context.Context, f Flags, open func(ctx context.Context) (sendonce.Claimer[Mail], error)) error {
	var mu sync.Mutex
	sent := map[sendonce.Key]int{}
	var failed atomic.Int64
	deliver := func(_ context.Context, m sendonce.Item[Mail]) error {
		time.Sleep(time.Millisecond)
		if m.Attempt == 1 && m.Key.(int64)%20 == 0 {
			failed.Add(1)
			return errors.New("the provider is busy")
		}
		mu.Lock()
		defer mu.Unlock()
		sent[m.Key]++
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, f.Workers)
	for i := range f.Workers {
		wg.Go(func() { errs[i] = worker(ctx, i, open, deliver) })
	}
	wg.Wait()
	twice := 0
	for _, n := range sent {
		if n > 1 {
			twice++
		}
	}
	fmt.Printf("%d rows sent, %d of them after a retry, %d twice\n", len(sent), failed.Load(), twice)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(sent) != f.Rows || twice > 0 {
		return Failed(fmt.Errorf("%d rows of %d were sent, and %d twice", len(sent), f.Rows, twice))
	}
	return nil
}

func worker(ctx context.Context, i int, open func(ctx context.Context) (sendonce.Claimer[Mail], error), deliver sendonce.SenderFunc[Mail]) error {
	c, err := open(ctx)
	if err != nil {
		return err
	}
	d, err := sendonce.New[Mail](c, deliver, sendonce.Config{
		Owner:     fmt.Sprintf("worker-%d", i+1),
		BatchSize: 50,
		Backoff:   func(int) time.Duration { return 50 * time.Millisecond },
	})
	if err != nil {
		return err
	}
	stats, err := d.Drain(ctx)
	fmt.Printf("worker-%d sent %d rows in %d claims\n", i+1, stats.Sent, stats.Claims)
	return err
}
