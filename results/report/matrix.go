package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
)

// SurvivorsMark is behind figures that are others because jobs crashed.
const SurvivorsMark = "†"

// SurvivorsNote explains the mark. where says whose jobs crashed.
func SurvivorsNote(where string) string {
	return SurvivorsMark + " survivors only: jobs crashed " + where + ". Turnaround is of the jobs that ended ok. Makespan, throughput and energy are of less work than the mix has."
}

// lostMoreMark is behind ratios that are not comparable: see regress.Level.LostMore.
const lostMoreMark = "‡"

// lostMoreNote explains the mark.
const lostMoreNote = lostMoreMark + " survivors only, and not comparable: of the scheduler and the base, the one that looks better lost significantly more jobs."

// MatrixTable has a row for each scheduler: its metrics over all mixes, as ratios to the base.
func MatrixTable(m regress.Matrix) *Table {
	differ := slices.ContainsFunc(m.Rows, func(s regress.Standing) bool { return s.Mixes != len(m.Mixes) })
	mixesPlace := DataOnly
	if differ {
		mixesPlace = Everywhere
	}
	t := &Table{Title: matrixTitle(m, overMixes(m)), Columns: append(schedulerColumns(),
		Column{Name: "mixes", Place: mixesPlace}, Column{Name: "runs", Drop: 1}, Column{Name: "jobs", Place: DataOnly}, Column{Name: "jobs_crashed", Place: DataOnly},
		Column{Name: "crash_rate", Heading: "crashed", Unit: Ratio})}
	for _, metric := range m.Metrics {
		switch {
		case metric.Counts():
		case metric.Absolute:
			t.Columns = append(t.Columns, Column{Name: metric.Name, Unit: Ratio})
		default:
			t.Columns = append(t.Columns, Column{Name: metric.Name + "_ratio", Heading: metric.Name, Unit: Factor},
				Column{Name: metric.Name + "_ratio_interval", Heading: "interval", Place: TextOnly})
			t.Columns = append(t.Columns, ratioBounds(metric)...)
		}
	}
	for _, s := range m.Rows {
		values := append(schedulerCells(m, s), s.Mixes, s.Runs, s.Jobs, s.Crashed, s.CrashRate())
		for j, metric := range m.Metrics {
			l := s.Over[j]
			switch {
			case metric.Counts():
			case metric.Absolute:
				values = append(values, finite(l.Median))
			default:
				values = append(values, finite(l.Ratio.Value), markBeside(l.Ratio.Value, ratioInterval(l.Ratio), ratioMark(l)))
				values = append(values, boundCells(metric, l)...)
			}
		}
		t.Add(values...)
	}
	t.Notes = matrixNotes(m, "The ratio of a mix is the median over all pairs of repetitions; of several mixes it is the geometric mean of the ratios of means.", false)
	return t
}

// MatrixByMix has a table for each metric: a row for each mix, a column for each scheduler. Unless
// wide, tables that are wider than Width with intervals have none.
func MatrixByMix(m regress.Matrix, wide bool) []*Table {
	how, intervals := "In parentheses: confidence intervals.", true
	out := byMix(m, intervals)
	if !wide && slices.ContainsFunc(out, func(t *Table) bool { return !t.fits() }) {
		how, intervals = "-v also prints confidence intervals.", false
		out = byMix(m, intervals)
	}
	if len(out) > 0 {
		out[len(out)-1].Notes = matrixNotes(m, how, false)
	}
	return out
}

// MatrixLaTeX are the tables of a matrix for LaTeX. Intervals of the ratios by mix are left to
// figures, because a line of text has no room for them.
func MatrixLaTeX(m regress.Matrix) []*Table {
	if len(m.Rows) < 2 {
		return []*Table{MatrixCells(m)}
	}
	return append(append([]*Table{MatrixTable(m)}, byMix(m, false)...), MatrixCells(m))
}

