// Package regress compares the runs of two sides, arm by arm and metric by
// metric, and gates a candidate against a baseline. It does no I/O.
package regress

import (
	"fmt"
	"math"
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
	// Slowdown is the run's kernel slowdown against the traced runs under sa of its own side;
	// nil if unknown.
	Slowdown *float64

	settings map[string]string // the run's; set by Side.arms
}

// Metric is a figure by which runs are compared.
type Metric struct {
	Name           string
	About          string // what it is, in one line
	Unit           string // s, jobs/s, J, or empty for a ratio
	HigherIsBetter bool
	// Absolute metrics are compared by difference, because they may be 0.
	Absolute bool
	// Exact metrics have no minimum effect: any difference matters.
	Exact bool
	// Named metrics are compared only where the user names them, because each further test
	// weakens the others.
	Named bool
	value func(Observation) *float64
}

// Metrics lists what can be compared, in the order of tables.
func Metrics() []Metric {
	return []Metric{
		{Name: "throughput", About: "jobs that ended ok, divided by the makespan", Unit: "jobs/s", HigherIsBetter: true, value: func(o Observation) *float64 { return o.Metrics.ThroughputJobsPerS }},
		{Name: "turnaround", About: "from a job's arrival to its end, mean over the jobs that ended ok", Unit: "s", value: func(o Observation) *float64 { return o.Metrics.TurnaroundMeanS }},
		{Name: "makespan", About: "from the batch's arrival to the end of its last job", Unit: "s", value: func(o Observation) *float64 { return o.Metrics.OfWork(o.Metrics.MakespanS) }},
		{Name: crashes, About: "jobs that did not end ok and were not cancelled: their share, in limits of a gate their number per run", Absolute: true, Exact: true, value: crashedShare},
		{Name: "slowdown", About: "how much longer kernels take than in traced runs under sa", Absolute: true, value: func(o Observation) *float64 { return o.Metrics.OfWork(o.Slowdown) }},
		{Name: "energy", About: "what the GPUs use from the batch's arrival to the end of its last job", Unit: "J", Named: true, value: func(o Observation) *float64 { return o.Metrics.OfWork(o.Metrics.Energy.UsedJ) }},
		{Name: "energy-per-job", About: "energy, divided by the jobs that ended ok", Unit: "J", Named: true, value: func(o Observation) *float64 { return o.Metrics.Energy.PerOK }},
	}
}

// unnamed are the metrics that are compared unless the user names some.
func unnamed() []Metric { return slices.DeleteFunc(Metrics(), func(m Metric) bool { return m.Named }) }

const crashes = "crashes"

func crashMetric() Metric {
	return Metrics()[slices.IndexFunc(Metrics(), Metric.Counts)]
}

// Counts reports whether the metric is of jobs that crashed.
func (m Metric) Counts() bool { return m.Name == crashes }

// OfSurvivors reports whether jobs that crash make the metric another figure: turnaround is over the
// others, and makespan, throughput and energy are of less work.
func (m Metric) OfSurvivors() bool {
	return slices.Contains([]string{"throughput", "turnaround", "makespan", "energy", "energy-per-job"}, m.Name)
}

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
	if hint := near.DidYouMean("", name, names); hint != "" {
		return Metric{}, fmt.Errorf("metric %q: %s", name, hint)
	}
	return Metric{}, fmt.Errorf("metric %q: want one of %s", name, strings.Join(names, ", "))
}

// Of returns the metric's value of a run; nil if the run has none.
func (m Metric) Of(o Observation) *float64 {
	if v := m.value(o); v != nil && !math.IsNaN(*v) {
		return v
	}
	return nil
}

// values returns the metric's values of the runs that have one.
func (m Metric) values(runs []Observation) []float64 {
	var out []float64
	for _, o := range runs {
		if v := m.Of(o); v != nil {
			out = append(out, *v)
		}
	}
	return out
}

// Needs says which runs have a value; it is empty if every run has one.
func (m Metric) Needs() string {
	switch m.Name {
	case "slowdown":
		return ": it needs traced runs, under sa on each side too"
	case "energy", "energy-per-job":
		return ": it needs live runs on GPUs that measure their energy or power, for all of the run, and a job that ended ok"
	case "turnaround", "makespan":
		return ": it needs a job that ended ok"
	}
	return ""
}
