package regress

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// night makes a side with the given number of mixes and repetitions. Phases take slower times
// as long, with log-normal noise of sigma. One draw moves all metrics of a run together, as in
// a slow run; each metric also has noise of its own.
func night(rng *rand.Rand, label string, mixes, repetitions int, slower, sigma float64) Side {
	side := Side{Label: label}
	for m := range mixes {
		for range repetitions {
			common := rng.NormFloat64()
			draw := func(base float64) *float64 {
				own := rng.NormFloat64()
				v := base * slower * math.Exp(sigma*(0.8*common+0.6*own))
				return &v
			}
			makespan := draw(60)
			throughput := 32 / *makespan
			side.Runs = append(side.Runs, Observation{Run: results.Run{Mix: fmt.Sprintf("W%d", m+1), Scheduler: "case-alg3",
				Node: "local", Mode: results.Live, Status: results.Complete, Jobs: 32,
				Metrics: results.Metrics{OK: 32, MakespanS: makespan, ThroughputJobsPerS: &throughput, TurnaroundMeanS: draw(30)}}})
		}
	}
	return side
}

func limits(t testing.TB, text string) []Limit {
	t.Helper()
	out, err := ParseLimits(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// most is the largest plausible count of n trials with probability p: three standard deviations
// above the mean.
func most(n int, p float64) int {
	return int(float64(n)*p + 3*math.Sqrt(float64(n)*p*(1-p)))
}

// Nights that do not differ raise no more alarms than alpha allows: almost none with limits,
// and alpha/2 if any significant loss is an alarm.
func TestNoAlarmWithoutEffect(t *testing.T) {
	const nights = 200
	for _, c := range []struct {
		limits string
		mixes  int
		sigma  float64
		alarms int
		// How many nights must pass outright.
		passes int
	}{
		{"throughput=3%,turnaround=5%,makespan=3%,crashes=0", 1, 0.01, 0, nights},
		{"throughput=3%,turnaround=5%,crashes=0", 4, 0.01, 0, nights},
		{"throughput=3%,turnaround=5%,crashes=0", 4, 0.05, most(nights, stats.DefaultAlpha/2), 0},
		{"throughput=0%,turnaround=0%,makespan=0%,crashes=0", 1, 0.01, most(nights, stats.DefaultAlpha/2), 0},
		{"throughput=0%,turnaround=0%,crashes=0", 4, 0.05, most(nights, stats.DefaultAlpha/2), 0},
	} {
		rng := rand.New(rand.NewPCG(7, 1))
		alarms, passes := 0, 0
		for range nights {
			r := Gate(night(rng, "baseline", c.mixes, 7, 1, c.sigma), night(rng, "candidate", c.mixes, 7, 1, c.sigma), limits(t, c.limits), stats.DefaultAlpha)
			switch {
			case r.Failed() > 0:
				alarms++
			case r.Unsettled() == 0:
				passes++
			}
		}
		t.Logf("%d mixes, noise %.0f %%, %s: %d alarms and %d passes of %d", c.mixes, 100*c.sigma, c.limits, alarms, passes, nights)
		if alarms > c.alarms || passes < c.passes {
			t.Errorf("%s: %d alarms, want at most %d; %d passes, want %d", c.limits, alarms, c.alarms, passes, c.passes)
		}
	}
}

// With 7 repetitions and 1 % noise, a true loss of 5 % is found in at least 95 % of nights, in
// the right metric. This holds for every gate of a night and for the 64 checks of a full night.
func TestEffectIsFound(t *testing.T) {
	for _, c := range []struct{ mixes, nights int }{{1, 200}, {32, 40}} {
		mixes, nights := c.mixes, c.nights
		rng := rand.New(rand.NewPCG(7, 2))
		found := 0
		for range nights {
			baseline := night(rng, "baseline", mixes, 7, 1, 0.01)
			candidate := night(rng, "candidate", mixes, 7, 1, 0.01)
			slow := night(rng, "candidate", 1, 7, 1/0.95, 0.01)
			copy(candidate.Runs, slow.Runs) // only the first mix
			r := Gate(baseline, candidate, limits(t, "throughput=3%,turnaround=5%,crashes=0"), stats.DefaultAlpha)
			hit := false
			for _, c := range r.Checks {
				switch {
				case c.Arm.Mix == "W1" && c.Limit.Metric.Name == "throughput":
					hit = c.Class == Regression
				case c.Arm.Mix != "W1" && c.Class.Fails():
					t.Errorf("false alarm: %+v", c)
				}
			}
			if hit {
				found++
			}
		}
		t.Logf("%d mixes: %d of %d found", mixes, found, nights)
		if found < nights*95/100 {
			t.Errorf("%d mixes: %d of %d found", mixes, found, nights)
		}
	}
}
