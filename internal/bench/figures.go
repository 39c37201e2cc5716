package bench

import (
	"fmt"
	"strings"
)

// Marks around the table of figures in a document.
const (
	TableBegins = "<!-- figures: from docs/bench/report.json -->\n"
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

// Fill puts the table into a document, between its marks.
func (r *Report) Fill(document string) (string, bool) {
	before, rest, ok := strings.Cut(document, TableBegins)
	_, after, end := strings.Cut(rest, TableEnds)
	if !ok || !end {
		return document, false
	}
	return before + TableBegins + r.Table() + TableEnds + after, true
}
