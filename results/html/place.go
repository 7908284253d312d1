package html

import (
	"cmp"
	"context"
	"html/template"
	"math"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
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

// barFigure is a metric of all schedulers and mixes as bars.
type barFigure struct {
	Title, Hint string
	SVG         template.HTML
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

// widest is the mix of a matrix in which the headline differs most from the base's.
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
			if l := regress.LevelOf([]regress.Matrix{m}, results.ArmOf(of.runs[0]), results.Headline(m.Of.Open)); !l.LostMore && l.Ratio.Value > 0 {
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
		if r := regress.LevelOf(p.ms, results.ArmOf(run), results.Headline(g.arm.Open)).Ratio; len(g.members) > 1 && !math.IsNaN(r.Value) {
			one.ratio = inWords(results.Headline(g.arm.Open)) + " " + regress.RatioText(r.Value) + "×"
		}
		drawn = append(drawn, one)
	}
	return newJobsFigure(line(g.arm.Mix), drawn, wide), nil
}

func lines(texts []string) []string {
	var out []string
	for _, t := range texts {
		out = append(out, line(t))
	}
	return out
}
