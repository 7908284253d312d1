package results

import (
	"cmp"
	"maps"
	"slices"
)

// Traced is a traced run: its jobs, and how long their kernels took.
type Traced struct {
	Jobs     []Job
	launches map[int]launches // by job
}

// launches are the lengths in seconds of a job's launches, in the order of the launches. A run
// can have millions, so that each is one number.
type launches map[launchShape][]float64

// launchShape tells which launches of jobs of one command can pair.
type launchShape struct{ name, grid, block string }

// Launch is one kernel of a traced run, as far as a slowdown needs to know it.
type Launch struct {
	Job               int
	Name, Grid, Block string
	BusyS             float64 // time in the kernel
}

// Add notes a launch. The launches of a job come in their order.
func (t *Traced) Add(l Launch) {
	if t.launches == nil {
		t.launches = map[int]launches{}
	}
	if t.launches[l.Job] == nil {
		t.launches[l.Job] = launches{}
	}
	shape := launchShape{l.Name, l.Grid, l.Block}
	t.launches[l.Job][shape] = append(t.launches[l.Job][shape], l.BusyS)
}

// Pool adds another run's jobs, as different jobs.
func (t *Traced) Pool(more Traced) {
	shift := len(t.Jobs)
	for _, j := range more.Jobs {
		j.Index += shift
		t.Jobs = append(t.Jobs, j)
	}
	for job, l := range more.launches {
		if t.launches == nil {
			t.launches = map[int]launches{}
		}
		t.launches[job+shift] = l
	}
}

// Slowdown says how much longer kernels take in one traced run than in another
// (docs/design/tracing.md).
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

// NotInBaseline is why a job whose command the baseline lacks has no pairs.
const NotInBaseline = "no job of the baseline ran it and ended ok"

// KernelSlowdown compares a candidate with a baseline; the metric's definition takes a run
// under sa as the baseline. Only jobs that ended ok count, because others may have ended early.
func KernelSlowdown(candidate, baseline Traced) Slowdown {
	alone := map[string]launches{}
	for command, jobs := range okByCommand(baseline.Jobs) {
		alone[command] = meanOf(jobs, baseline.launches)
	}
	var out Slowdown
	var figures []float64
	for _, j := range candidate.Jobs {
		s := JobSlowdown{Job: j.Index, Name: j.Name, Command: j.Command}
		own := candidate.launches[j.Index]
		switch base, ran := alone[j.Command]; {
		case j.Outcome == nil || *j.Outcome != OK:
			s.Why = "did not end ok"
		case !ran:
			s.Why = NotInBaseline
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

func (s *JobSlowdown) compare(own, base launches) {
	for _, shape := range own.shapes() {
		lengths, alone := own[shape], base[shape]
		pairs := min(len(lengths), len(alone))
		s.Pairs += pairs
		s.Unpaired += len(lengths) - pairs
		for i := range pairs {
			s.KernelS += lengths[i]
			s.BaselineS += alone[i]
		}
	}
	s.Missing = base.count() - s.Pairs
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

// meanOf returns the mean length of each launch over the jobs that have the launch.
func meanOf(jobs []int, all map[int]launches) launches {
	sums, counts := launches{}, map[launchShape][]int{}
	for _, job := range jobs {
		for shape, lengths := range all[job] {
			for i, length := range lengths {
				if i == len(sums[shape]) {
					sums[shape], counts[shape] = append(sums[shape], 0), append(counts[shape], 0)
				}
				sums[shape][i] += length
				counts[shape][i]++
			}
		}
	}
	for shape, lengths := range sums {
		for i, n := range counts[shape] {
			lengths[i] /= float64(n)
		}
	}
	return sums
}

// shapes are in order, so that sums do not depend on the map's order.
func (l launches) shapes() []launchShape {
	return slices.SortedFunc(maps.Keys(l), func(a, b launchShape) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.grid, b.grid), cmp.Compare(a.block, b.block))
	})
}

func (l launches) count() (n int) {
	for _, lengths := range l {
		n += len(lengths)
	}
	return n
}
