package regress

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// A night is a sweep. What is compared over several nights is compared night by night if both sides ran in the same
// ones. Otherwise their runs are taken together, which hides a change between the nights of a side: it is said, and the
// nights are the sample then.

// nightOf is the sweep of a run; 0: the run is of none.
func nightOf(o Observation) int64 {
	if o.Sweep == nil {
		return 0
	}
	return *o.Sweep
}

// nights are the nights of runs, in order.
func nights(runs []Observation) []int64 {
	var out []int64
	for _, o := range runs {
		out = append(out, nightOf(o))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sameNights reports whether both sides ran in the same several nights.
func sameNights(a, b []Observation) bool {
	found := nights(a)
	return len(found) > 1 && slices.Equal(found, nights(b))
}

// perNight are a metric's values in each night that has some, and the nights' names.
func perNight(runs []Observation, values func([]Observation) []float64) (names []string, each [][]float64) {
	by := map[int64][]Observation{}
	for _, o := range runs {
		by[nightOf(o)] = append(by[nightOf(o)], o)
	}
	tags := map[string]int{}
	for _, of := range by {
		tags[of[0].Tag]++
	}
	for _, id := range slices.Sorted(maps.Keys(by)) {
		found, tag := values(by[id]), by[id][0].Tag
		if len(found) == 0 {
			continue
		}
		name := tag
		switch {
		case tag == "":
			name = fmt.Sprintf("sweep %d", id)
		case tags[tag] > 1:
			name = fmt.Sprintf("%s, sweep %d", tag, id)
		}
		names, each = append(names, name), append(each, found)
	}
	return names, each
}

// nightMeans are the means of the nights.
func nightMeans(runs []Observation, values func([]Observation) []float64) (out []float64) {
	_, each := perNight(runs, values)
	for _, v := range each {
		out = append(out, stats.Mean(v))
	}
	return out
}

// spread is how far the nights of an arm lie apart.
type spread struct {
	metric    results.Metric
	arm       results.Arm
	low, high string // the nights
	from, to  float64
}

// differingNights finds the arms whose nights differ significantly, by Kruskal and Wallis, and by the minimum effect or
// more between the least and the greatest night. With a base, what is judged is the ratio to its mean of the same night.
func differingNights(arms map[results.Arm][]Observation, base map[results.Arm][]Observation, metrics []results.Metric, o Options) []spread {
	minEffect := o.MinEffect
	if minEffect == 0 {
		minEffect = stats.DefaultMinEffect
	}
	var out []spread
	tests := float64(len(arms) * len(metrics))
	for _, arm := range slices.SortedFunc(maps.Keys(arms), results.Arm.Compare) {
		for _, m := range metrics {
			if m.Absolute || m.Counts() {
				continue
			}
			names, each := perNight(arms[arm], valuesOf(m))
			if base != nil {
				each = relativeTo(nightMeans(base[arm], valuesOf(m)), each)
			}
			if len(each) < 2 || stats.KruskalWallis(each)*tests >= o.Alpha {
				continue
			}
			s := spread{metric: m, arm: arm}
			for i, v := range each {
				switch at := stats.Mean(v); {
				case i == 0:
					s.low, s.high, s.from, s.to = names[0], names[0], at, at
				case at < s.from:
					s.low, s.from = names[i], at
				case at > s.to:
					s.high, s.to = names[i], at
				}
			}
			if s.from > 0 && s.to/s.from-1 >= minEffect {
				out = append(out, s)
			}
		}
	}
	return out
}

// relativeTo divides the values of each night by that night's mean of a base; nil if it lacks one.
func relativeTo(means []float64, each [][]float64) [][]float64 {
	if len(means) != len(each) {
		return nil
	}
	out := make([][]float64, len(each))
	for i, values := range each {
		for _, v := range values {
			out[i] = append(out[i], v/means[i])
		}
	}
	return out
}

// nightsDiffer says of whom the nights differ, and by how much most; empty if they do not.
func nightsDiffer(who string, found []spread, names results.Names) []string {
	if len(found) == 0 {
		return nil
	}
	most := slices.MaxFunc(found, func(x, y spread) int {
		switch dx, dy := x.to/x.from, y.to/y.from; {
		case dx < dy:
			return -1
		case dx > dy:
			return 1
		}
		return 0
	})
	return []string{fmt.Sprintf("%s differs between its nights in %d of the figures, most in the %s of %s: %.1f %% more on %s than on %s. One figure over these nights hides it: compare them one by one, or see caserun report --trend %s",
		who, len(found), most.metric.Name, names.Of(most.arm), 100*(most.to/most.from-1), most.high, most.low, most.metric.Name)}
}

// markNights finds the sides whose nights differ: it returns what to say, and marks pairs whose nights are the sample.
// Pairs of the same nights are compared within each.
func markNights(pairs []Pair, a, b Side, o Options, names results.Names) (notes []string) {
	each := [2]map[results.Arm][]Observation{{}, {}}
	together := map[results.Arm][]Observation{}
	bases := map[results.Arm][]Observation{}
	for _, p := range pairs {
		if sameNights(p.ARuns, p.BRuns) {
			together[p.B], bases[p.B] = p.BRuns, p.ARuns
			continue
		}
		each[0][p.A], each[1][p.B] = p.ARuns, p.BRuns
	}
	for side, label := range []string{a.Label, b.Label} {
		found := differingNights(each[side], nil, o.Metrics, o)
		notes = append(notes, nightsDiffer(label, found, names)...)
		for i, p := range pairs {
			pairs[i].byNights = p.byNights || !sameNights(p.ARuns, p.BRuns) && slices.ContainsFunc(found, func(s spread) bool { return s.arm == []results.Arm{p.A, p.B}[side] })
		}
	}
	if len(notes) > 0 {
		notes = append(notes, "where nights differ, each night is one value of its side: its mean")
	}
	return append(notes, nightsDiffer(fmt.Sprintf("the ratio of %s to %s", b.Label, a.Label), differingNights(together, bases, o.Metrics, o), names)...)
}

// sayNights notes the sides of a gate whose nights differ, and returns the candidate's arms of which this is so.
func (r *Report) sayNights(baseline, candidate Side) []spread {
	var metrics []results.Metric
	for _, l := range r.limits {
		if !slices.ContainsFunc(metrics, func(m results.Metric) bool { return m.Name == l.Metric.Name }) {
			metrics = append(metrics, l.Metric)
		}
	}
	o := Options{Alpha: r.Alpha}
	each := [2]map[results.Arm][]Observation{{}, {}}
	for _, p := range r.Pairs {
		if !sameNights(p.ARuns, p.BRuns) {
			each[0][p.A], each[1][p.B] = p.ARuns, p.BRuns
		}
	}
	ofBaseline, ofCandidate := differingNights(each[0], nil, metrics, o), differingNights(each[1], nil, metrics, o)
	r.Notes = slices.Concat(nightsDiffer(baseline.Label, ofBaseline, r.Names), nightsDiffer(candidate.Label, ofCandidate, r.Names), r.Notes)
	return ofCandidate
}

// doubt lets a check not pass if the candidate's nights differ by more than the limit: together they may hide a
// regression of some.
func (c *Check) doubt(pairs []Pair, unequal []spread) {
	for _, s := range unequal {
		of := slices.ContainsFunc(pairs, func(p Pair) bool { return p.B == s.arm })
		if of && c.Class == Passed && !c.byChance && s.metric.Name == c.Limit.Metric.Name && s.to/s.from-1 >= c.Limit.Bound {
			c.settle(Noise, "nights differ", fmt.Sprintf("%s: the candidate's nights differ by more than the limit; check them one by one", c.Text), saysNightsDiffer)
			c.apart = true // and no other mix settles it
		}
	}
}
