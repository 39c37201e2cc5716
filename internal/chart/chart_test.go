package chart

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func draw(t *testing.T, names []string, values []float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chart.svg")
	require.NoError(t, Bars(path, "rows per second", names, values))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		_, err := d.Token()
		if err == io.EOF {
			return string(text)
		}
		require.NoError(t, err, "it is XML")
	}
}

func TestBars(t *testing.T) {
	svg := draw(t, []string{"<first>", "second"}, []float64{3, 80_000})
	assert.Contains(t, svg, ">&lt;first&gt;<")
	assert.Contains(t, svg, ">rows per second<")
	assert.Less(t, y(t, svg, "&lt;first&gt;"), y(t, svg, "second"), "the first is above")
	assert.Equal(t, strings.Count(svg, "<text"), strings.Count(svg, "font-family:Liberation Mono,monospace;"), "where the font isn't there another of its widths is taken")
}

func TestNothingToDraw(t *testing.T) {
	assert.Contains(t, draw(t, nil, nil), ">nothing was measured<")
	draw(t, []string{"zero"}, []float64{0})
}

// y is how far below the top, or rather how little above the bottom, a text is.
func y(t *testing.T, svg, text string) float64 {
	t.Helper()
	found := regexp.MustCompile(`y="(-?[0-9.]+)"[^>]*>` + text + "<").FindStringSubmatch(svg)
	require.Len(t, found, 2)
	v, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return v
}
