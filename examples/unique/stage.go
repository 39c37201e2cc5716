package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/sender/unique"
	"github.com/sendonce/sendonce/sender/unique/redisunique"
	"github.com/sendonce/sendonce/sender/unique/sqlunique"
)

// stage is what the scenes share: a table of rows, and a store of unique keys.
type stage struct {
	db      *sqlx.DB
	dialect claim.Dialect
	rows    *claim.Atomic[demo.Mail]
	keys    unique.Store
	within  func(*sqlx.Tx) unique.Reserver // the store as a transaction of the rows' has it
	grace   time.Duration
	args    []string

	mu   sync.Mutex
	said []string
}

func newStage(ctx context.Context, db *sqlx.DB, dialect claim.Dialect, rdb *redis.Client) (*stage, error) {
	s := &stage{db: db, dialect: dialect}
	var err error
	if s.rows, err = claim.NewAtomic[demo.Mail](ctx, db, dialect, demo.Table, nil); err != nil {
		return nil, err
	}
	if rdb != nil {
		// Keys that are no part of the row's transaction are taken before its COMMIT.
		// Nobody may take them over meanwhile, and Grace says for how long.
		store, err := redisunique.New(rdb, &redisunique.Options{Prefix: "sendonce:demo:unique:"})
		if err != nil {
			return nil, err
		}
		s.keys, s.grace = store, time.Second
		s.within = func(*sqlx.Tx) unique.Reserver { return store }
		return s, nil
	}
	d := map[claim.Dialect]sqlunique.Dialect{claim.SQLite: sqlunique.SQLite, claim.Postgres: sqlunique.Postgres, claim.MySQL: sqlunique.MySQL}[dialect]
	o := &sqlunique.Options{Table: "sendonce_demo_unique"}
	if err := sqlunique.Migrate(ctx, db.DB, d, o); err != nil {
		return nil, fmt.Errorf("cannot make the table %s: %w: name a database in which you may create tables", o.Table, err)
	}
	store, err := sqlunique.New(ctx, db.DB, d, o)
	if err != nil {
		return nil, err
	}
	s.keys, s.grace = store, time.Millisecond
	s.within = func(tx *sqlx.Tx) unique.Reserver { return store.In(tx) }
	return s, nil
}

func (s *stage) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
	fmt.Println("    " + s.said[len(s.said)-1])
}

// key is what no two rows may share: Laravel's uniqueId.
func key(m sendonce.Item[demo.Mail]) string { return m.Value.Address }

// sender makes a Sender of a function.
func (s *stage) sender(o unique.Options[demo.Mail], send sendonce.SenderFunc[demo.Mail]) (*unique.Sender[demo.Mail], error) {
	o.Key, o.Alive, o.Grace = key, s.rows.Alive, s.grace
	return unique.New[demo.Mail](send, s.keys, o)
}

// insert inserts a row, and says nothing of its key.
func (s *stage) insert(ctx context.Context, ids []int64, address string) error {
	for _, id := range ids {
		if _, err := s.db.ExecContext(ctx, s.db.Rebind("INSERT INTO sendonce_demo (id, address) VALUES (?, ?)"), id, address); err != nil {
			return err
		}
	}
	return nil
}

// dispatch inserts a row and reserves its key: both or nothing. It says what became
// of that.
func (s *stage) dispatch(ctx context.Context, once *unique.Sender[demo.Mail], id int64, address string) error {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO sendonce_demo (id, address) VALUES (?, ?)"), id, address); err != nil {
		return err
	}
	err = once.ReserveIn(ctx, s.within(tx), address, id)
	var taken *unique.TakenError
	switch {
	case errors.As(err, &taken):
		s.say("row %d is refused: row %v is in the way (%v)", id, taken.Row, taken.How)
		return nil
	case err != nil:
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.say("row %d is in the table", id)
	return nil
}

// drain sends until nothing is left, so many rows at once.
func (s *stage) drain(ctx context.Context, concurrency int, rows sendonce.Claimer[demo.Mail], send sendonce.Sender[demo.Mail]) error {
	c := config
	c.Concurrency = concurrency
	d, err := sendonce.New[demo.Mail](rows, send, c)
	if err == nil {
		_, err = d.Drain(ctx)
	}
	return err
}

// config has short leases, so that you need not wait long for the row of a worker
// that is killed.
var config = sendonce.Config{
	Concurrency: 3, PollInterval: 20 * time.Millisecond,
	SendTimeout: time.Second, Lease: 4500 * time.Millisecond,
	Backoff: func(int) time.Duration { return 20 * time.Millisecond },
	Logger:  slog.New(slog.DiscardHandler),
}

// fate says how a row ended.
func (s *stage) fate(ctx context.Context, id int64) error {
	var row struct {
		Status   int     `db:"status"`
		Attempts int     `db:"attempts"`
		Reason   *string `db:"last_error"`
	}
	if err := s.db.GetContext(ctx, &row, s.db.Rebind("SELECT status, attempts, last_error FROM sendonce_demo WHERE id = ?"), id); err != nil {
		return err
	}
	switch {
	case row.Status == 3:
		s.say("row %d was sent, at attempt %d", id, row.Attempts)
	case row.Reason != nil:
		reason, _, _ := strings.Cut(*row.Reason, " (since")
		s.say("row %d was not sent: %s", id, reason)
	default:
		s.say("row %d stands at status %d", id, row.Status)
	}
	return nil
}

// envDies makes this program the worker that dies.
const envDies = "SENDONCE_EXAMPLE_DIES"

// hang is that worker: it begins to send a row with a key that it holds, and is
// killed.
func hang(ctx context.Context, f demo.Flags, rdb *redis.Client) error {
	f.Existing = true
	// Not for ever, if nobody is left to kill it.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	db, dialect, err := demo.Connect(ctx, f)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := newStage(ctx, db, dialect, rdb)
	if err != nil {
		return err
	}
	apart, err := s.sender(withoutOverlapping, func(ctx context.Context, m sendonce.Item[demo.Mail]) error {
		fmt.Println("begun")
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	d, err := sendonce.New[demo.Mail](s.rows, apart, config)
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// killWorker starts such a worker, and kills it in mid-send.
func (s *stage) killWorker() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, s.args...)
	cmd.Env = append(os.Environ(), envDies+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Wait() }()
	line, _ := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	if line != "begun\n" {
		return errors.New("the worker did not begin")
	}
	return nil
}
