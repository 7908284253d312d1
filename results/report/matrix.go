package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

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
	t := &Table{Title: matrixTitle(m, overMixes(m)), Name: "schedulers", Caption: captionOf(m, "The schedulers over "+mixesOf(m), "column"), Columns: append(schedulerColumns(),
		Column{Name: "mixes", Place: whereKnown(differ)}, Column{Name: "runs", Drop: 1, Class: "runs"}, Column{Name: "jobs", Place: DataOnly}, Column{Name: "jobs_crashed", Place: DataOnly},
		Column{Name: "crash_rate", Heading: "crashed", Title: "Crashed jobs", Unit: Ratio, Crashes: true})}
	for _, metric := range m.Metrics {
		switch {
		case metric.Counts():
		case metric.Absolute:
			u := MetricUnit(metric)
			t.Columns = append(t.Columns, Column{Name: MatrixColumn(metric), Heading: metric.Name, Title: metric.Title(), Unit: u},
				Column{Name: dataName(metric) + "_interval", Heading: "interval", Place: TextOnly},
				Column{Name: dataName(metric) + "_low", Unit: u, Place: DataOnly}, Column{Name: dataName(metric) + "_high", Unit: u, Place: DataOnly})
		default:
			t.Columns = append(t.Columns, Column{Name: MatrixColumn(metric), Heading: metric.Name, Title: metric.Title(), Unit: Factor},
				Column{Name: dataName(metric) + "_ratio_interval", Heading: "interval", Place: TextOnly})
			t.Columns = append(t.Columns, ratioBounds(metric)...)
		}
	}
	best := make([]float64, len(m.Metrics))
	for j := range m.Metrics {
		best[j] = bestOf(m, j, regress.Overall)
	}
	for _, s := range m.Rows {
		values := append(schedulerCells(m, s), s.Mixes, s.Runs, s.Jobs, s.Crashed, crashCell(s.Count))
		for j, metric := range m.Metrics {
			l := s.Over[j]
			switch {
			case metric.Counts():
			case metric.Absolute:
				values = append(values, inBold(RatioCell(metric, regress.Count{}, l), metric, l, best[j]), given(markBeside(l.Median, IntervalText(l.Summary, metric), ratioMark(l))), finite(l.Low), finite(l.High))
			default:
				values = append(values, inBold(RatioCell(metric, regress.Count{}, l), metric, l, best[j]), given(markBeside(l.Ratio.Value, l.Ratio.Interval(), ratioMark(l))))
				values = append(values, boundCells(metric, l)...)
			}
		}
		t.Add(values...)
	}
	t.sayMatrix(m, "The ratio of a mix is the median over all pairs of repetitions; of several mixes it is the geometric mean of the ratios of means.", false)
	return t
}

// MatrixColumn is the column of MatrixTable that has a metric: its ratio to the base, or what it is itself.
func MatrixColumn(m results.Metric) string {
	if m.Absolute {
		return dataName(m)
	}
	return dataName(m) + "_ratio"
}

// dataName is a metric in the names of columns.
func dataName(m results.Metric) string { return strings.ReplaceAll(m.Name, "-", "_") }

// levelCell is a metric that has no ratio.
func levelCell(l regress.Level, m results.Metric) Cell {
	if finite(l.Median) == nil {
		return Cell{}
	}
	return Cell{Value: l.Median, Text: Human(l.Median, MetricUnit(m)), Small: Brackets(IntervalText(l.Summary, m))}
}

// Brackets are around an interval, if there is one.
func Brackets(interval string) string {
	if interval == "" {
		return ""
	}
	return "(" + interval + ")"
}

// matrixByMix has a table for each metric: a row for each mix, a column for each scheduler. Unless
// wide, tables that are wider than Width with intervals have none.
func matrixByMix(m regress.Matrix, wide bool) []*Table {
	how, out := "In parentheses: confidence intervals.", ByMix(m, levelText)
	if !wide && slices.ContainsFunc(out, func(t *Table) bool { return !t.fits() }) {
		how, out = "-v also prints confidence intervals.", ByMix(m, levelTextAlone)
	}
	if len(out) > 0 {
		out[len(out)-1].sayMatrix(m, how, false)
	}
	return out
}

