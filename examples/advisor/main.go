// Command advisor chooses by measurement: pointed at a database and a table of yours,
// it measures the strategies there for a minute, on a copy of the table's schema, and
// recommends one, with its batch size, the number of dispatchers and the layout:
//
//	go run -C examples ./advisor -driver postgres -dsn "$DATABASE_URL" -table receivers
//
// Of your table it reads the shape and up to 200 rows, and claim.Doctor looks at it.
// What it makes is named sendonce_advisor_... and dropped at the end, also after
// Ctrl-C; only a run that is killed leaves it. On PostgreSQL and MySQL that is beside
// your table, on SQLite in a file of its own beside your file. It gives the server as
// much to do as it can: choose a quiet hour, or a server like yours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/cli"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/lock/redislock"
)

type options struct {
	driver, dsn, table, key, redis, chart string
	span, send                            time.Duration
	rows                                  int
	batches, workers                      numbers
}

// numbers is a flag of several: 10,100.
type numbers []int

// String implements flag.Value.
func (n *numbers) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*n)), " ", ","), "[]")
}

// Set implements flag.Value.
func (n *numbers) Set(text string) error {
	*n = nil
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(part)
		if err != nil || v < 1 || v > 1000 {
			return errors.New("give numbers from 1 to 1000, as in 10,100")
		}
		*n = append(*n, v)
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	o, err := readOptions(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	os.Exit(exitCode(ctx, err))
}

func readOptions(args []string) (options, error) {
	o := options{batches: numbers{10, 100, 1000}, workers: numbers{1, 2, 4}}
	flags := flag.NewFlagSet("advisor", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.driver, "driver", "sqlite", "sqlite, postgres or mysql")
	flags.StringVar(&o.dsn, "dsn", "", "the data source name, or the path of a file for sqlite; without it, a temporary file with a table to try it on")
	flags.StringVar(&o.table, "table", "", "your table, as in receivers or app.receivers")
	flags.StringVar(&o.key, "key", "", "its unique key; without it, the primary key")
	flags.DurationVar(&o.span, "for", time.Minute, "about how long to measure")
	flags.DurationVar(&o.send, "send", 0, "how long each send takes")
	flags.IntVar(&o.rows, "n", 20000, "rows in the copy")
	flags.Var(&o.batches, "batches", "values of Config.BatchSize to try")
	flags.Var(&o.workers, "workers", "how many dispatchers to try")
	flags.StringVar(&o.redis, "redis", "", "where Redis is, as in redis://127.0.0.1:6379/0, to measure claim.NewLocked too")
	flags.StringVar(&o.chart, "chart", filepath.Join(os.TempDir(), "advisor.svg"), "where to write the chart")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("Flags of advisor:")
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return o, err
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("%q is not understood", flags.Arg(0))
	}
	if err != nil {
		return o, fmt.Errorf("%w: run with -h to see what is", err)
	}
	switch {
	case o.span < time.Second || o.span > time.Hour:
		return o, fmt.Errorf("-for is %v: give from 1s to 1h", o.span)
	case o.send < 0 || o.send > time.Second:
		return o, fmt.Errorf("-send is %v: give from 0 to 1s", o.send)
	case o.rows < 2000 || o.rows > 100000:
		return o, fmt.Errorf("-n is %d: give from 2000 to 100000", o.rows)
	case filepath.Ext(o.chart) != ".svg":
		return o, fmt.Errorf("-chart is %q: give a path that ends with .svg", o.chart)
	case o.dsn != "" && o.table == "":
		return o, errors.New("no table is named: give -table, as in receivers or app.receivers")
	}
	return o, nil
}

func run(ctx context.Context, o options) (err error) {
	began := time.Now()
	user, d, done, err := open(ctx, &o)
	if err != nil {
		return err
	}
	defer done()
	var locks *redislock.Locker
	if o.redis != "" {
		client, err := cli.ConnectRedis(ctx, o.redis)
		if err != nil {
			return err
		}
		defer client.Close()
		if locks, err = redislock.New(client, nil); err != nil {
			return err
		}
	}
	c, err := newCopy(ctx, user, d, o)
	if c != nil {
		defer func() { err = errors.Join(err, c.drop(ctx)) }()
	}
	if err != nil {
		return err
	}
	fmt.Printf("Measuring for about %v on %s, a copy of %s: %d rows, %s.\n", o.span, c.work, o.table, o.rows, c.filledWith)
	found, err := measure(ctx, c, locks, o)
	if err != nil {
		return err
	}
	report, err := inspect(ctx, user, d, c)
	if err != nil {
		return err
	}
	fmt.Print(table(found.settings), "\n", report, "\n", found.advice(c, o))
	if err := drawChart(append(found.settings, found.layouts...), o.chart); err != nil {
		return fmt.Errorf("cannot write the chart: %w: correct -chart", err)
	}
	fmt.Printf("\nOK, in %v: the chart is %s\n", time.Since(began).Round(time.Second), o.chart)
	return nil
}

// open opens the user's database, or makes one to try.
func open(ctx context.Context, o *options) (db *sqlx.DB, d claim.Dialect, done func(), err error) {
	dir, path := "", o.dsn
	if o.driver == "sqlite" && o.dsn == "" {
		if dir, err = os.MkdirTemp("", "sendonce-advisor-"); err != nil {
			return nil, 0, nil, err
		}
		path = filepath.Join(dir, "advisor.db")
	}
	removeDir := func() {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	if o.driver == "sqlite" && path != "" {
		mode := "rw"
		if dir != "" {
			mode = "rwc"
		}
		// demo.Connect would change a file's journal mode.
		o.dsn = fileURI(path, mode) + "&_pragma=busy_timeout(10000)&_txlock=immediate"
	}
	if db, d, err = demo.Connect(ctx, demo.Flags{Driver: o.driver, DSN: o.dsn}); err != nil {
		removeDir()
		return nil, 0, nil, err
	}
	done = func() {
		_ = db.Close()
		removeDir()
	}
	if dir != "" {
		if o.table == "" {
			o.table = "receivers"
		}
		t := claim.Table{Name: "receivers"}
		_, err = db.ExecContext(ctx, "CREATE TABLE receivers (id INTEGER PRIMARY KEY, address varchar(200) NOT NULL UNIQUE, name text NOT NULL)")
		if err = errors.Join(err, claim.Migrate(ctx, db, d, t, nil)); err != nil {
			done()
			return nil, 0, nil, err
		}
	}
	return db, d, done, nil
}

// exitCode is 0 if there is a recommendation, 2 if what was asked for can't be done
// (one line says why, and what helps), and 130 after an interrupt.
func exitCode(ctx context.Context, err error) int {
	var left leftError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case ctx.Err() != nil && !errors.As(err, &left):
		fmt.Fprintln(os.Stderr, "advisor: interrupted; its tables are dropped")
		return 130
	}
	// Drivers make several lines.
	fmt.Fprintf(os.Stderr, "advisor: %s\n", strings.Join(strings.Fields(err.Error()), " "))
	if ctx.Err() != nil {
		return 130
	}
	return 2
}
