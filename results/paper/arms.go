package paper

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// arms finds the runs of one node by mix and scheduler. The runs of an arm are in the order of
// their repetitions.
type arms struct {
	paper *Paper
	node  *Node
	runs  map[results.Arm][]results.Run
	slow  slowdowns
}

func newArms(p *Paper, n *Node) *arms {
	a := &arms{paper: p, node: n, runs: map[results.Arm][]results.Run{}, slow: slowdowns{mixes: map[[2]string]samples{}}}
	sorted := slices.SortedFunc(slices.Values(n.Runs), func(x, y results.Run) int {
		return cmp.Or(cmp.Compare(x.Repetition, y.Repetition), cmp.Compare(x.ID, y.ID))
	})
	for _, r := range sorted {
		if r.Status == results.Complete {
			a.runs[results.ArmOf(r)] = append(a.runs[results.ArmOf(r)], r)
		}
	}
	return a
}

// inTurn after a scheduler means its runs with one job after the other. It is batch scheduling if jobs have several ranks.
const inTurn = " in turn"

// find returns the traced or the untraced runs of a mix under a scheduler, which is named as in
// the paper. If the node has no lazy runs with these parameters, find returns the runs with the
// only other probe. If the paper names no parameters, other parameters count too.
func (a *arms) find(mix, text string, traced bool) ([]results.Run, error) {
	scheduler, serial := strings.CutSuffix(text, inTurn)
	s, err := cluster.ParseScheduler(scheduler, a.node.Devices, policies.Parse)
	if err != nil {
		return nil, err
	}
	var found, others [][]results.Run
	for key, runs := range a.runs {
		switch {
		case key.Mix != mix || key.Scheduler != s.Name || key.Traced != traced:
		case key.Parameters == s.Parameters() && key.Probe == results.Lazy:
			found = append(found, runs)
		case key.Parameters == s.Parameters() || s.Name == scheduler:
			others = append(others, runs)
		}
	}
	if len(found) == 0 {
		found = others
	}
	switch len(found) {
	case 0:
		return nil, noRuns{mix, text}
	case 1:
		own := slices.DeleteFunc(slices.Clone(found[0]), func(r results.Run) bool { return (r.Workers == 1) != serial })
		switch {
		case len(own) > 0:
			return own, nil
		case serial:
			return nil, noRuns{mix, text}
		}
		return found[0], nil // at most one job at a time, because of the mix or the node
	}
	return nil, fmt.Errorf("no run of %s under %s has the default parameters and probe, and %d sets of parameters and probes have runs", mix, scheduler, len(found))
}

// noRuns is the error that a mix was not run under a scheduler.
type noRuns struct{ mix, scheduler string }

func (e noRuns) Error() string {
	return fmt.Sprintf("no complete run of %s under %s", e.mix, e.scheduler)
}

var errNoNode = fmt.Errorf("no runs on a node to compare with this system")

// samples are figures of runs, one for each repetition.
type samples struct {
	values []float64
	runs   []int64

	lostMore bool // see Row.LostMore
}

func (s *samples) add(v float64, runs ...int64) {
	s.values = append(s.values, v)
	s.runs = append(s.runs, runs...)
}

// of returns one figure for each repetition of an arm.
func (a *arms) of(mix, scheduler string, f figure) (samples, error) {
	runs, err := a.find(mix, scheduler, false)
	if err != nil {
		return samples{}, err
	}
	var out samples
	for _, r := range runs {
		v, err := f.in(r)
		if err != nil {
			return samples{}, err
		}
		out.add(v, r.ID)
	}
	return out, nil
}

// matched pairs the runs of two arms. Equal repetitions of one sweep are a pair first: a sweep
// interleaves its arms, so drift affects both runs. Then runs of different sweeps, or outside
// sweeps, are paired in their order. A run without a partner is left out.
func matched(x, y []results.Run) [][2]results.Run {
	var out [][2]results.Run
	take := func(same func(a, b results.Run) bool) {
		x = slices.DeleteFunc(slices.Clone(x), func(a results.Run) bool {
			at := slices.IndexFunc(y, func(b results.Run) bool { return same(a, b) })
			if at < 0 {
				return false
			}
			out = append(out, [2]results.Run{a, y[at]})
			y = slices.Delete(slices.Clone(y), at, at+1)
			return true
		})
	}
	take(func(a, b results.Run) bool {
		return a.Sweep != nil && b.Sweep != nil && *a.Sweep == *b.Sweep && a.Repetition == b.Repetition
	})
	take(func(a, b results.Run) bool { return a.Sweep == nil || b.Sweep == nil || *a.Sweep != *b.Sweep })
	return out
}

// combine combines the values of several samples, for each repetition that all samples have.
func combine(all []samples, with func([]float64) float64) samples {
	n := len(all[0].values)
	for _, s := range all {
		n = min(n, len(s.values))
	}
	var out samples
	for i := range n {
		var values []float64
		for _, s := range all {
			values = append(values, s.values[i])
		}
		out.add(with(values))
	}
	for _, s := range all {
		out.runs = append(out.runs, s.runs...)
		out.lostMore = out.lostMore || s.lostMore
	}
	return out
}
