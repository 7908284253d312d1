package results

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// span is an interval in which a device's series has one value. It excludes to, except in the
// last span of a device.
type span struct {
	from, to float64
	value    *float64
}

// LongestHoldS is the longest time for which a sample is valid. NVML's utilization covers
// "between 1 second and 1/6 second", depending on the product (nvmlUtilization_t).
const LongestHoldS = 1.0

// spans turns the segments of one series of one device into a step function on [0, end]. A
// value holds until the next segment begins. It holds only to its last sample if no segment
// follows or the gap exceeds LongestHoldS. A nil value means unknown. It sorts the segments.
func spans(sorted []Segment, end float64) []span {
	slices.SortFunc(sorted, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.FirstS, b.FirstS), cmp.Compare(a.LastS, b.LastS),
			cmp.Compare(orNaN(a.Value), orNaN(b.Value)))
	})
	out := make([]span, 0, len(sorted))
	for i, s := range sorted {
		to := s.LastS
		if i+1 < len(sorted) && sorted[i+1].FirstS-s.LastS <= LongestHoldS {
			to = sorted[i+1].FirstS
		}
		if to < 0 || s.FirstS > end {
			continue
		}
		out = append(out, span{from: max(s.FirstS, 0), to: min(to, end), value: s.Value})
	}
	return out
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// meanAndPeak takes the mean over these devices at each instant and returns its time-weighted mean
// and its peak over [0, end]. An instant counts only if every measured device has a value, so
// that a device whose sampling starts late or stops early cannot change the figure.
func meanAndPeak(of map[int][]Segment, indexes []int, end float64) (avg, peak *float64) {
	var devices [][]span
	for _, index := range indexes {
		steps := spans(of[index], end)
		if slices.ContainsFunc(steps, func(s span) bool { return s.value != nil }) {
			devices = append(devices, steps)
		}
	}
	if len(devices) == 0 {
		return nil, nil
	}
	l := newLevels(devices)
	var area, covered float64
	for i := 0; i < len(l.marks); {
		at := l.marks[i].at
		i = l.advance(i)
		sum, all, lasts := l.sum()
		if !all {
			continue
		}
		level := sum / float64(len(devices))
		if peak == nil || level > *peak {
			peak = known(level)
		}
		if lasts && i < len(l.marks) {
			width := l.marks[i].at - at
			area += level * width
			covered += width
		}
	}
	if covered > 0 {
		avg = known(min(area/covered, *peak)) // rounding must not raise the mean above the peak
	}
	return avg, peak
}

// levels are the values of devices at an instant. Of a cluster's many devices only a few change at one time. So values are added
// up in blocks, and only blocks with a change again.
type levels struct {
	devices [][]span
	cursors []int
	blocks  []levelBlock
	marks   []mark // at which spans begin and end, in the order of time
	ended   []int  // blocks with a mark at the latest instant
}

type levelBlock struct {
	sum     float64
	missing int  // devices without a value
	ends    bool // a value does not last beyond the instant
}

type mark struct {
	at    float64
	block int
}

const devicesOfBlock = 64

func newLevels(devices [][]span) *levels {
	l := &levels{devices: devices, cursors: make([]int, len(devices)), blocks: make([]levelBlock, (len(devices)-1)/devicesOfBlock+1)}
	for d, steps := range devices {
		for _, s := range steps {
			l.marks = append(l.marks, mark{s.from, d / devicesOfBlock}, mark{s.to, d / devicesOfBlock})
		}
	}
	slices.SortFunc(l.marks, func(a, b mark) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.block, b.block)) })
	for b := range l.blocks {
		l.ended = append(l.ended, b)
	}
	return l
}

// advance goes on to the instant of a mark, and returns the first mark of the next one. A value that ended with the instant
// before is gone.
func (l *levels) advance(first int) (next int) {
	at := l.marks[first].at
	changed := l.ended
	l.ended = nil
	for next = first; next < len(l.marks) && l.marks[next].at == at; next++ {
		if b := l.marks[next].block; len(l.ended) == 0 || l.ended[len(l.ended)-1] != b {
			l.ended = append(l.ended, b)
		}
	}
	for _, b := range append(changed, l.ended...) {
		l.blocks[b] = l.at(b, at)
	}
	return next
}

func (l *levels) at(block int, at float64) (b levelBlock) {
	for d := block * devicesOfBlock; d < min(len(l.devices), (block+1)*devicesOfBlock); d++ {
		steps := l.devices[d]
		for l.cursors[d]+1 < len(steps) && steps[l.cursors[d]+1].from <= at {
			l.cursors[d]++
		}
		s := steps[l.cursors[d]]
		if s.value == nil || at < s.from || at > s.to {
			b.missing++
			continue
		}
		b.sum += *s.value
		b.ends = b.ends || at >= s.to
	}
	return b
}

// sum is of all devices. all: each has a value. lasts: each lasts beyond the instant.
func (l *levels) sum() (sum float64, all, lasts bool) {
	lasts = true
	for _, b := range l.blocks {
		if b.missing > 0 {
			return 0, false, false
		}
		sum, lasts = sum+b.sum, lasts && !b.ends
	}
	return sum, true, lasts
}

// Residence is when kernels were resident on devices. The zero value has no kernels. It keeps 16 bytes
// of a kernel, because a run may have millions.
type Residence struct {
	kernels map[int][]interval // by device
	unclear map[int]bool       // devices with an aggregate that does not say when it was busy
}

