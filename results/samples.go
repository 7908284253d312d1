package results

import "fmt"

// NoNoise says what the figures of a noise-free arm are worth.
const NoNoise = "runs simulated without noise repeat each other: an arm of them is one sample, without interval and verdict (--sim-noise 0.01 adds noise)"

// NoiseFree reports whether a run is simulated without noise. Every repetition of such a run is
// the same run.
func NoiseFree(r Run) bool {
	if r.Mode != Simulated {
		return false
	}
	noise := Configuration(r)["sim-noise"]
	return noise == nil || fmt.Sprint(noise) == "0"
}

// AllNoiseFree is NoiseFree of all of several runs, of which there is one at least.
func AllNoiseFree(runs []Run) bool {
	for _, r := range runs {
		if !NoiseFree(r) {
			return false
		}
	}
	return len(runs) > 0
}

// Copies reports of each run whether it is an earlier one again: a complete simulated run of the
// same arm and mix with the same figures, and with the same seed or without noise. A copy is not a sample
// of its own. Noisy runs of several seeds are not copies even if their figures are equal, because
// all jobs may end at a limit.
func Copies(runs []Run) []bool {
	type content struct {
		arm                  Arm
		source               string
		seed                 uint64
		ok                   int
		makespan, turnaround float64
	}
	of := func(v *float64) float64 {
		if v == nil {
			return -1
		}
		return *v
	}
	seen := map[content]bool{}
	out := make([]bool, len(runs))
	for i, r := range runs {
		if r.Mode != Simulated || r.Status != Complete {
			continue
		}
		c := content{ArmOf(r), r.MixSource, r.Seed, r.Metrics.OK, of(r.Metrics.MakespanS), of(r.Metrics.TurnaroundMeanS)}
		if NoiseFree(r) {
			c.seed = 0
		}
		out[i], seen[c] = seen[c], true
	}
	return out
}

// SaysDoubtful says that doubtful runs were left out.
func SaysDoubtful(n int) string {
	return fmt.Sprintf("doubtful runs, which are left out: %d; caserun report of one says why", n)
}

// SaysExcluded says that runs were left out that a user has excluded.
func SaysExcluded(n int) string {
	return fmt.Sprintf("excluded runs, which are left out: %d; caserun store list shows them", n)
}

// SaysCopies says that copies were left out.
func SaysCopies(n int) string {
	return fmt.Sprintf("simulated runs that repeat another one, with the same seed or without noise, and are left out: %d", n)
}
