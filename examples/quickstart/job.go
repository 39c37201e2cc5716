package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sendonce/sendonce/claim"
)

// workerArg is the argument that makes this program a worker.
const workerArg = "worker-of-the-quick-start"

// job is what a worker is told.
type job struct {
	Worker      string // its name
	Driver, DSN string
	Table       table
	SMTP        string // the mail server's address
	Lease       time.Duration
	SendTimeout time.Duration
}

// table is the table to send to.
type table struct {
	Name     string
	Campaign string // the rows of this run; empty for a table of the user's
}

// mapping tells the library about the table. The quick start's own has a few
// columns more than a claim needs, and the rows of all its runs in it.
func (t table) mapping() claim.Table {
	if t.Campaign == "" {
		return claim.Table{Name: t.Name}
	}
	return claim.Table{
		Name:    t.Name,
		Columns: claim.Columns{DoneAt: "done_at", LastError: "last_error"},
		Where:   "campaign = ?", Args: []any{t.Campaign},
	}
}

func (t table) options() *claim.Options {
	if t.Campaign == "" {
		return nil
	}
	return &claim.Options{ClaimsTable: t.Name + "_claims"}
}

// workerMain is the main of a worker process.
func workerMain() int {
	// If the parent is gone, so is our output: that must not end us in mid-send.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	var j job
	if err == nil {
		err = json.Unmarshal(line, &j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot read the job:", err)
		return 2
	}
	go func() {
		_, _ = io.Copy(io.Discard, input) // ends when the parent says so, or dies
		cancel()
		time.Sleep(stopTimeout)
		os.Exit(3)
	}()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err := work(ctx, j, &diary{w: os.Stdout}); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, oneLine(err.Error()))
		return 1
	}
	return 0
}
