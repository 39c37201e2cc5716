// Command bench measures the strategies against each other, against rivals and
// against hand-written loops, on servers of its own:
//
//	go run ./cmd/bench -quick -out /tmp/bench
//
// It prints a line per run, and at the end a line "ratio NAME VALUE BAR ok" (or
// short) per bar. Bars are shown and not enforced: it fails only when a contender
// fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/sendonce/sendonce/internal/bench"
	"github.com/sendonce/sendonce/internal/bench/child"
	"github.com/sendonce/sendonce/internal/bench/contender"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == "work" {
		work(ctx, os.Args[2])
		return
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// work is the child process of one contender.
func work(ctx context.Context, arg string) {
	job, err := child.ParseJob(arg)
	if err == nil {
		err = contender.Run(ctx, job)
	}
	if err != nil {
		child.Fail(err)
	}
}

func run(ctx context.Context) error {
	quick := flag.Bool("quick", false, "a small cut, in minutes")
	out := flag.String("out", "", "folder for report.json, report.md and chart.svg; none: nothing is written")
	only := flag.String("only", "", "only contenders, and groups, whose name matches this expression")
	rows := flag.Int("rows", 0, "rows per run (default 100,000; quick: 30,000)")
	rounds := flag.Int("rounds", 0, "rounds (default 5; quick: 2)")
	dir := flag.String("dir", os.TempDir(), "folder for the servers' data: its disk is what is measured")
	tell := flag.Bool("statements", false, "show after each run what PostgreSQL spent its time on")
	profiles := flag.String("profiles", "", "folder for a CPU profile of each contender of ours")
	fill := flag.Bool("fill", false, "measure nothing: put the figures of -out's report.json into the documents named behind the flags")
	flag.Parse()
	if *fill {
		return fillDocuments(filepath.Join(*out, "report.json"), flag.Args())
	}
	scale := bench.Scale{Rows: 100000, Rounds: 5, Quick: *quick}
	if *quick {
		scale.Rows, scale.Rounds = 30000, 2
	}
	if *rows > 0 {
		scale.Rows = *rows
	}
	if *rounds > 0 {
		scale.Rounds = *rounds
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	h := &bench.Host{Dir: *dir, Self: []string{os.Args[0], "work"}, Out: os.Stdout, Tell: *tell, Profiles: *profiles}
	defer h.Close()
	report, err := measure(ctx, h, scale, match, *out)
	if err != nil {
		return err
	}
	for _, r := range report.Ratios {
		fmt.Println(r)
	}
	return nil
}

func fillDocuments(report string, paths []string) error {
	r, err := bench.ReadReport(report)
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		filled, ok := r.Fill(string(text))
		if !ok {
			return fmt.Errorf("%s has no %q", path, strings.TrimSpace(bench.TableBegins))
		}
		if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// measure writes the report after each group: a run that is ended early is not
// lost.
func measure(ctx context.Context, h *bench.Host, scale bench.Scale, match *regexp.Regexp, out string) (bench.Report, error) {
	var all []bench.GroupResults
	report := bench.NewReport(scale, nil, nil)
	for _, g := range bench.Plan(scale) {
		if !match.MatchString(g.Title) {
			g.Specs = slices.DeleteFunc(g.Specs, func(s bench.Spec) bool { return !match.MatchString(s.Name) })
		}
		if len(g.Specs) == 0 {
			continue
		}
		h.Say("%s", g.Title)
		results, err := h.RunRounds(ctx, g.Specs, g.Rounds)
		if err != nil {
			return report, err
		}
		all = append(all, bench.GroupResults{Title: g.Title, Rounds: g.Rounds, Results: results})
		report = bench.NewReport(scale, h.Versions(), all)
		if out == "" {
			continue
		}
		if err := report.Write(out); err != nil {
			return report, err
		}
	}
	return report, nil
}
