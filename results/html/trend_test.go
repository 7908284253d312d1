package html

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
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
	if n := strings.Count(section, `class="strip trend"`); n != 2 {
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
	if strings.Contains(trendPage(t, nil), `id="trend"`) {
		t.Error("a page without a trend has its section")
	}
	m := memory{}
	m.add(liveRun())
	for _, first := range []bool{true, false} {
		var out bytes.Buffer
		if err := Write(t.Context(), &out, m, m.runs(), Options{Trend: overTime(t, 20), TrendFirst: first}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if before := strings.Index(text, `<section id="trend">`) < strings.Index(text, `<section id="schedulers">`); before != first || strings.Count(text, `"#trend"`) != 1 {
			t.Errorf("asked for first %t: the trend is before the schedulers %t", first, before)
		}
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

// All lines have one axis: of dates where each night has one, and else of the nights in their order.
func TestTrendHasOneAxis(t *testing.T) {
	o := overTime(t, 10)
	o.Lines[1].Points = slices.Delete(o.Lines[1].Points, 3, 5)
	o.Lines[1].Gaps = []trend.Gap{{Label: "night-3", At: 3}, {Label: "night-4", At: 3}}
	shape := func() (out [][]string) {
		v := newTrend(o, &arms{}, func([]int64) int64 { return 0 })
		for _, l := range v.Lines {
			var xs []string
			for _, d := range l.Dots {
				xs = append(xs, d.X)
			}
			out = append(out, xs)
		}
		return append(out, []string{v.Ticks[0].Text, v.Lines[1].Gaps[0].Text})
	}
	byNight := shape()
	if a, b := byNight[0], byNight[1]; a[0] != "4.76%" || b[0] != "9.52%" || a[9] != "90.48%" || b[7] != "95.24%" { // 20 nights in turn
		t.Errorf("the lines do not share the nights:\n%v\n%v", a, b)
	}
	if got := byNight[2]; got[1] != "night-3, night-4: no run that counts" {
		t.Errorf("the tick and the gap are %q", got)
	}
	for _, l := range o.Lines {
		for i := range l.Points {
			l.Points[i].Day = new(time.Date(2026, 10, 1+2*l.Points[i].Night, 0, 0, 0, 0, time.UTC))
		}
	}
	byDate := shape()
	if a, b := byDate[0], byDate[1]; a[0] != "2.38%" || b[7] != "97.62%" || byDate[2][0] != "2026-10-05" {
		t.Errorf("the lines do not share dates:\n%v\n%v\n%v", a, b, byDate[2])
	}
}

// Changes of machine, driver and revision have marks, and the steps' nights link to their runs, or say the command.
func TestTrendSaysWhatChanged(t *testing.T) {
	o := overTime(t, 20)
	p := o.Lines[0].Points
	for i := 12; i < len(p); i++ {
		p[i].Machine, p[i].Driver = "other host", "590"
	}
	p[11].Driver = "580"
	v := newTrend(o, &arms{}, func(ids []int64) int64 {
		if ids[0] < 20 {
			return ids[0]
		}
		return 0
	})
	var letters []string
	for _, m := range v.Lines[0].Marks {
		letters = append(letters, m.Letter+m.X[:2])
	}
	if got := strings.Join(letters, " "); got != "51 M60 D60" {
		t.Errorf("marks at %q", got)
	}
	if !v.Machines || !v.Drivers || !v.Revisions || v.Gaps {
		t.Errorf("the legend explains %v %v %v %v", v.Machines, v.Drivers, v.Revisions, v.Gaps)
	}
	s := v.Lines[0].Steps[0]
	if s.Row != "step-1" || !strings.Contains(s.Text, "between night-9") {
		t.Errorf("the step is %+v", s)
	}
	before, after := v.Steps.Rows[0][1].(report.Cell), v.Steps.Rows[0][2].(report.Cell)
	if before.Link != "#run-19" || after.Link != "" || after.Small != "caserun report 21 --html FILE" {
		t.Errorf("the nights around the step are %+v and %+v", before, after)
	}
}
