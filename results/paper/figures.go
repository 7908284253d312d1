package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// Figure is one figure as data: either bars or curves.
type Figure struct {
	ID      string // its name in file names, such as "figure-6b"
	Title   string // one line inside the figure; says SIMULATED if it is
	Caption string
	Bars    *Bars
	Curves  []Curve
	// Simulated says that its numbers come from a model.
	Simulated bool
}

// Bars are groups of bars side by side.
type Bars struct {
	XLabel, YLabel string
	Groups         []string
	Log            bool     // the vertical axis
	Series         []Series // the baseline first, the paper's scheduler last
}

// Series is one bar of each group.
type Series struct {
	Name   string
	Arm    int              // by which it has its colour
	Bars   []*stats.Summary // nil: not measured
	Texts  []string         // the bars in words; may be nil as a whole
	Stated []*float64       // the values that the paper states for the bars; may be nil as a whole
	// LostMore marks bars that are not comparable: of the scheduler and the baseline, the one that looks
	// better lost significantly more jobs. It may be nil as a whole.
	LostMore []bool
}

// Crosses explains the bars that are not comparable; it is empty if there are none.
func (b *Bars) Crosses() string {
	if !slices.ContainsFunc(b.Series, func(s Series) bool { return slices.Contains(s.LostMore, true) }) {
		return ""
	}
	return " A cross: not comparable, because of the scheduler and the baseline the one that looks better lost significantly more jobs."
}

// Curve is a step function: a level for each of the windows of equal length that divide the
// time from 0 s. NaN means unknown.
type Curve struct {
	Name       string
	What       string // the levels are: "Utilization" or "Kernel resident"
	Run        int64
	Mode       results.Mode
	WindowS    float64
	Levels     []float64 // fractions
	Mean, Peak *float64  // of the run, not of the windows
}

// figure draws a table of which something was measured; nil if the paper draws nothing.
func (p *Paper) figure(item Item, t Table, all map[string]*arms) (*Figure, error) {
	f := &Figure{ID: t.ID(), Title: drawnOn(t), Simulated: simulated(t), Caption: fmt.Sprintf("%s (%s, %s), %s.", capital(t.What), p.Name, t.Source, drawnOn(t))}
	switch {
	case t.Measured() == 0:
	case item.Bars.Over != "":
		f.Bars = p.bars(item.Bars, t)
		f.Caption += repetitions(f.Bars) + f.Bars.Crosses()
		return f, nil
	case item.Curves != nil:
		return f, p.curves(item, t, all[item.Systems[0]], f)
	}
	return nil, nil
}

const meanGroup = "mean"

// group returns the group of a row's bar; empty if the row has no bar.
func (p *Paper) group(r Row) string {
	w, known := p.Workloads[r.Workload]
	switch {
	case !known || w.Take == "":
		return r.Workload
	case w.Take == meanGroup:
		return meanGroup
	}
	return ""
}

// bars draws speedups over a baseline, whose bars are 1. The mean is the last group.
func (p *Paper) bars(d Drawn, t Table) *Bars {
	b := &Bars{XLabel: "Workload", Log: d.Log}
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool {
		return p.Metrics[r.Metric].Over != d.Over || d.Metric != "" && r.Metric != d.Metric || p.group(r) == ""
	})
	b.YLabel = fmt.Sprintf("%s over %s, ratio", capital(strings.ReplaceAll(p.Metrics[rows[0].Metric].Of, "_", " ")), d.Over)
	for _, last := range []bool{false, true} {
		for _, r := range rows {
			if g := p.group(r); (g == meanGroup) == last && !slices.Contains(b.Groups, g) {
				b.Groups = append(b.Groups, g)
			}
		}
	}
	one := Series{Name: d.Over, Bars: make([]*stats.Summary, len(b.Groups))}
	b.Series = append(b.Series, one)
	for _, scheduler := range d.Schedulers {
		s := Series{Name: scheduler, Arm: len(b.Series), Bars: make([]*stats.Summary, len(b.Groups)), Stated: make([]*float64, len(b.Groups)), LostMore: make([]bool, len(b.Groups))}
		for _, r := range rows {
			if i := slices.Index(b.Groups, p.group(r)); r.Scheduler == scheduler {
				s.Bars[i], s.Stated[i], s.LostMore[i] = r.Measured, r.Published, r.LostMore
				if r.Measured != nil { // then the baseline was measured too
					one.Bars[i] = &stats.Summary{N: 1, Median: 1, Low: math.Inf(-1), High: math.Inf(1)}
				}
			}
		}
		b.Series = append(b.Series, s)
	}
	return b
}

