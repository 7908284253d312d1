package regress

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// long makes each run lose its longest jobs: n of 24. What is left ends early, and with less energy.
func long(n int) func(*Observation) {
	return func(o *Observation) {
		o.Jobs, o.Metrics.OK, o.Metrics.Crashed = 24, 24-n, n
		shorter := 1 - float64(n)/25
		*o.Metrics.MakespanS *= shorter * shorter
		*o.Metrics.TurnaroundMeanS *= shorter * shorter
		*o.Metrics.ThroughputJobsPerS = float64(24-n) / *o.Metrics.MakespanS
		o.Metrics.Energy.UsedJ = new(1000 * *o.Metrics.MakespanS)
		if n == 24 {
			o.Metrics.TurnaroundMeanS = nil
		} else {
			o.Metrics.Energy.PerOK = new(*o.Metrics.Energy.UsedJ / float64(24-n))
		}
	}
}

// A gate that is asked for other metrics alone checks lost jobs too, and no metric of a side that lost
// more passes, or fails the other side.
func TestGateOfLostJobs(t *testing.T) {
	for name, c := range map[string]struct {
		old, new int // lost jobs
		limits   string
		want     string // metric: class, of each check
		says     string // in the text of one check
	}{
		"long jobs die":          {0, 6, "throughput=3%,turnaround=5%,makespan=5%", "crashes: crash, throughput: not comparable, turnaround: not comparable, makespan: not comparable", "the candidate lost more jobs (25.0 %, 0.0 % before)"},
		"and energy":             {0, 6, "energy=5%", "crashes: crash, energy: not comparable", ""},
		"not checked":            {0, 6, "makespan=5%,crashes=none", "makespan: not comparable", ""},
		"not checked of a cell":  {0, 6, "makespan=5%,W1/sa:crashes=none", "makespan: not comparable", ""},
		"allowed":                {0, 6, "makespan=5%,crashes=6", "makespan: ok, crashes: ok", "with more lost jobs, as crashes=6 allows"},
		"more than is allowed":   {0, 6, "makespan=5%,crashes=5", "crashes: crash, makespan: not comparable", ""},
		"all die":                {0, 24, "makespan=5%", "crashes: crash, makespan: nothing measured", "no value, because no job ended ok in 7 runs of the candidate"},
		"all die, and not seen":  {0, 24, "energy=5%,crashes=none", "energy: nothing measured", "no job ended ok"},
		"throughput of the dead": {0, 24, "throughput=5%,crashes=none", "throughput: regression", "worse: -100.0 %"},
		"the baseline died":      {24, 0, "makespan=5%,throughput=3%", "makespan: nothing measured, throughput: nothing measured, crashes: ok", "no value, because no job ended ok in 7 runs of the baseline"},
		"both died":              {24, 24, "makespan=5%,throughput=3%,crashes=none", "makespan: nothing measured, throughput: nothing measured", "no job ended ok in 7 runs of the baseline and 7 of the candidate"},
		"the baseline lost more": {6, 0, "makespan=5%", "makespan: not comparable, crashes: ok", "the baseline lost more jobs (25.0 %, and 0.0 % now)"},
		"and is better even so":  {6, 0, "throughput=3%,turnaround=90%", "throughput: ok, turnaround: ok, crashes: ok", ""},
		"as many":                {6, 6, "makespan=5%", "makespan: ok, crashes: ok", ""},
	} {
		candidate := runs("W1", "sa", 60, 7, long(c.new))
		if name == "and is better even so" {
			candidate = runs("W1", "sa", 40, 7, long(c.new))
		}
		r := Gate(Side{Label: "old", Runs: runs("W1", "sa", 60, 7, long(c.old))}, Side{Label: "new", Runs: candidate}, WithCrashes(limits(t, c.limits)), stats.DefaultAlpha)
		var got, texts []string
		for _, check := range r.Checks {
			got = append(got, fmt.Sprintf("%s: %s", check.Limit.Metric.Name, check.Class))
			texts = append(texts, check.Text)
		}
		if c.limits == "makespan=5%,crashes=none" && c.old < c.new && r.Summary() != "1 check cannot be compared, because a side lost more jobs (of 1)" {
			t.Errorf("%s: %s", name, r.Summary())
		}
		all := strings.Join(texts, "\n")
		if strings.Join(got, ", ") != c.want || !strings.Contains(all, c.says) || c.new > c.old && strings.Contains(all, "better") {
			t.Errorf("%s: %q, want %q and %q in\n%s", name, got, c.want, c.says, all)
		}
	}
}

