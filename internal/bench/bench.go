// Package bench measures contenders in paired rounds: in each round every
// contender runs once, on the same server, with a fresh database, and the order
// changes from round to round. What is compared is the median of ratios within
// rounds, as the machine's speed changes over minutes.
package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/sendonce/sendonce/internal/bench/child"
	"github.com/sendonce/sendonce/internal/bench/table"
)

// Spec is one contender with one setting.
type Spec struct {
	Name     string
	Database string // "postgres", "mariadb", "sqlite", "redis", or "" for none
	Layout   string // of table.Create; "own": it makes its own rows
	Redis    bool   // it needs a Redis too
	Rival    string // folder below rivals, or "": it is ours
	Snapshot bool   // another session holds an old snapshot of PostgreSQL meanwhile
	Open     bool   // rows are left undone
	Job      child.Job
}

// Figures are what one run has cost.
type Figures struct {
	RowsPerSecond   float64   `json:"rows_per_second"`
	ClientCPU       float64   `json:"client_cpu_us_per_row"`
	ServerCPU       float64   `json:"server_cpu_us_per_row"`
	Log             float64   `json:"log_bytes_per_row"` // WAL or redo
	Statements      float64   `json:"statements_per_row"`
	ServerMS        float64   `json:"server_statements_ms,omitempty"` // all statements of the run together, on PostgreSQL
	ClaimP50        float64   `json:"claim_p50_ms"`
	ClaimP99        float64   `json:"claim_p99_ms"`
	Allocations     float64   `json:"allocations_per_row"`
	PeakMB          float64   `json:"peak_mb"`
	InsertPerSecond float64   `json:"insert_rows_per_second,omitempty"` // of those who insert their own rows
	TenthsPerSecond []float64 `json:"tenths_rows_per_second,omitempty"`
}

// Result is a contender's runs, one per round.
type Result struct {
	Spec   Spec      `json:"spec"`
	Runs   []Figures `json:"runs"`
	Median Figures   `json:"median"`
	Spread float64   `json:"spread"` // of rows per second: (most - least) / median
}

// RunRounds runs all contenders once per round.
func (h *Host) RunRounds(ctx context.Context, specs []Spec, rounds int) ([]Result, error) {
	results := make([]Result, len(specs))
	for i := range specs {
		results[i].Spec = specs[i]
	}
	for r := range rounds {
		for i := range specs {
			at := (i + r*(len(specs)/max(rounds, 1)+1)) % len(specs) // not always behind the same neighbour
			f, err := h.Run(ctx, specs[at])
			if err != nil {
				return results, fmt.Errorf("%s: %w", specs[at].Name, err)
			}
			results[at].Runs = append(results[at].Runs, f)
			h.Say("  round %d  %-44s %8.0f rows/s  %6.2f + %6.2f us/row", r+1, specs[at].Name, f.RowsPerSecond, f.ClientCPU, f.ServerCPU)
		}
	}
	for i := range results {
		results[i].summarize()
	}
	return results, nil
}

func (r *Result) summarize() {
	of := func(get func(Figures) float64) float64 {
		var vs []float64
		for _, f := range r.Runs {
			vs = append(vs, get(f))
		}
		return Median(vs)
	}
	r.Median = Figures{
		RowsPerSecond: of(func(f Figures) float64 { return f.RowsPerSecond }),
		ClientCPU:     of(func(f Figures) float64 { return f.ClientCPU }), ServerCPU: of(func(f Figures) float64 { return f.ServerCPU }),
		ServerMS: of(func(f Figures) float64 { return f.ServerMS }),
		Log:      of(func(f Figures) float64 { return f.Log }), Statements: of(func(f Figures) float64 { return f.Statements }),
		ClaimP50: of(func(f Figures) float64 { return f.ClaimP50 }), ClaimP99: of(func(f Figures) float64 { return f.ClaimP99 }),
		Allocations: of(func(f Figures) float64 { return f.Allocations }), PeakMB: of(func(f Figures) float64 { return f.PeakMB }),
		InsertPerSecond: of(func(f Figures) float64 { return f.InsertPerSecond }),
	}
	least, most := r.Runs[0].RowsPerSecond, r.Runs[0].RowsPerSecond
	for _, f := range r.Runs {
		least, most = min(least, f.RowsPerSecond), max(most, f.RowsPerSecond)
	}
	r.Spread = (most - least) / r.Median.RowsPerSecond
}