func byMix(m regress.Matrix, intervals bool) []*Table {
	var out []*Table
	for j, metric := range m.Metrics {
		what := fmt.Sprintf("%s, ratio to %s by mix", metric.Name, m.Base().Name)
		switch {
		case metric.Counts():
			what = "crashed jobs by mix"
		case metric.Absolute:
			what = metric.Name + " by mix"
		}
		t := &Table{Title: matrixTitle(m, what), Columns: []Column{{Name: "mix"}}}
		cells := make([][]any, len(m.Mixes)+1)
		for i, batch := range m.Mixes {
			cells[i] = []any{m.Names.Mix(batch)}
		}
		cells[len(m.Mixes)] = []any{"geometric mean"}
		if metric.Absolute {
			cells[len(m.Mixes)] = []any{"all mixes"}
		}
		for _, s := range m.Rows {
			t.Columns = append(t.Columns, Column{Name: standingName(s)})
			for i, c := range s.Cells {
				cells[i] = append(cells[i], levelText(metric, c.Count, c.Levels[j], intervals))
			}
			cells[len(m.Mixes)] = append(cells[len(m.Mixes)], levelText(metric, s.Count, s.Over[j], intervals))
		}
		if len(m.Mixes) == 1 {
			cells = cells[:1]
		}
		for _, row := range cells {
			t.Add(row...)
		}
		out = append(out, t)
	}
	return out
}

// MatrixCells has a row for each scheduler of each mix, with medians and with ratios to the base.
func MatrixCells(m regress.Matrix) *Table {
	t := &Table{Title: matrixTitle(m, "medians by mix"), Columns: slices.Concat(
		[]Column{{Name: "mix_text", Heading: "mix", Place: TextOnly}, {Name: "mix", Place: DataOnly}, {Name: "jobs_of_mix", Place: DataOnly}}, schedulerColumns(),
		[]Column{{Name: "runs"}, {Name: "jobs", Place: DataOnly}, {Name: "jobs_crashed", Place: DataOnly}, {Name: "crash_rate", Heading: "crashed", Unit: Ratio}})}
	for _, metric := range m.Metrics {
		if metric.Counts() {
			continue
		}
		u := MetricUnit(metric)
		t.Columns = append(t.Columns, Column{Name: metric.Name, Unit: u}, Column{Name: metric.Name + "_interval", Heading: "interval", Place: TextOnly, Drop: 2},
			Column{Name: metric.Name + "_low", Unit: u, Place: DataOnly}, Column{Name: metric.Name + "_high", Unit: u, Place: DataOnly})
		if !metric.Absolute {
			t.Columns = append(append(t.Columns, Column{Name: metric.Name + "_ratio", Place: DataOnly}), ratioBounds(metric)...)
		}
	}
	for i, batch := range m.Mixes {
		for _, s := range m.Rows {
			c := s.Cells[i]
			if c.Runs == 0 {
				continue
			}
			values := append([]any{m.Names.Mix(batch), batch.Mix, batch.Jobs}, schedulerCells(m, s)...)
			values = append(values, c.Runs, c.Jobs, c.Crashed, c.CrashRate())
			for j, metric := range m.Metrics {
				if metric.Counts() {
					continue
				}
				l := c.Levels[j]
				values = append(values, finite(l.Median), markBeside(l.Median, intervalText(l.Summary, metric), survivorsMark(l.Survivors)), finite(l.Low), finite(l.High))
				if !metric.Absolute {
					values = append(append(values, finite(l.Ratio.Value)), boundCells(metric, l)...)
				}
			}
			t.Add(values...)
		}
	}
	t.Notes = matrixNotes(m, "Medians over runs, with their intervals, which take 6 runs.", true)
	return t
}

// schedulerColumns name the scheduler of a row, and in data the node.
func schedulerColumns() []Column {
	return []Column{{Name: "scheduler_text", Heading: "scheduler", Place: TextOnly}, {Name: "scheduler", Place: DataOnly}, {Name: "parameters", Place: DataOnly},
		{Name: "probe", Place: DataOnly}, {Name: "node", Place: DataOnly}, {Name: "mode", Place: DataOnly}, {Name: "traced", Place: DataOnly}, {Name: "base", Place: DataOnly}}
}

func schedulerCells(m regress.Matrix, s regress.Standing) []any {
	return []any{standingName(s), s.Arm.Scheduler, s.Arm.Parameters, s.Arm.Probe.String(), m.Of.Node, m.Of.Mode, m.Of.Traced, m.Base().Name}
}

func standingName(s regress.Standing) string {
	if s.Base {
		return s.Name + " (base)"
	}
	return s.Name
}

// ratioBounds are the data columns behind a metric's ratio to the base.
func ratioBounds(m results.Metric) []Column {
	columns := []Column{{Name: m.Name + "_ratio_low", Place: DataOnly}, {Name: m.Name + "_ratio_high", Place: DataOnly}, {Name: m.Name + "_not_comparable", Place: DataOnly}}
	if m.OfSurvivors {
		columns = append(columns, Column{Name: m.Name + "_survivors_only", Place: DataOnly})
	}
	return columns
}

