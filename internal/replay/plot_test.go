package replay_test

import (
	"encoding/xml"
	"strings"
	"testing"

	"authguard/internal/replay"
)

func TestScaleIsRoundAndLeavesAir(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ v, step, high float64 }{
		{0, 1, 4}, {3, 1, 4}, {4, 1, 5}, {65, 20, 80}, {150, 50, 200}, {199, 50, 250}, {6100, 2000, 8000},
	} {
		p := replay.NewPlot(100, 100)
		if p.Scale(tc.v); p.Step != tc.step || p.High != tc.high {
			t.Errorf("Scale(%v): %v, %v", tc.v, p.Step, p.High)
		}
	}
}

func TestStepsFollowTheValuesAndLeaveGaps(t *testing.T) {
	t.Parallel()
	p := replay.NewPlot(40, 10)
	p.High = 10
	p.Path("line", "", p.Steps([]float64{1, 1, 0, 2})...)
	p.Area("area", []float64{0, 5, 5, 0})
	svg := string(p.SVG("plot", "", "name", ""))
	for _, want := range []string{`d="M0 9H20M30 8H40"`, `d="M0 10H10V5H30V10H40V10Z"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
}

func TestSpansJoinColumnsOfOneName(t *testing.T) {
	t.Parallel()
	p := replay.NewPlot(40, 10)
	var got []any
	p.Spans([]string{"a", "a", "", "b"}, func(name string, x, width float64) { got = append(got, name, x, width) })
	if len(got) != 6 || got[0] != "a" || got[2] != 20.0 || got[3] != "b" || got[4] != 30.0 {
		t.Errorf("%v", got)
	}
}

func TestTextsAreText(t *testing.T) {
	t.Parallel()
	const hostile = `"'><script>alert(1)</script>`
	p := replay.NewPlot(40, 10)
	p.Rect("bar", hostile, 0, 0, 1, 1)
	p.Text("tick", "end", 0, 0, hostile)
	for _, svg := range []string{string(p.SVG("plot", "id", hostile, hostile)), string(p.SVG("plot", "", hostile, ""))} {
		if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil || strings.Contains(svg, "<script") {
			t.Errorf("%v\n%s", err, svg)
		}
	}
}
