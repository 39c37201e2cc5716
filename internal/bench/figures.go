package bench

import (
	"fmt"
	"strings"
)

// Marks around tables of figures in documents: the whole one, and a short one.
const (
	TableBegins = "<!-- figures: from docs/bench/report.json -->\n"
	ShortBegins = "<!-- figures in short: from docs/bench/report.json -->\n"
	TableEnds   = "<!-- end of figures -->"
)

// Table is what documents show of a report: the first group, in short, and the
// bars.
func (r *Report) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. %s. %d rows.\n\n", r.Machine, strings.Join(r.Versions, ", "), r.Rows)
	b.WriteString("| | rows/s | CPU client | CPU server | log B/row | statements/row | allocations/row |\n|---|--:|--:|--:|--:|--:|--:|\n")
	if len(r.Groups) > 0 {
		for _, x := range r.Groups[0].Results {
			m := x.Median
			fmt.Fprintf(&b, "| %s | %.0f | %.1f | %.1f | %.0f | %.4f | %.1f |\n", x.Spec.Name, m.RowsPerSecond, m.ClientCPU, m.ServerCPU, m.Log, m.Statements, m.Allocations)
		}
	}
	b.WriteString("\n" + r.bars())
	return b.String()
}

// Short is how the strategies stand beside the rivals: medians, and the median over
// the rounds of the ratio to River.
func (r *Report) Short() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. %s. %d rows, a Sender that does nothing, every commit on the disk.\n\n", r.Machine, strings.Join(r.Versions, ", "), r.Rows)
	b.WriteString("| | rows/s | times River | CPU of client and server, us/row | log B/row |\n|---|--:|--:|--:|--:|\n")
	if len(r.Groups) == 0 {
		return b.String()
	}
	all := byName(r.Groups[0].Results)
	for _, x := range r.Groups[0].Results {
		if strings.HasPrefix(x.Spec.Job.Contender, "limit-") {
			continue
		}
		m, times := x.Median, ""
		if v, ok := all.paired(x.Spec.Name, river, rate); ok {
			times = fmt.Sprintf("%.2g", v)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %s | %.0f | %.0f |\n", x.Spec.Name, m.RowsPerSecond, times, m.ClientCPU+m.ServerCPU, m.Log)
	}
	return b.String()
}

func (r *Report) bars() string {
	var b strings.Builder
	b.WriteString("| | measured | bar | |\n|---|--:|--:|---|\n")
	for _, x := range r.Ratios {
		sign, word := "≥", strings.Fields(x.String())[4]
		if x.AtMost {
			sign = "≤"
		}
		fmt.Fprintf(&b, "| %s | %.3g | %s %.3g | %s |\n", x.Name, x.Value, sign, x.Bar, strings.TrimSuffix(word, ":"))
	}
	return b.String()
}

// Fill puts the tables into a document, between their marks. It returns false if
// there are none.
func (r *Report) Fill(document string) (string, bool) {
	filled := false
	for begins, table := range map[string]func() string{TableBegins: r.Table, ShortBegins: r.Short} {
		before, rest, ok := strings.Cut(document, begins)
		_, after, end := strings.Cut(rest, TableEnds)
		if ok && end {
			filled = true
			document = before + begins + table() + TableEnds + after
		}
	}
	return document, filled
}
