package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/store"
)

// A small form of TestGateOnResampledSweepsOfAllSchedulers.
func TestGateOnResampledSweeps(t *testing.T) { gateOnResampledSweeps(t, "sa,case-alg3", 40) }

// gateOnResampledSweeps resamples a simulated sweep of W1 to W8 under some schedulers into so many pairs of
// nights. Nights that do not differ raise no more alarms than alpha allows, with the default limits.
// A loss of 5 % under case-alg3 is found in 95 % of nights by five repetitions, over the mixes.
func gateOnResampledSweeps(t *testing.T, scheds string, pairs int) {
	const pooled, repetitions = 16, 5
	inTempDir(t)
	if status, _, errs := caserun(t, "sweep", "--mixes", "W1..W8", "--scheds", scheds, "--node", "sim:4xV100",
		"--sim-noise", "0.013", "--reps", strconv.Itoa(pooled), "--jobs", "4"); status != exitOK {
		t.Fatal(errs)
	}
	db, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	runs, err := db.Runs(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	arms := map[results.Arm][]results.Run{}
	var order []results.Arm
	for _, r := range runs {
		arm := results.ArmOf(r)
		r.Provenance.Configuration = `{"sim-noise":0.013}` // the rest of it is the same, and slow to read
		if arms[arm] == nil {
			order = append(order, arm)
		}
		arms[arm] = append(arms[arm], r)
	}
	slices.SortFunc(order, results.Arm.Compare)
	limits, err := regress.ParseLimits(defaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	// gate draws two nights without a run in common, the second one changed, and judges them.
	gate := func(rng *rand.Rand, change func(*results.Run)) regress.Report {
		a, b := regress.Side{Label: "baseline"}, regress.Side{Label: "candidate"}
		for _, arm := range order {
			for i, at := range rng.Perm(pooled)[:2*repetitions] {
				r := arms[arm][at]
				if i < repetitions {
					a.Runs = append(a.Runs, regress.Observation{Run: r})
					continue
				}
				change(&r)
				b.Runs = append(b.Runs, regress.Observation{Run: r})
			}
		}
		return regress.Gate(a, b, limits, stats.DefaultAlpha)
	}
	rng := rand.New(rand.NewPCG(18, 1+chance.Seed()))
	alarms, passes := 0, 0
	for range pairs {
		switch r := gate(rng, func(*results.Run) {}); {
		case r.Failed() > 0:
			alarms++
		case r.Unsettled() == 0:
			passes++
		default:
			for _, c := range r.Checks {
				if c.Class.Unsettled() {
					t.Logf("unsettled: %s %s: %s", c.Arm, c.Limit.Metric.Name, c.Text)
				}
			}
		}
	}
	found, elsewhere := 0, 0
	for range pairs / 4 {
		r := gate(rng, func(r *results.Run) {
			if r.Scheduler == "case-alg3" {
				*r = slower(*r, 1/0.95)
			}
		})
		hit := false
		for _, c := range r.Checks {
			switch {
			case !c.Class.Fails():
			case c.Arm.Scheduler != "case-alg3":
				elsewhere++
			case c.Mixes == 8 && c.Limit.Metric.Name == "throughput":
				hit = true
			}
		}
		if hit {
			found++
		}
	}
	t.Logf("%d pairs of nights with %d repetitions of %d arms: without a change %d alarms and %d passes; with 5 %% less throughput under case-alg3 found in %d of %d, and %d checks of others fail",
		pairs, repetitions, len(order), alarms, passes, found, pairs/4, elsewhere)
	n := float64(pairs)
	if p := atLeast(pairs, alarms, stats.DefaultAlpha); p < 0.05 {
		t.Errorf("%d alarms in %d pairs that do not differ: p %.3g that alpha is %g", alarms, pairs, p, stats.DefaultAlpha)
	}
	if float64(found) < 0.95*n/4 {
		t.Errorf("found in %d of %d", found, pairs/4)
	}
	if float64(passes) < 0.8*n {
		t.Errorf("%d of %d pairs that do not differ pass", passes, pairs)
	}
}

// slower is a run whose times are longer by a factor.
func slower(r results.Run, factor float64) results.Run {
	m := &r.Metrics
	m.MakespanS, m.TurnaroundMeanS, m.ThroughputJobsPerS = new(*m.MakespanS*factor), new(*m.TurnaroundMeanS*factor), new(*m.ThroughputJobsPerS/factor)
	return r
}

// atLeast is the probability of so many events or more in n trials.
func atLeast(n, events int, p float64) float64 {
	sum := 0.0
	for k := events; k <= n; k++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		sum += math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	}
	return sum
}
