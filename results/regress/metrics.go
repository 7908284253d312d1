// Package regress compares the runs of two sides, arm by arm and metric by
// metric, and gates a candidate against a baseline. It does no I/O.
package regress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results"
)

// Observation is a run with the data that its comparison needs beside its own row.
type Observation struct {
	results.Run
	Devices []results.Device
	// Commands are the commands of the run's jobs, as results.CommandList gives them; empty if
	// unknown.
	Commands string
	// Definition describes the jobs beyond their commands, such as isolated; empty if unknown.
	// PlannedBy is the build that planned the run and wrote Definition: other builds may
	// describe the same jobs in other words.
	Definition, PlannedBy string

	settings map[string]string // the run's; set by Side.arms
}

// Metrics lists what can be compared, in the order of tables.
func Metrics() []results.Metric {
	return slices.DeleteFunc(results.AllMetrics(), func(m results.Metric) bool { return m.Compared == results.NotCompared })
}

// LookupMetric finds a metric by name.
func LookupMetric(name string) (results.Metric, error) {
	var names []string
	for _, m := range Metrics() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	if hint := near.DidYouMean("", name, names); hint != "" {
		return results.Metric{}, fmt.Errorf("metric %q: %s", name, hint)
	}
	return results.Metric{}, fmt.Errorf("metric %q: want one of %s", name, strings.Join(names, ", "))
}

// LookupMetrics finds metrics by name, each once.
func LookupMetrics(names []string) (out []results.Metric, err error) {
	for i, name := range names {
		m, err := LookupMetric(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		out = append(out, m)
	}
	return out, nil
}

// valuesOf returns what gives a metric's values of the runs that have one.
func valuesOf(m results.Metric) func(runs []Observation) []float64 {
	return func(runs []Observation) (out []float64) {
		for _, o := range runs {
			if v := m.Of(o.Run); v != nil {
				out = append(out, *v)
			}
		}
		return out
	}
}