func boundCells(m results.Metric, l regress.Level) []any {
	cells := []any{finite(l.Ratio.Low), finite(l.Ratio.High), l.LostMore}
	if m.OfSurvivors {
		cells = append(cells, l.Survivors)
	}
	return cells
}

// RatioText is "1.84", with as many digits as a small ratio needs.
func RatioText(v float64) string {
	if v != 0 && math.Abs(v) < 0.1 {
		return fmt.Sprintf("%.2g", v)
	}
	return Human(v, Factor)
}

// ratioInterval is "1.82 to 1.86".
func ratioInterval(r regress.Ratio) any {
	if !r.Bounded() {
		return nil
	}
	return RatioText(r.Low) + " to " + RatioText(r.High)
}

// survivorsMark is the mark of a value that is of survivors only, and empty for others.
func survivorsMark(survivors bool) string {
	if survivors {
		return SurvivorsMark
	}
	return ""
}

// ratioMark is the mark of a ratio to the base.
func ratioMark(l regress.Level) string {
	if l.LostMore {
		return lostMoreMark
	}
	return survivorsMark(l.Survivors)
}

// withMark marks a value. Where there is no value, there is no mark.
func withMark(text any, mark string) any {
	if mark == "" || text == nil {
		return text
	}
	return fmt.Sprint(text, mark)
}

// markBeside marks the interval of a value. A value without an interval has the mark alone beside it.
func markBeside(value float64, interval any, mark string) any {
	if interval == nil && mark != "" && finite(value) != nil {
		return mark
	}
	return withMark(interval, mark)
}

// levelText is a metric of one scheduler, as "1.84× (1.82 to 1.86)". Throughput names the share of
// jobs that crashed.
func levelText(m results.Metric, c regress.Count, l regress.Level, intervals bool) any {
	switch {
	case m.Counts() && c.Jobs > 0:
		return Human(*c.CrashRate(), Ratio)
	case m.Absolute && !math.IsNaN(l.Median):
		return Human(l.Median, Ratio)
	case math.IsNaN(l.Ratio.Value):
		return nil
	}
	text := RatioText(l.Ratio.Value) + "×"
	if interval, known := ratioInterval(l.Ratio).(string); known && intervals {
		text += " (" + interval + ")"
	}
	if m.HigherIsBetter && c.Crashed > 0 {
		text += ", " + Human(*c.CrashRate(), Ratio) + " crashed"
	}
	return withMark(text, ratioMark(l))
}

func matrixTitle(m regress.Matrix, what string) string {
	return marked(m.Simulated(), fmt.Sprintf("%s on %s: %s", m.Label, m.Place(), what))
}

// overMixes says what the ratios of a matrix are over.
func overMixes(m regress.Matrix) string {
	if len(m.Mixes) == 1 {
		return fmt.Sprintf("%s, ratios to %s", m.Names.Mix(m.Mixes[0]), m.Base().Name)
	}
	return fmt.Sprintf("%d mixes, geometric means of ratios to %s", len(m.Mixes), m.Base().Name)
}

// matrixNotes explains a table. Beside ratios it may have medians, which have no mark of the base's jobs.
func matrixNotes(m regress.Matrix, how string, medians bool) []Note {
	notes := []Note{{Text: fmt.Sprintf("%s Intervals are at %g %%. crashed: share of the jobs of all runs.", how, 100*(1-m.Alpha))}}
	if anyLevel(m, func(l regress.Level) bool {
		return l.Survivors && (medians && finite(l.Median) != nil || !l.LostMore && finite(l.Ratio.Value) != nil)
	}) {
		notes = append(notes, Note{Text: SurvivorsNote("here or under the base")})
	}
	if anyLevel(m, func(l regress.Level) bool { return l.LostMore }) {
		notes = append(notes, Note{Text: lostMoreNote})
	}
	if m.Simulated() {
		notes = append(notes, Note{Text: simulatedNote})
	}
	for _, n := range m.Notes {
		notes = append(notes, Note{Text: n})
	}
	return notes
}

// anyLevel reports whether a level of any mix or over the mixes is so.
func anyLevel(m regress.Matrix, is func(regress.Level) bool) bool {
	return slices.ContainsFunc(m.Rows, func(s regress.Standing) bool {
		return slices.ContainsFunc(s.Over, is) || slices.ContainsFunc(s.Cells, func(c regress.Cell) bool { return slices.ContainsFunc(c.Levels, is) })
	})
}
