package redisqueue

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/redisclaim"
)

// workerVar makes a process of this binary a worker and not a test.
const workerVar = "SENDONCE_TEST_QUEUE_WORKER"

// workOrder is what a worker process is told to do.
type workOrder struct {
	Name   string
	Redis  string
	DB     int
	Prefix string
	Ledger string
	Sends  time.Duration // the longest
}

// job is a value of the queue: the n-th item of its key.
type job struct {
	Key string
	N   int
}

// event is a line of the ledger.
type event struct {
	At     int64  `json:"at"` // nanoseconds
	What   string `json:"what"`
	Worker string `json:"worker,omitempty"`
	Key    string `json:"key,omitempty"`
	N      int    `json:"n,omitempty"`
	Fence  int64  `json:"fence,omitempty"`
}

// What events say.
const (
	begun  = "begun"  // a send
	failed = "failed" // it returned, and comes again
	sent   = "sent"   // it returned, and is over
	killed = "killed" // a worker
)

// ledger is a file that many processes append to.
type ledger struct{ f *os.File }

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &ledger{f}, err
}

// write appends an event by one write, which a kill can't tear.
func (l *ledger) write(e event) {
	e.At = time.Now().UnixNano()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.f.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// readLedger returns all events in the order in which they were written.
func readLedger(path string) (out []event, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d of the ledger is torn: %w", len(out)+1, err)
		}
		out = append(out, e)
	}
	return out, lines.Err()
}

// work is the life of a worker process: it runs until SIGTERM, or ends with its
// parent.
func work(in io.Reader) int {
	var o workOrder
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for {
		err := o.run(ctx)
		if err == nil {
			return 0
		}
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		// Redis may be gone at the start, too: a supervisor starts it again.
		time.Sleep(50 * time.Millisecond)
	}
}

var errNotNow = errors.New("not now")

func (o workOrder) run(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: o.Redis, DB: o.DB})
	defer client.Close()
	l, err := openLedger(o.Ledger)
	if err != nil {
		return err
	}
	defer l.f.Close()
	q, err := redisclaim.New[job](ctx, client, "jobs", &redisclaim.Options{Prefix: o.Prefix, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	send := func(_ context.Context, it sendonce.Item[job]) error {
		e := event{What: begun, Worker: o.Name, Key: it.Value.Key, N: it.Value.N, Fence: it.Fence}
		l.write(e)
		time.Sleep(rand.N(o.Sends))
		if rand.IntN(20) == 0 {
			e.What = failed
			l.write(e)
			return sendonce.NotSent(errNotNow)
		}
		e.What = sent
		l.write(e)
		return nil
	}
	d, err := sendonce.New(q, sendonce.SenderFunc[job](send), sendonce.Config{
		Owner: o.Name, Concurrency: 16, BatchSize: 32, SendTimeout: 300 * time.Millisecond, Lease: 1500 * time.Millisecond,
		PollInterval: 50 * time.Millisecond, MaxAttempts: 1000, Backoff: func(int) time.Duration { return 30 * time.Millisecond },
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return d.Run(ctx)
}
