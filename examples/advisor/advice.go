package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/chart"
)

// load is what the machine has to do, "" where that is not known.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// finals are the settings that were measured to the end.
func (r result) finals() (fs []*setting) {
	for _, s := range r.settings {
		if s.rounds == r.settings[0].rounds {
			fs = append(fs, s)
		}
	}
	return fs
}

// fastest is the fastest that asks for no condition.
func (r result) fastest() *setting {
	fs := r.finals()
	return fs[slices.IndexFunc(fs, func(s *setting) bool { return !s.strategy.unmarked })]
}

// pick is the simplest setting that is as good as the fastest.
func (r result) pick() *setting {
	best := r.fastest()
	as := slices.DeleteFunc(r.finals(), func(s *setting) bool { return s.strategy.unmarked || !s.asGood(best) })
	usual := func(batch int) int { return slices.Index([]int{100, 10, 1000}, batch) } // 100 is the default
	return slices.MinFunc(as, func(a, b *setting) int {
		return cmp.Or(a.rank-b.rank, a.workers-b.workers, usual(a.batch)-usual(b.batch))
	})
}

// table lists what was measured.
func table(all []*setting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-16s %9s %11s %8s %8s %5s\n", "claim.", "BatchSize", "dispatchers", "rows/s", "spread", "runs")
	for _, s := range all {
		spread := 100 * (s.quantile(0.75) - s.quantile(0.25)) / max(1, s.median())
		fmt.Fprintf(&b, "%-16s %9d %11d %8.0f %6.0f %% %5d\n", s.strategy.name, s.batch, s.workers, s.median(), spread, len(s.rates))
	}
	b.WriteString("Medians; the spread is that of the middle half of the runs. After each round the slower half was dropped; the last\nround of each is shown, and those that came furthest stand first.\n")
	return b.String()
}

// inspect tells what claim.Doctor says of the user's table, and what the table lacks.
func inspect(ctx context.Context, user *sqlx.DB, d claim.Dialect, c *scratch) (string, error) {
	mine := c.table
	mine.Name = c.userName()
	found, err := claim.Doctor(ctx, user, d, mine, nil)
	var unfit *claim.CheckError
	if err == nil {
		return fmt.Sprintf("claim.Doctor says of table %s: %s", mine.Name, found), nil
	}
	if !errors.As(err, &unfit) {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Table %s can't be used as it is. What it lacks is made by claim.Migrate, or by you:\n", mine.Name)
	for _, p := range unfit.Problems {
		fmt.Fprintf(&b, "- %s:\n    %s\n", p.What, p.Cure)
	}
	if err := c.refill(ctx, c.fillfactor); err != nil {
		return "", err
	}
	if found, err = claim.Doctor(ctx, c.db, d, c.table, &c.options); err != nil {
		return "", err
	}
	says := strings.NewReplacer(c.table.Name, mine.Name, c.work, c.userTable).Replace(found.String())
	fmt.Fprintf(&b, "Of the copy, which has all that, claim.Doctor says: %s", says)
	return b.String(), nil
}

func (c *scratch) userName() string {
	if c.schema == "" {
		return c.userTable
	}
	return c.schema + "." + c.userTable
}

// advice is the recommendation in words.
func (r result) advice(c *scratch, o options) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	best, s := r.fastest(), r.pick()
	say("Recommended: claim.%s, Config.BatchSize %d, dispatchers: %d", s.strategy.name, s.batch, s.workers)
	say("    claim.%s(ctx, db, claim.%s, %s, ...)", s.strategy.name, map[claim.Dialect]string{claim.Postgres: "Postgres", claim.MySQL: "MySQL", claim.SQLite: "SQLite"}[c.dialect], mapping(c))
	say("- It made %.0f rows/s.", s.median())
	if s != best {
		say("- %v made %.0f. That is within the spread, so the simpler one is recommended.", best, best.median())
	}
	if s.strategy.needs != "" {
		say("- %s", s.strategy.needs)
	}
	if u := r.finals()[0]; u.strategy.unmarked && !s.asGood(u) {
		say("- %v made %.0f, %.1f times as many. Take it only if you can live with this. %s", u, u.median(), u.median()/s.median(), u.strategy.needs)
	}
	r.sayLayout(c, say)
	for _, l := range r.left {
		say("- Not measured: %s", strings.Join(strings.Fields(l), " "))
	}
	say("\nBelieve it with care:")
	if o.send == 0 {
		say("- The sends took no time. Where yours do, strategies differ less and Config.Concurrency counts: measure with -send 5ms, say.")
	} else {
		say("- Each send took %v, with Config.Concurrency at its default.", o.send)
	}
	if r.load != "" {
		say("- The load of this machine was %s before, on %d cores; what else the server had to do meanwhile is in the figures.", r.load, runtime.NumCPU())
	} else {
		say("- What else this machine and the server had to do meanwhile is in the figures.")
	}
	say("- All dispatchers were in one process, and each run began on %d fresh rows, which fit into memory.", o.rows)
	if c.dialect == claim.SQLite {
		say("- The copy was in a file of its own, beside yours, with journal_mode WAL.")
	}
	say("- The copy has no foreign keys and no triggers%s; the sender read one short text.", map[bool]string{true: ", and no checks"}[c.dialect == claim.Postgres])
	return b.String()
}

func (r result) sayLayout(c *scratch, say func(string, ...any)) {
	defer say("- The one index that it needs, on the column of the next attempt, is what claim.Schema gives; see above if it is missing.")
	if len(r.layouts) == 0 {
		return
	}
	top := slices.MaxFunc(r.layouts, func(a, b *setting) int { return cmp.Compare(a.median(), b.median()) })
	// To change nothing is the simplest, and then to leave little room unused.
	l := r.layouts[slices.IndexFunc(r.layouts, func(s *setting) bool { return s.asGood(top) })]
	var figures []string
	for _, s := range r.layouts {
		figures = append(figures, fmt.Sprintf("%d: %.0f rows/s", s.fillfactor, s.median()))
	}
	say("- Fillfactors: %s.", strings.Join(figures, ", "))
	if l.fillfactor == c.fillfactor {
		say("- The table's own, %d, is as good as any.", l.fillfactor)
	} else {
		say("- Before the rows are loaded (it is for new pages):\n    ALTER TABLE %s SET (fillfactor = %d);", qualified(c.dialect, c.schema, c.userTable), l.fillfactor)
	}
}

// mapping is the Table to use, as Go.
func mapping(c *scratch) string {
	var cols []string
	for _, x := range []struct{ field, name, usual string }{
		{"Key", c.table.Columns.Key, "id"},
		{"Status", c.table.Columns.Status, ""},
		{"Token", c.table.Columns.Token, ""},
		{"Attempts", c.table.Columns.Attempts, ""},
		{"NextAttempt", c.table.Columns.NextAttempt, ""},
	} {
		if x.name != x.usual {
			cols = append(cols, fmt.Sprintf("%s: %q", x.field, x.name))
		}
	}
	text := fmt.Sprintf("claim.Table{Name: %q", c.userName())
	if len(cols) > 0 {
		text += ", Columns: claim.Columns{" + strings.Join(cols, ", ") + "}"
	}
	if c.table.States != (claim.States{}) {
		text += ", States: claim.StringStates"
	}
	return text + "}"
}

// drawChart draws the medians.
func drawChart(all []*setting, path string) error {
	var names []string
	var values []float64
	for _, s := range all {
		names, values = append(names, s.String()), append(values, s.median())
	}
	return chart.Bars(path, "rows per second", names, values)
}
