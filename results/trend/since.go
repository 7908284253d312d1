package trend

import (
	"math"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// Explain says since when the checks of a gate fail that do. runs are all of the store, as Of takes them, so that a trend of
// them has the same steps.
func Explain(r *regress.Report, baseline, candidate regress.Side, runs []regress.Observation) {
	trends := map[string]Trend{}
	a, b := ids(baseline), ids(candidate)
	for i := range r.Checks {
		c := &r.Checks[i]
		arms := r.Arms(*c)
		if !c.Class.Fails() || len(arms) == 0 {
			continue
		}
		name := c.Limit.Metric.Name
		if _, done := trends[name]; !done {
			trends[name] = Of(c.Limit.Metric, runs)
		}
		t := trends[name]
		c.Since = t.since(t.over(arms), a, b, c.Limit.Bound)
	}
}

func ids(s regress.Side) map[int64]bool {
	out := map[int64]bool{}
	for _, o := range s.Runs {
		out[o.ID] = true
	}
	return out
}

// over is the line of arms that differ in their mixes alone. Over several mixes it has the nights that ran all of them, with
// the geometric mean of their values, or the mean, as the check over these mixes has.
func (t Trend) over(arms []results.Arm) Line {
	var lines []Line
	for _, arm := range arms {
		if at := slices.IndexFunc(t.Lines, func(l Line) bool { return l.Arm == arm }); at >= 0 {
			lines = append(lines, t.Lines[at])
		}
	}
	if len(lines) < len(arms) {
		return Line{}
	}
	if len(lines) == 1 {
		return lines[0]
	}
	out := Line{Arm: arms[0]}
	for _, p := range lines[0].Points {
		whole, sum := true, 0.0
		p.runs = nil
		for _, l := range lines {
			at := slices.IndexFunc(l.Points, func(o Point) bool { return o.night == p.night && o.Machine == p.Machine })
			if whole = whole && at >= 0; !whole {
				break
			}
			own := l.Points[at]
			p.runs = append(p.runs, own.runs...)
			if t.Metric.Absolute {
				sum += own.Value
			} else {
				sum += math.Log(own.Value)
			}
		}
		if p.Value = sum / float64(len(lines)); !t.Metric.Absolute {
			p.Value = math.Exp(p.Value)
		}
		if whole {
			out.Points = append(out.Points, p)
		}
	}
	t.findSteps(&out)
	return out
}

// since finds in a line the night from which on the candidate is worse than the baseline by more than the bound. Both are known
// to differ: so if no step of the line says where, it is where the line most likely changes between them.
func (t Trend) since(l Line, baseline, candidate map[int64]bool, bound float64) *regress.Since {
	night, of := l.upTo(candidate)
	begin := slices.IndexFunc(of, func(i int) bool { return l.Points[i].has(baseline) })
	if begin < 0 || len(of) < 2 {
		return l.sinceMachine(night, baseline)
	}
	var base []float64
	for _, i := range of {
		if l.Points[i].has(baseline) {
			base = append(base, l.Points[i].Value)
		}
	}
	level := stats.Summarize(base, 1-stats.DefaultAlpha).Median
	step, from := t.fallsAt(l, of, begin, level, bound)
	if step != nil {
		out := l.between(step.Older, step.At, step.Last)
		out.Nights, out.Step = len(of)-slices.Index(of, step.At), true
		return out
	}
	from = min(from, len(of)-2)
	from += t.lastGood(l.values(of[from:]), level) // failures before it are others
	values := l.values(of[from:])
	turn := stats.TurnOf(values)
	if !t.worse(stats.Mean(values[:turn.At]), stats.Mean(values[turn.At:]), 0) {
		last := len(values) - 1
		turn = stats.Turn{At: last, First: 1, Last: last}
	}
	out := l.between(of[from+turn.First-1], of[from+turn.At], of[from+turn.Last])
	out.Nights = len(values) - turn.At
	return out
}

// lastGood is the last of the values before the candidate's, which is the last one, that is as good as the baseline: nearer to
// it than a quarter of the change. 0: the first one is taken for it.
func (t Trend) lastGood(values []float64, level float64) int {
	last := len(values) - 1
	limit := level + (values[last]-level)/4
	for i := last - 1; i > 0; i-- {
		if !t.worse(limit, values[i], 0) {
			return i
		}
	}
	return 0
}

// upTo finds the last point of the candidate; -1 if there is none. of are the points up to it that compare with it.
func (l Line) upTo(candidate map[int64]bool) (night int, of []int) {
	night = -1
	for i, p := range l.Points {
		if p.has(candidate) {
			night = i
		}
	}
	for i, p := range l.Points[:night+1] {
		if p.Machine == l.Points[night].Machine {
			of = append(of, i)
		}
	}
	return night, of
}

// sinceMachine is the first of the nights up to the candidate's that ran on its machine in a row, if the baseline's did not.
func (l Line) sinceMachine(night int, baseline map[int64]bool) *regress.Since {
	first := night
	for first > 0 && l.Points[first-1].Machine == l.Points[night].Machine {
		first--
	}
	if first <= 0 || !slices.ContainsFunc(l.Points[:first], func(p Point) bool { return p.has(baseline) }) {
		return nil
	}
	out := l.between(first-1, first, first)
	out.Nights = night - first + 1
	return out
}

// between names the points of a change.
func (l Line) between(after, first, by int) *regress.Since {
	older, newer := l.Points[after], l.Points[by]
	return &regress.Since{First: l.Points[first].Label, After: older.Label, By: newer.Label,
		Revisions: [2]string{older.Revisions[len(older.Revisions)-1], newer.Revisions[0]}}
}

// fallsAt is the step from which on every level up to the end of the series is worse than the baseline's by more than the
// bound. nil: no step of the line is it, and the change lies after the position from in of.
func (t Trend) fallsAt(l Line, of []int, begin int, level, bound float64) (found *Step, from int) {
	steps := slices.DeleteFunc(slices.Clone(l.Steps), func(s Step) bool { return !slices.Contains(of, s.At) })
	for n := len(steps) - 1; n >= 0; n-- {
		s := steps[n]
		at := slices.Index(of, s.At)
		if at <= begin {
			break
		}
		falls := t.worse(s.Before, s.After, 0)
		if falls {
			found, from = &steps[n], at
		} else if found == nil {
			from = max(from, at)
		}
		if good := !falls && !t.worse(level, s.After, bound); good || !t.worse(level, s.Before, bound) {
			break
		}
	}
	return found, max(from, begin)
}

// worse reports whether a value is worse than another one by more than a bound; of crashes, whose bounds are numbers of jobs, by
// any amount.
func (t Trend) worse(than, value, bound float64) bool {
	change := value - than
	if !t.Metric.Absolute {
		change /= than
	}
	if t.Metric.HigherIsBetter {
		change = -change
	}
	if t.Metric.Counts() {
		bound = 0
	}
	return change > bound
}

// has reports whether a point has one of the runs.
func (p Point) has(runs map[int64]bool) bool {
	return slices.ContainsFunc(p.runs, func(o regress.Observation) bool { return runs[o.ID] })
}
