package regress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
)

// A scheduler that looks at neither the memory nor the load of a device loses jobs by chance. Its figures
// scatter with the number of jobs that it lost, so that no limit in percent fits them. The runs tell it, not
// the scheduler's name.

// losingByChance are the schedulers that lose jobs by chance, as arms without a batch. In one of their mixes at
// least, runs of the baseline lost some of their jobs, and the runs of a side lost different numbers.
func losingByChance(pairs []Pair) map[results.Arm]bool {
	out := map[results.Arm]bool{}
	for _, p := range pairs {
		some := slices.ContainsFunc(p.ARuns, func(o Observation) bool { return o.Metrics.Crashed > 0 && o.Metrics.OK > 0 })
		if some && (varies(numbersLost(p.ARuns)) || varies(numbersLost(p.BRuns))) {
			out[p.A.WithoutMix()] = true
		}
	}
	return out
}

func varies(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return v != values[0] })
}

// ownSpread reports whether a limit is held against the spread of arms that lose jobs by chance. A limit
// that names the scheduler is not: the user chose it for such an arm.
func (l Limit) ownSpread() bool { return !l.Metric.Counts() && l.Scheduler == "" }

// ofSpread is the note about the schedulers whose checks are held to their own spread; empty if all are held to
// limits.
func (r Report) ofSpread() string {
	var found []string
	for _, c := range r.Checks {
		if name := r.Names.Scheduler(c.Arm); c.Spread && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return fmt.Sprintf("spread: %s lost different numbers of jobs in runs of one side, so that these figures scatter by chance. "+
		"They fail only if the whole interval of a significant change is beyond the limit. To hold them to it, name the scheduler, as in %s:throughput=10%%",
		strings.Join(found, ", "), found[0])
}
