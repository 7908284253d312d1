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
	return distinctBlocks(runs, machine)
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

// byBlock are the values of two arms, machine by machine and night by night if both ran on the same several
// machines, and in the same several nights.
func byBlock(a, b []Observation, values func([]Observation) []float64) []stats.Stratum {
	for _, block := range []func(Observation) string{inNight, machine} {
		found := distinctBlocks(a, block)
		if len(found) < 2 || !slices.Equal(found, distinctBlocks(b, block)) {
			continue
		}
		var out []stats.Stratum
		for _, one := range found {
			in := func(runs []Observation) []float64 {
				return values(slices.DeleteFunc(slices.Clone(runs), func(o Observation) bool { return block(o) != one }))
			}
			out = append(out, stats.Stratum{A: in(a), B: in(b)})
		}
		return out
	}
	return []stats.Stratum{{A: values(a), B: values(b)}}
}

// distinctBlocks are the blocks of runs, in order, each once.
func distinctBlocks(runs []Observation, of func(Observation) string) []string {
	var out []string
	for _, o := range runs {
		out = append(out, of(o))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
