package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const defaultTable = "sendonce_quickstart"

// options are the flags, checked.
type options struct {
	n        int
	csv      string
	workers  int
	driver   string
	dsn      string
	table    string
	existing bool
	kill     bool
	seed     uint64
	dir      string
}

func readOptions(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.IntVar(&o.n, "n", 0, "send to so many receivers of the CSV file; 0 is all (the file that ships has 10000)")
	fs.StringVar(&o.csv, "csv", "", "import this file (columns: name and email) instead of the one that ships")
	fs.IntVar(&o.workers, "workers", 4, "worker processes")
	fs.StringVar(&o.driver, "driver", "sqlite", "sqlite, postgres or mysql (MariaDB too)")
	fs.StringVar(&o.dsn, "dsn", "", "the database: a file for sqlite, postgres://..., or user:password@tcp(host:3306)/db (default: a temporary SQLite file)")
	fs.StringVar(&o.table, "table", defaultTable, "the quick start's own table, made if it is not there")
	fs.BoolVar(&o.existing, "existing", false, "send to the pending rows of your table -table, and mark them; it must have the columns that a claim needs, and address and name")
	fs.BoolVar(&o.kill, "kill", true, "kill a worker half-way (SIGKILL)")
	fs.Uint64Var(&o.seed, "seed", 1, "decides whom the mail server refuses, and which worker is killed")
	fs.StringVar(&o.dir, "dir", "", "keep the database, the mail server's log and the workers' logs in this new or empty folder (default: a temporary folder, removed at the end)")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, "Sends one mail to each receiver of a CSV file, from several processes, kills one of them, and counts what arrived.")
		fs.SetOutput(out)
		fs.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w: run with -h for the flags", err)
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("the argument %q is not understood: run with -h for the flags", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return o, o.check(given)
}

func (o *options) check(given map[string]bool) error {
	drivers := []string{"sqlite", "postgres", "mysql"}
	switch {
	case o.n < 0:
		return fmt.Errorf("-n is %d: it must be 0 or more", o.n)
	case o.workers < 1 || o.workers > 64:
		return fmt.Errorf("-workers is %d: it must be from 1 to 64", o.workers)
	case o.kill && o.workers == 1:
		return errors.New("-kill needs a second worker to take over: give -workers 2 or more, or -kill=false")
	case !slices.Contains(drivers, o.driver):
		return fmt.Errorf("-driver is %q: it must be one of %s", o.driver, strings.Join(drivers, ", "))
	case o.driver != "sqlite" && o.dsn == "":
		return fmt.Errorf("-driver %s needs to know where the database is: give -dsn", o.driver)
	case o.existing && (o.dsn == "" || !given["table"]):
		return errors.New("-existing is about a table of yours: give -dsn and -table")
	case o.existing && (given["n"] || given["csv"]):
		return errors.New("-existing sends to the rows that are there: leave out -n and -csv")
	case !o.existing && len(o.table) > 50:
		return fmt.Errorf("-table is %d bytes long: at most 50, so that all databases take the names made of it", len(o.table))
	}
	return nil
}

// folder is where files go.
type folder struct {
	path       string
	temp, made bool // temporary; made by us
}

func (o *options) folder() (f folder, err error) {
	if o.dir == "" {
		if f.path, err = os.MkdirTemp("", "sendonce-quickstart-"); err != nil {
			return f, fmt.Errorf("cannot make a temporary folder: %w: name one that can be written with -dir", err)
		}
		f.temp = true
		return f, nil
	}
	f.path = o.dir
	entries, err := os.ReadDir(o.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.made = true
		err = os.Mkdir(o.dir, 0o755)
	case err == nil && len(entries) > 0:
		err = fmt.Errorf("%s is not empty", o.dir)
	case err == nil:
		err = tryToWrite(o.dir)
	}
	if err != nil {
		return f, fmt.Errorf("cannot use the folder of -dir: %w: name a new or an empty one that can be written", err)
	}
	return f, nil
}

// file is a file in the folder.
func (f folder) file(name string) string { return filepath.Join(f.path, name) }

// clear takes away what is not to stay: all of a temporary folder unless the run
// failed, and of the user's what we made if the run was refused.
func (f folder) clear(code int, out io.Writer) {
	switch {
	case f.temp && code == 1:
		fmt.Fprintln(out, "The logs are left in", f.path)
	case f.temp:
		_ = os.RemoveAll(f.path)
	case code == 2:
		_ = os.Remove(f.file(serverLog))
		if f.made {
			_ = os.Remove(f.path)
		}
	}
}

func tryToWrite(dir string) error {
	file, err := os.CreateTemp(dir, "try-")
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

func (o *options) csvName() string {
	if o.csv == "" {
		return "receivers.csv"
	}
	return o.csv
}
