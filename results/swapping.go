package results

import (
	"cmp"
	"math"
	"slices"

	"github.com/caserun/caserun/schedulers"
)

// Swapping is what moving memory between devices and the host took in a run. All fields are nil in a
// run whose scheduler asked for no memory.
type Swapping struct {
	Swaps         *int64 // times that memory moved, in either direction or to another device
	InVain        *int64 // answers that a process was busy or unable
	OutBytes      *int64
	InBytes       *int64
	DrainS        *float64 // sums over swaps, which can overlap; unsuccessful ones included
	CopyS         *float64
	BookkeepingS  *float64
	LostS         *float64 // nil: not known of any swap
	HostPeakBytes *int64   // the most that was on the host at one time
	// HostMappedS is by how much kernels took longer because memory that they used was on the host.
	HostMappedS *float64
}

// NewSwapping sums the swaps of a run. tasks has at least the tasks of the swaps.
//
// Memory counts as on the host from the end of the swap that moved it out to the end of the swap
// that moved it back, or to the release of its task.
//
// HostMappedS is 0 in a simulated run, because the model's processes wait until what they use is on
// the device. It is not known in a live run.
func NewSwapping(run Run, tasks []Task, swaps []Swap) Swapping {
	if len(swaps) == 0 {
		return Swapping{}
	}
	var moved, inVain, out, in int64
	var drain, copying, bookkeeping, lost []float64
	for _, s := range swaps {
		switch {
		case s.Outcome != schedulers.Done:
			inVain++
		case s.Action == schedulers.Move.String(): // to another device
		case s.Direction == schedulers.Out:
			out = sum(out, s.Bytes)
		default:
			in = sum(in, s.Bytes)
		}
		if s.Moved() {
			moved++
		}
		drain, copying, bookkeeping = append(drain, s.DrainS), append(copying, s.CopyS), append(bookkeeping, s.BookkeepingS)
		if s.LostS != nil {
			lost = append(lost, *s.LostS)
		}
	}
	s := Swapping{Swaps: &moved, InVain: &inVain, OutBytes: &out, InBytes: &in, HostPeakBytes: known(hostPeak(tasks, swaps)),
		DrainS: known(total(drain)), CopyS: known(total(copying)), BookkeepingS: known(total(bookkeeping))}
	if len(lost) > 0 {
		s.LostS = known(total(lost))
	}
	if run.Mode == Simulated {
		s.HostMappedS = known(0.0)
	}
	return s
}

// hostPeak returns the most bytes that were on the host at one time.
func hostPeak(tasks []Task, swaps []Swap) int64 {
	type key struct{ job, task int }
	type change struct {
		at float64
		by int64
	}
	var changes []change
	host := map[key]int64{} // of each task
	for _, s := range swaps {
		if !s.Moved() || s.Action == schedulers.Move.String() {
			continue
		}
		of, by := key{s.Job, s.Task}, s.Bytes
		if s.Direction == schedulers.In {
			by = -min(by, host[of])
		}
		host[of] = sum(host[of], by)
		changes = append(changes, change{s.EndS, by})
	}
	for _, t := range tasks {
		if t.ReleaseS != nil {
			changes = append(changes, change{*t.ReleaseS, -host[key{t.Job, t.Seq}]})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	var now, peak int64
	for _, c := range changes {
		now = sum(now, c.by)
		peak = max(peak, now)
	}
	return peak
}

// sum stops at the largest integer.
func sum(a, b int64) int64 {
	if b > math.MaxInt64-max(a, 0) {
		return math.MaxInt64
	}
	return a + b
}
