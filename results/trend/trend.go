// Package trend follows a metric of each arm over time: a point for each night, and the steps
// between levels. It does no I/O.
package trend

import (
	"fmt"
	"maps"
	"slices"
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
	Alpha     float64
	MinEffect float64
	Notes     []string // what a reader must know of the lines
}

// Line is one arm over time. Simulated and measured runs are different arms, so no line has both.
type Line struct {
	Arm    results.Arm
	Points []Point // in the order of time
	Steps  []Step
}

// Point is the runs of an arm in one sweep, or outside of sweeps under one tag.
type Point struct {
	Label     string     // the tag, the sweep or the run
	StartedAt *time.Time // of its first run; nil if that is simulated
	Revisions []string   // of caserun, in the order of their first runs
	N         int        // runs that have a value
	Value     float64    // their median; of crashes the mean
	runs      []regress.Observation
}

// Step is a change of a line's level.
type Step struct {
	stats.Step                          // At is the position in Points
	Verdict        stats.Verdict        // Better, Worse, or Inconclusive if the better level lost significantly more jobs
	BeforeRevision string               // the last before the step
	AfterRevision  string               // the first after the step
	Environment    []regress.Difference // what else changed between the two points
}

// SameRevision reports whether caserun itself did not change at the step.
func (s Step) SameRevision() bool { return s.BeforeRevision == s.AfterRevision }

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

// Of follows the metric over the runs, which are in the order of time. Runs that are not
// complete, doubtful ones, warm-ups and runs without a value are left out.
func Of(metric results.Metric, runs []regress.Observation) Trend {
	t := Trend{Metric: metric, Alpha: stats.DefaultAlpha, MinEffect: stats.DefaultMinEffect}
	if metric.Exact {
		t.MinEffect = 0
	}
	arms, notes := byArm(metric, runs)
	t.Notes = notes
	t.Names = slices.SortedFunc(maps.Keys(arms), results.Arm.Compare)
	labels := labelsOf(runs)
	var series [][]float64
	for _, arm := range t.Names {
		line := Line{Arm: arm, Points: points(metric, arm, arms[arm], labels)}
		t.Lines = append(t.Lines, line)
		var values []float64
		for _, p := range line.Points {
			values = append(values, p.Value)
		}
		series = append(series, values)
	}
	found := stats.Steps(series, stats.StepOptions{Alpha: t.Alpha, MinEffect: t.MinEffect, Absolute: metric.Absolute})
	short, least := 0, stats.StepLength(t.Alpha, len(series))
	for i := range t.Lines {
		line := &t.Lines[i]
		if len(line.Points) < least {
			short++
		}
		for n, s := range found[i] {
			from, to := 0, len(line.Points)
			if n > 0 {
				from = found[i][n-1].At
			}
			if n+1 < len(found[i]) {
				to = found[i][n+1].At
			}
			line.Steps = append(line.Steps, t.step(line.Points, s, from, to))
		}
	}
	if short > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("a step takes at least %d points, and lines with fewer are: %d of %d", least, short, len(t.Lines)))
	}
	return t
}

// step says what changed between the points on both sides of a step, whose levels are the points from and
// up to others.
func (t Trend) step(points []Point, s stats.Step, from, to int) Step {
	before, after := points[s.At-1], points[s.At]
	out := Step{Step: s, Verdict: stats.Worse, BeforeRevision: before.Revisions[len(before.Revisions)-1],
		AfterRevision: after.Revisions[0], Environment: regress.Environment(before.runs, after.runs)}
	if (s.Change > 0) == t.Metric.HigherIsBetter {
		out.Verdict = stats.Better
	}
	if t.Metric.Counts() {
		return out
	}
	older, newer := runsOf(points[from:s.At]), runsOf(points[s.At:to])
	lost := regress.LostMore(older, [][]results.Run{newer}, t.Alpha)[0]
	if lost[0] || lost[1] {
		out.Environment = append(out.Environment, regress.Difference{Kind: "lost jobs", A: lostShare(older), B: lostShare(newer)})
	}
	if lost[0] && out.Verdict == stats.Worse || lost[1] && out.Verdict == stats.Better {
		out.Verdict = stats.Inconclusive
	}
	return out
}

func runsOf(points []Point) (out []results.Run) {
	for _, p := range points {
		for _, o := range p.runs {
			out = append(out, o.Run)
		}
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

// key is what the runs of a point have in common: their sweep, else their tag, else the run.
type key struct {
	sweep int64
	tag   string
	run   int64
}

func keyOf(r results.Run) key {
	switch {
	case r.Sweep != nil:
		return key{sweep: *r.Sweep}
	case r.Tag != "":
		return key{tag: r.Tag}
	}
	return key{run: r.ID}
}

// labelsOf names points by their tag, unless other points have the same tag.
func labelsOf(runs []regress.Observation) map[key]string {
	of := map[string]map[key]bool{}
	for _, o := range runs {
		if of[o.Tag] == nil {
			of[o.Tag] = map[key]bool{}
		}
		of[o.Tag][keyOf(o.Run)] = true
	}
	out := map[key]string{}
	for tag, keys := range of {
		for k := range keys {
			name := fmt.Sprintf("run %d", k.run)
			if k.sweep != 0 {
				name = fmt.Sprintf("sweep %d", k.sweep)
			}
			switch {
			case tag != "" && len(keys) == 1:
				name = tag
			case tag != "" && k.sweep != 0:
				name = fmt.Sprintf("%s, %s", tag, name)
			case tag != "":
				name = tag
			}
			out[k] = name
		}
	}
	return out
}

// Night is the complete runs of an arm in one sweep, or outside of sweeps under one tag, in the
// order of time.
type Night struct {
	Arm  results.Arm
	Tag  string // of its runs; may be empty
	Runs []regress.Observation
	key  key
}

// nights groups the runs of an arm, in the order of their first runs.
func nights(arm results.Arm, runs []regress.Observation) []Night {
	var out []Night
	for _, o := range runs {
		k := keyOf(o.Run)
		at := slices.IndexFunc(out, func(n Night) bool { return n.key == k })
		if at < 0 {
			at = len(out)
			out = append(out, Night{Arm: arm, Tag: o.Tag, key: k})
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
	for _, arm := range slices.SortedFunc(maps.Keys(arms), results.Arm.Compare) {
		all := nights(arm, arms[arm])
		out = append(out, all[len(all)-1])
	}
	return out
}

func points(metric results.Metric, arm results.Arm, runs []regress.Observation, labels map[key]string) []Point {
	var out []Point
	for _, n := range nights(arm, runs) {
		p := Point{Label: labels[n.key], StartedAt: n.Runs[0].StartedAt, N: len(n.Runs), runs: n.Runs}
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
		if metric.Exact {
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
