package results

import (
	"cmp"
	"slices"
)

// HeldUntil is when a granted task was given back, or end where it was not.
func (t Task) HeldUntil(end float64) float64 {
	if t.ReleaseS != nil {
		return *t.ReleaseS
	}
	return end
}

// Warps of the task's largest kernel, in floating point: a task of 2^62 blocks is valid, its
// warps are more.
func (t Task) Warps() float64 {
	return float64(t.Blocks) * float64((uint64(t.ThreadsPerBlock)+31)/32)
}

// PeakBytes is the most that granted tasks held at one time, with their heap and all
// they grew by. Those that were not given back were held until end.
func PeakBytes(tasks []Task, end float64) int64 {
	var held, peak int64
	for _, c := range changes(tasks, end) {
		then := held + c.bytes
		peak = max(peak, then)
		if c.kind != instant {
			held = then
		}
	}
	return peak
}

// change is one of what tasks hold.
type change struct {
	atS   float64
	kind  changeKind
	bytes int64
}

// changeKind is in the order of what happens at one time: who releases holds
// nothing beside who is granted then.
type changeKind int

const (
	release changeKind = iota
	grant
	instant // given back within one reading of the clock: held beside the others, and not after
)

// changes are in the order of time.
func changes(tasks []Task, end float64) []change {
	var out []change
	for _, t := range tasks {
		from, to, bytes := *t.GrantS, t.HeldUntil(end), t.Bytes+t.HeapBytes+t.GrownBytes
		if to <= from {
			out = append(out, change{from, instant, bytes})
			continue
		}
		out = append(out, change{from, grant, bytes}, change{to, release, -bytes})
	}
	slices.SortFunc(out, func(a, b change) int { return cmp.Or(cmp.Compare(a.atS, b.atS), cmp.Compare(a.kind, b.kind)) })
	return out
}
