package results

import (
	"cmp"
	"slices"
)

// HeldUntil returns the time at which a granted task was released, or end if it was not.
func (t Task) HeldUntil(end float64) float64 {
	if t.ReleaseS != nil {
		return *t.ReleaseS
	}
	return end
}

// Warps returns the warps of the task's largest kernel. It is a float64, because a task of
// 2^62 blocks is valid and its warps overflow a uint64.
func (t Task) Warps() float64 {
	return float64(t.Blocks) * float64((uint64(t.ThreadsPerBlock)+31)/32)
}

// PeakBytes returns the most that granted tasks held at one time, heap and growth included. A
// task that was not released was held until end.
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

// MeanBytes returns what tasks held in the mean from 0 to end. It counts heap and growth as PeakBytes does.
func MeanBytes(tasks []Task, end float64) float64 {
	area := 0.0
	for _, t := range tasks {
		if t.GrantS != nil {
			area += float64(t.Bytes+t.HeapBytes+t.GrownBytes) * max(0, min(t.HeldUntil(end), end)-*t.GrantS)
		}
	}
	return area / end
}

// change is a change in the bytes that tasks hold.
type change struct {
	atS   float64
	kind  changeKind
	bytes int64
}

// changeKind orders changes at the same time: releases take effect before grants.
type changeKind int

const (
	release changeKind = iota
	grant
	instant // granted and released at the same time: held beside the others, but not afterwards
)

// changes returns all changes in the order of time.
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
