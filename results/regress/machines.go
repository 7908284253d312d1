package regress

import (
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// machine names where a run was made.
func machine(o Observation) string { return results.Machine(o.Mode, o.Provenance.Host, o.Devices) }

// Machines are the machines of runs, in order.
func Machines(runs []Observation) []string {
	var out []string
	for _, o := range runs {
		out = append(out, machine(o))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sameMachines leaves out the runs of machines on which the other arm has none, because nothing says
// what of a difference is the machine's. If the arms have no machine in common, all runs stay.
func sameMachines(a, b []Observation) (keptA, keptB []Observation, warning string) {
	ofA, ofB := Machines(a), Machines(b)
	common := slices.DeleteFunc(slices.Clone(ofA), func(m string) bool { return !slices.Contains(ofB, m) })
	if len(common) == 0 {
		return a, b, ""
	}
	keep := func(runs []Observation) []Observation {
		return slices.DeleteFunc(slices.Clone(runs), func(o Observation) bool { return !slices.Contains(common, machine(o)) })
	}
	keptA, keptB = keep(a), keep(b)
	if left := len(a) + len(b) - len(keptA) - len(keptB); left > 0 {
		warning = fmt.Sprintf("runs on machines on which the other side has none are left out: %d", left)
	}
	return keptA, keptB, warning
}

// byMachine are the values of two arms, machine by machine if both ran on the same several machines.
func byMachine(a, b []Observation, values func([]Observation) []float64) []stats.Stratum {
	found := Machines(a)
	if !slices.Equal(found, Machines(b)) {
		found = nil
	}
	if len(found) < 2 {
		return []stats.Stratum{{A: values(a), B: values(b)}}
	}
	var out []stats.Stratum
	for _, m := range found {
		on := func(runs []Observation) []float64 {
			return values(slices.DeleteFunc(slices.Clone(runs), func(o Observation) bool { return machine(o) != m }))
		}
		out = append(out, stats.Stratum{A: on(a), B: on(b)})
	}
	return out
}
