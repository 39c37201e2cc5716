// Quickstart shows sendonce at work, with nothing but Go: it imports receivers
// from a CSV file, sends each of them one mail over real SMTP from several
// processes, kills one of these half-way, and counts what arrived from the mail
// server's own log.
//
//	go run -C examples ./quickstart
//	go run -C examples ./quickstart -h
//
// worker.go is the part to look at: it is what a service of yours would have.
//
// The exit code is 0 if all went as promised, 1 if a receiver was lost or got a
// mail twice without a reason, 2 if the input can't be used (then nothing was
// changed), and 130 if it was interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

const (
	interrupted = 130 // the exit code
	serverLog   = "mailserver.log"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == workerArg {
		os.Exit(workerMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once; its workers notice and end, too.
	context.AfterFunc(ctx, stop)
	os.Exit(realMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func realMain(ctx context.Context, args []string, out, errs io.Writer) int {
	o, err := readOptions(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	code := 2
	if err == nil {
		code, err = run(ctx, o, out)
	}
	if err != nil {
		fmt.Fprintln(errs, "quickstart:", oneLine(err.Error()))
	}
	return code
}

// run returns the exit code, and what is to be said on standard error. Whatever
// can be refused is refused before anything is changed.
func run(ctx context.Context, o options, out io.Writer) (code int, err error) {
	var imported importReport
	if !o.existing {
		if imported, err = readCSV(o.csv, o.n); err != nil {
			return 2, err
		}
	}
	dir, err := o.folder()
	if err != nil {
		return 2, err
	}
	defer func() { dir.clear(code, out) }()
	ledger, err := openLedger(dir.file(serverLog))
	if err != nil {
		return 2, err
	}
	defer ledger.file.Close()
	server, err := startMailServer(ledger, o.seed)
	if err != nil {
		return 2, err
	}
	defer server.close()
	c, err := prepare(ctx, o, dir, imported.Receivers)
	if ctx.Err() != nil {
		return interrupted, errors.New("interrupted")
	}
	if err != nil {
		return 2, err
	}
	defer c.db.Close()
	if !o.existing {
		printImport(out, imported, o.csvName())
	}
	return send(ctx, o, c, server, dir, out)
}

// send runs the workers until all is sent.
func send(ctx context.Context, o options, c *campaign, server *mailServer, dir folder, out io.Writer) (int, error) {
	s := newScreen(out, isTerminal(out), c.total())
	s.say("%d worker processes send %d mails over SMTP to %s", o.workers, s.total, server.addr)
	f, err := startFleet(dir, jobs(o, c, server.addr), func(w *workerProcess, e event) {
		if e.Event == evReturned {
			s.say("%s has given back %d rows of a vanished worker", w.name, e.N)
		}
	})
	if err != nil {
		return 1, err
	}
	defer f.stop()
	err = watch(ctx, o, server, f, s)
	f.stop()
	if err != nil {
		return 1, err
	}
	return conclude(ctx, c, f, s, dir, out)
}

// jobs is what each worker is told.
func jobs(o options, c *campaign, smtp string) []job {
	js := make([]job, o.workers)
	for i := range js {
		js[i] = job{Worker: fmt.Sprintf("worker-%d", i+1), Driver: c.driver, DSN: c.dsn, Table: c.table, SMTP: smtp}
		if o.kill {
			// A lease of 5 s, so that you need not wait for long. Without a kill the
			// defaults are right: 30 s, and 10 s for one mail.
			js[i].Lease, js[i].SendTimeout = 5*time.Second, time.Second
		}
	}
	return js
}

// watch waits until the workers are done, shows how far they are, and kills one
// of them when half of the mails are sent.
func watch(ctx context.Context, o options, server *mailServer, f *fleet, s *screen) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	kill, rnd := o.kill, rand.New(rand.NewPCG(o.seed, 1))
	for f.running() > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		p, err := server.progress()
		if err != nil {
			return err
		}
		s.update(p)
		if !kill || p.sent < s.total/2 {
			continue
		}
		if w := f.kill(rnd); w != nil {
			kill = false
			rows, sending := w.held()
			s.say("%s was killed (SIGKILL): it held %d rows, and had begun %d of them without recording the end", w.name, rows, sending)
			s.say("its rows come back in 4 to 9 s: its lease of 5 s must be over, and another worker must have seen it unchanged for two thirds of that")
		}
	}
	p, err := server.progress()
	s.end(p)
	return err
}

// conclude counts, prints and judges.
func conclude(ctx context.Context, c *campaign, f *fleet, s *screen, dir folder, out io.Writer) (int, error) {
	took := s.elapsed()
	file, err := os.Open(dir.file(serverLog))
	if err != nil {
		return 1, err
	}
	defer file.Close()
	entries, err := readLedger(file)
	if err != nil {
		return 1, err
	}
	t := count(entries, c.expected, f.inFlight())
	left, done, dead, err := c.counts(context.WithoutCancel(ctx))
	if err != nil {
		return 1, fmt.Errorf("cannot count the table: %w", err)
	}
	printResult(out, t, f, done, dead, left)
	if ctx.Err() != nil {
		fmt.Fprintf(out, "\nInterrupted: %d receivers have not got their mail; their rows are pending.\n", t.never)
		return interrupted, nil
	}
	if why := t.failed(); why != "" {
		return 1, errors.New("FAILED: " + why)
	}
	if left > 0 {
		return 1, fmt.Errorf("FAILED: the workers ended, and %d rows are left", left)
	}
	fmt.Fprintf(out, "\nOK, in %.1f s: %s\n", took.Seconds(), verdictLine(t, f))
	return 0, nil
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
