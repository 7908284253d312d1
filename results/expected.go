package results

import "strings"

// Expected is what a job does, or is expected to do, on one of a node's devices. A time or a size
// that runs have shown is a median over them.
type Expected struct {
	BeforeS float64 // from its start to its first request
	HeldS   float64 // from each grant to the release, all tasks together
	AfterS  float64 // from its last release to its end
	Bytes   int64   // the most that its tasks had at one time
	// Kernels is the part of HeldS in which kernels run, from 0 to 1, and SMs the part of the
	// device's SMs that they fill in the mean. nil: unknown.
	Kernels, SMs *float64
	Source       string // from where it is known: "14 runs", "profile", "file"
}

// aloneS is how long a job takes from its start to its end with a device of its own.
func (e Expected) aloneS() float64 { return e.BeforeS + e.HeldS + e.AfterS }

// Known is what is known of the jobs of one command on one GPU model. Without a Source nothing is.
type Known struct {
	Command string
	GPU     string // as the store has its name; "" in a file: any
	Runs    int    // that it is known from; 0: it is not known from runs
	Jobs    int    // of these runs
	Expected
}

// SimulatedGPU ends the names of the devices of simulated nodes.
const SimulatedGPU = " (simulated)"

// Mode is that of the GPU; empty if it is any.
func (k Known) Mode() Mode {
	switch {
	case k.GPU == "":
		return ""
	case strings.HasSuffix(k.GPU, SimulatedGPU):
		return Simulated
	}
	return Live
}

// Prediction is what a run's scheduler expected of a job.
type Prediction struct {
	Job int
	Expected
}

// Observe returns what a job that ended ok did. Its source, its kernels and what they fill are not
// known from the job and its tasks. false: the job did not end ok, or no task of it was granted.
func Observe(j Job, tasks []Task) (e Expected, ok bool) {
	if j.Outcome == nil || *j.Outcome != OK || j.StartS == nil || j.EndS == nil {
		return e, false
	}
	start, end := *j.StartS, *j.EndS
	first, last := end, start
	var granted []Task
	for _, t := range tasks {
		if t.GrantS == nil {
			continue
		}
		granted = append(granted, t)
		first = min(first, t.SubmitS)
		last = max(last, t.HeldUntil(end))
		e.HeldS += max(t.HeldUntil(end)-*t.GrantS, 0)
	}
	e.BeforeS, e.AfterS = max(first-start, 0), max(end-last, 0)
	if e.Bytes = PeakBytes(granted, end); j.UsedBytes != nil {
		e.Bytes = *j.UsedBytes
	}
	return e, len(granted) > 0
}
