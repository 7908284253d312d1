// Package trend follows a metric of each arm over time: a point for each night, and the steps
// between levels. It does no I/O.
package trend

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

// Trend is one metric of every arm over time.
type Trend struct {
	Metric    results.Metric
	Lines     []Line
	Names     results.Names
	Alpha     float64 // of the steps of each line
	MinEffect float64
	Notes     []string // what a reader must know of the lines
}

// Line is one arm over time. Simulated and measured runs are different arms, so no line has both. Nights on other machines
// are in one line, but steps are those of each machine's nights.
type Line struct {
	Arm    results.Arm
	Points []Point // in the order of time
	Steps  []Step  // in the order of time
	Gaps   []Gap   // in the order of time
}

// Point is the runs of an arm in one sweep, or outside of sweeps under one tag.
type Point struct {
	Label     string     // the tag, the sweep or the run
	StartedAt *time.Time // of its first run; nil if that is simulated
	Day       *time.Time // when it began, or the day in its tag; nil: unknown
	Machine   string     // on which it was measured; equal if comparable, and empty if simulated
	Driver    string     // empty if unknown
	Revisions []string   // of caserun, in the order of their first runs
	Night     int        // its position among the nights of all lines, also of nights without a value
	N         int        // runs that have a value
	Value     float64    // their median; of crashes, and in a line of an arm that lost jobs, the mean
	night     regress.Night
	runs      []regress.Observation
}

// IDs are those of the point's runs.
func (p Point) IDs() (out []int64) {
	for _, o := range p.runs {
		out = append(out, o.ID)
	}
	return out
}

// Gap is a night whose runs of the arm have no value.
type Gap struct {
	Label string
	At    int // position of the next point
}

// Step is a change of a line's level. Its positions are of Points.
type Step struct {
	stats.Step
	Older          int                  // the last night before First on the same machine: the change lies after it, and at Last at the latest
	Verdict        stats.Verdict        // Better, Worse, or Inconclusive if the better level lost significantly more jobs
	BeforeRevision string               // the last one of the night Older
	AfterRevision  string               // the first one of the night Last
	Environment    []regress.Difference // what else changed between these two nights
}

// byArm groups the runs that a trend is of. Notes say how many were left out, except warm-ups and runs that are not
// complete.
func byArm(metric results.Metric, runs []regress.Observation) (arms map[results.Arm][]regress.Observation, notes []string) {
	arms = map[results.Arm][]regress.Observation{}
	without, doubtful := 0, 0
	for _, o := range runs {
		switch {
		case o.Status != results.Complete || o.Warmup:
		case o.Doubts != "":
			doubtful++
		case metric.Of(o.Run) == nil:
			without++
		default:
			arms[results.ArmOf(o.Run)] = append(arms[results.ArmOf(o.Run)], o)
		}
	}
	if doubtful > 0 {
		notes = append(notes, results.SaysDoubtful(doubtful))
	}
	if without > 0 {
		notes = append(notes, fmt.Sprintf("complete runs without a value of %s, which are left out: %d%s", metric.Name, without, metric.Needs))
	}
	return arms, notes
}

// namesOf names arms of runs.
func namesOf(arms map[results.Arm][]regress.Observation, runs []regress.Observation) results.Names {
	var counted []results.Run
	for _, o := range runs {
		if _, counts := arms[results.ArmOf(o.Run)]; counts {
			counted = append(counted, o.Run)
		}
	}
	return results.NamesOf(counted)
}

// Of follows the metric over the runs, which are in the order of time. Runs that are not
// complete, doubtful ones, warm-ups and runs without a value are left out.
func Of(metric results.Metric, runs []regress.Observation) Trend {
	t := Trend{Metric: metric, Alpha: stats.StepAlpha, MinEffect: stats.DefaultMinEffect}
	if metric.Exact {
		t.MinEffect = 0
	}
	arms, notes := byArm(metric, runs)
	t.Names = namesOf(arms, runs)
	t.Notes = append(t.Names.Notes(), notes...)
	labels := regress.NightNames(runs)
	tried := map[results.Arm][]regress.Observation{}
	positions := map[regress.Night]int{} // of nights
	for _, o := range runs {
		if _, known := positions[regress.NightOf(o)]; !known {
			positions[regress.NightOf(o)] = len(positions)
		}
		if !o.Warmup {
			tried[results.ArmOf(o.Run)] = append(tried[results.ArmOf(o.Run)], o)
		}
	}
	for _, arm := range t.Names.Sorted(maps.Keys(arms)) {
		line := Line{Arm: arm, Points: points(metric, arm, arms[arm], labels)}
		for i := range line.Points {
			line.Points[i].Night = positions[line.Points[i].night]
		}
		line.Gaps = gaps(line.Points, nights(arm, tried[arm]), labels)
		t.findSteps(&line)
		t.Lines = append(t.Lines, line)
	}
	t.Notes = append(t.Notes, t.remarks()...)
	return t
}