// Median of values; 0 of none.
func Median(vs []float64) float64 {
	if len(vs) == 0 {
		return 0
	}
	vs = slices.Sorted(slices.Values(vs))
	return (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
}

var notLetters = regexp.MustCompile(`[^A-Za-z0-9]+`)

// Run runs one contender once, with a fresh database.
func (h *Host) Run(ctx context.Context, s Spec) (f Figures, err error) {
	job := s.Job
	if h.Profiles != "" && s.Rival == "" {
		job.Profile = filepath.Join(h.Profiles, notLetters.ReplaceAllString(s.Name, "-")+".prof")
	}
	meters, drop, err := h.prepare(ctx, s, &job)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	command, err := h.command(ctx, s)
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	release := func() {}
	defer func() { release() }()
	var before, after reading
	lap, err := child.Run(ctx, command, job,
		func() error {
			if err := meters.settle(ctx); err != nil {
				return err
			}
			if s.Snapshot {
				if release, err = holdSnapshot(ctx, job.DSN); err != nil {
					return err
				}
			}
			before, err = meters.read(ctx)
			return err
		},
		func() error { after, err = meters.read(ctx); return err })
	if err == nil && s.Layout != "own" && s.Database != "" && !s.Open {
		err = checkDone(ctx, job)
	}
	if err != nil {
		return f, err
	}
	return figures(lap, before, after), meters.tell(ctx, h)
}

func checkDone(ctx context.Context, job child.Job) error {
	n, attempts := job.Finished+job.Rows, 1
	if job.Insert {
		n += job.Inserted()
	}
	if job.Retry {
		attempts = 2
	}
	return table.CheckDone(ctx, job.DSN, n, attempts)
}

// holdSnapshot opens a transaction that has seen the table and stays open, as a
// long report or a dump does.
func holdSnapshot(ctx context.Context, dsn string) (release func(), err error) {
	db, err := table.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err == nil {
		_, err = tx.ExecContext(ctx, "SELECT 1 FROM receivers LIMIT 1")
	}
	return func() { _ = db.Close() }, err
}

func figures(lap child.Lap, before, after reading) Figures {
	n := float64(lap.Rows)
	f := Figures{
		RowsPerSecond: n / lap.Seconds, ClientCPU: lap.CPU / n * 1e6, ServerCPU: (after.cpu - before.cpu).Seconds() / n * 1e6,
		Log: (after.log - before.log) / n, Statements: (after.statements - before.statements) / n,
		ServerMS: after.exec - before.exec,
		ClaimP50: lap.ClaimP50 * 1e3, ClaimP99: lap.ClaimP99 * 1e3, Allocations: float64(lap.Mallocs) / n, PeakMB: float64(lap.PeakKB) / 1024,
	}
	if lap.Insert > 0 {
		f.InsertPerSecond = n / lap.Insert
	}
	for _, t := range lap.Tenths {
		f.TenthsPerSecond = append(f.TenthsPerSecond, math.Round(n/10/t))
	}
	return f
}

// prepare makes the database and fills in where it is.
func (h *Host) prepare(ctx context.Context, s Spec, job *child.Job) (*meters, func() error, error) {
	m := &meters{}
	drop := func() error { return nil }
	if s.Redis || s.Database == "redis" {
		srv, err := h.server(ctx, "redis")
		if err != nil {
			return nil, nil, err
		}
		job.Redis = srv.Addr
		if err := flushRedis(ctx, srv.Addr); err != nil {
			return nil, nil, err
		}
		m.add(srv)
	}
	switch s.Database {
	case "postgres", "mariadb":
		srv, err := h.server(ctx, s.Database)
		if err != nil {
			return nil, nil, err
		}
		if job.DSN, drop, err = h.newDatabase(ctx, srv); err != nil {
			return nil, nil, err
		}
		m.add(srv)
	case "sqlite":
		dir, err := os.MkdirTemp(h.Dir, "sendonce-bench-sqlite-")
		if err != nil {
			return nil, nil, err
		}
		job.DSN = table.SQLiteDSN(filepath.Join(dir, "bench.db"))
		drop = func() error { return os.RemoveAll(dir) }
	}
	if job.DSN != "" && s.Layout != "own" {
		if err := table.Create(ctx, job.DSN, s.Layout, job.Finished, job.Rows); err != nil {
			return nil, nil, errors.Join(err, drop())
		}
	}
	return m, drop, nil
}
