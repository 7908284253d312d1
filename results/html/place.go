package html

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
)

// place has what ran on one node, live or simulated, traced or not. It begins with what a reader wants to know: which
// scheduler is best, by how much, and why.
type place struct {
	Title     string
	Simulated bool
	Result    string   // in a sentence
	Beside    []string // what else to know of it
	Tiles     []tile
	Jobs      *jobsFigure
	Bars      []barFigure // beside Jobs
	More      []barFigure
	Over      *report.Table   // nil: one scheduler alone
	ByMix     []*report.Table // of each metric
	Notes     []string
	runs      int
}

// tile is a metric of the best scheduler and of the base.
type tile struct {
	Name  string
	Ratio string // "2.44×"; empty: there is none
	Small string // its interval
	Arrow string
	Word  string // what the ratio is for the best
	Lines []tileLine
}

// barFigure is a metric of all schedulers and mixes as bars.
type barFigure struct {
	Title, Hint string
	SVG         template.HTML
}

type tileLine struct {
	Arm  armName
	Text string
	Base bool
}

// barsBeside is how many figures of bars are beside the jobs.
const barsBeside = 2

// newPlaces lays out each matrix, and gives the mixes that are below their jobs over time.
func newPlaces(ctx context.Context, source Source, ms []regress.Matrix, groups []group, devices map[int64][]results.Device, a *arms) ([]place, error) {
	var out []place
	draws := painter{ctx, source, ms, devices, maxPictured}
	for _, m := range ms {
		p := place{Title: line(m.Place()), Simulated: m.Simulated(), Notes: lines(m.Notes)}
		for _, row := range m.Rows {
			p.runs += row.Runs
		}
		s := stand(m)
		p.Result, p.Beside = s.says()
		p.Tiles = tiles(s, a)
		if len(m.Rows) > 1 {
			p.Over, p.ByMix = tablesOf(m, a)
			drawn := barsOf(m, a)
			beside := min(barsBeside, len(drawn))
			p.Bars, p.More = drawn[:beside], drawn[beside:]
		}
		if g := widest(m, groups); g != nil {
			var err error
			if p.Jobs, err = draws.jobs(g, len(p.Bars) == 0); err != nil {
				return nil, err
			}
		}
		out = append(out, p)
	}
	// A node with something to compare comes before one with a scheduler alone, and one of a month before one of a night.
	slices.SortStableFunc(out, func(a, b place) int {
		return cmp.Or(min(1, len(b.Bars))-min(1, len(a.Bars)), b.runs-a.runs)
	})
	for i := range groups {
		g := &groups[i]
		at := slices.IndexFunc(ms, func(m regress.Matrix) bool { return m.Of == g.arm.WithoutMix() })
		if at >= 0 && widest(ms[at], groups) == g {
			continue
		}
		var err error
		if g.Jobs, err = draws.jobs(g, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// barsOf are the figures of a matrix, which an export has too.
func barsOf(m regress.Matrix, a *arms) (out []barFigure) {
	for _, f := range figures.OfMatrix(m, a.order) {
		of := results.MetricNamed(f.ID)
		b := barFigure{Title: of.Title(), Hint: map[bool]string{true: "more", false: "less"}[of.HigherIsBetter] + " is better", SVG: template.HTML(figures.Inline(f))} //nolint:gosec // our own drawing
		switch {
		case of.Counts():
			b.Title = "Crashed jobs"
		case !of.Absolute:
			b.Hint = "ratio to " + line(m.Base().Name) + ", " + b.Hint
		}
		out = append(out, b)
	}
	return out
}

// widest is the mix of a matrix in which throughput differs most from the base's.
func widest(m regress.Matrix, groups []group) *group {
	var out *group
	most := -1.0
	for i := range groups {
		g := &groups[i]
		if g.arm.WithoutMix() != m.Of {
			continue
		}
		differs := 0.0
		for _, of := range g.members {
			if l := regress.LevelOf([]regress.Matrix{m}, results.ArmOf(of.runs[0]), shownMetrics[0]); !l.LostMore && l.Ratio.Value > 0 {
				differs = max(differs, math.Abs(math.Log(l.Ratio.Value)))
			}
		}
		if differs > most {
			out, most = g, differs
		}
	}
	return out
}

// painter draws jobs over time while the page has room for them.
type painter struct {
	ctx     context.Context
	source  Source
	ms      []regress.Matrix
	devices map[int64][]results.Device
	room    int // jobs
}

// jobs draws the jobs of a mix over time, of each arm those of the run with the median makespan. The first mix is drawn whatever
// its size.
func (p *painter) jobs(g *group, wide bool) (*jobsFigure, error) {
	var drawn []pictured
	for _, m := range g.members {
		run, jobs := m.middle()
		if p.room -= len(jobs); p.room < 0 && p.room+len(jobs) < maxPictured && len(drawn) == 0 {
			g.Notes = append(g.Notes, "To keep the page small, it lacks the jobs over time of this mix: caserun report --mix "+line(g.arm.Mix)+" --html FILE has them.")
			return nil, nil
		}
		tasks, err := p.source.Tasks(p.ctx, run.ID)
		if err != nil {
			return nil, err
		}
		one := pictured{records: records{run: run, jobs: jobs, devices: p.devices[run.ID], tasks: tasks}, arm: m.name}
		if r := regress.LevelOf(p.ms, results.ArmOf(run), shownMetrics[0]).Ratio; len(g.members) > 1 && !math.IsNaN(r.Value) {
			one.ratio = regress.RatioText(r.Value) + "×"
		}
		drawn = append(drawn, one)
	}
	return newJobsFigure(line(g.arm.Mix), drawn, wide), nil
}

// standing says which schedulers of a matrix are to be shown first.
type standing struct {
	m      regress.Matrix
	metric int // of throughput in the matrix; -1: it has none
	best   int // row; -1: none can be called so
	other  int // row to which it is compared: the base, or if that is the best the next; -1: there is none
	next   int // row behind the best that is not the base; -1: there is none
}

// stand finds the row with the highest throughput, among those that ran every mix and whose figures are comparable
// with the base's.
func stand(m regress.Matrix) standing {
	s := standing{m: m, best: -1, other: -1, next: -1}
	s.metric = slices.IndexFunc(m.Metrics, func(of results.Metric) bool { return of.Name == shownMetrics[0].Name })
	if s.metric < 0 || len(m.Rows) < 2 {
		return s
	}
	var order []int
	for i, row := range m.Rows {
		if l := row.Over[s.metric]; row.Mixes == len(m.Mixes) && !l.LostMore && !math.IsNaN(l.Ratio.Value) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := m.Rows[a].Over[s.metric].Ratio.Value, m.Rows[b].Over[s.metric].Ratio.Value
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return a - b
	})
	if len(order) == 0 || order[0] == 0 && s.contested() {
		return s
	}
	s.best = order[0]
	for _, i := range order[1:] {
		if i != 0 && s.next < 0 {
			s.next = i
		}
	}
	if s.other = 0; s.best == 0 {
		s.other = s.next
	}
	return s
}

// contested reports whether the base lost significantly more jobs than a scheduler that seems worse.
func (s standing) contested() bool {
	return slices.ContainsFunc(s.m.Rows, func(row regress.Standing) bool {
		l := row.Over[s.metric]
		return l.LostMore && l.Ratio.Value < 1
	})
}

// level is a metric of a row: of the mix if there is one alone, else over all mixes.
func (s standing) level(row, metric int) regress.Level {
	if len(s.m.Mixes) == 1 {
		return s.m.Rows[row].Cells[0].Levels[metric]
	}
	return s.m.Rows[row].Over[metric]
}

func (s standing) name(row int) string { return line(s.m.Rows[row].Name) }

// says is the result in a sentence, and what else a reader must know of it.
func (s standing) says() (result string, beside []string) {
	if len(s.m.Rows) == 1 {
		return line(s.m.Rows[0].Name) + " alone", nil
	}
	if s.metric < 0 {
		return "Nothing to compare: no run has a throughput", nil
	}
	base, over := s.name(0), ""
	if n := len(s.m.Mixes); n > 1 {
		over = fmt.Sprintf(" over %d mixes", n)
	} else if n == 1 {
		over = " on " + line(s.m.Names.Mix(s.m.Mixes[0]))
	}
	ratio := func(row int) string { return s.level(row, s.metric).Ratio.String() }
	switch {
	case s.best < 0:
		result = "No scheduler can be called best: figures are not comparable, because jobs crashed"
	case s.best == 0 && s.other < 0:
		result = fmt.Sprintf("%s, the base, is the only scheduler whose figures are comparable", base)
	case s.best == 0:
		result = fmt.Sprintf("%s, the base, is best%s", base, over)
		beside = append(beside, fmt.Sprintf("Next is %s, with %s its throughput", s.name(s.next), ratio(s.next)))
	default:
		verb := "is best"
		if _, word := judge(s.level(s.best, s.metric).Ratio, true); word != string(stats.Better) {
			verb = "is ahead, perhaps by chance"
		}
		result = fmt.Sprintf("%s %s: %s the throughput of %s%s", s.name(s.best), verb, ratio(s.best), base, over)
		if s.next > 0 {
			beside = append(beside, fmt.Sprintf("Next is %s, with %s", s.name(s.next), ratio(s.next)))
		}
	}
	var lost []string
	for i, row := range s.m.Rows {
		if s.level(i, s.metric).LostMore {
			lost = append(lost, fmt.Sprintf("%s (%s crashed)", line(row.Name), report.Human(*row.CrashRate(), report.Ratio)))
		}
	}
	if len(lost) > 0 {
		beside = append(beside, fmt.Sprintf("Not comparable with %s, because one of the two lost more jobs: %s", base, strings.Join(lost, ", ")))
	}
	return result, beside
}

// judge is what a ratio is for a reader: its direction, and whether its interval shows that it is good.
func judge(r regress.Ratio, higherIsBetter bool) (arrow, word string) {
	const least = stats.DefaultMinEffect
	arrow = arrowOf(r.Value)
	switch {
	case !r.Bounded():
		return arrow, string(stats.Inconclusive)
	case r.Low > 1-least && r.High < 1+least:
		return arrow, string(stats.Same)
	case r.Low > 1 && r.Value >= 1+least, r.High < 1 && r.Value <= 1-least:
		if r.Value > 1 == higherIsBetter {
			return arrow, string(stats.Better)
		}
		return arrow, string(stats.Worse)
	}
	return arrow, string(stats.Inconclusive)
}

// arrowOf shows whether a ratio is of a larger or of a smaller number.
func arrowOf(ratio float64) string {
	switch text := regress.RatioText(ratio); {
	case text == "1.00":
		return "="
	case ratio > 1:
		return "▲"
	}
	return "▼"
}

// tiles show throughput, turnaround and crashed jobs of the best scheduler beside the base, or of a scheduler that is
// alone.
func tiles(s standing, a *arms) []tile {
	rows := []int{s.best, s.other}
	if s.best < 0 || s.other < 0 {
		if len(s.m.Rows) > 1 {
			return nil
		}
		rows = []int{0}
	}
	if len(s.m.Mixes) == 0 {
		return nil
	}
	compared := rows[0] // the one that is not the base
	if compared == 0 && len(rows) > 1 {
		compared = rows[1]
	}
	var out []tile
	for _, of := range shownMetrics[:judged] {
		at := slices.IndexFunc(s.m.Metrics, func(m results.Metric) bool { return m.Name == of.Name })
		if at < 0 {
			continue
		}
		t := tile{Name: of.Title()}
		if r := s.level(compared, at).Ratio; len(rows) > 1 && !math.IsNaN(r.Value) {
			t.Ratio, t.Small = regress.RatioText(r.Value)+"×", report.Brackets(r.Interval())
			t.Arrow, t.Word = judge(r, of.HigherIsBetter)
		}
		for _, row := range rows {
			t.add(s, row, report.Human(s.level(row, at).Median, report.MetricUnit(of)), a)
		}
		out = append(out, t)
	}
	return append(out, crashTile(s, rows, a))
}

func (t *tile) add(s standing, row int, text string, a *arms) {
	t.Lines = append(t.Lines, tileLine{a.names[a.order.Number(s.m.Rows[row].Arm)], text, s.m.Rows[row].Base && len(s.m.Rows) > 1})
}

func crashTile(s standing, rows []int, a *arms) tile {
	t := tile{Name: "Crashed jobs"}
	for _, row := range rows {
		c := s.m.Rows[row].Count
		t.add(s, row, fmt.Sprintf("%d of %d", c.Crashed, c.Jobs), a)
	}
	x, y := s.m.Rows[rows[0]].CrashRate(), s.m.Rows[rows[len(rows)-1]].CrashRate()
	if x == nil || y == nil || len(rows) == 1 {
		return t
	}
	t.Ratio, t.Arrow, t.Word = report.Human(*x, report.Ratio), "=", string(stats.Same)
	switch {
	case *x > *y:
		t.Arrow, t.Word = "▲", string(stats.Worse)
	case *x < *y:
		t.Arrow, t.Word = "▼", string(stats.Better)
	}
	if *x != *y {
		t.Small = fmt.Sprintf("(%+.1f points)", 100*(*x-*y))
	}
	return t
}

// tablesOf are the tables of a matrix: over all mixes, and mixes against schedulers.
func tablesOf(m regress.Matrix, a *arms) (over *report.Table, byMix []*report.Table) {
	base := line(m.Base().Name)
	columns := []string{"scheduler", "crash_rate"}
	for _, metric := range m.Metrics {
		if !metric.Counts() {
			columns = append(columns, report.MatrixColumn(metric))
		}
	}
	over = report.MatrixTable(m).Pick(append(columns, "runs")...)
	over.Page = report.Page{Label: "Schedulers on " + line(m.Place()), Class: "sortable matrix", Caption: captionOf(m)}
	for i, s := range m.Rows {
		if s.Base {
			over.Rows[i][0] = report.Cell{Text: base, Small: "(base)"}
		}
		for c, column := range over.Columns {
			cell, is := over.Rows[i][c].(report.Cell)
			at := slices.IndexFunc(m.Metrics, func(of results.Metric) bool { return !of.Absolute && report.MatrixColumn(of) == column.Name })
			if is && at >= 0 && !s.Base && cell.Value != nil && !s.Over[at].LostMore {
				arrow, word := judge(s.Over[at].Ratio, m.Metrics[at].HigherIsBetter)
				cell.Arrow, cell.Verdict = arrow, stats.Verdict(word)
				over.Rows[i][c] = cell
			}
		}
		over.Page.Rows = append(over.Page.Rows, armRow(a.names[a.order.Number(s.Arm)]))
	}
	byMix = report.ByMix(m, cellOf)
	for j, t := range byMix {
		metric := m.Metrics[j]
		t.Title, t.Page = fmt.Sprintf("%s by mix, ratio to %s", metric.Title(), base), report.Page{Class: "matrix bymix", Named: true, Foot: len(m.Mixes) > 1}
		switch {
		case metric.Counts():
			t.Title = "Crashed jobs by mix"
		case metric.Absolute:
			t.Title = metric.Title() + " by mix"
		}
		for i, s := range m.Rows {
			t.Columns[i+1] = report.Column{Title: line(s.Name), Unit: report.Factor, Class: a.names[a.order.Number(s.Arm)].Class()}
		}
		if t.Page.Foot {
			t.Rows[len(m.Mixes)][0] = map[bool]string{true: "All mixes", false: "Geometric mean"}[metric.Absolute]
		}
	}
	return over, byMix
}

// cellOf is a cell of mixes against schedulers.
func cellOf(m results.Metric, c regress.Count, l regress.Level) report.Cell {
	switch {
	case !m.Counts():
		return report.RatioCell(m, c, l)
	case c.Jobs == 0:
		return report.Cell{}
	}
	text := report.Human(*c.CrashRate(), report.Ratio)
	if c.Crashed > 0 {
		text = "✕ " + text
	}
	return report.Cell{Value: *c.CrashRate(), Text: text, Small: fmt.Sprintf("%d of %d", c.Crashed, c.Jobs)}
}

// newSide makes the page's runs a side of a comparison. Warm-up runs are not measurements.
func newSide(runs []results.Run, jobs [][]results.Job, devices map[int64][]results.Device) regress.Side {
	side := regress.Side{Label: "this page"}
	for i, r := range runs {
		if !r.Warmup {
			side.Runs = append(side.Runs, regress.Observation{Run: r, Devices: devices[r.ID], Commands: results.CommandList(jobs[i])})
		}
	}
	return side
}

// compareSchedulers finds the matrix of each place.
func compareSchedulers(side regress.Side, base string) ([]regress.Matrix, error) {
	return regress.Matrices(side, base, regress.Options{Metrics: append(results.OnPages(), results.MetricNamed("crashes"))})
}

func captionOf(m regress.Matrix) string {
	over := fmt.Sprintf("%d mixes: geometric means of ratios", len(m.Mixes))
	if len(m.Mixes) == 1 {
		over = line(m.Names.Mix(m.Mixes[0])) + ": ratios"
	}
	intervals := fmt.Sprintf(", with %.0f %% confidence intervals.", 100*(1-m.Alpha))
	if !bounded(m) {
		intervals = ". There are too few repetitions for confidence intervals."
	}
	return fmt.Sprintf("%s to %s%s", over, line(m.Base().Name), intervals)
}

// bounded reports whether any ratio over the mixes has an interval.
func bounded(m regress.Matrix) bool {
	return slices.ContainsFunc(m.Rows, func(s regress.Standing) bool {
		return slices.ContainsFunc(s.Over, func(l regress.Level) bool { return l.Ratio.Bounded() })
	})
}

func lines(texts []string) []string {
	var out []string
	for _, t := range texts {
		out = append(out, line(t))
	}
	return out
}