// curves draws utilization over time, one curve for each scheduler that has a run.
func (p *Paper) curves(item Item, t Table, a *arms, f *Figure) error {
	mix := a.first(t.Rows[0].Workload).mix
	windows := 0.0
	for _, name := range item.Curves {
		scheduler, err := p.scheduler(name, a.node.Devices)
		if err != nil {
			return err
		}
		runs, err := a.find(mix, scheduler, false)
		if err != nil || runs[0].Metrics.MakespanS == nil {
			continue // the table says what is missing
		}
		c, err := a.curve(name, runs[0])
		if err != nil {
			return err
		}
		windows = c.WindowS
		f.Curves = append(f.Curves, c)
	}
	f.Caption += fmt.Sprintf(" Each curve is one repetition; a level is the mean over a window of %g s, so that peaks shorter than it are lower than the peak beside the name.", windows)
	return nil
}

// windowS returns the length of a curve's windows, so that a curve has at most 200 windows. The
// shortest window is above 1/6 s, because NVML's value does not change more often.
func windowS(makespan float64) float64 {
	for _, w := range []float64{0.2, 0.5, 1, 2, 5, 10, 30, 60} {
		if makespan/w <= 200 {
			return w
		}
	}
	return max(300, makespan/200)
}

func (a *arms) curve(name string, r results.Run) (Curve, error) {
	segments, err := a.node.Utilization(r)
	if err != nil {
		return Curve{}, err
	}
	// All curves of a figure get windows of one length, which the longest makespan (sa's) decides.
	longest := *r.Metrics.MakespanS
	for key, runs := range a.runs {
		if key.Batch() == results.ArmOf(r).Batch() {
			for _, other := range runs {
				if m := other.Metrics.MakespanS; m != nil {
					longest = max(longest, *m)
				}
			}
		}
	}
	of, what := series(r.Mode)
	c := Curve{Name: name, What: what, Run: r.ID, Mode: r.Mode, WindowS: windowS(longest), Mean: meanUse(r)}
	c.Levels = results.UtilizationWindows(segments, of, *r.Metrics.MakespanS, c.WindowS)
	c.Peak, err = a.peak(r)
	return c, err
}

// series is the series of a run that is comparable with NVML's utilization, which papers have, and what it is called.
func series(mode results.Mode) (results.Series, string) {
	if mode == results.Simulated {
		return results.SeriesResident, "Kernel resident"
	}
	return results.SeriesGPU, "Utilization"
}

// drawnOn returns the line inside a figure.
func drawnOn(t Table) string {
	i := slices.IndexFunc(t.Rows, onNode)
	if i < 0 {
		return ""
	}
	return Says(t.Rows[i].Mode) + " on " + t.Rows[i].Node
}

func onNode(r Row) bool { return r.Node != "" }

func simulated(t Table) bool {
	i := slices.IndexFunc(t.Rows, onNode)
	return i >= 0 && t.Rows[i].Mode == results.Simulated
}

// repetitions says what bars and their error bars are.
func repetitions(b *Bars) string {
	n, intervals := 0, false
	for _, s := range b.Series[1:] {
		for _, e := range s.Bars {
			if e != nil {
				n, intervals = max(n, e.N), intervals || e.Bounded()
			}
		}
	}
	switch {
	case n == 1:
		return " One repetition."
	case intervals:
		return fmt.Sprintf(" Medians of %d repetitions; error bars are %.0f %% confidence intervals of the median.", n, Confidence*100)
	}
	return fmt.Sprintf(" Medians of %d repetitions, too few for a confidence interval.", n)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
