package regress

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// Class is the result of a check, by cause.
type Class string

const (
	Passed             Class = "ok"
	Regression         Class = "regression"
	EnvironmentChanged Class = "environment changed" // a regression that the changed environment may have caused
	Crash              Class = "crash"
	Noise              Class = "noise" // too few repetitions or too much scatter to decide
	NothingMeasured    Class = "nothing measured"
)

// Fails reports whether the candidate is shown to be worse than its limit.
func (c Class) Fails() bool { return c == Regression || c == EnvironmentChanged || c == Crash }

// Unsettled reports whether too little was measured to decide.
func (c Class) Unsettled() bool { return c == Noise || c == NothingMeasured }

// Check is one limit applied to one arm.
type Check struct {
	Arm   results.Arm
	Limit Limit
	Class Class
	Text  string // what was found, in one sentence
	// Comparison is nil for crashes, which are counted, and if neither side measured anything.
	Comparison *stats.Comparison
	noiseFree  bool
	// Crashed is the number of crashed jobs in the number of Runs, of baseline and candidate.
	Crashed [2]int
	Runs    [2]int
}

// Counted reports whether the check counted crashed jobs.
func (c Check) Counted() bool { return c.Limit.Metric.Name == crashes && c.Class != NothingMeasured }

// Report is the gate's answer.
type Report struct {
	Baseline, Candidate string
	Limits              []Limit
	Alpha               float64
	Checks              []Check
	Pairs               []Pair
	Names               results.Names // of the arms of both sides
	Notes               []string
}

// Gate checks the candidate's arms against limits relative to the baseline's arms. A metric
// fails if it is significantly worse and the estimated change exceeds its limit;
// docs/statistics.md says why. The p values of all checks are adjusted together.
func Gate(baseline, candidate Side, limits []Limit, alpha float64) Report {
	r := Report{Baseline: baseline.Label, Candidate: candidate.Label, Limits: limits, Alpha: alpha}
	aArms, bArms := baseline.arms(), candidate.arms()
	r.Names = namesOf(aArms, bArms)
	pairs, onlyA, onlyB := exactPairs(aArms, bArms, r.Names)
	r.Pairs = pairs
	r.Notes = slices.Concat(together(baseline.notes(aArms, r.Names), candidate.notes(bArms, r.Names)), remarks(pairs, r.Names))
	for _, arm := range onlyB {
		if sizes := otherSizes(arm, aArms); sizes != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is new: %s ran it with %s", r.Names.Of(arm), baseline.Label, sizes))
			continue
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s is new: %s has no run of it", r.Names.Of(arm), baseline.Label))
	}
	var samples []stats.Pair
	var of []int // check of each sample
	for _, p := range pairs {
		for _, l := range limits {
			if !l.applies(p.A, aArms) {
				continue
			}
			c := Check{Arm: p.A, Limit: l, Runs: [2]int{len(p.ARuns), len(p.BRuns)}, noiseFree: p.noiseFree()}
			if l.Metric.Name == crashes {
				c.count(p)
				r.Checks = append(r.Checks, c)
				continue
			}
			of = append(of, len(r.Checks))
			samples = append(samples, stats.Pair{A: l.Metric.values(p.ARuns), B: l.Metric.values(p.BRuns), Options: stats.Options{
				Alpha: alpha, MinEffect: l.Bound, HigherIsBetter: l.Metric.HigherIsBetter, Absolute: l.Metric.Absolute, NoiseFree: p.noiseFree()}})
			r.Checks = append(r.Checks, c)
		}
	}
	environments := map[results.Arm][]Difference{}
	for _, p := range pairs {
		environments[p.A] = p.Environment
	}
	for i, c := range stats.CompareAll(samples) {
		check := &r.Checks[of[i]]
		check.judge(c, environments[check.Arm])
	}
	r.missing(onlyA, aArms, bArms)
	return r
}

// applies reports whether a limit applies to an arm. Times of traced runs count only if the arm
// has no untraced runs. A slowdown needs a trace and is defined against sa.
func (l Limit) applies(arm results.Arm, arms map[results.Arm][]Observation) bool {
	switch {
	case l.Metric.Name == "slowdown":
		return arm.Traced && arm.Scheduler != "sa"
	case l.Metric.Name == crashes || !arm.Traced:
		return true
	}
	arm.Traced = false
	_, other := arms[arm]
	return !other
}

// missing adds checks for arms that the candidate should have measured but did not. all has the
// baseline's arms.
func (r *Report) missing(arms []results.Arm, all, candidate map[results.Arm][]Observation) {
	for _, arm := range arms {
		text := fmt.Sprintf("%s has no complete run of it", r.Candidate)
		if sizes := otherSizes(arm, candidate); sizes != "" {
			text = fmt.Sprintf("the mix differs: %d jobs in %s, and %s in %s", arm.Jobs, r.Baseline, sizes, r.Candidate)
		}
		for _, l := range r.Limits {
			if l.applies(arm, all) {
				r.Checks = append(r.Checks, Check{Arm: arm, Limit: l, Class: NothingMeasured, Runs: [2]int{len(all[arm]), 0}, Text: text})
			}
		}
	}
	for _, l := range r.Limits {
		checked := false
		for _, c := range r.Checks {
			checked = checked || c.Limit.Metric.Name == l.Metric.Name
		}
		if checked {
			continue
		}
		c := Check{Limit: l, Class: NothingMeasured, Text: fmt.Sprintf("%s and %s have no complete runs in common", r.Baseline, r.Candidate)}
		if l.Metric.Name == "slowdown" && len(r.Pairs) > 0 {
			c.Text = "no traced runs: measure with --trace, under sa too"
		}
		r.Checks = append(r.Checks, c)
	}
}

