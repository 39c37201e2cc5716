// Command partition sends the rows of one table from several processes, each of
// which has its own part of the keys, so that they don't meet.
//
//	go run -C examples ./partition
//
// makes a table on SQLite, starts a fleet of its own, and counts what it sends.
// With WORKER_PARTITION and WORKER_COUNT in the environment it is one worker on a
// table that is there, until SIGTERM:
//
//	WORKER_PARTITION=0 WORKER_COUNT=4 partition -driver postgres -dsn postgres://... -table receivers
//
// Without -dsn a worker takes DATABASE_URL, which other users don't see in the
// list of processes. The files supervisor.conf and sendonce-partition@.service
// run such workers for good.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/cli"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/partition"
)

// stopTimeout is how long sends may go on after SIGTERM. Whoever kills the
// process must wait for longer: the results are recorded after that, and rows
// that were not begun are given back.
const stopTimeout = 10 * time.Second

const envDSN = "DATABASE_URL"

func main() {
	table := flag.String("table", demo.Table.Name, "a worker's table")
	send := flag.Duration("send", time.Millisecond, "how long a send takes")
	demo.Main("partition", func(ctx context.Context, f demo.Flags) error {
		if os.Getenv(partition.EnvPartition) == "" && os.Getenv(partition.EnvCount) == "" {
			return lead(ctx, f, *send)
		}
		return work(ctx, f, *table, *send)
	})
}

// work is one worker, as it would stand in a service of yours.
func work(ctx context.Context, f demo.Flags, table string, send time.Duration) error {
	own, err := partition.FromEnv()
	if err != nil {
		return err
	}
	f.Existing = true
	if f.DSN == "" {
		f.DSN = os.Getenv(envDSN)
	}
	db, dialect, err := demo.Connect(ctx, f)
	if err != nil {
		return err
	}
	defer db.Close()
	mails, err := claim.NewPartitioned[demo.Mail](ctx, db, dialect, claim.Table{Name: table}, own, nil)
	if err != nil {
		return fmt.Errorf("%w (-table names it)", err)
	}
	deliver, err := deliverer(ctx, own, send)
	if err != nil {
		return err
	}
	d, err := sendonce.New[demo.Mail](mails, deliver, sendonce.Config{StopTimeout: stopTimeout})
	if err != nil {
		return err
	}
	ctx, stop := cli.StopsWithParent(ctx)
	defer stop()
	if err := d.Run(ctx); err != nil {
		return demo.Failed(err)
	}
	return nil
}

// deliverer says what it sends, and sends nothing.
func deliverer(ctx context.Context, own partition.Partitioner, send time.Duration) (sendonce.SenderFunc[demo.Mail], error) {
	a, err := own.Assignment(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, m sendonce.Item[demo.Mail]) error {
		select {
		case <-time.After(send):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		fmt.Printf(sentLine, a.Mine[0], a.Count, m.Key, m.Value.Address)
		return nil
	}, nil
}
