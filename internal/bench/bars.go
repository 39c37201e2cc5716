package bench

import "fmt"

// Ratio is one bar and what was measured for it.
type Ratio struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Bar    float64 `json:"bar"`
	AtMost bool    `json:"at_most,omitempty"` // Bar is the most, and not the least
	Void   string  `json:"void,omitempty"`    // why it says nothing
}

// Holds says whether the bar is met.
func (r Ratio) Holds() bool {
	if r.AtMost {
		return r.Value <= r.Bar
	}
	return r.Value >= r.Bar
}

// String is the line that is printed.
func (r Ratio) String() string {
	word := "short"
	switch {
	case r.Void != "":
		word = "void: " + r.Void
	case r.Holds():
		word = "ok"
	}
	sign := ""
	if r.AtMost {
		sign = "<="
	}
	return fmt.Sprintf("ratio %s %.3g %s%.3g %s", r.Name, r.Value, sign, r.Bar, word)
}

// found is the results by name.
type found map[string]*Result

func byName(results []Result) found {
	f := found{}
	for i := range results {
		f[results[i].Spec.Name] = &results[i]
	}
	return f
}

// paired is the median over rounds of one contender's figure divided by another's
// in the same round.
func (f found) paired(a, b string, get func(Figures) float64) (float64, bool) {
	x, y := f[a], f[b]
	if x == nil || y == nil {
		return 0, false
	}
	var vs []float64
	for i := range min(len(x.Runs), len(y.Runs)) {
		vs = append(vs, get(x.Runs[i])/get(y.Runs[i]))
	}
	return Median(vs), len(vs) > 0
}

func rate(f Figures) float64 { return f.RowsPerSecond }

// Ratios compares what was measured with the bars. A bar whose contenders were
// left out is left out too.
func Ratios(results []Result) []Ratio {
	f := byName(results)
	var rs []Ratio
	rates := []struct {
		name, a, b string
		bar        float64
	}{
		{"skiplocked/river", skip, river, 5},
		{"skiplocked/hand-written", skip, limitSkip, 0.85},
		{"skiplocked-partial-index/river", partial, river, 3.5},
		{"atomic/river", atomicPG, river, 4},
		{"locked/skiplocked", locked, skip100, 0.6},
		{"unmarked/river", unmarked, river, 8},
		{"sqlite-atomic/hand-written", lite, limitLite, 0.8},
		{"mariadb-skiplocked/hand-written", maria, limitMaria, 0.8},
	}
	for _, r := range rates {
		v, ok := f.paired(r.a, r.b, rate)
		if !ok {
			continue
		}
		ratio := Ratio{Name: r.name, Value: v, Bar: r.bar}
		if limit, ok := f.paired(limitSkip, river, rate); r.b == limitSkip && ok && limit < 6 {
			ratio.Void = fmt.Sprintf("the hand-written loop reached %.3g times River", limit)
		}
		rs = append(rs, ratio)
	}
	return append(rs, f.others()...)
}

func (f found) others() (rs []Ratio) {
	for _, t := range []struct {
		name, of string
		bar      float64
	}{{"last-tenth/first-tenth", long, 0.8}, {"last-tenth/first-tenth,old-snapshot", longOld, 0.7}} {
		if r := f[t.of]; r != nil && len(r.Runs) > 0 && len(r.Runs[0].TenthsPerSecond) == 10 {
			tenths := r.Runs[0].TenthsPerSecond
			rs = append(rs, Ratio{Name: t.name, Value: tenths[9] / tenths[0], Bar: t.bar})
		}
	}
	most := func(name string, value float64, bar float64) {
		rs = append(rs, Ratio{Name: name, Value: value, Bar: bar, AtMost: true})
	}
	if a, b := f[long], f[skip]; a != nil && b != nil {
		most("memory-of-ten-times-the-rows", a.Median.PeakMB/b.Median.PeakMB, 1.3)
	}
	if r := f[behind]; r != nil {
		most("first-batch-behind-finished-rows,ms", r.Median.ServerMS, 50)
	}
	if r := f[renew]; r != nil {
		most("renewal-of-10000-rows,ms", r.Median.ServerCPU/1e3, 10)
	}
	cpu := func(f Figures) float64 { return f.ClientCPU + f.ServerCPU }
	if v, ok := f.paired(single, limitRow, cpu); ok {
		most("cpu-of-one-row-claims/lease-per-row", v, 1.5)
	}
	if a, b := f[memory], f[bare]; a != nil && b != nil {
		most("loop-cpu,us/row", a.Median.ClientCPU-b.Median.ClientCPU, 1.5)
	}
	if a, b := f[skip], f[limitSQL]; a != nil && b != nil {
		most("allocations-above-database/sql", a.Median.Allocations-b.Median.Allocations, 2)
	}
	return rs
}