// otherSizes returns the numbers of jobs, as "4 jobs or 8 jobs", of the arms that differ from
// arm only in the number of jobs.
func otherSizes(arm results.Arm, arms map[results.Arm][]Observation) string {
	var found []string
	for _, other := range sorted(arms) {
		alike := other
		if alike.Jobs = arm.Jobs; alike == arm && other != arm {
			found = append(found, fmt.Sprintf("%d jobs", other.Jobs))
		}
	}
	return strings.Join(found, " or ")
}

// count compares the numbers of crashed jobs per run. They are counts, not samples, so no test
// applies.
func (c *Check) count(p Pair) {
	c.Crashed = [2]int{lost(p.ARuns), lost(p.BRuns)}
	perRun := func(side int) float64 { return float64(c.Crashed[side]) / float64(c.Runs[side]) }
	c.Class = Passed
	if perRun(1) > perRun(0)+c.Limit.Bound+1e-9 {
		c.Class = Crash
	}
	c.Text = fmt.Sprintf("%d jobs crashed in %d runs, %d in %d before", c.Crashed[1], c.Runs[1], c.Crashed[0], c.Runs[0])
}

func (c *Check) judge(found stats.Comparison, environment []Difference) {
	c.Comparison = &found
	if found.A.N == 0 || found.B.N == 0 {
		c.Class = NothingMeasured
		switch {
		case found.B.N > 0:
			c.Text = fmt.Sprintf("no value in %d runs of the baseline", c.Runs[0])
		case found.A.N > 0:
			c.Text = fmt.Sprintf("no value in %d runs of the candidate", c.Runs[1])
		default:
			c.Comparison = nil
			c.Text = fmt.Sprintf("no value in %d runs of the baseline and %d of the candidate", c.Runs[0], c.Runs[1])
		}
		c.Text += c.Limit.Metric.Needs()
		return
	}
	worse := found.Change
	if c.Limit.Metric.HigherIsBetter {
		worse = -worse
	}
	beyond := worse > 0 && worse >= c.Limit.Bound
	change := describe(found, c.Limit)
	switch {
	case found.Significant && beyond && len(environment) > 0:
		c.Class = EnvironmentChanged
		var kinds []string
		for _, d := range environment {
			kinds = append(kinds, d.Kind)
		}
		c.Text = fmt.Sprintf("worse: %s, and the environment is another one (%s)", change, strings.Join(kinds, ", "))
	case found.Significant && beyond:
		c.Class, c.Text = Regression, "worse: "+change
	case c.noiseFree:
		c.Class, c.Text = Noise, change+": one sample of each, because there is no noise"
	case found.Needed > 0:
		c.Class = Noise
		c.Text = fmt.Sprintf("%s: too few repetitions to tell it from noise; measure %d of each", change, found.Needed)
	case beyond:
		c.Class, c.Text = Noise, change+": beyond the limit, but not significant; measure more repetitions"
	case found.Significant && worse <= 0:
		c.Class, c.Text = Passed, "better: "+change
	case found.Resolution() > c.Limit.Bound:
		c.Class = Noise
		c.Text = fmt.Sprintf("%s: it scatters so much that a regression of the limit would not stand out; measure more repetitions, or allow more than %s", change, c.Limit.Bounds())
	default:
		c.Class, c.Text = Passed, change
	}
}

// describe is "-0.4 % (-1.6 % to +0.8 %), limit 3%".
func describe(c stats.Comparison, l Limit) string {
	unit := "%"
	if l.Metric.Absolute {
		unit = "pp"
	}
	text := fmt.Sprintf("%+.1f %s", 100*c.Change, unit)
	switch {
	case math.IsInf(c.Change, 0):
		text = "up from 0"
	case c.Bounded():
		text += fmt.Sprintf(" (%+.1f to %+.1f)", 100*c.Low, 100*c.High)
	}
	return fmt.Sprintf("%s, limit %s", text, l.Bounds())
}

// Failed counts the checks that fail, Unsettled the checks that measured too little to decide.
func (r Report) Failed() int { return r.countClass(Class.Fails) }

func (r Report) Unsettled() int { return r.countClass(Class.Unsettled) }

func (r Report) countClass(is func(Class) bool) int {
	n := 0
	for _, c := range r.Checks {
		if is(c.Class) {
			n++
		}
	}
	return n
}

// Simulated reports whether any figure comes from a model.
func (r Report) Simulated() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Arm.Mode == results.Simulated })
}

// Summary returns the result in one line.
func (r Report) Summary() string {
	switch failed, unsettled := r.Failed(), r.Unsettled(); {
	case failed > 0:
		return fmt.Sprintf("%d of %d checks fail", failed, len(r.Checks))
	case unsettled > 0:
		return fmt.Sprintf("%d of %d checks measured too little to say", unsettled, len(r.Checks))
	}
	return fmt.Sprintf("all %d checks pass", len(r.Checks))
}
