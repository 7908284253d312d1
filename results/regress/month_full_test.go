//go:build full

package regress

import (
	"math/rand/v2"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results/stats"
)

// A month of nights under five schedulers, one of which loses jobs by chance, with three noisy nights: good quiet
// nights pass outright, bad ones fail, for regressions of many shapes.
func TestMonthOfNights(t *testing.T) {
	const last, from = 30, 18
	noisy := map[int]bool{5: true, 13: true, 22: true}
	all := limits(t, "throughput=3%,turnaround=5%,crashes=0")
	// A shape says how many times as long a mix takes under a scheduler on a night, and how many jobs it loses.
	type shape func(night int, mix, scheduler string) (slower float64, lost int)
	since := func(of func(mix, scheduler string) (float64, int)) shape {
		return func(night int, mix, scheduler string) (float64, int) {
			if night < from {
				return 1, 0
			}
			return of(mix, scheduler)
		}
	}
	for name, c := range map[string]struct {
		shape
		bad func(night int) (bad, known bool) // known: the night's answer is not a matter of chance
	}{
		"nothing": {func(int, string, string) (float64, int) { return 1, 0 }, func(int) (bool, bool) { return false, true }},
		"5 % from a night on": {since(func(string, string) (float64, int) { return 1 / 0.95, 0 }),
			func(n int) (bool, bool) { return n >= from, true }},
		"5 % of one mix": {since(func(mix, _ string) (float64, int) {
			if mix == "W2" {
				return 1 / 0.95, 0
			}
			return 1, 0
		}), func(n int) (bool, bool) { return n >= from, true }},
		"5 % of one scheduler": {since(func(_, scheduler string) (float64, int) {
			if scheduler == "case-alg3" {
				return 1 / 0.95, 0
			}
			return 1, 0
		}), func(n int) (bool, bool) { return n >= from, true }},
		"a crash that appears": {since(func(_, scheduler string) (float64, int) {
			if scheduler == "sa" {
				return 1, 2
			}
			return 1, 0
		}), func(n int) (bool, bool) { return n >= from, true }},
		"2 %, which is less than the limit": {since(func(string, string) (float64, int) { return 1 / 0.98, 0 }),
			func(n int) (bool, bool) { return false, n < from }},
		"a slow drift": {func(n int, _, _ string) (float64, int) { return 1 + 0.003*float64(n), 0 },
			func(n int) (bool, bool) { return n > 17, n < 4 || n > 17 }},
		"better, then back": {func(n int, _, _ string) (float64, int) {
			if n >= 12 && n < 21 {
				return 0.95, 0
			}
			return 1, 0
		}, func(int) (bool, bool) { return false, true }},
	} {
		t.Run(name, func(t *testing.T) {
			months := chance.Count(3, 20)
			alarms := 0
			for month := range months {
				rng := rand.New(rand.NewPCG(51, uint64(100+month)+chance.Seed()))
				play := func(n int) Side {
					sigma := 0.01
					if noisy[n] {
						sigma = 0.05
					}
					side := Side{Label: "night"}
					for _, scheduler := range []string{"sa", "schedgpu", "case-alg2", "case-alg3", "any"} {
						for _, o := range night(rng, "night", 3, 7, 1, sigma).Runs {
							o.Scheduler = scheduler
							slower, lost := c.shape(n, o.Mix, scheduler)
							if scheduler == "any" {
								kinds(rng, slower)(&o)
							} else {
								*o.Metrics.MakespanS *= slower
								*o.Metrics.TurnaroundMeanS *= slower
								*o.Metrics.ThroughputJobsPerS /= slower
								o.Metrics.OK, o.Metrics.Crashed = 32-lost, lost
							}
							side.Runs = append(side.Runs, o)
						}
					}
					return side
				}
				baseline := play(0)
				for n := 1; n <= last; n++ {
					r := Gate(baseline, play(n), all, stats.DefaultAlpha)
					bad, known := c.bad(n)
					switch {
					case noisy[n] && !bad || !known:
						if noisy[n] && r.Failed() > 0 && known {
							alarms++
						}
					case bad && r.Failed() == 0 && !noisy[n]:
						t.Errorf("month %d, night %d: %s", month, n, r.Summary())
					case !bad && r.Failed()+r.Unsettled() > 0:
						t.Errorf("month %d, night %d: %s: %+v", month, n, r.Summary(), r.Checks[0])
					}
				}
			}
			if alarms > most(3*months, stats.DefaultAlpha) {
				t.Errorf("%d alarms on noisy nights of %d months", alarms, months)
			}
		})
	}
}
