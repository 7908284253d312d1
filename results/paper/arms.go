package paper

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
)

// arms finds the runs of one node by mix and scheduler. Runs of one arm are in
// the order of their repetitions.
type arms struct {
	node   *Node
	timed  map[arm][]results.Run // not traced: tracing costs time
	traced map[arm][]results.Run
	slow   map[[2]int64]*float64 // slowdown of a run against one under sa, once computed
}

type arm struct{ mix, scheduler, parameters string }

func newArms(n *Node) *arms {
	a := &arms{node: n, timed: map[arm][]results.Run{}, traced: map[arm][]results.Run{}, slow: map[[2]int64]*float64{}}
	sorted := slices.SortedFunc(slices.Values(n.Runs), func(x, y results.Run) int {
		return cmp.Or(cmp.Compare(x.Repetition, y.Repetition), cmp.Compare(x.ID, y.ID))
	})
	for _, r := range sorted {
		if r.Status != results.Complete {
			continue
		}
		key := arm{r.Mix, r.Scheduler, r.Parameters}
		if r.Traced {
			a.traced[key] = append(a.traced[key], r)
		} else {
			a.timed[key] = append(a.timed[key], r)
		}
	}
	return a
}

// find returns the runs of a mix under a scheduler as the paper names it. Where
// it names no parameters and the node has no runs with the defaults, the one
// other set that it does have stands for them.
func (a *arms) find(in map[arm][]results.Run, mix, scheduler string) ([]results.Run, error) {
	if a == nil {
		return nil, errNoNode
	}
	s, err := parse(scheduler, a.node.Devices)
	if err != nil {
		return nil, err
	}
	if runs := in[arm{mix, s.Name, s.Parameters()}]; len(runs) > 0 {
		return runs, nil
	}
	var others []arm
	if s.Name == scheduler {
		for key := range in {
			if key.mix == mix && key.scheduler == s.Name {
				others = append(others, key)
			}
		}
	}
	switch {
	case len(others) == 1:
		return in[others[0]], nil
	case len(others) > 1:
		return nil, fmt.Errorf("%s under %s has runs with %d sets of parameters, none of them the default", mix, scheduler, len(others))
	}
	return nil, noRuns{mix, scheduler}
}

// noRuns says that a mix was not run under a scheduler.
type noRuns struct{ mix, scheduler string }

func (e noRuns) Error() string {
	return fmt.Sprintf("no complete run of %s under %s", e.mix, e.scheduler)
}

var errNoNode = fmt.Errorf("no runs on a node to compare with this system")

// samples are figures of runs, one for each repetition.
type samples struct {
	values []float64
	runs   []int64
}

func (s *samples) add(v float64, runs ...int64) {
	s.values = append(s.values, v)
	s.runs = append(s.runs, runs...)
}

// of takes one figure of each repetition of an arm.
func (a *arms) of(mix, scheduler string, figure metric) (samples, error) {
	runs, err := a.find(a.timedRuns(), mix, scheduler)
	if err != nil {
		return samples{}, err
	}
	var out samples
	for _, r := range runs {
		v := figure.of(r)
		if v == nil {
			return samples{}, fmt.Errorf("run %d (%s under %s) has no %s", r.ID, mix, scheduler, figure.name)
		}
		out.add(*v, r.ID)
	}
	return out, nil
}

func (a *arms) timedRuns() map[arm][]results.Run {
	if a == nil {
		return nil
	}
	return a.timed
}

// metric is a figure of one run.
type metric struct {
	name string
	of   func(results.Run) *float64
}

var (
	throughput = metric{"throughput", func(r results.Run) *float64 { return r.Metrics.ThroughputJobsPerS }}
	turnaround = metric{"mean turnaround (no job ended ok)", func(r results.Run) *float64 { return r.Metrics.TurnaroundMeanS }}
	makespan   = metric{"makespan", func(r results.Run) *float64 { return r.Metrics.MakespanS }}
	meanUse    = metric{"utilization", func(r results.Run) *float64 { return r.Metrics.UtilizationMean }}
	peakUse    = metric{"utilization", func(r results.Run) *float64 { return r.Metrics.UtilizationPeak }}
	crashes    = metric{"jobs", func(r results.Run) *float64 {
		if r.Jobs == 0 {
			return nil
		}
		return new(float64(r.Metrics.Crashed) / float64(r.Jobs))
	}}
)

// pair divides one figure by another, repetition by repetition: repetitions of
// a sweep are interleaved, so that what drifts meets both sides of a pair.
func pair(over, under samples) (samples, error) {
	var out samples
	for i := range min(len(over.values), len(under.values)) {
		if under.values[i] == 0 {
			return samples{}, fmt.Errorf("run %d has 0, by which nothing can be divided", under.runs[i])
		}
		out.add(over.values[i]/under.values[i], over.runs[i], under.runs[i])
	}
	return out, nil
}

// combine takes one figure of several samples for each repetition that all of
// them have.
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
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
