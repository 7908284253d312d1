package html

import (
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/results/trend"
)

// dateAxis is the axis that all lines of a trend share: dates, or the nights in their order if the date of one is unknown.
type dateAxis struct {
	dated    bool
	from, to float64 // with a margin on both sides
	margin   float64
	nights   map[int]string
}

func newDateAxis(lines [][]trend.Point) dateAxis {
	a := dateAxis{dated: true, nights: map[int]string{}}
	for _, p := range slices.Concat(lines...) {
		a.dated = a.dated && p.Day != nil
		a.nights[p.Night] = p.Label
	}
	var all []float64
	for _, p := range slices.Concat(lines...) {
		all = append(all, a.of(p))
	}
	a.from, a.to = slices.Min(all), slices.Max(all)
	a.margin = max(1, math.Ceil((a.to-a.from)/40))
	a.from, a.to = a.from-a.margin, a.to+a.margin
	return a
}

// of is a point's value on the axis: seconds, or a number of nights.
func (a dateAxis) of(p trend.Point) float64 {
	if a.dated {
		return float64(p.Day.Unix())
	}
	return float64(p.Night)
}

func (a dateAxis) x(v float64) string { return percent(v-a.from, a.to-a.from) }

// mostDates is the largest number of texts below the axis.
const mostDates = 7

func (a dateAxis) ticks() (out []tick) {
	if a.dated {
		return a.dates()
	}
	nights := make([]int, 0, len(a.nights))
	for n := range a.nights {
		nights = append(nights, n)
	}
	slices.Sort(nights)
	for i := 0; i < len(nights); i += (len(nights) + mostDates - 1) / mostDates {
		label := []rune(line(a.nights[nights[i]]))
		if len(label) > 14 {
			label = append([]rune("…"), label[len(label)-13:]...)
		}
		out = append(out, tick{X: a.x(float64(nights[i])), Text: string(label), Anchor: "middle"})
	}
	return out
}

func (a dateAxis) dates() (out []tick) {
	const day = 24 * time.Hour
	step, layout, unit := day, time.DateOnly, day.Seconds()
	if math.Mod(a.from+a.margin, unit) != 0 || math.Mod(a.to-a.margin, unit) != 0 {
		unit = 0 // the points are not days
	}
	for _, step = range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		day, 2 * day, 5 * day, 7 * day, 14 * day, 28 * day, 91 * day, 182 * day, 364 * day, 3640 * day} {
		if step.Seconds() >= unit && (a.to-a.from)/step.Seconds() <= mostDates {
			break
		}
	}
	if step < day {
		layout = "01-02 15:04"
	}
	for t := time.Unix(int64(a.from), 0).UTC().Truncate(step); t.Unix() <= int64(a.to); t = t.Add(step) {
		if at := float64(t.Unix()); at >= a.from {
			out = append(out, tick{X: a.x(at), Text: t.Format(layout), Anchor: "middle"})
		}
	}
	return out
}
