// Package chart draws the charts of the benchmarks and of the advisor.
package chart

import (
	"bytes"
	"image/color"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgsvg" // for the format "svg"
)

// The places of texts are reckoned by this font. Where it is not there another one
// is shown: letters of one width are as wide in most fonts, so that a text doesn't
// run over a bar.
const (
	mono  = "Liberation Mono"
	orAny = mono + ",monospace"
)

// Bars writes an SVG file with a bar for each name, the first one on top; without
// any it says that nothing was measured.
func Bars(path, title string, names []string, values []float64) error {
	if len(names) == 0 {
		names, values = []string{"nothing was measured"}, []float64{0}
	}
	p := plot.New()
	p.Title.Text = title
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font} {
		*style = font.Font{Typeface: "Liberation", Variant: "Mono", Size: style.Size}
	}
	p.Title.Padding = vg.Points(8)
	values, names = slices.Clone(values), slices.Clone(names)
	slices.Reverse(values) // they are drawn from the bottom
	slices.Reverse(names)
	bars, err := plotter.NewBarChart(plotter.Values(values), vg.Points(12))
	if err != nil {
		return err
	}
	bars.Horizontal, bars.LineStyle.Width, bars.Color = true, 0, color.RGBA{R: 0x2b, G: 0x6c, B: 0xb0, A: 0xff}
	p.Add(bars)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, max(slices.Max(values)*1.05, 1) // an axis has a length
	p.Y.Padding = vg.Points(8)
	canvas, err := p.WriterTo(11*vg.Inch, vg.Length(len(names))*vg.Points(20)+vg.Points(70), "svg")
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ReplaceAll(svg.Bytes(), []byte(mono), []byte(orAny)), 0o644)
}
