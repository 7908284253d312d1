package regress

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results/stats"
)

// kinds changes runs to ones that lose few jobs or many by chance, and have a throughput to match.
func kinds(rng *rand.Rand, slower float64) func(*Observation) {
	return func(o *Observation) {
		lose := 4
		v := 0.20
		if rng.IntN(2) == 0 {
			lose, v = 8, 0.14
		}
		o.Metrics.OK, o.Metrics.Crashed = 32-lose, lose
		o.Metrics.ThroughputJobsPerS = new(v / slower * math.Exp(0.01*rng.NormFloat64()))
		o.Metrics.TurnaroundMeanS = new(60 * slower * math.Exp(0.01*rng.NormFloat64()))
	}
}

// A scheduler that loses jobs by chance is held to its crashes, and to its own spread in all that names no
// limit of its own. That its runs lose different numbers of jobs tells it, whatever it is called.
func TestSchedulerThatLosesJobsByChance(t *testing.T) {
	all := limits(t, "throughput=3%,turnaround=5%,crashes=0")
	const nights = 100
	rng := rand.New(rand.NewPCG(51, 1+chance.Seed()))
	alarms, unsettled, named := 0, 0, 0
	for range nights {
		a, b := runs("W1", "any", 60, 7, kinds(rng, 1)), runs("W1", "any", 60, 7, kinds(rng, 1))
		r := Gate(Side{Label: "old", Runs: a}, Side{Label: "new", Runs: b}, all, stats.DefaultAlpha)
		alarms += min(1, r.Failed())
		unsettled += min(1, r.Unsettled())
		own := Gate(Side{Label: "old", Runs: a}, Side{Label: "new", Runs: b}, append(limits(t, "any:throughput=3%"), all...), stats.DefaultAlpha)
		named += min(1, own.Unsettled())
	}
	if alarms > most(nights, stats.DefaultAlpha) || unsettled > 0 || named < nights/2 {
		t.Errorf("of %d nights without a change %d alarms, %d unsettled, and with a limit for the scheduler %d", nights, alarms, unsettled, named)
	}
	slow := Gate(Side{Label: "old", Runs: runs("W1", "any", 60, 7, kinds(rng, 1))}, Side{Label: "new", Runs: runs("W1", "any", 60, 7, kinds(rng, 1.6))}, all, stats.DefaultAlpha)
	if slow.Failed() == 0 {
		t.Errorf("jobs that take 1.6 times as long pass: %+v", slow.Checks)
	}
	said := strings.Join(slow.Explanations(), "\n")
	if !strings.Contains(said, "spread: any lost different numbers of jobs") || !strings.Contains(said, "any:throughput=10%") {
		t.Errorf("the report does not say that figures are held to their own spread: %q", said)
	}
}

// Which schedulers lose jobs by chance: those whose baseline lost some, in numbers that differ. A loss that is
// new, or the same in all runs, is not chance.
func TestLosingByChance(t *testing.T) {
	for name, c := range map[string]struct {
		old, new []int
		want     bool
	}{
		"numbers differ before":     {[]int{4, 2, 4}, []int{4}, true},
		"numbers differ now":        {[]int{4}, []int{4, 2, 4}, true},
		"the same number":           {[]int{1}, []int{1}, false},
		"another number":            {[]int{1}, []int{2}, false},
		"the first crashes":         {[]int{0}, []int{0, 2, 0}, false},
		"no job of the baseline ok": {[]int{32}, []int{4, 2, 4}, false},
	} {
		var pairs []Pair
		for _, mix := range []string{"W1", "W2"} {
			lost := c
			if mix == "W2" { // which says nothing of it
				lost.old, lost.new = []int{0}, []int{0}
			}
			a, b := runs(mix, "cg", 60, 6, lossy(lost.old...)), runs(mix, "cg", 60, 6, lossy(lost.new...))
			aArms, bArms := Side{Runs: a}.arms(), Side{Runs: b}.arms()
			found, _, _ := exactPairs(aArms, bArms, namesOf(aArms, bArms))
			pairs = append(pairs, found...)
		}
		byChance := losingByChance(pairs)
		if got := byChance[pairs[0].A.WithoutMix()]; got != c.want || byChance[pairs[1].A.WithoutMix()] != got {
			t.Errorf("%s: %v, want %v in both mixes", name, got, c.want)
		}
	}
}

// A night whose noise is five times the baseline's is not a slower one. The rank test alone would say so
// of many arms, because it takes both sides to scatter alike.
func TestNoisyNightIsNoRegression(t *testing.T) {
	const nights = 200
	all := limits(t, "throughput=3%,turnaround=5%,crashes=0")
	rng := rand.New(rand.NewPCG(51, 2+chance.Seed()))
	alarms, significant := 0, 0
	for range nights {
		r := Gate(night(rng, "baseline", 3, 7, 1, 0.01), night(rng, "candidate", 3, 7, 1, 0.05), all, stats.DefaultAlpha)
		alarms += min(1, r.Failed())
		for _, c := range r.Checks {
			if c.Class == Noise && strings.Contains(c.Text, "it scatters too much to say") {
				significant++
				break
			}
		}
	}
	t.Logf("%d nights of more noise: %d alarms, and %d more by the rank test alone", nights, alarms, significant)
	if alarms > most(nights, stats.DefaultAlpha/2) {
		t.Errorf("%d alarms in %d nights of more noise", alarms, nights)
	}
}
