package report

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/trend"
)

// A metric is one entry of the table: each table and each export that it names has it.
func TestEveryMetricIsShown(t *testing.T) {
	r := results.Run{ID: 1, Mix: "W1", Scheduler: "sa", Jobs: 4, Status: results.Complete}
	r.Metrics.Slowdown, r.Metrics.Energy.Source, r.Arrivals = new(0.5), new(results.EnergyCounter), new("every 2s")
	m := &r.Metrics
	m.TurnaroundP99S, m.JobSlowdown, m.JobSlowdownP95, m.JobSlowdownMax, m.Fairness = new(1.5), new(1.5), new(1.5), new(1.5), new(0.5)
	for _, f := range r.Fields() {
		switch at := f.At.(type) {
		case **float64:
			*at = new(1.5)
		case **int64:
			*at = new(int64(7))
		case results.Count:
			*at.N = 1
		}
	}
	var gauges strings.Builder
	if err := OpenMetrics(&gauges, []trend.Night{{Runs: []regress.Observation{{Run: r}}}}); err != nil {
		t.Fatal(err)
	}
	summary := RunSummary(r, nil, nil, "")
	text := "\n" + render(t, summary, Text, Options{})
	csv, _, _ := strings.Cut(render(t, summary, CSV, Options{}), "\n")
	for _, m := range results.AllMetrics() {
		if m.Column != "" && !m.Derived && !strings.Contains(csv, ","+m.Column+",") {
			t.Errorf("%s: csv has no column %s", m.Name, m.Column)
		}
		if m.Heading != "" && !strings.Contains(text, "\n"+m.Heading) {
			t.Errorf("%s: the summary has no %q", m.Name, m.Heading)
		}
		if !strings.Contains(gauges.String(), "\n"+m.Gauge) {
			t.Errorf("%s: OpenMetrics has no %s", m.Name, m.Gauge)
		}
		if m.Bench != "" && measured(m, r) == nil {
			t.Errorf("%s: no value of %s", m.Name, m.Bench)
		}
		if _, err := regress.LookupMetric(m.Name); (err == nil) != (m.Compared != results.NotCompared) {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}
