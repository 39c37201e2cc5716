package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sendonce/sendonce/examples/internal/cli"
)

// Main is the main function of an example. Flags of the example's own are made
// before. The exit code is 0 if all went as promised, 1 if a row was left out or
// sent twice, 2 if what was asked for can't be done (one line says why, and what
// helps), and 130 after an interrupt.
func Main(name string, run func(ctx context.Context, f Flags) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	var f Flags
	flag.StringVar(&f.Driver, "driver", "sqlite", "sqlite, postgres or mysql")
	flag.StringVar(&f.DSN, "dsn", "", "the data source name, or the path of a file for sqlite; a temporary file if empty. The table "+Table.Name+" is made anew in it")
	flag.IntVar(&f.Rows, "n", 1000, "rows")
	flag.IntVar(&f.Workers, "workers", 4, "workers, each with a Claimer of its own")
	err := parse(name, os.Args[1:])
	if err == nil {
		err = f.check()
	}
	if err == nil {
		err = run(ctx, f)
	}
	os.Exit(cli.ExitCode(ctx, name, "interrupted; rows that were not sent are pending", err))
}

func parse(name string, args []string) error {
	flag.CommandLine.Init(name, flag.ContinueOnError)
	flag.CommandLine.SetOutput(io.Discard)
	flag.CommandLine.Usage = func() {}
	err := flag.CommandLine.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flag.CommandLine.SetOutput(os.Stdout)
		fmt.Printf("Flags of %s:\n", name)
		flag.PrintDefaults()
		return err
	case err == nil && flag.NArg() > 0:
		err = fmt.Errorf("%q is not understood", flag.Arg(0))
	}
	if err != nil {
		return fmt.Errorf("%w: run with -h to see what is", err)
	}
	return nil
}

func (f Flags) check() error {
	switch {
	case f.Rows < 0:
		return fmt.Errorf("-n is %d: give 0 or more", f.Rows)
	case f.Workers < 1 || f.Workers > 64:
		return fmt.Errorf("-workers is %d: give from 1 to 64", f.Workers)
	}
	return nil
}

// Failed marks an error that says that rows were left out or sent twice.
func Failed(err error) error { return cli.Failed(err) }
