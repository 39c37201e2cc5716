package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/sendonce/sendonce/internal/bench/server"
	"github.com/sendonce/sendonce/internal/chart"
)

// Report is what a run has found. It is written as JSON, Markdown and a chart.
type Report struct {
	Machine  string         `json:"machine"`
	Versions []string       `json:"versions"`
	Settings []string       `json:"settings"`
	Quick    bool           `json:"quick"`
	Rows     int            `json:"rows"`
	Groups   []GroupResults `json:"groups"`
	Ratios   []Ratio        `json:"ratios"`
}

// GroupResults is what was measured in the same rounds.
type GroupResults struct {
	Title   string   `json:"title"`
	Rounds  int      `json:"rounds"`
	Results []Result `json:"results"`
}

// NewReport puts a report together.
func NewReport(s Scale, versions []string, groups []GroupResults) Report {
	r := Report{Machine: machine(), Versions: versions, Quick: s.Quick, Rows: s.Rows, Groups: groups, Settings: []string{
		"PostgreSQL: " + strings.Join(server.PostgresSettings, ", "),
		"MariaDB: " + strings.Join(server.MariaSettings, ", "),
		"Redis: " + strings.Join(server.RedisSettings, ", "),
		"SQLite: modernc.org/sqlite, WAL, synchronous=FULL",
	}}
	r.Ratios = Ratios(r.results())
	return r
}

func (r *Report) results() (all []Result) {
	for _, g := range r.Groups {
		all = append(all, g.Results...)
	}
	return all
}

func machine() string {
	model, memory := "unknown processor", ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name\t: "); ok {
			model, _, _ = strings.Cut(rest, "\n")
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kb); err == nil {
			memory = fmt.Sprintf(", %d GiB", (kb+1<<19)>>20)
		}
	}
	return fmt.Sprintf("%s, %d cores%s, %s/%s; clients and servers on it", model, runtime.NumCPU(), memory, runtime.GOOS, runtime.GOARCH)
}

// Write writes report.json, report.md and chart.svg into the folder.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.md"), []byte(r.Markdown()), 0o644); err != nil {
		return err
	}
	return r.chart(filepath.Join(dir, "chart.svg"))
}

// ReadReport reads report.json.
func ReadReport(path string) (r Report, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// Markdown is the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\n%s. %s. %d rows where nothing else is said.\n\n", r.Machine, strings.Join(r.Versions, ", "), r.Rows)
	for _, s := range r.Settings {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	b.WriteString("\nB is the batch size, W the number of dispatchers in the process. CPU is in microseconds per row, of the client's process " +
		"and of the server's. Medians over the rounds; the spread is (most - least) / median of rows/s.\n\n" +
		"![rows per second](chart.svg)\n\n## Bars\n\n" + r.bars())
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "\n## %s\n\n%d rounds.\n\n", g.Title, g.Rounds)
		b.WriteString(Head)
		for _, x := range g.Results {
			b.WriteString(x.Row())
		}
		for _, x := range g.Results {
			if len(x.Runs) > 0 && len(x.Runs[0].TenthsPerSecond) > 0 && g.Rounds == 1 {
				fmt.Fprintf(&b, "\nRows/s of each tenth, %s: %v.\n", x.Spec.Name, x.Runs[0].TenthsPerSecond)
			}
		}
	}
	return b.String()
}

// Head begins a table of results.
const Head = "| | rows | rows/s | spread | CPU client | CPU server | log B/row | statements/row | claim p50 ms | p99 ms | allocations/row | peak MB | inserts/s |\n" +
	"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"

// Row is a line of such a table.
func (r *Result) Row() string {
	m := r.Median
	return fmt.Sprintf("| %s | %d | %.0f | %.0f %% | %.2f | %.2f | %.0f | %.4f | %.2f | %.2f | %.2f | %.0f | %s |\n",
		r.Spec.Name, r.Spec.Job.Rows, m.RowsPerSecond, r.Spread*100, m.ClientCPU, m.ServerCPU, m.Log, m.Statements,
		m.ClaimP50, m.ClaimP99, m.Allocations, m.PeakMB, inserts(m.InsertPerSecond))
}

func inserts(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", n)
}

// chart draws the first group's rows per second.
func (r *Report) chart(path string) error {
	var names []string
	var values []float64
	if len(r.Groups) > 0 {
		for _, x := range r.Groups[0].Results {
			names, values = append(names, x.Spec.Name), append(values, x.Median.RowsPerSecond)
		}
	}
	return chart.Bars(path, "rows per second, no-op sender", names, values)
}