// options are those of the steps.
func (t Trend) options() stats.StepOptions {
	return stats.StepOptions{MinEffect: t.MinEffect, Absolute: t.Metric.Absolute, Counts: t.Metric.Counts()}
}

// findSteps finds the steps of a line: those of each machine's nights.
func (t Trend) findSteps(line *Line) {
	for _, of := range line.series() {
		values := line.values(of)
		found := stats.Steps(values, t.options())
		for i, s := range found {
			from, to := 0, len(of)
			if i > 0 {
				from = found[i-1].At
			}
			if i+1 < len(found) {
				to = found[i+1].At
			}
			line.Steps = append(line.Steps, t.step(line.Points, of, s, from, to))
		}
	}
	slices.SortFunc(line.Steps, func(a, b Step) int { return a.At - b.At })
}

// series are the positions of the points of each machine.
func (l Line) series() [][]int {
	var out [][]int
	at := map[string]int{}
	for i, p := range l.Points {
		n, known := at[p.Machine]
		if !known {
			n = len(out)
			at[p.Machine] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

// values are those of the points at the positions.
func (l Line) values(at []int) (out []float64) {
	for _, i := range at {
		out = append(out, l.Points[i].Value)
	}
	return out
}

// step says what changed at a step of the series of points at the positions of. Its levels are those of the series from
// from and up to to.
func (t Trend) step(points []Point, of []int, s stats.Step, from, to int) Step {
	older, newer := runsOf(points, of[from:s.At]), runsOf(points, of[s.At:to])
	out := Step{Step: s, Older: of[s.First-1], Verdict: stats.Worse}
	out.At, out.First, out.Last = of[s.At], of[s.First], of[s.Last]
	before, after := points[out.Older], points[out.Last]
	out.BeforeRevision, out.AfterRevision = before.Revisions[len(before.Revisions)-1], after.Revisions[0]
	out.Environment = regress.Environment(before.runs, after.runs)
	if (s.Change > 0) == t.Metric.HigherIsBetter {
		out.Verdict = stats.Better
	}
	if t.Metric.Counts() {
		return out
	}
	lost := regress.LostMore(older, [][]results.Run{newer}, stats.DefaultAlpha)[0]
	if lost[0] || lost[1] {
		out.Environment = append(out.Environment, regress.Difference{Kind: "lost jobs", A: lostShare(older), B: lostShare(newer)})
	}
	if lost[0] && out.Verdict == stats.Worse || lost[1] && out.Verdict == stats.Better {
		out.Verdict = stats.Inconclusive
	}
	return out
}

// remarks say which lines are too short for a step, and what limits the comparison of their nights.
func (t Trend) remarks() (notes []string) {
	short, apart, least := 0, 0, t.options().Length()
	lines := map[string]int{} // that a text is of
	for _, l := range t.Lines {
		series, longest := l.series(), 0
		for _, of := range series {
			longest = max(longest, len(of))
			for n, i := range of[1:] {
				older, newer := l.Points[of[n]], l.Points[i]
				if older.Driver != newer.Driver {
					lines[fmt.Sprintf("the driver is another one from %s on (%s, and %s before): a step there may be of the driver", newer.Label, newer.Driver, older.Driver)]++
				}
			}
		}
		if longest < least {
			short++
		}
		if len(series) > 1 {
			apart++
		}
		for _, gap := range l.Gaps {
			lines[fmt.Sprintf("%s has no value, which is a gap", gap.Label)]++
		}
	}
	if apart > 0 {
		notes = append(notes, fmt.Sprintf("nights on several machines, whose steps are looked for machine by machine: %d of %d lines", apart, len(t.Lines)))
	}
	for _, text := range slices.Sorted(maps.Keys(lines)) {
		notes = append(notes, fmt.Sprintf("%s: %d of %d lines", text, lines[text], len(t.Lines)))
	}
	if short > 0 {
		notes = append(notes, fmt.Sprintf("a step takes at least %d points, and lines with fewer are: %d of %d", least, short, len(t.Lines)))
	}
	return notes
}

// gaps are the nights that have no point.
func gaps(points []Point, all []Night, labels map[regress.Night]string) (out []Gap) {
	at := map[regress.Night]int{}
	for i, p := range points {
		at[p.night] = i
	}
	next := 0
	for _, n := range all {
		if i, found := at[n.night]; found {
			next = i + 1
		} else {
			out = append(out, Gap{Label: labels[n.night], At: next})
		}
	}
	return out
}

func runsOf(points []Point, at []int) (out []results.Run) {
	for _, i := range at {
		out = append(out, regress.Rows(points[i].runs)...)
	}
	return out
}

// lostShare is the share of the runs' jobs that crashed.
func lostShare(runs []results.Run) string {
	crashed, jobs := 0, 0
	for _, r := range runs {
		crashed, jobs = crashed+r.Metrics.Crashed, jobs+r.Jobs
	}
	return fmt.Sprintf("%.1f %%", 100*float64(crashed)/float64(jobs))
}

// Night is the complete runs of an arm in one night, in the order of time.
type Night struct {
	Arm   results.Arm
	Tag   string // of its runs; may be empty
	Runs  []regress.Observation
	night regress.Night
}

// nights groups the runs of an arm, in the order of their first runs.
func nights(arm results.Arm, runs []regress.Observation) []Night {
	var out []Night
	places := map[regress.Night]int{}
	for _, o := range runs {
		k := regress.NightOf(o)
		at, known := places[k]
		if !known {
			at = len(out)
			places[k] = at
			out = append(out, Night{Arm: arm, Tag: o.Tag, night: k})
		}
		out[at].Runs = append(out[at].Runs, o)
	}
	return out
}

// Latest returns the last night of each arm, in the order of arms. Runs that are not complete, doubtful ones and
// warm-ups are left out.
func Latest(runs []regress.Observation) []Night {
	arms := map[results.Arm][]regress.Observation{}
	for _, o := range runs {
		if o.Status == results.Complete && !o.Warmup && o.Doubts == "" {
			arms[results.ArmOf(o.Run)] = append(arms[results.ArmOf(o.Run)], o)
		}
	}
	var out []Night
	for _, arm := range namesOf(arms, runs).Sorted(maps.Keys(arms)) {
		all := nights(arm, arms[arm])
		out = append(out, all[len(all)-1])
	}
	return out
}

func points(metric results.Metric, arm results.Arm, runs []regress.Observation, labels map[regress.Night]string) []Point {
	var out []Point
	// Runs that lose jobs or not are of two kinds, and their median is of one kind or the other.
	means := metric.Exact || slices.ContainsFunc(runs, func(o regress.Observation) bool { return o.Metrics.Crashed > 0 })
	for _, n := range nights(arm, runs) {
		p := Point{Label: labels[n.night], StartedAt: n.Runs[0].StartedAt, Day: results.Dated(n.Runs[0].StartedAt, n.Tag), Machine: strings.Join(regress.Machines(n.Runs), "\n"),
			N: len(n.Runs), night: n.night, runs: n.Runs}
		if driver := n.Runs[0].Provenance.Driver; driver != nil {
			p.Driver = *driver
		}
		var values []float64
		sum := 0.0
		for _, o := range n.Runs {
			if r := o.Provenance.Revision; !slices.Contains(p.Revisions, r) {
				p.Revisions = append(p.Revisions, r)
			}
			v := *metric.Of(o.Run)
			values, sum = append(values, v), sum+v
		}
		p.Value = stats.Summarize(values, 1-stats.DefaultAlpha).Median
		if means {
			p.Value = sum / float64(len(values))
		}
		out = append(out, p)
	}
	return out
}

// Simulated reports whether a line comes from a model.
func (t Trend) Simulated() bool {
	return slices.ContainsFunc(t.Lines, func(l Line) bool { return l.Arm.Mode == results.Simulated })
}
