package results

import (
	"math"
	"slices"
)

// UtilizationWindows is the course of one series of a run: for each window of
// the given length that follow each other from 0 to end, the mean over devices
// of each device's time-weighted mean. It is NaN in a window in which a device
// that has a value in another has none. The last window may be shorter.
func UtilizationWindows(segments []Segment, series Series, end, window float64) []float64 {
	levels := make([]float64, int(math.Ceil(end/window-1e-9)))
	devices := 0
	for _, index := range deviceIndexes(segments, series) {
		var own []Segment
		for _, s := range ofDevice(segments, index) {
			if s.Series == series {
				own = append(own, s)
			}
		}
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
			levels[i] += area[i] / known[i] // 0 / 0 is NaN, which stays
		}
	}
	for i := range levels {
		levels[i] /= float64(devices)
	}
	return levels
}
