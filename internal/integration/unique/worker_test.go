package unique

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/sender/sendertest"
	"github.com/sendonce/sendonce/sender/unique"
	"github.com/sendonce/sendonce/sender/unique/redisunique"
	"github.com/sendonce/sendonce/sender/unique/sqlunique"
)

// mail is a row.
type mail struct {
	Recipient string `db:"recipient"`
}

type item = sendonce.Item[mail]

func byRecipient(m item) string { return m.Value.Recipient }

// place is where the rows and their unique keys are: values, so that a child process
// can be told.
type place struct {
	Driver, DSN string
	Dialect     claim.Dialect
	RedisAddr   string // empty: the keys are in the database
	RedisDB     int
	Prefix      string
}

func table() claim.Table {
	return claim.Table{Name: "notify", Columns: claim.Columns{LastError: "last_error"}, States: claim.StringStates}
}

// process is what one worker process has open.
type process struct {
	db     *sqlx.DB
	rdb    *redis.Client
	claims *claim.Atomic[mail]
	keys   unique.Store
}

func (p place) open(ctx context.Context) (*process, error) {
	db, err := sqlx.Open(p.Driver, p.DSN)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(5) // of eight workers, and with room for other tests
	proc := &process{db: db}
	if proc.claims, err = claim.NewAtomic[mail](ctx, db, p.Dialect, table(), nil); err != nil {
		return proc, err
	}
	if p.RedisAddr == "" {
		proc.keys, err = sqlunique.New(ctx, db.DB, sqlunique.Dialect(p.Dialect), nil)
		return proc, err
	}
	proc.rdb = redis.NewClient(&redis.Options{Addr: p.RedisAddr, DB: p.RedisDB})
	proc.keys, err = redisunique.New(proc.rdb, &redisunique.Options{Prefix: p.Prefix})
	return proc, err
}

func (p *process) close() {
	_ = p.db.Close()
	if p.rdb != nil {
		_ = p.rdb.Close()
	}
}

// unique returns a Sender on the process's keys.
func (p *process) unique(o unique.Options[mail], inner sendonce.Sender[mail]) (*unique.Sender[mail], error) {
	o.Key, o.Alive = byRecipient, p.claims.Alive
	o.Grace, o.WaitFor = grace, 50*time.Millisecond
	if o.Lease == 0 {
		o.Lease = time.Second
	}
	if o.For == 0 {
		o.For = 24 * time.Hour
	}
	o.Logger = logger
	return unique.New(inner, p.keys, o)
}

// grace is how long a refusal may last after its row is gone.
const grace = 200 * time.Millisecond

func config(name string) sendonce.Config {
	return sendonce.Config{
		Owner: name, Concurrency: 4, SendTimeout: 300 * time.Millisecond, Lease: 1500 * time.Millisecond, PollInterval: 50 * time.Millisecond, MaxAttempts: 4,
		Backoff: func(int) time.Duration { return 60 * time.Millisecond }, Logger: logger,
	}
}

// order is what a worker process is told to do: to send, and never to come back from
// it. It says "sending" then.
type order struct {
	Place  place
	Record string // the file that sends are recorded in
}

// work is the life of a worker process. It ends with its parent.
func work(in io.Reader) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	ctx := context.Background()
	p, err := o.Place.open(ctx)
	if err != nil {
		return err
	}
	var said atomic.Bool
	rec, err := sendertest.NewFile[mail](o.Record, sendonce.SenderFunc[mail](func(context.Context, item) error {
		if !said.Swap(true) {
			fmt.Println("sending")
		}
		time.Sleep(time.Hour)
		return errors.New("not reached")
	}))
	if err != nil {
		return err
	}
	u, err := p.unique(unique.Options[mail]{}, rec.As("the child"))
	if err != nil {
		return err
	}
	cfg := config("the child")
	cfg.SendTimeout, cfg.Lease = 300*time.Millisecond, 1500*time.Millisecond
	d, err := sendonce.New[mail](p.claims, u, cfg)
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// logger keeps what workers say from the output of the tests.
var logger = slog.New(slog.DiscardHandler)
