package html

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// seriesView is one series over time, with a curve for each device. All curves share one scale.
type seriesView struct {
	Title   string
	Primary bool
	Ticks   []tick
	Top     string // the value at the upper edge
	Curves  []curve
}

// curve is drawn in a box of curveWidth × curveHeight units.
type curve struct {
	Name string
	Area string // SVG path data
	Line string // SVG path data
	Text string // the curve in words
}

const (
	curveWidth  = 1000
	curveHeight = 40
)

// shown are the series in their order on a page. A fraction's scale goes from 0 to 1, any other
// scale from 0 to the largest capacity or value. The energy counter, which only rises, is not
// shown.
var shown = []struct {
	series results.Series
	title  string
	unit   report.Unit
}{
	{results.SeriesGPU, "Utilization (NVML)", report.Ratio},
	{results.SeriesSimulated, "Modelled share of busy SMs", report.Ratio},
	{results.SeriesMemory, "Memory in use", report.Bytes},
	{results.SeriesPower, "Power (NVML)", report.Watts},
	{results.SeriesGPM, "SM activity (GPM)", report.Ratio},
	{results.SeriesMemoryActivity, "Memory activity (NVML)", report.Ratio},
	{results.SeriesGPUDriver, "Utilization (driver's own buffer)", report.Ratio},
}

func newSeries(r records, end float64, b *budget) []seriesView {
	if end <= 0 {
		return nil
	}
	type key struct {
		device int
		series results.Series
	}
	present, own := map[results.Series]bool{}, map[key][]results.Segment{}
	for _, s := range r.segments {
		present[s.Series] = present[s.Series] || s.Value != nil
		k := key{s.Device, s.Series}
		own[k] = append(own[k], s)
	}
	buckets := b.buckets(len(present) * len(r.devices))
	var out []seriesView
	for _, s := range shown {
		if !present[s.series] {
			continue
		}
		v := seriesView{Title: s.title, Primary: s.series == results.Primary(r.run.Mode), Ticks: ticks(end, report.Seconds), Top: "100 %"}
		top := 1.0
		if s.unit != report.Ratio {
			top = highest(r, s.series)
			v.Top = report.Human(top, s.unit)
		}
		for _, d := range r.devices {
			v.Curves = append(v.Curves, newCurve(r.gpu(d), results.Steps(own[key{d.Index, s.series}], d.Index, s.series, end), end, top, s.unit, buckets))
		}
		out = append(out, v)
	}
	return out
}

// gpu is what the page calls a device: by its model too if the run's devices differ.
func (r records) gpu(d results.Device) string {
	name := results.DeviceTitle(r.devices, d)
	if slices.ContainsFunc(r.devices, func(o results.Device) bool { return o.Name != d.Name }) {
		name += " " + line(strings.TrimSuffix(strings.TrimPrefix(d.Name, "NVIDIA "), results.SimulatedGPU))
	}
	return name
}

// highest is the upper edge of a series that is not a fraction: its highest value, and of memory
// the largest capacity.
func highest(r records, series results.Series) float64 {
	top := 0.0
	for _, d := range r.devices {
		if series == results.SeriesMemory {
			top = max(top, float64(d.MemoryBytes))
		}
	}
	for _, s := range r.segments {
		if s.Series == series && s.Value != nil {
			top = max(top, *s.Value)
		}
	}
	return top
}

// point is a corner of a curve.
type point struct {
	x, y float64
	gap  bool // the value before the point is unknown
}

func newCurve(name string, steps []results.Step, end, top float64, unit report.Unit, buckets int) curve {
	c := curve{Name: name}
	var points []point
	low, high, known := math.Inf(1), math.Inf(-1), 0.0
	reached := math.Inf(-1)
	for _, s := range steps {
		if s.Value == nil {
			continue
		}
		low, high, known = min(low, *s.Value), max(high, *s.Value), known+s.ToS-s.FromS
		points = append(points, point{s.FromS, *s.Value, s.FromS > reached}, point{s.ToS, *s.Value, false})
		reached = s.ToS
	}
	if len(points) == 0 {
		c.Text = name + ": nothing known"
		return c
	}
	c.Text = fmt.Sprintf("%s: %s to %s, known for %s of %s", name, report.Human(low, unit), report.Human(high, unit), seconds(known), seconds(end))
	c.Line, c.Area = paths(thin(points, end, buckets), end, top)
	return c
}

// thin keeps the first, smallest, largest and last point of each time bucket. The picture stays
// the same if a bucket is at most a pixel wide.
func thin(points []point, end float64, buckets int) []point {
	if len(points) <= 4*buckets {
		return points
	}
	var out []point
	for from := 0; from < len(points); {
		bucket := int(points[from].x / end * float64(buckets))
		to := from + 1
		for to < len(points) && !points[to].gap && int(points[to].x/end*float64(buckets)) == bucket {
			to++
		}
		keep := []int{from, from, from, to - 1}
		for i := from; i < to; i++ {
			if points[i].y < points[keep[1]].y {
				keep[1] = i
			}
			if points[i].y > points[keep[2]].y {
				keep[2] = i
			}
		}
		slices.Sort(keep)
		for _, i := range slices.Compact(keep) {
			out = append(out, points[i])
		}
		from = to
	}
	return out
}

// paths draws the points in whole units and relative coordinates, which takes the fewest bytes.
func paths(points []point, end, top float64) (stroke, area string) {
	var lines, areas strings.Builder
	x, y, started := 0, 0, 0
	for _, p := range points {
		px, py := int(math.Round(p.x/end*curveWidth)), curveHeight-int(math.Round(min(max(p.y/top, 0), 1)*curveHeight))
		if p.gap {
			if lines.Len() > 0 {
				fmt.Fprintf(&areas, "V%dH%dZ", curveHeight, started)
			}
			fmt.Fprintf(&lines, "M%d %d", px, py)
			fmt.Fprintf(&areas, "M%d %dV%d", px, curveHeight, py)
			x, y, started = px, py, px
			continue
		}
		var move string
		switch {
		case px == x && py == y:
			continue
		case py == y:
			move = "h" + strconv.Itoa(px-x)
		case px == x:
			move = "v" + strconv.Itoa(py-y)
		default:
			move = fmt.Sprintf("l%d %d", px-x, py-y)
		}
		lines.WriteString(move)
		areas.WriteString(move)
		x, y = px, py
	}
	if lines.Len() > 0 {
		fmt.Fprintf(&areas, "V%dH%dZ", curveHeight, started)
	}
	return lines.String(), areas.String()
}