// MatrixLaTeX are the tables of a matrix for LaTeX. Intervals of the ratios by mix are left to
// figures, and shares of crashed jobs to a table of their own, because a line of text has no room for them.
func MatrixLaTeX(m regress.Matrix) []*Table {
	if len(m.Rows) < 2 {
		return []*Table{matrixCells(m)}
	}
	tables := []*Table{MatrixTable(m)}
	for _, t := range ByMix(m, func(of results.Metric, c regress.Count, l regress.Level) Cell {
		if !of.Counts() {
			c = regress.Count{}
		}
		return levelTextAlone(of, c, l)
	}) {
		tables = append(tables, t.turned())
	}
	return append(tables, matrixCells(m))
}

// ByMix has a table for each metric: a row for each mix, and a last one over several mixes; a column for each scheduler.
func ByMix(m regress.Matrix, cell func(results.Metric, regress.Count, regress.Level) Cell) []*Table {
	var out []*Table
	for j, metric := range m.Metrics {
		what := fmt.Sprintf("%s, ratio to %s by mix", metric.Name, m.Base().Name)
		switch {
		case metric.Counts():
			what = "crashed jobs by mix"
		case metric.Absolute:
			what = metric.Name + " by mix"
		}
		t := &Table{Title: matrixTitle(m, what), Name: "by-mix-" + metric.Name, Caption: captionOf(m, byMixWords(m, metric), "row"), Columns: []Column{{Name: "mix"}}}
		best := make([]float64, len(m.Mixes)+1) // of each row
		for i := range m.Mixes {
			best[i] = bestOf(m, j, i)
		}
		best[len(m.Mixes)] = bestOf(m, j, regress.Overall)
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
				cells[i] = append(cells[i], inBold(cell(metric, c.Count, c.Levels[j]), metric, c.Levels[j], best[i]))
			}
			cells[len(m.Mixes)] = append(cells[len(m.Mixes)], inBold(cell(metric, s.Count, s.Over[j]), metric, s.Over[j], best[len(m.Mixes)]))
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

// matrixCells has a row for each scheduler of each mix, with medians and with ratios to the base.
func matrixCells(m regress.Matrix) *Table {
	t := &Table{Title: matrixTitle(m, "medians by mix"), Name: "medians", Caption: captionOf(m, "Medians over the runs of each scheduler and mix", ""), Columns: slices.Concat(
		[]Column{{Name: "mix"}, {Name: "jobs_of_mix", Place: DataOnly}}, schedulerColumns(),
		[]Column{{Name: "runs"}, {Name: "jobs", Place: DataOnly}, {Name: "jobs_crashed", Place: DataOnly}, {Name: "crash_rate", Heading: "crashed", Unit: Ratio}})}
	for _, metric := range m.Metrics {
		if metric.Counts() {
			continue
		}
		u := MetricUnit(metric)
		t.Columns = append(t.Columns, Column{Name: dataName(metric), Heading: metric.Name, Unit: u}, Column{Name: dataName(metric) + "_interval", Heading: "interval", Place: TextOnly, Drop: 2},
			Column{Name: dataName(metric) + "_low", Unit: u, Place: DataOnly}, Column{Name: dataName(metric) + "_high", Unit: u, Place: DataOnly})
		if !metric.Absolute {
			t.Columns = append(append(t.Columns, Column{Name: dataName(metric) + "_ratio", Place: DataOnly}), ratioBounds(metric)...)
		}
	}
	for i, batch := range m.Mixes {
		for _, s := range m.Rows {
			c := s.Cells[i]
			if c.Runs == 0 {
				continue
			}
			values := append([]any{mixCell(batch, m.Names), batch.Jobs}, schedulerCells(m, s)...)
			values = append(values, c.Runs, c.Jobs, c.Crashed, c.CrashRate())
			for j, metric := range m.Metrics {
				if metric.Counts() {
					continue
				}
				l := c.Levels[j]
				values = append(values, finite(l.Median), given(markBeside(l.Median, IntervalText(l.Summary, metric), survivorsMark(l.Survivors))), finite(l.Low), finite(l.High))
				if !metric.Absolute {
					values = append(append(values, finite(l.Ratio.Value)), boundCells(metric, l)...)
				}
			}
			t.Add(values...)
		}
	}
	t.sayMatrix(m, "Medians over runs, with their intervals, which take 6 runs.", true)
	return t
}

// schedulerColumns name the scheduler of a row, and in data the node.
func schedulerColumns() []Column {
	return []Column{{Name: "scheduler"}, {Name: "parameters", Place: DataOnly},
		{Name: "probe", Place: DataOnly}, {Name: "node", Place: DataOnly}, {Name: "mode", Place: DataOnly}, {Name: "traced", Place: DataOnly}, {Name: "base", Place: DataOnly}, {Name: "arm", Place: DataOnly}}
}

func schedulerCells(m regress.Matrix, s regress.Standing) []any {
	return []any{Cell{Value: s.Arm.Scheduler, Text: standingName(s)}, s.Arm.Parameters, s.Arm.Probe.String(), m.Of.Node, m.Of.Mode, m.Of.Traced, m.Base().Name, s.Name}
}

func standingName(s regress.Standing) string {
	if s.Base {
		return s.Name + " (base)"
	}
	return s.Name
}

// ratioBounds are the data columns behind a metric's ratio to the base.
func ratioBounds(m results.Metric) []Column {
	columns := []Column{{Name: dataName(m) + "_ratio_low", Place: DataOnly}, {Name: dataName(m) + "_ratio_high", Place: DataOnly}, {Name: dataName(m) + "_not_comparable", Place: DataOnly}}
	if m.OfSurvivors {
		columns = append(columns, Column{Name: dataName(m) + "_survivors_only", Place: DataOnly})
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
func withMark(text, mark string) string {
	if text == "" {
		return ""
	}
	return text + mark
}

// markBeside marks the interval of a value. A value without an interval has the mark alone beside it.
func markBeside(value float64, interval, mark string) string {
	if interval == "" && finite(value) != nil {
		return mark
	}
	return withMark(interval, mark)
}

// levelText is a metric of one scheduler, as "1.84× (1.82 to 1.86)". Throughput names the share of
// jobs that crashed.
func levelText(m results.Metric, c regress.Count, l regress.Level) Cell {
	switch {
	case m.Counts() && c.Jobs > 0:
		return Cell{Value: Human(*c.CrashRate(), Ratio)}
	case m.Absolute:
		c := levelCell(l, m)
		if c.Value == nil {
			return Cell{}
		}
		return Cell{Value: strings.TrimSpace(c.Text+" "+c.Small) + ratioMark(l)}
	case math.IsNaN(l.Ratio.Value):
		return Cell{}
	}
	text := l.Ratio.String()
	if m.HigherIsBetter && c.Crashed > 0 {
		text += ", " + Human(*c.CrashRate(), Ratio) + " crashed"
	}
	return Cell{Value: text + ratioMark(l)}
}

// levelTextAlone is levelText without the interval.
func levelTextAlone(m results.Metric, c regress.Count, l regress.Level) Cell {
	l.Low, l.Ratio.Low = math.Inf(-1), math.Inf(-1)
	return levelText(m, c, l)
}

// RatioCell is a metric's ratio to the base, with what takes value from it in words. Throughput alone gains from crashed
// jobs, so it names their share.
func RatioCell(m results.Metric, c regress.Count, l regress.Level) Cell {
	out := Cell{Value: finite(l.Ratio.Value), Small: Brackets(l.Ratio.Interval())}
	if m.Absolute {
		out = levelCell(l, m)
	}
	var doubts []string
	switch {
	case out.Value == nil:
		return Cell{}
	case m.HigherIsBetter && !m.Absolute && c.Crashed > 0:
		doubts = append(doubts, "✕ "+Human(*c.CrashRate(), Ratio)+" crashed")
	case l.Survivors:
		doubts = append(doubts, "survivors only")
	}
	if l.LostMore {
		doubts = append(doubts, "not comparable")
	}
	out.Doubt = strings.Join(doubts, ", ")
	return out
}

func crashCell(c regress.Count) Cell {
	out := Cell{Value: c.CrashRate()}
	if c.Jobs > 0 {
		out.Small = fmt.Sprintf("%d of %d", c.Crashed, c.Jobs)
	}
	return out
}

func matrixTitle(m regress.Matrix, what string) string {
	return marked(m.Simulated(), fmt.Sprintf("%s on %s: %s", m.Label, m.Place(), what))
}

// captionOf is a title in words. best says of what the best is in bold, if it is.
func captionOf(m regress.Matrix, what, best string) string {
	where := ", measured on " + m.Place()
	if m.Simulated() {
		where = ", SIMULATED on " + m.Place()
	}
	where += ": " + m.Label + "."
	if best != "" {
		where += " The best of each " + best + " is in bold."
	}
	return what + where
}

func mixesOf(m regress.Matrix) string {
	if len(m.Mixes) == 1 {
		return "the mix " + m.Names.Mix(m.Mixes[0]) + ", with ratios to " + m.Base().Name
	}
	return fmt.Sprintf("%d mixes, with geometric means of the ratios to %s", len(m.Mixes), m.Base().Name)
}

// byMixWords say what a table by mix has of a metric.
func byMixWords(m regress.Matrix, metric results.Metric) string {
	direction := "lower"
	if metric.HigherIsBetter {
		direction = "higher"
	}
	switch {
	case metric.Counts():
		return "Share of the jobs that crashed, by mix and scheduler (lower is better)"
	case metric.Absolute:
		return fmt.Sprintf("%s by mix and scheduler (%s is better)", metric.Title(), direction)
	}
	return fmt.Sprintf("%s by mix and scheduler, as a ratio to that under %s (%s is better)", metric.Title(), m.Base().Name, direction)
}

// bestOf is the best number of a metric in a mix or over all. It is NaN if the comparable schedulers do not differ.
func bestOf(m regress.Matrix, metric, mix int) float64 {
	ranked := m.Ranked(metric, mix)
	if len(ranked) == 0 {
		return math.NaN()
	}
	figure := func(row int) float64 { return m.Level(row, mix, metric).Figure(m.Metrics[metric]) }
	best := figure(ranked[0])
	if best == figure(ranked[len(ranked)-1]) {
		return math.NaN()
	}
	return best
}

// inBold marks the best of its like.
func inBold(c Cell, metric results.Metric, l regress.Level, best float64) Cell {
	c.Best = !metric.Counts() && !l.LostMore && l.Figure(metric) == best
	return c
}

// overMixes says what the ratios of a matrix are over.
func overMixes(m regress.Matrix) string {
	if len(m.Mixes) == 1 {
		return fmt.Sprintf("%s, ratios to %s", m.Names.Mix(m.Mixes[0]), m.Base().Name)
	}
	return fmt.Sprintf("%d mixes, geometric means of ratios to %s", len(m.Mixes), m.Base().Name)
}

// sayMatrix explains a table. Beside ratios it may have medians, which have no mark of the base's jobs.
func (t *Table) sayMatrix(m regress.Matrix, how string, medians bool) {
	note := fmt.Sprintf("%s Intervals are at %g %%. crashed: share of the jobs of all runs.", how, 100*(1-m.Alpha))
	var levels []string
	for _, metric := range m.Metrics {
		if metric.Absolute && !metric.Counts() {
			levels = append(levels, metric.Name)
		}
	}
	if len(levels) > 0 {
		note += fmt.Sprintf(" Not ratios: %s. Over several mixes they are means of the mixes' means.", strings.Join(levels, ", "))
	}
	t.Say(note)
	if anyLevel(m, func(l regress.Level) bool {
		return l.Survivors && (medians && finite(l.Median) != nil || !l.LostMore && finite(l.Ratio.Value) != nil)
	}) {
		t.Say(SurvivorsNote("here or under the base"))
	}
	if anyLevel(m, func(l regress.Level) bool { return l.LostMore }) {
		t.Say(lostMoreNote)
	}
	if m.Simulated() {
		t.Say(simulatedNote)
	}
	t.Say(m.Notes...)
}

// anyLevel reports whether a level of any mix or over the mixes is so.
func anyLevel(m regress.Matrix, is func(regress.Level) bool) bool {
	return slices.ContainsFunc(m.Rows, func(s regress.Standing) bool {
		return slices.ContainsFunc(s.Over, is) || slices.ContainsFunc(s.Cells, func(c regress.Cell) bool { return slices.ContainsFunc(c.Levels, is) })
	})
}

// MatrixTables show a matrix in a format: a row for each scheduler, or if byMix the ratios of each mix.
func MatrixTables(m regress.Matrix, f Format, byMix, wide bool) []*Table {
	switch {
	case !byMix:
		return []*Table{MatrixTable(m)}
	case f.Data():
		return []*Table{matrixCells(m)}
	}
	return matrixByMix(m, wide || f == Markdown)
}
