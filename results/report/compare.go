package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
)

const simulatedNote = "SIMULATED: figures of simulated nodes come from a model, not from devices."

// CompareTable has a row for each metric of each pair of arms.
func CompareTable(r regress.Result) *Table {
	// A column with the same value in all rows is the first to go.
	same := func(value func(regress.Row) string) bool {
		return !slices.ContainsFunc(r.Rows, func(row regress.Row) bool { return value(row) != value(r.Rows[0]) })
	}
	dropNode, dropScheduler, reasonPlace := 0, 0, Everywhere
	if same(func(row regress.Row) string { return arrow(row.Pair.A.Node, row.Pair.B.Node) }) {
		dropNode = 6
	}
	schedulers := func(row regress.Row) string {
		return arrow(schedulerOf(row.Pair.A, r.Names), schedulerOf(row.Pair.B, r.Names))
	}
	title := fmt.Sprintf("%s against %s", r.B, r.A)
	if len(r.Rows) > 0 && same(schedulers) {
		dropScheduler = 6
		if one := r.Rows[0].Pair; schedulerOf(one.A, r.Names) == schedulerOf(one.B, r.Names) {
			title += ", under " + schedulers(r.Rows[0])
		}
	}
	reasons := map[string]int{}
	for _, row := range r.Rows {
		if row.Reason != "" {
			reasons[row.Reason]++
		}
	}
	if len(reasons) < 2 {
		reasonPlace = DataOnly // a note has it
	}
	t := &Table{Title: marked(r.Simulated(), title), Columns: []Column{
		{Name: "mix"}, {Name: "scheduler_text", Heading: "scheduler", Place: TextOnly, Drop: dropScheduler}, {Name: "node_text", Heading: "node", Place: TextOnly, Drop: dropNode},
		{Name: "jobs_a", Place: DataOnly}, {Name: "jobs_b", Place: DataOnly},
		{Name: "scheduler_a", Place: DataOnly}, {Name: "parameters_a", Place: DataOnly}, {Name: "node_a", Place: DataOnly},
		{Name: "mode_a", Place: DataOnly}, {Name: "traced_a", Place: DataOnly},
		{Name: "scheduler_b", Place: DataOnly}, {Name: "parameters_b", Place: DataOnly}, {Name: "node_b", Place: DataOnly},
		{Name: "mode_b", Place: DataOnly}, {Name: "traced_b", Place: DataOnly},
		{Name: "metric"}, {Name: "unit", Place: DataOnly},
		{Name: "n_text", Heading: "N", Place: TextOnly, Drop: 2},
		{Name: "n_a", Place: DataOnly}, {Name: "median_a", Heading: r.A}, {Name: "a_interval", Heading: "interval", Place: TextOnly, Drop: 5}, {Name: "low_a", Place: DataOnly}, {Name: "high_a", Place: DataOnly},
		{Name: "n_b", Place: DataOnly}, {Name: "median_b", Heading: r.B}, {Name: "b_interval", Heading: "interval", Place: TextOnly, Drop: 4}, {Name: "low_b", Place: DataOnly}, {Name: "high_b", Place: DataOnly},
		{Name: "change"}, {Name: "change_interval", Heading: "interval", Place: TextOnly, Drop: 1}, {Name: "change_low", Place: DataOnly}, {Name: "change_high", Place: DataOnly},
		{Name: "change_is", Place: DataOnly}, {Name: "p", Place: DataOnly},
		{Name: "p_adjusted", Heading: "p", Drop: 3}, {Name: "minimum_effect", Place: DataOnly}, {Name: "verdict", Judges: true}, {Name: "reason", Heading: "reason", Place: reasonPlace},
		{Name: "warnings", Place: DataOnly}, {Name: "probe_a", Place: DataOnly}, {Name: "probe_b", Place: DataOnly},
		{Name: "mixes", Place: DataOnly}, {Name: "settles", Place: DataOnly}, {Name: "survivors_only", Place: DataOnly},
		{Name: "arm_a", Place: DataOnly}, {Name: "arm_b", Place: DataOnly},
	}}
	tests := 0
	for _, row := range r.Rows {
		tests = max(tests, row.Tests)
		a, b, c := row.Pair.A, row.Pair.B, row.Comparison
		change := "ratio - 1"
		if row.Metric.Absolute {
			change = "difference"
		}
		t.Add(Cell{Value: arrow(a.Mix, b.Mix), Text: arrow(r.Names.Mix(a), r.Names.Mix(b))}, arrow(schedulerOf(a, r.Names), schedulerOf(b, r.Names)), arrow(a.Node, b.Node),
			positive(a.Jobs), positive(b.Jobs), a.Scheduler, a.Parameters, a.Node, a.Mode, a.Traced, b.Scheduler, b.Parameters, b.Node, b.Mode, b.Traced,
			row.Metric.Name, row.Metric.Unit, fmt.Sprintf("%d, %d", c.A.N, c.B.N),
			c.A.N, medianCell(c.A, row.Metric), given(IntervalText(c.A, row.Metric)), finite(c.A.Low), finite(c.A.High),
			c.B.N, medianCell(c.B, row.Metric), given(IntervalText(c.B, row.Metric)), finite(c.B.Low), finite(c.B.High),
			Cell{Value: finite(c.Change), Text: withMark(changeText(c.Change, row.Metric), survivorsMark(row.Survivors()))}, changeInterval(c), finite(c.Low), finite(c.High), change,
			finite(c.P), pCell(c.Adjusted), c.MinEffect, c.Verdict, given(c.Reason), warningCell(row.Pair), a.Probe.String(), b.Probe.String(), row.Mixes, positive(c.Settles), row.Survivors(),
			r.Names.Scheduler(a), r.Names.Scheduler(b))
	}
	if reasonPlace == DataOnly {
		for reason, n := range reasons {
			t.Say(fmt.Sprintf("inconclusive (%d of %d): %s", n, len(r.Rows), reason))
		}
	}
	over := ""
	for _, row := range r.Rows {
		if row.Mixes > 1 {
			over = " Over several mixes: geometric means of the mixes' means (where the change is in pp, the mean), and van Elteren's test."
		}
		if says := overText(row, r.Names); says != "" {
			t.Say(says)
		}
	}
	t.Say(fmt.Sprintf("Medians, and the median change over all pairs of repetitions, with %g %% confidence intervals."+over+" Tested by two-sided "+
		"Mann-Whitney tests, adjusted (Holm) for %d comparisons; alpha is %g. A change of %g %% or more matters; of crashes, any change does.",
		100*(1-r.Alpha), tests, r.Alpha, 100*r.MinEffect))
	if slices.ContainsFunc(r.Rows, func(row regress.Row) bool { return row.Survivors() && changeText(row.Change, row.Metric) != "" }) {
		t.Say(SurvivorsNote("on one side or both"))
	}
	if r.Simulated() {
		t.Say(simulatedNote)
	}
	t.Say(r.Notes...)
	return t
}

