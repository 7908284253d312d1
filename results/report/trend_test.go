package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/trend"
)

// fourteenNights are runs of two arms. case-alg3 is 10 % slower from the ninth night on, of which
// the revision and the driver are others.
func fourteenNights() []regress.Observation {
	var runs []regress.Observation
	for n := range 14 {
		revision, driver, slower := "0123456789abcdef0123", "580.1", 1.0
		if n >= 8 {
			revision, driver, slower = "fedcba9876543210fedc+dirty", "590.2", 0.9
		}
		for _, scheduler := range []string{"sa", "case-alg3"} {
			r := results.Run{ID: int64(len(runs) + 1), Mix: "W1", Scheduler: scheduler, Node: "local", Mode: results.Live, Jobs: 4, Status: results.Complete,
				Tag: fmt.Sprintf("night-%02d", n+1), StartedAt: new(time.Date(2026, 11, n+1, 2, 0, 0, 0, time.UTC))}
			r.Provenance.Revision, r.Provenance.Driver = revision, &driver
			r.Metrics.ThroughputJobsPerS = new(0.2 + float64(n%3)/1000)
			if scheduler != "sa" {
				r.Metrics.ThroughputJobsPerS = new(slower * (0.4 + float64(n%3)/1000))
			}
			runs = append(runs, regress.Observation{Run: r})
		}
	}
	return runs
}

func someTrend() []*Table {
	m, err := regress.LookupMetric("throughput")
	if err != nil {
		panic(err)
	}
	return TrendTables(trend.Of(m, fourteenNights()), CSV, false)
}

// Text has no empty table, and its points on request; data has the same tables always.
func TestTablesOfATrend(t *testing.T) {
	m, err := regress.LookupMetric("throughput")
	if err != nil {
		t.Fatal(err)
	}
	whole, start := trend.Of(m, fourteenNights()), trend.Of(m, fourteenNights()[:6])
	for _, tt := range []struct {
		t    trend.Trend
		f    Format
		all  bool
		want int
	}{{whole, Text, false, 2}, {whole, Text, true, 3}, {start, Text, false, 1}, {start, Markdown, true, 2}, {start, JSON, false, 3}, {start, CSV, true, 3}} {
		if got := TrendTables(tt.t, tt.f, tt.all); len(got) != tt.want {
			t.Errorf("%d points as %s, all %t: %d tables, want %d", len(tt.t.Lines[0].Points), tt.f, tt.all, len(got), tt.want)
		}
	}
	text := render(t, TrendTables(start, Text, false)[0], Text, Options{})
	for _, want := range []string{"No line has a step", "a step takes at least 8 points"} {
		if !strings.Contains(text, want) {
			t.Errorf("the lines do not say %q:\n%s", want, text)
		}
	}
}
