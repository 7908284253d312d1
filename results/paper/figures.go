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
}

// Bars are groups of bars side by side.
type Bars struct {
	XLabel, YLabel string
	Groups         []string
	Series         []Series // the baseline first, the paper's scheduler last
}

// Series is one bar of each group.
type Series struct {
	Name   string
	Bars   []*stats.Summary // nil: not measured
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

const meanGroup = "mean"

// group returns the group of a row's bar; empty if the row has no bar.
func (r Row) group() string {
	switch r.Workload {
	case "mean W1-W8":
		return meanGroup
	case "min W1-W8", "max W1-W8":
		return ""
	}
	return r.Workload
}

// normalized draws throughputs divided by the throughput under a baseline, whose bars are 1.
func normalized(baseline string, schedulers ...string) func(Table, map[string]*arms) (Figure, error) {
	return func(t Table, all map[string]*arms) (Figure, error) {
		metric := "throughput_over_" + baseline
		b := &Bars{XLabel: "Workload", YLabel: fmt.Sprintf("Throughput over %s, ratio", baseline)}
		index := map[string]int{}
		for _, r := range t.Rows {
			if r.Metric == metric && r.group() != "" {
				index[r.group()] = 0
			}
		}
		for _, g := range slices.Concat(Mixes(), Darknet(), []string{meanGroup}) {
			if _, drawn := index[g]; drawn {
				index[g] = len(b.Groups)
				b.Groups = append(b.Groups, g)
			}
		}
		one := Series{Name: baseline, Bars: make([]*stats.Summary, len(b.Groups))}
		b.Series = append(b.Series, one)
		for _, scheduler := range schedulers {
			s := Series{Name: scheduler, Bars: make([]*stats.Summary, len(b.Groups)), Stated: make([]*float64, len(b.Groups)), LostMore: make([]bool, len(b.Groups))}
			for _, r := range t.Rows {
				if i, ok := index[r.group()]; ok && r.Metric == metric && r.Scheduler == scheduler {
					s.Bars[i], s.Stated[i], s.LostMore[i] = r.Measured, r.Published, r.LostMore
					if r.Measured != nil { // then the baseline was measured too
						one.Bars[i] = &stats.Summary{N: 1, Median: 1, Low: math.Inf(-1), High: math.Inf(1)}
					}
				}
			}
			b.Series = append(b.Series, s)
		}
		return Figure{ID: t.ID(), Title: drawnOn(t), Caption: caption(t) + repetitions(b) + b.Crosses(), Bars: b}, nil
	}
}

// utilization draws utilization over time, one curve for each scheduler that has a run.
func utilization(schedulers ...string) func(Table, map[string]*arms) (Figure, error) {
	return func(t Table, all map[string]*arms) (Figure, error) {
		a := all[t.Rows[0].System]
		f := Figure{ID: t.ID(), Title: drawnOn(t)}
		mix := a.utilizationMix(t.Rows[0].Workload)
		windows := 0.0
		for _, scheduler := range schedulers {
			runs, err := a.find(mix, a.named(scheduler), false)
			if err != nil || runs[0].Metrics.MakespanS == nil {
				continue // the table says what is missing
			}
			c, err := a.curve(scheduler, runs[0])
			if err != nil {
				return f, err
			}
			windows = c.WindowS
			f.Curves = append(f.Curves, c)
		}
		f.Caption = fmt.Sprintf("%s Each curve is one repetition; a level is the mean over a window of %g s, so that peaks shorter than it are lower than the peak beside the name.", caption(t), windows)
		return f, nil
	}
}

// windowS returns the length of a curve's windows, so that a curve has at most 200 windows. The
// shortest window is above 1/6 s, because NVML's value does not change more often.
func windowS(makespan float64) float64 {
	for _, w := range []float64{0.2, 0.5, 1, 2, 5, 10, 30, 60} {
		if makespan/w <= 200 {
			return w
		}
	}
	return 300
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
	c := Curve{Name: name, What: utilizationOf(r.Mode), Run: r.ID, Mode: r.Mode, WindowS: windowS(longest), Mean: meanUse.of(r)}
	c.Levels = results.UtilizationWindows(segments, series(r.Mode), *r.Metrics.MakespanS, c.WindowS)
	if peak, err := a.peak(r); err == nil {
		c.Peak = &peak
	}
	return c, nil
}

// series is the series of a run that is comparable with NVML's utilization, which the paper has.
func series(mode results.Mode) results.Series {
	if mode == results.Simulated {
		return results.SeriesResident
	}
	return results.SeriesGPU
}

// utilizationOf names what series has.
func utilizationOf(mode results.Mode) string {
	if mode == results.Simulated {
		return "Kernel resident"
	}
	return "Utilization"
}

// nvmlS is the shortest time over which NVML's utilization is a mean (nvmlUtilization_t).
const nvmlS = 1.0 / 6

// peak is the peak of a run's utilization. In a simulated run it is that of means over nvmlS, as NVML would have it.
func (a *arms) peak(r results.Run) (float64, error) {
	if r.Mode != results.Simulated {
		return metric{name: "utilization", of: func(r results.Run) *float64 { return r.Metrics.UtilizationPeak }}.in(r)
	}
	segments, err := a.node.Utilization(r)
	if err != nil {
		return 0, fatal{err}
	}
	if r.Metrics.MakespanS == nil || len(segments) == 0 {
		return 0, fmt.Errorf("run %d (%s under %s) has no utilization", r.ID, r.Mix, r.Scheduler)
	}
	return slices.Max(results.UtilizationWindows(segments, series(r.Mode), *r.Metrics.MakespanS, nvmlS)), nil
}

// seriesNote says what utilization is on a node.
func seriesNote(a *arms) string {
	if a.node.Mode == results.Simulated {
		return " Utilization is NVML's in the paper, the fraction of time in which a kernel was on the device. A simulated node has no NVML: its numbers are that fraction (kernel resident), the peak that of a mean over 1/6 s. The model is not fitted to it: docs/design/simulator.md."
	}
	return " Utilization is NVML's, the fraction of time in which a kernel was on the device."
}

// drawnOn returns the line inside a figure.
func drawnOn(t Table) string {
	for _, r := range t.Rows {
		if r.Node == "" {
			continue
		}
		if r.Mode == results.Simulated {
			return "SIMULATED on " + r.Node
		}
		return "measured on " + r.Node
	}
	return ""
}

func caption(t Table) string {
	return fmt.Sprintf("%s (CASE, %s), %s.", capital(t.What), t.Source, drawnOn(t))
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
