package trend

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// Rolling is a baseline of the last nights before a candidate that passed the gate.
type Rolling struct {
	Name   string // for messages
	Nights int    // at most
	From   int64  // the first run that counts; 0: all do
	Limits []regress.Limit
	Alpha  float64
}

// MinNights is the smallest number of nights of a rolling baseline: of fewer, one odd night is the baseline.
const MinNights = 3

// ErrTooFewNights means that too few nights passed to be a baseline.
var ErrTooFewNights = errors.New("too few nights passed")

// rollingNight is the runs of the candidate's arms in nights of one name (regress.NightNames).
type rollingNight struct {
	label string
	runs  []regress.Observation
}

// has reports whether some of the nights are among others.
func (n rollingNight) has(others map[regress.Night]bool) bool {
	return slices.ContainsFunc(n.runs, func(o regress.Observation) bool { return others[regress.NightOf(o)] })
}

// Baseline finds the nights. runs are all of the store, in the order of time. A night's verdict is not stored: it is computed
// again. A night passes if
//   - no line of a limited metric lies on a level in it that is worse than an earlier one, by the trend's steps up to the
//     candidate. So a loss enters neither in small steps nor slowly;
//   - the gate passes it, against as many nights before it that lie on no such level. The first night passes.
func (r Rolling) Baseline(candidate regress.Side, runs []regress.Observation) (regress.Side, error) {
	out := regress.Side{Label: r.Name, Doubted: candidate.Doubted}
	nights, remarks := r.before(candidate, runs)
	worse := r.worse(nights, candidate)
	var level []rollingNight
	left := map[string][]string{} // labels of nights, by why they are left out
	for _, n := range nights {
		if n.has(worse) {
			left["on a worse level than before"] = append(left["on a worse level than before"], n.label)
		} else {
			level = append(level, n)
		}
	}
	var passed []rollingNight
	for i := len(level) - 1; i >= 0 && len(passed) < r.Nights; i-- {
		why := r.judge(level[max(0, i-r.Nights):i], level[i], candidate.Doubted)
		if why == "" {
			passed = append(passed, level[i])
			continue
		}
		left[why] = slices.Insert(left[why], 0, level[i].label)
	}
	slices.Reverse(passed)
	for _, n := range passed {
		out.Runs = append(out.Runs, n.runs...)
	}
	var because []string
	for _, why := range []string{"failed", "measured too little", "on a worse level than before"} {
		if labels := left[why]; len(labels) > 0 {
			because = append(because, fmt.Sprintf("%s: %s", why, size.Few(labels, 4, ", ")))
		}
	}
	if len(passed) < MinNights {
		because = append(because, remarks...)
		return out, fmt.Errorf("%w: %d of the %d nights before %s, and %s needs %d at least%s", ErrTooFewNights, len(passed), len(nights), candidate.Label,
			r.Name, MinNights, told(because))
	}
	out.Notes = append(out.Notes, fmt.Sprintf("%s is the last %d nights that passed, %s to %s%s", r.Name, len(passed), passed[0].label, passed[len(passed)-1].label, told(because)))
	out.Notes = append(out.Notes, remarks...)
	return out, nil
}

// told is reasons behind a sentence.
func told(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return "; " + strings.Join(reasons, "; ")
}

// before are the nights before the candidate that ran some of its arms, on its machine if any did. If its node is another one
// than that of all nights before, they are those of its arms on other nodes, so that the gate says so.
func (r Rolling) before(candidate regress.Side, runs []regress.Observation) (nights []rollingNight, remarks []string) {
	labels := regress.NightNames(runs)
	nights = r.nightsOf(candidate, runs, labels, results.ArmOf)
	if len(nights) == 0 {
		return r.nightsOf(candidate, runs, labels, func(run results.Run) results.Arm {
			arm := results.ArmOf(run)
			arm.Node = ""
			return arm
		}), nil
	}
	machines := regress.Machines(candidate.Runs)
	other := func(n rollingNight) bool {
		return !slices.ContainsFunc(regress.Machines(n.runs), func(m string) bool { return slices.Contains(machines, m) })
	}
	here := slices.DeleteFunc(slices.Clone(nights), other)
	if n := len(nights) - len(here); n > 0 && len(here) > 0 {
		return here, []string{fmt.Sprintf("nights on other machines than %s, which are left out: %d", candidate.Label, n)}
	}
	return nights, nil
}

