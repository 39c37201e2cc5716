// Command unique shows Laravel's ShouldBeUnique, ShouldBeUniqueUntilProcessing and
// WithoutOverlapping side by side with what is the same here, and where it differs:
//
//	go run -C examples ./unique
//	go run -C examples ./unique -driver postgres -dsn postgres://...
//	go run -C examples ./unique -redis redis://127.0.0.1:6379/0
//
// The rows and the unique keys are in SQLite, unless it is given another database; with
// -redis the keys are in Redis. scenes.go is the part to look at. Each scene is held
// against what it promises.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce/examples/internal/cli"
	"github.com/sendonce/sendonce/examples/internal/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	f, address, err := readFlags(os.Args[1:])
	if err == nil {
		err = run(ctx, f, address)
	}
	os.Exit(cli.ExitCode(ctx, "unique", "interrupted", err))
}

func readFlags(args []string) (f demo.Flags, address string, err error) {
	flags := flag.NewFlagSet("unique", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&f.Driver, "driver", "sqlite", "sqlite, postgres or mysql")
	flags.StringVar(&f.DSN, "dsn", "", "the data source name, or the path of a file for sqlite; a temporary file if empty. The table "+demo.Table.Name+" is made anew in it")
	flags.StringVar(&address, "redis", "", "where Redis is, if unique keys are to be kept there, as in redis://127.0.0.1:6379/0")
	err = flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("Flags of unique:")
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return f, "", err
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("%q is not understood", flags.Arg(0))
	}
	if err != nil {
		return f, "", fmt.Errorf("%w: run with -h to see what is", err)
	}
	return f, address, nil
}

func run(ctx context.Context, f demo.Flags, address string) error {
	var rdb *redis.Client
	if address != "" {
		var err error
		if rdb, err = cli.ConnectRedis(ctx, address); err != nil {
			return err
		}
		defer rdb.Close()
	}
	if os.Getenv(envDies) != "" {
		return hang(ctx, f, rdb)
	}
	db, dialect, done, err := demo.Open(ctx, &f)
	if err != nil {
		return err
	}
	defer done()
	s, err := newStage(ctx, db, dialect, rdb)
	if err != nil {
		return err
	}
	s.args = []string{"-driver", f.Driver, "-dsn", f.DSN, "-redis", address}
	for _, scene := range scenes {
		wrapped := strings.NewReplacer("\n", "\n         ")
		fmt.Printf("%s\n  there: %s\n  here:  %s\n", scene.word, wrapped.Replace(scene.there), wrapped.Replace(scene.here))
		s.said = nil
		if err := scene.play(ctx, s); err != nil {
			return err
		}
		if got := strings.Join(s.said, "\n"); got != scene.promise {
			return cli.Failed(fmt.Errorf("%s: this was promised: %s", scene.word, scene.promise))
		}
	}
	fmt.Printf("OK, in all %d scenes it went as promised\n", len(scenes))
	return nil
}
