package profiles

import (
	"cmp"
	"errors"
	"slices"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// Measurement has the records of two runs of one job alone: an untraced run, and the kernels and
// copies of a traced run. All times count from one epoch.
type Measurement struct {
	Job    mixes.Job
	Record results.Job
	Tasks  []results.Task
	// PeakBytes is the most device memory that the process was seen to use beyond the reserve for its
	// context; 0: unknown. It counts where the job's tasks show less: code and buffers of CUDA's
	// libraries are in no task.
	PeakBytes int64
	// Trace is what the traced run recorded. That run began at TracedFromS. nil: there was no
	// traced run, or it recorded nothing.
	Trace       *Trace
	TracedFromS float64
}

// errNoDevice means that the job had neither a task nor device memory.
var errNoDevice = errors.New("it used no GPU: there is nothing to profile")

// New makes a profile from a measurement. The caller fills in where and when it was measured. The
// device counts as held from the first grant of a task to the last release. A process without
// tasks (its probe could not serve it) holds the device until its end: from its first kernel or
// copy, or from its start if these are unknown.
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
			to = max(to, t.HeldUntil(end))
		}
		p.Footprint.Bytes = max(results.PeakBytes(granted, end), m.PeakBytes)
		largest := slices.MaxFunc(granted, func(a, b results.Task) int { return cmp.Compare(a.Warps(), b.Warps()) })
		p.Footprint.Blocks, p.Footprint.ThreadsPerBlock = largest.Blocks, largest.ThreadsPerBlock
	case m.PeakBytes == 0 && m.Trace == nil:
		return Profile{}, errNoDevice
	default:
		p.Footprint.Bytes = m.PeakBytes
		if m.Trace != nil {
			from = min(start+max(m.Trace.firstS()-m.TracedFromS, 0), end)
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
	p.HostHeldS = max(to-from-p.KernelS-p.CopyInS-p.CopyOutS, 0) // negative if kernels and copies overlap
	return p, nil
}