// nightsOf groups the runs before the candidate's first one that are of its arms.
func (r Rolling) nightsOf(candidate regress.Side, runs []regress.Observation, labels map[regress.Night]string, armOf func(results.Run) results.Arm) (nights []rollingNight) {
	arms, own := map[results.Arm]bool{}, ids(candidate)
	for _, o := range candidate.Runs {
		arms[armOf(o.Run)] = true
	}
	for _, o := range runs {
		if own[o.ID] {
			break
		}
		if o.Warmup || !arms[armOf(o.Run)] || o.ID < r.From {
			continue
		}
		label := labels[regress.NightOf(o)]
		at := slices.IndexFunc(nights, func(n rollingNight) bool { return n.label == label })
		if at < 0 {
			at = len(nights)
			nights = append(nights, rollingNight{label: label})
		}
		nights[at].runs = append(nights[at].runs, o)
	}
	return nights
}

// side is the runs of nights as one.
func (r Rolling) side(doubted bool, nights ...rollingNight) regress.Side {
	out := regress.Side{Label: r.Name, Doubted: doubted}
	for _, n := range nights {
		out.Runs = append(out.Runs, n.runs...)
	}
	return out
}

// judge says why a night did not pass; empty if it did.
func (r Rolling) judge(before []rollingNight, night rollingNight, doubted bool) string {
	if len(before) == 0 {
		return ""
	}
	gate := regress.Gate(r.side(doubted, before...), r.side(doubted, night), r.Limits, r.Alpha)
	switch {
	case gate.Failed() > 0:
		return "failed"
	case gate.Unsettled() > 0 || len(gate.Checks) == 0:
		return "measured too little"
	}
	return ""
}

// worse are the nights in which a line of a limited metric lies on a worse level than before. Crashes have no levels here,
// because a level of no crashes is worse than the best one by any crash.
func (r Rolling) worse(nights []rollingNight, candidate regress.Side) map[regress.Night]bool {
	runs := append(r.side(false, nights...).Runs, candidate.Runs...)
	var lines []Line
	var of []Trend
	named := map[string]bool{}
	for _, l := range r.Limits {
		if l.None || l.Metric.Counts() || named[l.Metric.Name] {
			continue
		}
		named[l.Metric.Name] = true
		t := Of(l.Metric, runs)
		for _, line := range t.Lines {
			lines, of = append(lines, line), append(of, t)
		}
	}
	out := map[regress.Night]bool{}
	for i, line := range lines {
		for _, at := range of[i].onWorseLevels(line, r.Alpha/float64(len(lines))) {
			out[line.Points[at].night] = true
		}
	}
	return out
}

// onWorseLevels are the positions of the points whose level is worse than the best one before, by the minimum effect at least.
// Steps with a larger p than alpha do not count: some of many lines have such steps by chance.
func (t Trend) onWorseLevels(l Line, alpha float64) (out []int) {
	steps := slices.DeleteFunc(slices.Clone(l.Steps), func(s Step) bool { return s.P > alpha })
	for _, of := range l.series() {
		best, begin := math.NaN(), 0
		for i := 1; i <= len(of); i++ {
			if i < len(of) && !slices.ContainsFunc(steps, func(s Step) bool { return s.At == of[i] }) {
				continue
			}
			level := stats.Summarize(l.values(of[begin:i]), 1-stats.DefaultAlpha).Median
			switch {
			case math.IsNaN(best) || t.worse(level, best, 0):
				best = level
			case t.worse(best, level, t.MinEffect):
				out = append(out, of[begin:i]...)
			}
			begin = i
		}
	}
	return out
}
