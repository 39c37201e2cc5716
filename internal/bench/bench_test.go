package bench_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/bench"
	"github.com/sendonce/sendonce/internal/bench/child"
	"github.com/sendonce/sendonce/internal/bench/contender"
)

// TestMain is the child process, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "work" {
		job, err := child.ParseJob(os.Args[2])
		if err == nil {
			err = contender.Run(context.Background(), job)
		}
		if err != nil {
			child.Fail(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Every contender of the whole plan runs once, with few rows: none rots.
func TestEveryContender(t *testing.T) {
	if os.Getenv("SENDONCE_BENCH") == "" {
		t.Skip("set SENDONCE_BENCH=1, or make bench-once")
	}
	var out bytes.Buffer
	h := &bench.Host{Dir: t.TempDir(), Self: []string{os.Args[0], "work"}, Out: &out}
	require.NoError(t, os.Chmod(filepath.Dir(h.Dir), 0o755)) // for the servers' accounts
	require.NoError(t, os.Chmod(h.Dir, 0o755))
	defer h.Close()
	scale := bench.Scale{Rows: 1000, Rounds: 1}
	var all []bench.GroupResults
	for _, g := range bench.Plan(scale) {
		// Of the many settings of one strategy on one database a single one will do.
		specs := slices.DeleteFunc(g.Specs, func(s bench.Spec) bool {
			return strings.HasSuffix(s.Name, ", matrix") && !strings.Contains(s.Name, "B=100 W=4")
		})
		results, err := h.RunRounds(t.Context(), specs, 1)
		require.NoError(t, err, "%s", out.String())
		all = append(all, bench.GroupResults{Title: g.Title, Rounds: 1, Results: results})
	}
	r := bench.NewReport(scale, h.Versions(), all)
	require.NoError(t, r.Write(t.TempDir()))
	assert.Len(t, r.Ratios, 16, "no bar is left out")
	t.Log(r.Markdown())
}

// A contender that fails, or leaves rows undone, is an error and no figure.
func TestFailuresAreErrors(t *testing.T) {
	h := &bench.Host{Dir: t.TempDir(), Self: []string{os.Args[0], "work"}, Out: io.Discard}
	job := child.Job{Contender: "nonsense", Rows: 10, Batch: 10, Workers: 1}
	_, err := h.Run(t.Context(), bench.Spec{Name: "x", Database: "sqlite", Job: job})
	require.ErrorContains(t, err, `there is no contender "nonsense"`)
	job.Contender = "first" // claims a batch and leaves it
	_, err = h.Run(t.Context(), bench.Spec{Name: "x", Database: "sqlite", Job: job})
	require.ErrorContains(t, err, "0 of 10 rows are done")
	job.Contender = "atomic"
	f, err := h.Run(t.Context(), bench.Spec{Name: "x", Database: "sqlite", Job: job})
	require.NoError(t, err)
	assert.Positive(t, f.RowsPerSecond)
	assert.Positive(t, f.Allocations)
	assert.Positive(t, f.PeakMB)
	left, err := os.ReadDir(h.Dir)
	require.NoError(t, err)
	assert.Empty(t, left, "databases are removed")
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range bench.Plan(bench.Scale{Rows: 1000, Rounds: 1}) {
		for _, s := range g.Specs {
			assert.False(t, seen[s.Name], s.Name)
			seen[s.Name] = true
		}
	}
}

func TestMedian(t *testing.T) {
	assert.Zero(t, bench.Median(nil))
	assert.Equal(t, 2.0, bench.Median([]float64{3, 1, 2}))
	assert.Equal(t, 2.5, bench.Median([]float64{4, 1, 2, 3}))
}

func TestRatioLine(t *testing.T) {
	assert.Equal(t, "ratio a/b 5.1 5 ok", bench.Ratio{Name: "a/b", Value: 5.1, Bar: 5}.String())
	assert.Equal(t, "ratio a/b 4.9 5 short", bench.Ratio{Name: "a/b", Value: 4.9, Bar: 5}.String())
	assert.Equal(t, "ratio x 1.4 <=1.5 ok", bench.Ratio{Name: "x", Value: 1.4, Bar: 1.5, AtMost: true}.String())
	assert.Equal(t, "ratio x 1.6 <=1.5 short", bench.Ratio{Name: "x", Value: 1.6, Bar: 1.5, AtMost: true}.String())
	assert.Equal(t, "ratio x 1 2 void: why", bench.Ratio{Name: "x", Value: 1, Bar: 2, Void: "why"}.String())
}

// What is compared is within rounds: a machine that is slower in one round is so
// for both.
func TestRatiosArePaired(t *testing.T) {
	result := func(name string, rates ...float64) bench.Result {
		r := bench.Result{Spec: bench.Spec{Name: name}}
		for _, v := range rates {
			r.Runs = append(r.Runs, bench.Figures{RowsPerSecond: v})
		}
		return r
	}
	got := bench.Ratios([]bench.Result{
		result("PostgreSQL Atomic B=1000 W=1", 100, 10, 1000), result("River", 10, 2, 250),
	})
	require.Len(t, got, 1)
	assert.InDelta(t, 5, got[0].Value, 1e-9)
}

// The figures of documents come from the committed report.
func TestFiguresOfDocuments(t *testing.T) {
	report, err := bench.ReadReport("../../docs/bench/report.json")
	require.NoError(t, err)
	text, err := os.ReadFile("../../docs/bench/report.md")
	require.NoError(t, err)
	assert.Equal(t, report.Markdown(), string(text))
	for _, path := range []string{"../../docs/performance.md", "../../README.md"} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		filled, ok := report.Fill(string(text))
		require.True(t, ok, "%s has no table of figures", path)
		assert.Equal(t, filled, string(text), "%s: figures differ from report.json; make figures mends it", path)
	}
}