// As many lost jobs as the limit allows are as many for all metrics, though 2.7 - 2 is more than 0.7 to a computer.
func TestGateOfJustAsManyLostJobs(t *testing.T) {
	old, lost := runs("W1", "sa", 60, 10, long(2)), runs("W1", "sa", 60, 10, long(2))
	for i := range 7 {
		lost[i].Metrics.OK, lost[i].Metrics.Crashed = 21, 3
	}
	for _, c := range Gate(Side{Runs: old}, Side{Runs: lost}, limits(t, "makespan=5%,crashes=0.7"), stats.DefaultAlpha).Checks {
		if c.Class != Passed {
			t.Errorf("%s: %s, %s", c.Limit, c.Class, c.Text)
		}
	}
}

// That lost jobs are checked too does not make up for a limit of which there is no arm.
func TestGateOfMisspeltLimit(t *testing.T) {
	r := Gate(Side{Label: "old", Runs: runs("W1", "sa", 60, 7, nil)}, Side{Label: "new", Runs: runs("W1", "sa", 60, 7, nil)},
		WithCrashes(limits(t, "W9/sa:throughput=3%")), stats.DefaultAlpha)
	if len(r.Checks) != 2 || r.Checks[0].Class != NothingMeasured || r.Unsettled() != 1 {
		t.Errorf("%+v", r.Checks)
	}
}

