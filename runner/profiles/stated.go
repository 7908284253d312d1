package profiles

import "github.com/caserun/caserun/mixes"

// statedSM is what an SM of V100, A100 and H200 holds at once (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability"). A mix that states a profile says nothing of
// registers and shared memory.
var statedSM = SM{Blocks: 32, Warps: 64}

// stated is the profile that a mix states for a job.
func stated(j mixes.Job) Profile {
	s := j.Profile
	p := Profile{Job: j.Name, Command: j.Command(), HostBeforeS: s.Before.Seconds(), HostAfterS: s.After.Seconds(),
		Rounds: s.Rounds, Kernels: Estimated, Footprint: j.Footprint}
	if p.Rounds == 0 {
		p.Rounds = len(s.Phases)
	}
	sized := true
	for _, phase := range s.Phases {
		p.HostHeldS += phase.Host.Seconds()
		p.KernelS += phase.Kernel.Seconds()
		p.CopyInBytes += phase.CopyIn
		p.CopyOutBytes += phase.CopyOut
		k := phase.Kernels
		p.KernelPhases = append(p.KernelPhases, KernelPhase{S: phase.Kernel.Seconds(),
			SMs: float64(k.Blocks) / float64(blocksPerSM(statedSM, uint64(k.ThreadsPerBlock), 0, 0))})
		sized = sized && (k.Blocks > 0 || phase.Kernel == 0)
	}
	if !sized { // the footprint's grid counts, if there is one
		p.KernelPhases = nil
	}
	return p
}