// overText is "case-alg3 over sa over W1..W8: throughput 1.88× (1.85 to 1.91)" for the row of two
// schedulers over several mixes.
func overText(row regress.Row, names results.Names) string {
	a, b, c := schedulerOf(row.Pair.A, names), schedulerOf(row.Pair.B, names), row.Comparison
	if row.Mixes < 2 || row.Metric.Absolute || a == b || !c.Bounded() {
		return ""
	}
	ratio := regress.Ratio{Value: 1 + c.Change, Low: 1 + c.Low, High: 1 + c.High}
	text := fmt.Sprintf("%s over %s over %s: %s %s", b, a, row.Pair.A.Mix, row.Metric.Name, ratio) + survivorsMark(row.Survivors())
	if row.LostMore {
		text += ", " + c.Reason
	}
	return text
}

// positive is unknown for 0.
func positive(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// GateTable has a row for each check of a gate whose kind is one of regress.Kinds; none: all.
func GateTable(r regress.Report, kinds ...string) *Table {
	dropNode := 3
	if slices.ContainsFunc(r.Checks, func(c regress.Check) bool { return c.Arm.Node != r.Checks[0].Arm.Node }) {
		dropNode = 0
	}
	title := fmt.Sprintf("regression gate, %s against %s: %s", r.Candidate, r.Baseline, r.Summary())
	t := &Table{Title: marked(r.Simulated(), title), Columns: []Column{
		{Name: "mix"}, {Name: "jobs", Place: DataOnly}, {Name: "scheduler"}, {Name: "parameters", Place: DataOnly}, {Name: "node", Drop: dropNode}, {Name: "mode", Place: DataOnly}, {Name: "traced", Place: DataOnly},
		{Name: "metric"}, {Name: "limit"}, {Name: "result", Judges: true}, {Name: "finding"},
		{Name: "n_text", Heading: "N", Place: TextOnly, Drop: 1},
		{Name: "baseline_runs", Place: DataOnly}, {Name: "candidate_runs", Place: DataOnly},
		{Name: "unit", Place: DataOnly}, {Name: "baseline_median", Heading: "baseline", Narrow: 1}, {Name: "candidate_median", Heading: "candidate", Narrow: 1},
		{Name: "change", Place: DataOnly}, {Name: "change_low", Place: DataOnly}, {Name: "change_high", Place: DataOnly},
		{Name: "p_adjusted", Heading: "p", Drop: 2},
		{Name: "baseline_crashed", Place: DataOnly}, {Name: "candidate_crashed", Place: DataOnly}, {Name: "warnings", Place: DataOnly}, {Name: "probe", Place: DataOnly},
		{Name: "mixes", Place: DataOnly}, {Name: "baseline_jobs", Place: DataOnly}, {Name: "candidate_jobs", Place: DataOnly}, {Name: "settles", Place: DataOnly},
		{Name: "since", Place: DataOnly}, {Name: "since_nights", Place: DataOnly}, {Name: "since_after", Place: DataOnly}, {Name: "since_by", Place: DataOnly},
		{Name: "revision_before", Place: DataOnly}, {Name: "revision_after", Place: DataOnly},
		{Name: "arm", Place: DataOnly},
	}}
	warnings := map[results.Arm]any{}
	for _, p := range r.Pairs {
		warnings[p.A] = warningCell(p)
	}
	for _, c := range r.Checks {
		if len(kinds) > 0 && !slices.Contains(kinds, c.Class.Kind()) {
			continue
		}
		var base, cand, change, low, high, p, baseCrashed, candCrashed any
		if s := c.Comparison; s != nil {
			base, cand, change, low, high, p = gateCell(s.A, c.Limit.Metric), gateCell(s.B, c.Limit.Metric), finite(s.Change), finite(s.Low), finite(s.High), pCell(s.Adjusted)
		}
		if c.Counted() {
			baseCrashed, candCrashed = c.Crashed[0], c.Crashed[1]
			base, cand = Cell{Value: c.Rate(0), Text: Human(c.Rate(0), Ratio)}, Cell{Value: c.Rate(1), Text: Human(c.Rate(1), Ratio)}
			change, low, high = c.Rate(1)-c.Rate(0), nil, nil
		}
		var mix, jobs, scheduler, node, mode, arm any
		if a := c.Arm; a.Mix != "" {
			arm = r.Names.Scheduler(a)
			mix, jobs, scheduler, node, mode = mixCell(a, r.Names), positive(a.Jobs), schedulerCell(a, r.Names), a.Node, a.Mode
		}
		t.Add(append([]any{mix, jobs, scheduler, c.Arm.Parameters, node, mode, c.Arm.Traced, c.Limit.Metric.Name, limitCell(c), classCell(c.Class), Cell{Value: c.Text, Text: c.Short},
			fmt.Sprintf("%d, %d", c.Runs[0], c.Runs[1]), c.Runs[0], c.Runs[1], c.Limit.Metric.Unit, base, cand,
			change, low, high, p, baseCrashed, candCrashed, warnings[c.Arm], c.Arm.Probe.String(), c.Mixes, positive(c.Jobs[0]), positive(c.Jobs[1]), positive(c.Settles)}, append(sinceCells(c.Since), arm)...)...)
	}
	t.Say(sinceNotes(r)...)
	t.Say(r.Explanations()...)
	t.Say(gateNotes(r)...)
	return t
}

// limitCell is a limit, or where it is held against.
func limitCell(c regress.Check) Cell {
	out := Cell{Value: c.Limit.Bounds()}
	if c.Spread {
		out.Text = "spread"
	}
	return out
}

// classCell has a shorter word where the table's line would be too long with the class.
func classCell(c regress.Class) Cell {
	short := map[regress.Class]string{regress.EnvironmentChanged: "environment", regress.NothingMeasured: "not measured"}
	return Cell{Value: string(c), Text: short[c]}
}

// gateCell is medianCell with the short unit of throughput, so that a check has one line.
func gateCell(s stats.Summary, m results.Metric) Cell {
	c := medianCell(s, m)
	c.Text = strings.Replace(c.Text, " jobs/s", " /s", 1)
	return c
}

// gateNotes says how a gate decides, and what is doubtful about its sides.
func gateNotes(r regress.Report) []string {
	notes := []string{fmt.Sprintf("A check fails if the change is significant (Mann-Whitney, over several mixes van Elteren, of crashes a permutation test; Holm, alpha %g for all checks together) and beyond its limit.", r.Alpha)}
	if r.Simulated() {
		notes = append(notes, simulatedNote)
	}
	return append(notes, r.Notes...)
}

func warningCell(p regress.Pair) any { return given(strings.Join(p.Warnings, "; ")) }

func marked(simulated bool, title string) string {
	if simulated {
		return "SIMULATED " + title
	}
	return title
}

func schedulerOf(a results.Arm, names results.Names) string {
	if a.Traced {
		return names.Scheduler(a) + ", traced"
	}
	return names.Scheduler(a)
}

func mixCell(a results.Arm, names results.Names) Cell {
	return Cell{Value: a.Mix, Text: names.Mix(a)}
}

func schedulerCell(a results.Arm, names results.Names) Cell {
	return Cell{Value: a.Scheduler, Text: schedulerOf(a, names)}
}

func arrow(a, b string) string {
	if a == b {
		return a
	}
	return a + " → " + b
}

// MetricUnit is the unit of a metric's values.
func MetricUnit(m results.Metric) Unit {
	return map[string]Unit{"s": Seconds, "jobs/s": JobsPerSecond, "J": Joules, "bytes": Bytes, "": Ratio, "x": Factor}[m.Unit]
}

// IntervalText is "12.10 to 12.50", in the unit of the median if that is all they need.
func IntervalText(s stats.Summary, m results.Metric) string {
	if s.N == 0 || !s.Bounded() {
		return ""
	}
	u := MetricUnit(m)
	median, low, high := Human(s.Median, u), Human(s.Low, u), Human(s.High, u)
	if at := strings.LastIndex(median, " "); at >= 0 { // a factor has no unit
		unit := median[at:]
		if strings.HasSuffix(low, unit) && strings.HasSuffix(high, unit) {
			low, high = strings.TrimSuffix(low, unit), strings.TrimSuffix(high, unit)
		}
	}
	return low + " to " + high
}

func medianCell(s stats.Summary, m results.Metric) Cell {
	if s.N == 0 {
		return Cell{}
	}
	return Cell{Value: finite(s.Median), Text: Human(s.Median, MetricUnit(m))}
}

// changeText is "-5.0 %", or in percentage points.
func changeText(change float64, m results.Metric) string {
	switch {
	case math.IsNaN(change):
		return ""
	case math.IsInf(change, 0):
		return "up from 0"
	}
	unit := "%"
	if m.Absolute {
		unit = "pp"
	}
	return fmt.Sprintf("%+.1f %s", 100*change, unit)
}

func changeInterval(c stats.Comparison) any {
	if math.IsNaN(c.Change) || math.IsInf(c.Change, 0) || !c.Bounded() {
		return nil
	}
	return fmt.Sprintf("%+.1f to %+.1f", 100*c.Low, 100*c.High)
}

func pCell(p float64) Cell {
	switch {
	case math.IsNaN(p):
		return Cell{}
	case p < 0.001:
		return Cell{Value: p, Text: "<0.001"}
	}
	return Cell{Value: p, Text: fmt.Sprintf("%.3f", p)}
}

// finite is unknown for NaN and for infinities, which are bounds of nothing.
func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

// modeOf is the mode of a gate's figures, for formats without a title.
func modeOf(r regress.Report) results.Mode {
	if r.Simulated() {
		return results.Simulated
	}
	return results.Live
}
