package html

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/trend"
)

// overTime is a trend of n nights of one arm, measured and simulated, whose measured throughput
// falls by a tenth in the middle.
func overTime(t *testing.T, n int) *trend.Trend {
	t.Helper()
	m, err := regress.LookupMetric("throughput")
	if err != nil {
		t.Fatal(err)
	}
	var runs []regress.Observation
	for i := range n {
		for _, mode := range []results.Mode{results.Live, results.Simulated} {
			r := results.Run{ID: int64(len(runs) + 1), Mix: "W1", Scheduler: "sa", Node: "local", Mode: mode, Jobs: 4, Status: results.Complete, Tag: fmt.Sprintf("night-%d<b>-%s", i, mode)}
			r.Provenance.Revision, r.Metrics.ThroughputJobsPerS = fmt.Sprintf("%x", 0xa00000+i*2/n), new(10+float64(i%3)/100)
			if mode == results.Live && i*2 >= n {
				r.Metrics.ThroughputJobsPerS = new(9 + float64(i%3)/100)
			}
			runs = append(runs, regress.Observation{Run: r})
		}
	}
	out := trend.Of(m, runs)
	return &out
}

func trendPage(t *testing.T, o *trend.Trend) string {
	t.Helper()
	m := memory{}
	m.add(liveRun())
	var out bytes.Buffer
	if err := Write(t.Context(), &out, m, m.runs(), Options{Trend: o}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPageShowsATrend(t *testing.T) {
	page := trendPage(t, overTime(t, 20))
	for _, e := range elements(t, page) {
		for _, a := range e.Attr {
			if a.Key == "style" {
				t.Errorf("%v has a style of its own, which the page's policy forbids", e)
			}
		}
	}
	_, section, _ := strings.Cut(page, `<section id="trend">`)
	section, _, found := strings.Cut(section, "</section>")
	if !found || !strings.Contains(page, `href="#trend"`) {
		t.Fatal("the page has no section of the trend, or no link to it")
	}
	if n := strings.Count(section, "<svg"); n != 2 {
		t.Errorf("%d lines, want the measured and the simulated one", n)
	}
	if n := strings.Count(section, ">SIMULATED</text>"); n != 1 {
		t.Errorf("%d lines have a watermark, want the simulated one", n)
	}
	if n := strings.Count(section, "<circle"); n != 40 {
		t.Errorf("%d dots, want 20 of each line", n)
	}
	if n := strings.Count(section, `class="step"`); n != 1 {
		t.Errorf("%d steps are drawn, want 1", n)
	}
	for _, want := range []string{"Over time: throughput <span class=\"badge\">SIMULATED</span>", "<td>worse</td>", "a00000..a00001", "-10.0 %", "night-10&lt;b&gt;-live"} {
		if !strings.Contains(section, want) {
			t.Errorf("the section does not have %q", want)
		}
	}
	if strings.Contains(trendPage(t, nil), "trend\"") {
		t.Error("a page without a trend has its section")
	}
}

// A line of many points shows the latest; steps before them are in the table only.
func TestLongTrendShowsTheLatest(t *testing.T) {
	_, section, _ := strings.Cut(trendPage(t, overTime(t, 600)), `<section id="trend">`)
	section, _, _ = strings.Cut(section, "</section>")
	if n := strings.Count(section, "<circle"); n != 2*trendPoints || strings.Contains(section, ">night-399&lt;") || !strings.Contains(section, "night-599&lt;") {
		t.Errorf("the page does not show the last %d points of each line: %d dots", trendPoints, n)
	}
	if strings.Contains(section, `class="step"`) || !strings.Contains(section, "<td>worse</td>") {
		t.Error("the step at point 300 is drawn beside the last 200 points, or is not in the table")
	}
}
