// Package regress compares the runs of two sides, arm by arm and metric by
// metric, and gates a candidate against a baseline. It does no I/O.
package regress

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
)

// Observation is a run with what its comparison needs beside its own row.
type Observation struct {
	results.Run
	Devices []results.Device
	// Commands are those of its jobs, as results.CommandList gives them; empty
	// where they are unknown.
	Commands string
	// Definition tells what else its jobs were said to be, such as isolated, as the
	// build that planned the run tells it; empty where that is unknown. Builds may
	// tell the same in other words.
	Definition, PlannedBy string
	// Slowdown is the run's kernel slowdown against the traced runs under sa of
	// its own side; nil where that is unknown.
	Slowdown *float64

	settings map[string]string // of the run, in an arm
}

// Metric is something that runs are compared by.
type Metric struct {
	Name           string
	Unit           string // s, jobs/s, or empty for a ratio
	HigherIsBetter bool
	// Absolute metrics are compared by difference, because they may be 0.
	Absolute bool
	// Exact metrics have no minimum effect: any difference matters.
	Exact bool
	value func(Observation) *float64
}

// Metrics lists what can be compared, in the order of tables.
func Metrics() []Metric {
	return []Metric{
		{Name: "throughput", Unit: "jobs/s", HigherIsBetter: true, value: func(o Observation) *float64 { return o.Metrics.ThroughputJobsPerS }},
		{Name: "turnaround", Unit: "s", value: func(o Observation) *float64 { return o.Metrics.TurnaroundMeanS }},
		{Name: "makespan", Unit: "s", value: func(o Observation) *float64 { return o.Metrics.MakespanS }},
		{Name: crashes, Absolute: true, Exact: true, value: crashedShare},
		{Name: "slowdown", Absolute: true, value: func(o Observation) *float64 { return o.Slowdown }},
	}
}

const crashes = "crashes"

func crashedShare(o Observation) *float64 {
	if o.Jobs == 0 {
		return nil
	}
	share := float64(o.Metrics.Crashed) / float64(o.Jobs)
	return &share
}

// LookupMetric finds a metric by name.
func LookupMetric(name string) (Metric, error) {
	var names []string
	for _, m := range Metrics() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Metric{}, fmt.Errorf("metric %q: want one of %s", name, strings.Join(names, ", "))
}

// values are the metric's values of those runs that have one.
func (m Metric) values(runs []Observation) []float64 {
	var out []float64
	for _, o := range runs {
		if v := m.value(o); v != nil && !math.IsNaN(*v) {
			out = append(out, *v)
		}
	}
	return out
}

// needs says what a run must have been for a value, where that is not any run.
func (m Metric) needs() string {
	if m.Name == "slowdown" {
		return ": it needs traced runs, under sa on each side too"
	}
	return ""
}

// Limit is how much worse than the baseline a candidate may be.
type Limit struct {
	Metric Metric
	Bound  float64 // a ratio, a difference where the metric is absolute, jobs per run for crashes
}

// String is the limit as ParseLimits takes it.
func (l Limit) String() string { return l.Metric.Name + "=" + l.Bounds() }

// Bounds is the limit without its metric's name, such as 3%.
func (l Limit) Bounds() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case l.Metric.Exact:
		return number(l.Bound)
	case l.Metric.Absolute:
		return number(round(l.Bound*100)) + "pp"
	}
	return number(round(l.Bound*100)) + "%"
}

// round takes the noise off a percentage that was divided by 100.
func round(v float64) float64 { return math.Round(v*1e9) / 1e9 }

// ParseLimits reads "throughput=3%,turnaround=5%,crashes=0,slowdown=1pp".
func ParseLimits(text string) ([]Limit, error) {
	var out []Limit
	for part := range strings.SplitSeq(text, ",") {
		name, bound, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			return nil, fmt.Errorf("limit %q: want METRIC=LIMIT, such as throughput=3%%", part)
		}
		m, err := LookupMetric(name)
		if err != nil {
			return nil, fmt.Errorf("limit %q: %w", part, err)
		}
		if slices.ContainsFunc(out, func(l Limit) bool { return l.Metric.Name == name }) {
			return nil, fmt.Errorf("limit %q: %s has a limit already", part, name)
		}
		value, err := m.parseBound(bound)
		if err != nil {
			return nil, fmt.Errorf("limit %q: %w", part, err)
		}
		out = append(out, Limit{m, value})
	}
	return out, nil
}

func (m Metric) parseBound(text string) (float64, error) {
	suffix, scale, want := "%", 100.0, "a percentage such as 3%"
	switch {
	case m.Exact:
		suffix, scale, want = "", 1, "a number of jobs per run, such as 0"
	case m.Absolute:
		suffix, want = "pp", "percentage points, such as 1pp"
	}
	number, ok := strings.CutSuffix(text, suffix)
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("want %s, not negative", want)
	}
	return v / scale, nil
}
