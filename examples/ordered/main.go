// Command ordered is an HTTP service that makes invoices, whose numbers have no gaps,
// strictly in the order in which they were asked for, one at a time for each customer,
// with any number of instances behind it:
//
//	go run -C examples ./ordered -redis redis://127.0.0.1:6379/0
//
// starts two instances, asks both of them at once, and tells what the ledger shows
// about the order. With -kill it kills one of them in the middle of its work. One
// instance alone, until SIGTERM, is
//
//	go run -C examples ./ordered -redis redis://127.0.0.1:6379/0 -serve 127.0.0.1:8080
//	curl -i -X POST http://127.0.0.1:8080/customers/ann/invoices
//
// service.go is the part to look at: it is what a service of yours would have. The
// order is that of package redisclaim.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sendonce/sendonce/examples/internal/cli"
)

type options struct {
	redis, serve, name string
	n, customers, rate int
	work               time.Duration
	kill               bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	o, err := readOptions(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	os.Exit(cli.ExitCode(ctx, "ordered", "interrupted", err))
}

func readOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("ordered", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.redis, "redis", "redis://127.0.0.1:6379/0", "where Redis is")
	flags.IntVar(&o.n, "n", 400, "invoices to ask for")
	flags.IntVar(&o.customers, "customers", 8, "who ask for them, in turn")
	flags.IntVar(&o.rate, "rate", 200, "requests in a second")
	flags.DurationVar(&o.work, "work", 10*time.Millisecond, "how long it takes to make an invoice")
	flags.BoolVar(&o.kill, "kill", false, "kill an instance half-way (SIGKILL), in the middle of its work")
	flags.StringVar(&o.serve, "serve", "", "be one instance, at this address, and ask for nothing")
	flags.StringVar(&o.name, "name", "", "the queue that instances share; without it, \"invoices\" for -serve, or else a new one that is deleted at the end")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("Flags of ordered:")
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return o, err
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("%q is not understood", flags.Arg(0))
	}
	if err != nil {
		return o, fmt.Errorf("%w: run with -h to see what is", err)
	}
	for name, v := range map[string]int{"n": o.n, "customers": o.customers, "rate": o.rate} {
		if v < 1 || v > 1e6 {
			return o, fmt.Errorf("-%s is %d: give from 1 to 1000000", name, v)
		}
	}
	if o.work < 0 || o.work > 500*time.Millisecond {
		return o, fmt.Errorf("-work is %v: give from 0 to 500ms", o.work)
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	rdb, err := cli.ConnectRedis(ctx, o.redis)
	if err != nil {
		return err
	}
	defer rdb.Close()
	if o.serve == "" {
		return lead(ctx, rdb, o)
	}
	if o.name == "" {
		o.name = "invoices"
	}
	ctx, stop := cli.StopsWithParent(ctx)
	defer stop()
	return serve(ctx, rdb, o)
}

// logger writes to standard output, where instances of a lead have no other reader.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
