package trend

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// WithMissing adds the nights of which a line has no run: sweeps that were to run its arm, and days between nights that
// follow each other day by day. Sweeps are in the order of time.
func (t Trend) WithMissing(sweeps []results.Sweep) Trend {
	lines := map[string]int{} // that have the gap
	for i := range t.Lines {
		l := &t.Lines[i]
		had := len(l.Gaps)
		l.Gaps = append(l.Gaps, l.sweepsWithout(sweeps)...)
		l.Gaps = append(l.Gaps, l.daysWithout()...)
		for _, gap := range l.Gaps[had:] {
			lines[gap.Label]++
		}
		slices.SortStableFunc(l.Gaps, func(a, b Gap) int { return a.At - b.At })
	}
	for _, label := range slices.Sorted(maps.Keys(lines)) {
		t.Notes = append(t.Notes, fmt.Sprintf("%s has no run that counts, which is a gap: %d of %d lines", label, lines[label], len(t.Lines)))
	}
	return t
}

// sweepsWithout are the sweeps after the first point that were to run the arm, and have no run of it.
func (l Line) sweepsWithout(sweeps []results.Sweep) (out []Gap) {
	for _, w := range sweeps {
		label := w.Tag
		if label == "" {
			label = fmt.Sprintf("sweep %d", w.ID)
		}
		next := slices.IndexFunc(l.Points, func(p Point) bool { return p.night.Sweep >= w.ID })
		if next < 0 {
			next = len(l.Points)
		}
		switch {
		case next == 0, next < len(l.Points) && l.Points[next].night.Sweep == w.ID:
		case slices.ContainsFunc(l.Gaps, func(g Gap) bool { return g.Label == label || g.Label == fmt.Sprintf("%s, sweep %d", label, w.ID) }):
		case plannedIn(l.Arm, w):
			out = append(out, Gap{Label: label, At: next})
		}
	}
	return out
}

// plannedIn reports whether a sweep was to run an arm.
func plannedIn(arm results.Arm, w results.Sweep) bool {
	spec, err := results.ReadSpec(w)
	if err != nil || w.Node != arm.Node || w.Mode != arm.Mode {
		return false
	}
	return slices.ContainsFunc(spec.Mixes, func(m results.SpecMix) bool { return m.Name == arm.Mix }) &&
		slices.ContainsFunc(spec.Scheds, func(text string) bool {
			_, text, _ = schedulers.CutName(text)
			name, _, _ := strings.Cut(text, ":")
			return name == arm.Scheduler
		})
}

const day = 24 * time.Hour

// mostDays are so many missing days in a row that each is a gap of its own.
const mostDays = 3

// daysWithout are the days between points on which no night began. Points that do not follow each other day by day, most
// of the time, have none.
func (l Line) daysWithout() (out []Gap) {
	var apart []int // in days
	for i := range l.Points {
		if n := l.daysBefore(i); n > 0 {
			apart = append(apart, n)
		}
	}
	slices.Sort(apart)
	if len(apart) < 2 || apart[(len(apart)-1)/2] != 1 {
		return nil
	}
	for i := range l.Points {
		n := l.daysBefore(i)
		var missing []string
		for k := 1; k < n; k++ {
			date := l.Points[i-1].Day.Add(time.Duration(k) * day).Format(time.DateOnly)
			if !slices.ContainsFunc(l.Gaps, func(g Gap) bool { return g.At == i && strings.Contains(g.Label, date) }) {
				missing = append(missing, date)
			}
		}
		if len(missing) > mostDays {
			missing = []string{missing[0] + " to " + missing[len(missing)-1]}
		}
		for _, date := range missing {
			out = append(out, Gap{Label: date, At: i})
		}
	}
	return out
}

// daysBefore is how many days lie between a point and the one before; 0: unknown.
func (l Line) daysBefore(i int) int {
	if i == 0 || l.Points[i].Day == nil || l.Points[i-1].Day == nil {
		return 0
	}
	return int(l.Points[i].Day.Sub(*l.Points[i-1].Day).Round(day) / day)
}
