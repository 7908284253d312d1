package profiles

import (
	"cmp"
	"errors"
	"slices"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// Measurement is what a run of one job alone left: its records, with times from
// one epoch.
type Measurement struct {
	Job    mixes.Job
	Record results.Job
	Tasks  []results.Task
	// PeakBytes is the most device memory that the process was seen to use,
	// without its context; 0 is unknown. It counts where it had no task.
	PeakBytes int64
	Trace     *Trace // nil: not traced, or nothing was
}

// ErrNoDevice: the job had no task and no device memory.
var ErrNoDevice = errors.New("it used no GPU: there is nothing to profile")

// New makes a profile of a measurement; where and when it was measured is left
// to the caller. The device counts as held from the first task's grant to the
// last one's release. A process without tasks, which its probe could not serve,
// holds it from its first kernel or copy, or where that is unknown from its
// start, until its end.
func New(m Measurement) (Profile, error) {
	if m.Record.StartS == nil || m.Record.EndS == nil {
		return Profile{}, errors.New("it has not run to its end")
	}
	start, end := *m.Record.StartS, *m.Record.EndS
	p := Profile{Job: m.Job.Name, Command: m.Job.Command(), Kernels: Untraced}
	granted := slices.DeleteFunc(slices.Clone(m.Tasks), func(t results.Task) bool { return t.GrantS == nil })
	from, to := start, end
	switch {
	case len(granted) > 0:
		from, to = end, start
		for _, t := range granted {
			from = min(from, *t.GrantS)
			to = max(to, releaseOf(t, end))
		}
		p.Footprint.Bytes = peakBytes(granted, end)
		largest := slices.MaxFunc(granted, func(a, b results.Task) int { return cmp.Compare(warps(a), warps(b)) })
		p.Footprint.Blocks, p.Footprint.ThreadsPerBlock = largest.Blocks, largest.ThreadsPerBlock
	case m.PeakBytes == 0 && m.Trace == nil:
		return Profile{}, ErrNoDevice
	default:
		p.Footprint.Bytes = m.PeakBytes
		if m.Trace != nil {
			from = max(m.Trace.firstS(), start)
		}
	}
	if t := m.Trace; t != nil {
		p.Kernels = Traced
		if t.Incomplete {
			p.Kernels = Estimated
		}
		p.KernelPhases, p.Rounds = t.kernelPhases(), t.rounds()
		for _, k := range p.KernelPhases {
			p.KernelS += k.S
		}
		p.CopyInBytes, p.CopyInS, p.CopyOutBytes, p.CopyOutS = t.copyInBytes, t.copyInS, t.copyOutBytes, t.copyOutS
		if p.Footprint.Blocks == 0 {
			p.Footprint.Blocks, p.Footprint.ThreadsPerBlock = t.blocks, t.threadsPerBlock
		}
	}
	p.HostBeforeS, p.HostAfterS = max(from-start, 0), max(end-to, 0)
	p.HostHeldS = max(to-from-p.KernelS-p.CopyInS-p.CopyOutS, 0) // less than nothing where streams overlap them
	return p, nil
}

func releaseOf(t results.Task, end float64) float64 {
	if t.ReleaseS != nil {
		return *t.ReleaseS
	}
	return end
}

// warps is in floating point: a task of 2^62 blocks is valid, its warps are more.
func warps(t results.Task) float64 {
	return float64(t.Blocks) * float64((uint64(t.ThreadsPerBlock)+31)/32)
}

// peakBytes is the most that tasks held at one time, with their heap and all
// they grew by.
func peakBytes(tasks []results.Task, end float64) int64 {
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
func changes(tasks []results.Task, end float64) []change {
	var out []change
	for _, t := range tasks {
		from, to, bytes := *t.GrantS, releaseOf(t, end), t.Bytes+t.HeapBytes+t.GrownBytes
		if to <= from {
			out = append(out, change{from, instant, bytes})
			continue
		}
		out = append(out, change{from, grant, bytes}, change{to, release, -bytes})
	}
	slices.SortFunc(out, func(a, b change) int { return cmp.Or(cmp.Compare(a.atS, b.atS), cmp.Compare(a.kind, b.kind)) })
	return out
}