// Only a verdict against the side that lost more jobs counts, whichever side that is.
func TestCompareOfLostJobs(t *testing.T) {
	named := func(metrics ...string) (out []results.Metric) {
		for _, name := range metrics {
			m, err := LookupMetric(name)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
		return out
	}
	all := named("throughput", "turnaround", "makespan", "energy", "energy-per-job")
	for name, c := range map[string]struct {
		a, b int
		want string
	}{
		"B":    {0, 6, "inconclusive: not comparable: new lost more jobs"},
		"A":    {6, 0, "inconclusive: not comparable: old lost more jobs"},
		"none": {6, 6, "same: "},
	} {
		r, err := Compare(Side{Label: "old", Runs: runs("W1", "sa", 60, 7, long(c.a))}, Side{Label: "new", Runs: runs("W1", "sa", 60, 7, long(c.b))},
			Options{Metrics: all, MinEffect: 0.02})
		if err != nil || len(r.Rows) != len(all) {
			t.Fatalf("%d rows: %v", len(r.Rows), err)
		}
		for _, row := range r.Rows {
			if got := fmt.Sprintf("%s: %s", row.Verdict, row.Reason); got != c.want && row.Metric.Name != "energy-per-job" {
				t.Errorf("%s lost more, %s: %s, want %s", name, row.Metric.Name, got, c.want)
			}
		}
	}
	gone, err := Compare(Side{Label: "old", Runs: runs("W1", "sa", 60, 7, long(0))}, Side{Label: "new", Runs: runs("W1", "sa", 60, 7, long(24))}, Options{Metrics: named("makespan", "energy")})
	if err != nil || gone.Rows[0].Reason != "no job of new ended ok" || gone.Rows[1].Reason != gone.Rows[0].Reason {
		t.Errorf("makespan and energy of the dead: %+v (%v)", gone.Rows, err)
	}
	if want := "runs of new in which no job ended ok: 7; they have no turnaround, makespan and energy"; !slices.Contains(gone.Notes, want) {
		t.Errorf("notes %q lack %q", gone.Notes, want)
	}
	slower, err := Compare(Side{Label: "old", Runs: runs("W1", "sa", 60, 7, long(0))}, Side{Label: "new", Runs: runs("W1", "sa", 150, 7, long(6))}, Options{Metrics: named("makespan"), MinEffect: 0.02})
	if err != nil || slower.Rows[0].Verdict != stats.Worse {
		t.Errorf("slower, with lost jobs: %+v, want worse", slower.Rows[0].Comparison)
	}
	// Two batches of another size are compared by the share of their jobs.
	half := func(o *Observation) { o.Jobs, o.Metrics.OK, o.Metrics.Crashed = 12, 9, 3 }
	sizes, err := Compare(Side{Label: "old", Runs: runs("W1", "sa", 60, 7, long(6))}, Side{Label: "new", Runs: runs("W2", "sa", 30, 7, half)}, Options{Metrics: named("makespan"), MinEffect: 0.02})
	if err != nil || sizes.Rows[0].Verdict != stats.Better {
		t.Errorf("as many of fewer jobs: %+v (%v), want better", sizes.Rows[0].Comparison, err)
	}
}

// A ratio flatters the side that looks better and lost more jobs. Equal sides look alike, and no ratio tells nothing.
func TestFlatters(t *testing.T) {
	for _, c := range []struct {
		ratio  float64
		higher bool
		lost   [2]bool
		want   bool
	}{
		{1.1, true, [2]bool{false, true}, true}, {1.1, true, [2]bool{true, false}, false},
		{0.9, true, [2]bool{false, true}, false}, {0.9, true, [2]bool{true, false}, true},
		{1.1, false, [2]bool{false, true}, false}, {1.1, false, [2]bool{true, false}, true},
		{0.9, false, [2]bool{false, true}, true}, {0.9, false, [2]bool{true, false}, false},
		{1, true, [2]bool{true, true}, false}, {1, false, [2]bool{true, true}, false},
		{math.NaN(), true, [2]bool{true, true}, false}, {math.NaN(), false, [2]bool{true, true}, false},
		{1.1, true, [2]bool{}, false}, {0.9, false, [2]bool{}, false},
	} {
		if got := Flatters(c.ratio, c.higher, c.lost); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A ratio of 0 to 0 has no value, of the base too.
func TestRatiosOfNothing(t *testing.T) {
	nothing := func(o *Observation) { *o.Metrics.MakespanS, o.Metrics.ThroughputJobsPerS = 0, nil }
	dead := func(o *Observation) { long(24)(o); *o.Metrics.MakespanS = 0 }
	for name, change := range map[string]func(*Observation){"makespans of 0": nothing, "dead": dead} {
		m := matrixOf(t, side(runs("W1", "sa", 60, 7, change), runs("W1", "cg", 60, 7, change)), "")
		for j, metric := range m.Metrics {
			for _, row := range m.Rows {
				if r := row.Over[j].Ratio; metric.Name != "turnaround" && (!math.IsNaN(r.Value) || r.Bounded()) {
					t.Errorf("%s: %s of %s: %+v", name, metric.Name, row.Name, r)
				}
			}
		}
		r, err := Compare(Side{Label: "old", Runs: runs("W1", "sa", 60, 7, change)}, Side{Label: "new", Runs: runs("W1", "sa", 60, 7, change)}, Options{MinEffect: 0.02})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Rows {
			if n := row.Metric.Name; n != "crashes" && n != "turnaround" && (!math.IsNaN(row.Change) || row.Bounded() || row.Verdict != stats.Inconclusive) {
				t.Errorf("%s: %s: %+v", name, n, row.Comparison)
			}
		}
		g := Gate(Side{Runs: runs("W1", "sa", 60, 7, change)}, Side{Runs: runs("W1", "sa", 60, 7, change)}, limits(t, "makespan=5%"), stats.DefaultAlpha)
		if g.Checks[0].Class != NothingMeasured {
			t.Errorf("%s: %+v", name, g.Checks[0])
		}
	}
}

// drawn is a side of a random pair of stores: what it loses in each mix is drawn, and lost jobs make all
// figures better.
func drawn(rng *rand.Rand, label string, mixes []string) Side {
	s := Side{Label: label}
	for _, mix := range mixes {
		most := []int{0, 0, 0, 2, 6, 12, 24}[rng.IntN(7)] // jobs that a run may lose
		always := rng.IntN(4) > 0
		speed := 0.8 + 0.4*rng.Float64()
		s.Runs = append(s.Runs, runs(mix, "sa", 60*speed, 4+rng.IntN(4), func(o *Observation) {
			n := most
			if !always {
				n = rng.IntN(most + 1)
			}
			long(n)(o)
		})...)
	}
	return s
}

// dealt is the two-sided p value of the numbers of jobs that runs lost: how often runs that are dealt to the
// sides at random differ as much. It counts every way to deal.
func dealt(a, b []float64) float64 {
	all, total := slices.Concat(a, b), 0.0
	for _, v := range b {
		total += v
	}
	below, above, ways := 0, 0, 0
	var deal func(from, left int, sum float64)
	deal = func(from, left int, sum float64) {
		if left == 0 {
			ways++
			if sum <= total {
				below++
			}
			if sum >= total {
				above++
			}
			return
		}
		for i := from; i <= len(all)-left; i++ {
			deal(i+1, left-1, sum+all[i])
		}
	}
	deal(0, len(b), 0)
	return min(1, 2*float64(min(below, above))/float64(ways))
}

// Of random pairs of stores with random losses, no side that lost significantly more jobs passes the gate
// or is better anywhere.
func TestNoGainByLostJobs(t *testing.T) {
	const alpha = stats.DefaultAlpha
	lossy := 0
	for seed := range chance.Seeds(t, 500, 5000) {
		rng := rand.New(rand.NewPCG(seed, 47))
		mixes := []string{"W1", "W2", "W3"}[:1+rng.IntN(3)]
		a, b := drawn(rng, "old", mixes), drawn(rng, "new", mixes)
		text := []string{"throughput=3%", "makespan=5%", "energy=5%", "turnaround=5%", "energy-per-job=5%"}
		rng.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
		asked := text[:1+rng.IntN(len(text))]
		if rng.IntN(3) == 0 {
			asked = append(slices.Clone(asked), "crashes=none")
		}
		gate := Gate(a, b, WithCrashes(limits(t, strings.Join(asked, ","))), alpha)
		var more, less []string // mixes in which the candidate lost significantly more jobs, or fewer
		tests := float64((len(asked) + 1) * (len(mixes) + 1))
		of := func(s Side, mix string) (out []float64) {
			for _, o := range s.Runs {
				if o.Mix == mix {
					out = append(out, float64(o.Metrics.Crashed))
				}
			}
			return out
		}
		for _, mix := range mixes {
			x, y := of(a, mix), of(b, mix)
			switch p := dealt(x, y); {
			case p*tests >= alpha:
			case stats.Mean(y) > stats.Mean(x):
				more = append(more, mix)
			default:
				less = append(less, mix)
			}
		}
		concerns := func(mix string, over int, found []string) bool {
			return slices.ContainsFunc(found, func(one string) bool { return over > 1 && strings.Contains(mix, "..") || strings.Contains(mix, one) })
		}
		if len(more) > 0 {
			lossy++
			if gate.Failed()+gate.Unsettled() == 0 {
				t.Errorf("seed %d: %s passes, and the candidate lost more jobs in %q", seed, asked, more)
			}
		}
		for _, c := range gate.Checks {
			if concerns(c.Arm.Mix, c.Mixes, more) && !c.Limit.Metric.Counts() && (c.Class == Passed || strings.Contains(c.Text, "better")) {
				t.Errorf("seed %d: %s of %s: %s, %s", seed, c.Limit, c.Arm.Mix, c.Class, c.Text)
			}
			if concerns(c.Arm.Mix, c.Mixes, less) && !c.Limit.Metric.Counts() && c.Class.Fails() {
				t.Errorf("seed %d: %s of %s fails, and the baseline lost more: %s", seed, c.Limit, c.Arm.Mix, c.Text)
			}
		}
		compared, err := Compare(a, b, Options{Alpha: alpha, MinEffect: 0.02})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range compared.Rows {
			mix := row.Pair.A.Mix
			if !row.Metric.Counts() && (row.Verdict == stats.Better && concerns(mix, row.Mixes, more) || row.Verdict == stats.Worse && concerns(mix, row.Mixes, less)) {
				t.Errorf("seed %d: %s of %s: %s", seed, row.Metric.Name, mix, row.Verdict)
			}
		}
		for i := range b.Runs {
			b.Runs[i].Scheduler = "cg"
		}
		both := Side{Label: "all", Runs: slices.Concat(a.Runs, b.Runs)}
		m := matrixOf(t, both, "sa")
		for j, metric := range m.Metrics {
			for n, cell := range m.Rows[1].Cells {
				r, lost := cell.Levels[j].Ratio.Value, cell.Levels[j].LostMore
				better := r > 1 == metric.HigherIsBetter
				if mix := m.Mixes[n].Mix; !math.IsNaN(r) && r != 1 && !lost && (better && slices.Contains(more, mix) || !better && slices.Contains(less, mix)) {
					t.Errorf("seed %d: %s of %s: %g without a mark", seed, metric.Name, mix, r)
				}
			}
		}
	}
	if lossy < 50 {
		t.Errorf("%d candidates lost significantly more jobs: the test shows little", lossy)
	}
	t.Logf("%d candidates lost significantly more jobs", lossy)
}

// A candidate of which no job ended ok never passes where jobs of the baseline did, whatever the limit, in one mix
// or over several.
func TestDeadCandidateDoesNotPass(t *testing.T) {
	for name, c := range map[string]struct {
		old, new    []int // lost jobs of 32, in turn
		repetitions int
		limits      string
		want        string // classes of the checks
	}{
		"as many as there are":     {[]int{0}, []int{32}, 7, "crashes=32", "crash"},
		"more than there are":      {[]int{0}, []int{32}, 7, "crashes=1000", "crash"},
		"of a few jobs before":     {[]int{20, 22, 21}, []int{32}, 7, "crashes=16", "crash"},
		"too few repetitions":      {[]int{0}, []int{32}, 2, "crashes=32", "noise"},
		"no more than chance":      {[]int{32, 32, 31}, []int{32}, 7, "crashes=0", "noise"},
		"the baseline died":        {[]int{32}, []int{0}, 7, "crashes=32", "ok"},
		"both died":                {[]int{32}, []int{32}, 7, "crashes=0", "ok"},
		"one job ended ok":         {[]int{0}, []int{32, 31}, 7, "crashes=32", "ok"},
		"another metric beside it": {[]int{0}, []int{32}, 7, "makespan=5%,crashes=32", "crash nothing measured"},
		"throughput beside it":     {[]int{0}, []int{32}, 7, "throughput=99%,crashes=32", "regression crash"},
	} {
		died := func(numbers []int) func(*Observation) {
			lose := lossy(numbers...)
			return func(o *Observation) {
				lose(o)
				if o.Metrics.OK == 0 {
					o.Metrics.ThroughputJobsPerS, o.Metrics.TurnaroundMeanS = new(0.0), nil
				}
			}
		}
		var got []string
		a, b := Side{Runs: runs("W1", "cg", 60, c.repetitions, died(c.old))}, Side{Runs: runs("W1", "cg", 60, c.repetitions, died(c.new))}
		for _, check := range Gate(a, b, limits(t, c.limits), stats.DefaultAlpha).Checks {
			got = append(got, string(check.Class))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	a, b := eight(func(int) float64 { return 1 }) // of one mix all jobs die, too few to tell
	for i := range b.Runs {
		if b.Runs[i].Mix == "W8" {
			b.Runs[i].Metrics.OK, b.Runs[i].Metrics.Crashed = 0, 32
		}
	}
	for _, check := range Gate(a, b, limits(t, "crashes=32"), stats.DefaultAlpha).Checks {
		if check.Arm.Mix == "W8" && check.Class == Passed {
			t.Errorf("W8: %s, %s", check.Class, check.Text)
		}
	}
}
