package regress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// What is compared over several nights is compared night by night if both sides ran in the same
// ones. Otherwise their runs are taken together, which hides a change between the nights of a side: it is said, and the
// nights are the sample then.

// Night is what the runs of a night have in common: their sweep; outside of sweeps their tag; without either, the run.
type Night struct {
	Sweep int64
	Tag   string
	Run   int64
}

// NightOf is the night of a run.
func NightOf(o Observation) Night {
	switch {
	case o.Sweep != nil:
		return Night{Sweep: *o.Sweep}
	case o.Tag != "":
		return Night{Tag: o.Tag}
	}
	return Night{Run: o.ID}
}

// String names a night in a way that no other has.
func (n Night) String() string {
	switch {
	case n.Sweep != 0:
		return fmt.Sprintf("sweep %d", n.Sweep)
	case n.Tag != "":
		return "tag " + n.Tag
	}
	return fmt.Sprintf("run %d", n.Run)
}

// NightNames names the nights of runs by their tags. A sweep is named too if an arm ran in several sweeps of the tag. So sweeps
// of different arms under one tag have one name.
func NightNames(runs []Observation) map[Night]string {
	type cell struct {
		tag string
		arm results.Arm
	}
	names, first, several := map[Night]string{}, map[cell]Night{}, map[string]bool{}
	for _, o := range runs {
		night, c := NightOf(o), cell{o.Tag, results.ArmOf(o.Run)}
		names[night] = o.Tag
		if _, known := first[c]; !known {
			first[c] = night
		}
		several[o.Tag] = several[o.Tag] || first[c] != night
	}
	for n, tag := range names {
		switch {
		case tag == "":
			names[n] = n.String()
		case several[tag] && n.Sweep != 0:
			names[n] = fmt.Sprintf("%s, %s", tag, n)
		}
	}
	return names
}

func nightOf(o Observation) string { return NightOf(o).String() }

// inNight names the machine and the night of a run.
func inNight(o Observation) string { return machine(o) + " " + nightOf(o) }

// sameNights reports whether both sides ran in the same several nights, and in each on the same machines.
func sameNights(a, b []Observation) bool {
	return len(distinctBlocks(a, nightOf)) > 1 && slices.Equal(distinctBlocks(a, inNight), distinctBlocks(b, inNight))
}

// perNight are a metric's values in each night that has some, and the nights' names.
func perNight(runs []Observation, values func([]Observation) []float64) (names []string, each [][]float64) {
	by, all := map[Night][]Observation{}, NightNames(runs)
	for _, o := range runs {
		by[NightOf(o)] = append(by[NightOf(o)], o)
	}
	inOrder := func(a, b Night) int {
		return cmp.Or(cmp.Compare(a.Sweep, b.Sweep), cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Run, b.Run))
	}
	for _, night := range slices.SortedFunc(maps.Keys(by), inOrder) {
		if found := values(by[night]); len(found) > 0 {
			names, each = append(names, all[night]), append(each, found)
		}
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
func differingNights(arms, base map[results.Arm][]Observation, o Options) []spread {
	minEffect := o.MinEffect
	if minEffect == 0 {
		minEffect = stats.DefaultMinEffect
	}
	var out []spread
	tests := 0
	for arm := range arms {
		tests += len(o.metrics(arm.Open))
	}
	for _, arm := range slices.SortedFunc(maps.Keys(arms), results.Arm.Compare) {
		for _, m := range o.metrics(arm.Open) {
			if m.Absolute || m.Counts() {
				continue
			}
			names, each := perNight(arms[arm], valuesOf(m))
			if base != nil {
				ofBase, bases := perNight(base[arm], valuesOf(m))
				if !slices.Equal(ofBase, names) { // a side has no value in a night
					continue
				}
				each = relativeTo(bases, each)
			}
			if len(each) < 2 || stats.KruskalWallis(each)*float64(tests) >= o.Alpha {
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

// relativeTo divides the values of each night by that night's mean of a base.
func relativeTo(bases, each [][]float64) [][]float64 {
	out := make([][]float64, len(each))
	for i, values := range each {
		for _, v := range values {
			out[i] = append(out[i], v/stats.Mean(bases[i]))
		}
	}
	return out
}

// nightsDiffer says of whom the nights differ, and by how much most; empty if they do not.
func nightsDiffer(who string, found []spread, names results.Names) []string {
	if len(found) == 0 {
		return nil
	}
	most := slices.MaxFunc(found, func(x, y spread) int { return cmp.Compare(x.to/x.from, y.to/y.from) })
	return []string{fmt.Sprintf("%s differs between its nights in %d of the figures, most in the %s of %s: %.1f %% more on %s than on %s. One figure over these nights hides it: compare them one by one, or see caserun report --trend %s",
		who, len(found), most.metric.Name, names.Of(most.arm), 100*(most.to/most.from-1), most.high, most.low, most.metric.Name)}
}

// markNights finds the sides whose nights differ: it returns what to say, and marks pairs whose nights are the sample.
// Pairs of the same nights are compared within each.
func markNights(pairs []Pair, a, b Side, o Options, names results.Names) (notes []string) {
	each, together := byNights(pairs)
	for side, label := range []string{a.Label, b.Label} {
		found := differingNights(each[side], nil, o)
		notes = append(notes, nightsDiffer(label, found, names)...)
		for i, p := range pairs {
			pairs[i].byNights = p.byNights || !sameNights(p.ARuns, p.BRuns) && slices.ContainsFunc(found, func(s spread) bool { return s.arm == []results.Arm{p.A, p.B}[side] })
		}
	}
	if len(notes) > 0 {
		notes = append(notes, "where nights differ, each night is one value of its side: its mean")
	}
	return append(notes, nightsDiffer(fmt.Sprintf("the ratio of %s to %s", b.Label, a.Label), differingNights(together[1], together[0], o), names)...)
}

// byNights are the runs of both sides of pairs. apart has those of pairs whose sides ran in nights of their own, by the
// arm of each side. together has those of pairs that ran in the same nights, by the arm of the second side.
func byNights(pairs []Pair) (apart, together [2]map[results.Arm][]Observation) {
	for side := range 2 {
		apart[side], together[side] = map[results.Arm][]Observation{}, map[results.Arm][]Observation{}
	}
	for _, p := range pairs {
		if sameNights(p.ARuns, p.BRuns) {
			together[0][p.B], together[1][p.B] = p.ARuns, p.BRuns
		} else {
			apart[0][p.A], apart[1][p.B] = p.ARuns, p.BRuns
		}
	}
	return apart, together
}

// sayNights notes the sides of a gate whose nights differ, and returns the candidate's arms of which this is so.
func (r *Report) sayNights(baseline, candidate Side) []spread {
	var metrics []results.Metric
	for _, l := range r.limits {
		if !slices.ContainsFunc(metrics, func(m results.Metric) bool { return m.Name == l.Metric.Name }) {
			metrics = append(metrics, l.Metric)
		}
	}
	o := Options{Alpha: r.Alpha, Metrics: metrics}
	each, _ := byNights(r.Pairs)
	ofBaseline, ofCandidate := differingNights(each[0], nil, o), differingNights(each[1], nil, o)
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
