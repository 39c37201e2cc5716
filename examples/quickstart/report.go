package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

func printImport(out io.Writer, r importReport, name string) {
	fmt.Fprintf(out, "Imported %s: %d lines, %d receivers, %d duplicates left out, %d malformed lines left out\n",
		name, r.Lines, len(r.Receivers), r.Duplicates, len(r.Malformed))
	const shown = 5
	for i, m := range r.Malformed {
		if i == shown {
			fmt.Fprintf(out, "  and %d more, in lines %s\n", len(r.Malformed)-shown, lineNumbers(r.Malformed[shown:]))
			break
		}
		fmt.Fprintf(out, "  line %d %s\n", m.Line, m.Why)
	}
}

func lineNumbers(ms []malformedLine) string {
	var parts []string
	for i, m := range ms {
		if i == 20 {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, fmt.Sprint(m.Line))
	}
	return strings.Join(parts, ", ")
}

// printResult prints what the mail server has, and beside it what the workers
// and the table say.
func printResult(out io.Writer, t tally, f *fleet, done, dead, left int64) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\nCounted from the mail server's log:")
	fmt.Fprintf(w, "  addresses expected\t%6d\n", t.expected)
	fmt.Fprintf(w, "  mails received\t%6d\t%d of them a second time\n", t.received, t.extra)
	fmt.Fprintf(w, "  received twice\t%6d\t%s\n", t.twice, twiceNote(t, f))
	fmt.Fprintf(w, "  never received\t%6d\n", t.never)
	fmt.Fprintf(w, "  refused for good\t%6d\t(5xx; put aside as dead)\n", t.refused)
	fmt.Fprintf(w, "  refused for now\t%6d\t(4xx; sent later)\n", t.deferred)
	_ = w.Flush()

	fmt.Fprintln(out, "\nThe workers say (and how many of their mails are in the mail server's log):")
	fmt.Fprintln(w, "  worker\tsent\tin the log\tretried\tdead\treleased\ttaken back\tremarks")
	for _, p := range f.workers {
		fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", p.name, p.outcomes["done"], t.byWorker[p.name], p.outcomes["retry"], p.outcomes["dead"], p.outcomes["released"], p.returned, remarks(p))
	}
	_ = w.Flush()
	fmt.Fprintf(out, "\nThe table says: %d done, %d dead, %d left.\n", done, dead, left)
}

func twiceNote(t tally, f *fleet) string {
	n := len(f.inFlight())
	switch {
	case t.unexplained > 0:
		return fmt.Sprintf("%d of them unexplained", t.unexplained)
	case n > 0:
		return fmt.Sprintf("of %d that the killed worker had begun and not recorded", n)
	}
	return ""
}

func remarks(p *workerProcess) string {
	var parts []string
	if p.killed {
		rows, sending := p.held()
		parts = append(parts, fmt.Sprintf("killed; held %d rows, %d of them begun", rows, sending))
	}
	for _, cause := range slices.Sorted(maps.Keys(p.excepted)) {
		parts = append(parts, fmt.Sprintf("%s: %d", cause, p.excepted[cause]))
	}
	if problem := p.problem(); problem != "" {
		parts = append(parts, problem)
	}
	return strings.Join(parts, "; ")
}

// verdictLine says in words what the numbers mean.
func verdictLine(t tally, f *fleet) string {
	switch begun := len(f.inFlight()); {
	case t.twice > 0:
		return fmt.Sprintf("nobody was left out. %d got the mail twice: the server had accepted it, and the worker was killed before it could record that. "+
			"Both have the same Message-ID. No worker and no database can close this window; it was %d mails wide.", t.twice, begun)
	case begun > 0:
		return fmt.Sprintf("everybody got one mail, although a worker was killed while it sent %d.", begun)
	}
	return "everybody got one mail."
}