// Add adds a kernel.
func (r *Residence) Add(k Kernel) {
	if r.kernels == nil {
		r.kernels, r.unclear = map[int][]interval{}, map[int]bool{}
	}
	r.kernels[k.Device] = append(r.kernels[k.Device], interval{k.StartS, k.EndS})
	if k.Grid == "" && k.BusyS < (k.EndS-k.StartS)*(1-1e-9) {
		r.unclear[k.Device] = true
	}
}

// fractions returns for each device the fraction of [0, end] in which a kernel was resident: the
// union of its kernel intervals. A device without kernels was idle. The result is nil if a fraction is
// unknown: the run has no kernels, or an aggregate does not say when within its interval it was busy.
func (r Residence) fractions(devices []Device, end float64) []float64 {
	if len(r.kernels) == 0 {
		return nil
	}
	var out []float64
	for _, d := range devices {
		if r.unclear[d.Index] {
			return nil
		}
		total := 0.0
		for _, k := range union(r.kernels[d.Index], end) {
			total += k.to - k.from
		}
		out = append(out, min(total/end, 1))
	}
	return out
}

// Segments returns the series SeriesResident of each device on [0, end]. It is empty where fractions gives nothing.
func (r Residence) Segments(devices []Device, end float64) []Segment {
	var out []Segment
	if r.fractions(devices, end) == nil {
		return out
	}
	for _, d := range devices {
		reached := 0.0
		add := func(to, value float64) {
			if to > reached {
				out = append(out, Segment{Device: d.Index, Series: SeriesResident, FirstS: reached, LastS: to, Samples: 1, Value: &value})
				reached = to
			}
		}
		for _, k := range union(r.kernels[d.Index], end) {
			add(k.from, 0)
			add(k.to, 1)
		}
		add(end, 0)
	}
	return out
}

type interval struct{ from, to float64 }

// union returns the union of the intervals within [0, end], in the order of time. It sorts them.
func union(intervals []interval, end float64) []interval {
	slices.SortFunc(intervals, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	var out []interval
	reached := 0.0
	for _, k := range intervals {
		if from, to := max(k.from, reached), min(k.to, end); to > from {
			out = append(out, interval{from, to})
			reached = to
		}
	}
	return out
}

func ofDevice(segments []Segment, index int) []Segment {
	return selected(segments, func(s *Segment) bool { return s.Device == index })
}

func ofSeries(segments []Segment, device int, series Series) []Segment {
	return selected(segments, func(s *Segment) bool { return s.Device == device && s.Series == series })
}

// selected copies segments. A long run has millions, so it counts them first.
func selected(segments []Segment, is func(*Segment) bool) []Segment {
	n := 0
	for i := range segments {
		if is(&segments[i]) {
			n++
		}
	}
	out := make([]Segment, 0, n)
	for i := range segments {
		if is(&segments[i]) {
			out = append(out, segments[i])
		}
	}
	return out
}

// byDevice parts the segments of a series. A long run has millions, so it counts them first.
func byDevice(segments []Segment, series Series) map[int][]Segment {
	counts := map[int]int{}
	for i := range segments {
		if segments[i].Series == series {
			counts[segments[i].Device]++
		}
	}
	of := make(map[int][]Segment, len(counts))
	for i := range segments {
		if s := &segments[i]; s.Series == series {
			if of[s.Device] == nil {
				of[s.Device] = make([]Segment, 0, counts[s.Device])
			}
			of[s.Device] = append(of[s.Device], *s)
		}
	}
	return of
}

func deviceIndexes(segments []Segment, series Series) []int {
	found := map[int]bool{}
	for i := range segments {
		if segments[i].Series == series {
			found[segments[i].Device] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Step is an interval [FromS, ToS] in which a device's series had one value; nil means unknown.
type Step struct {
	FromS float64
	ToS   float64
	Value *float64
}

// Steps returns one series of one device as a step function on [0, end], in the order of time
// and by the rule that the metrics follow (docs/reference/store.md, utilization). Between steps the value
// is unknown.
func Steps(segments []Segment, device int, series Series, end float64) []Step {
	var out []Step
	for _, s := range spans(ofSeries(segments, device, series), end) {
		out = append(out, Step{FromS: s.from, ToS: s.to, Value: s.value})
	}
	return out
}

// UtilizationWindows divides [0, end] into windows of the given length, of which the last may
// be shorter. It returns for each window the mean over devices of each device's time-weighted
// mean of one series. The mean is NaN if a device has no value in the window but has one in
// another window. The result is empty if the time is 0, or if the windows would not fit into memory.
func UtilizationWindows(segments []Segment, series Series, end, window float64) []float64 {
	const most = 1 << 24
	windows := math.Ceil(end/window - 1e-9)
	if math.IsNaN(windows) || windows > most {
		return nil
	}
	levels := make([]float64, int(windows))
	devices := 0
	for _, index := range deviceIndexes(segments, series) {
		own := ofSeries(segments, index, series)
		if !slices.ContainsFunc(own, func(s Segment) bool { return s.Value != nil }) {
			continue
		}
		devices++
		area, known := make([]float64, len(levels)), make([]float64, len(levels))
		for _, s := range spans(own, end) {
			if s.value == nil {
				continue
			}
			for i := int(s.from / window); i < len(levels) && float64(i)*window < s.to; i++ {
				part := min(s.to, float64(i+1)*window) - max(s.from, float64(i)*window)
				if part > 0 {
					area[i] += part * *s.value
					known[i] += part
				}
			}
		}
		for i := range levels {
			levels[i] += area[i] / known[i] // 0 / 0 is NaN, and the sum stays NaN
		}
	}
	for i := range levels {
		levels[i] /= float64(devices)
	}
	return levels
}
