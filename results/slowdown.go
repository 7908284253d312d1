package results

import (
	"cmp"
	"slices"
)

// Traced is a traced run, with the kernels of each job in the order of their launches.
type Traced struct {
	Jobs    []Job
	Kernels []Kernel
}

// Slowdown says how much longer kernels take in one traced run than in another
// (docs/tracing.md).
type Slowdown struct {
	Jobs []JobSlowdown // the candidate's jobs in their order
	Mean *float64      // over the jobs that have a figure; nil if none has
}

// JobSlowdown compares the kernels of one job with the kernels of the baseline's jobs that ran
// the same command. Launches pair by kernel, grid, block and ordinal; the ordinal counts the
// job's launches with equal kernel, grid and block. If several jobs of the baseline ran the
// command, a launch's baseline time is the mean over the jobs that have the launch.
type JobSlowdown struct {
	Job      int
	Name     string
	Command  string
	Pairs    int
	Unpaired int // launches of the job that no job of the baseline has
	Missing  int // launches of the baseline that the job lacks
	// Sums over the pairs.
	KernelS, BaselineS float64
	Slowdown           *float64 // KernelS / BaselineS - 1; nil without pairs
	// Why says why a job has no pairs: the job or its baseline did not end ok, or left no
	// kernels.
	Why string
}

// launchKey pairs launches of jobs of one command.
type launchKey struct {
	name, grid, block string
	ordinal           int
}

// KernelSlowdown compares a candidate with a baseline; the metric's definition takes a run
// under sa as the baseline. Only jobs that ended ok count, because others may have ended early.
func KernelSlowdown(candidate, baseline Traced) Slowdown {
	alone := map[string]map[launchKey]float64{}
	baselineKernels := byJob(baseline.Kernels)
	for command, jobs := range okByCommand(baseline.Jobs) {
		alone[command] = meanTimes(jobs, baselineKernels)
	}
	kernels := byJob(candidate.Kernels)
	var out Slowdown
	var figures []float64
	for _, j := range candidate.Jobs {
		s := JobSlowdown{Job: j.Index, Name: j.Name, Command: j.Command}
		own := times(kernels[j.Index])
		switch base, ran := alone[j.Command]; {
		case j.Outcome == nil || *j.Outcome != OK:
			s.Why = "did not end ok"
		case !ran:
			s.Why = "no job of the baseline ran it and ended ok"
		case len(own) == 0:
			s.Why = "no kernels were traced"
		default:
			s.compare(own, base)
		}
		if s.Slowdown != nil {
			figures = append(figures, *s.Slowdown)
		}
		out.Jobs = append(out.Jobs, s)
	}
	out.Mean = mean(figures)
	return out
}

func (s *JobSlowdown) compare(own, base map[launchKey]float64) {
	for _, key := range sortedKeys(own) {
		alone, ok := base[key]
		if !ok {
			s.Unpaired++
			continue
		}
		s.Pairs++
		s.KernelS += own[key]
		s.BaselineS += alone
	}
	s.Missing = len(base) - s.Pairs
	switch {
	case s.Pairs == 0:
		s.Why = "no launch has a partner in the baseline"
	case s.BaselineS > 0:
		s.Slowdown = known(s.KernelS/s.BaselineS - 1)
	}
}

func okByCommand(jobs []Job) map[string][]int {
	out := map[string][]int{}
	for _, j := range jobs {
		if j.Outcome != nil && *j.Outcome == OK {
			out[j.Command] = append(out[j.Command], j.Index)
		}
	}
	return out
}

func byJob(kernels []Kernel) map[int][]Kernel {
	out := map[int][]Kernel{}
	for _, k := range kernels {
		out[k.Job] = append(out[k.Job], k)
	}
	return out
}

// times returns the lengths of one job's launches. Aggregates are not launches.
func times(kernels []Kernel) map[launchKey]float64 {
	out := map[launchKey]float64{}
	alike := map[launchKey]int{}
	for _, k := range kernels {
		if k.Grid == "" {
			continue
		}
		key := launchKey{name: k.Name, grid: k.Grid, block: k.Block}
		ordinal := alike[key]
		alike[key]++
		key.ordinal = ordinal
		out[key] = k.BusyS
	}
	return out
}

// meanTimes returns the mean length of each launch over several jobs.
func meanTimes(jobs []int, kernels map[int][]Kernel) map[launchKey]float64 {
	found := map[launchKey][]float64{}
	for _, job := range jobs {
		for key, length := range times(kernels[job]) {
			found[key] = append(found[key], length)
		}
	}
	out := map[launchKey]float64{}
	for key, lengths := range found {
		out[key] = *mean(lengths)
	}
	return out
}

// sortedKeys makes sums independent of the map's order.
func sortedKeys(m map[launchKey]float64) []launchKey {
	keys := make([]launchKey, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b launchKey) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.grid, b.grid), cmp.Compare(a.block, b.block),
			cmp.Compare(a.ordinal, b.ordinal))
	})
	return keys
}
