package results

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

func ran(index int, command string, outcome Outcome) Job {
	return Job{Index: index, Name: "n", Command: command, Outcome: &outcome}
}

func launch(job int, name string, x int, length float64) Launch {
	return Launch{Job: job, Name: name, Grid: fmt.Sprintf("%d,1,1", x), Block: "64,1,1", BusyS: length}
}

func traced(jobs []Job, all ...Launch) Traced {
	t := Traced{Jobs: jobs}
	for _, l := range all {
		t.Add(l)
	}
	return t
}

func TestKernelSlowdown(t *testing.T) {
	baseline := traced([]Job{ran(0, "a", OK), ran(1, "b", OK), ran(2, "a", OK), ran(3, "c", Crash), ran(4, "d", OK)},
		launch(0, "k", 1, 1), launch(0, "k", 1, 2), launch(0, "k", 2, 4), launch(0, "l", 1, 3),
		launch(1, "k", 1, 100), launch(3, "k", 1, 1),
		launch(2, "k", 1, 3), launch(2, "k", 1, 2), launch(2, "k", 2, 4),
		launch(4, "m", 1, 1),
	)
	candidate := traced([]Job{ran(0, "b", OK), ran(1, "a", OK), ran(2, "c", OK), ran(3, "a", Timeout), ran(4, "d", OK), ran(5, "b", OK)},
		launch(0, "k", 1, 110),
		launch(1, "k", 1, 4), launch(1, "k", 1, 2), launch(1, "k", 1, 50), launch(1, "k", 2, 6), launch(1, "o", 1, 7),
		launch(2, "k", 1, 1), launch(3, "k", 1, 99), launch(4, "x", 1, 1),
	)
	want := Slowdown{Mean: known((0.1 + 0.5) / 2), Jobs: []JobSlowdown{
		{Job: 0, Command: "b", Pairs: 1, KernelS: 110, BaselineS: 100, Slowdown: known(0.1)},
		// The first k takes 2 s in the mean of the baseline's two jobs, the second 2 s, that of
		// grid 2 takes 4 s; l is missing, the third k and o have no partner.
		{Job: 1, Command: "a", Pairs: 3, Unpaired: 2, Missing: 1, KernelS: 12, BaselineS: 8, Slowdown: known(0.5)},
		{Job: 2, Command: "c", Why: "no job of the baseline ran it and ended ok"},
		{Job: 3, Command: "a", Why: "did not end ok"},
		{Job: 4, Command: "d", Unpaired: 1, Missing: 1, Why: "no launch has a partner in the baseline"},
		{Job: 5, Command: "b", Why: "no kernels were traced"},
	}}
	got := KernelSlowdown(candidate, baseline)
	for i := range got.Jobs {
		got.Jobs[i].Name = ""
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if empty := KernelSlowdown(Traced{}, Traced{}); empty.Mean != nil || empty.Jobs != nil {
		t.Errorf("of nothing: %+v", empty)
	}
}

// A run is as fast as itself, and a run whose kernels all take f times as long
// has a slowdown of f - 1.
func TestKernelSlowdownScales(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		factor := rapid.Float64Range(0.5, 3).Draw(t, "factor")
		var run, slower Traced
		for job := range rapid.IntRange(1, 4).Draw(t, "jobs") {
			run.Jobs = append(run.Jobs, ran(job, fmt.Sprint(job), OK))
			for range rapid.IntRange(1, 6).Draw(t, "kernels") {
				l := launch(job, rapid.SampledFrom([]string{"k", "l"}).Draw(t, "name"),
					rapid.IntRange(1, 2).Draw(t, "grid"), rapid.Float64Range(1e-6, 10).Draw(t, "length"))
				run.Add(l)
				l.BusyS *= factor
				slower.Add(l)
			}
		}
		slower.Jobs = run.Jobs
		got := KernelSlowdown(slower, run)
		if got.Mean == nil || math.Abs(*got.Mean-(factor-1)) > 1e-9 {
			t.Fatalf("slowdown %v, want %g", got.Mean, factor-1)
		}
		for _, j := range got.Jobs {
			if j.Unpaired+j.Missing > 0 {
				t.Fatalf("launches without a partner: %+v", j)
			}
		}
	})
}

// The baseline of several runs is the mean over their jobs.
func TestPooledRunsAreOneBaseline(t *testing.T) {
	var baseline Traced
	baseline.Pool(traced([]Job{ran(0, "a", OK)}, launch(0, "k", 1, 1)))
	baseline.Pool(traced([]Job{ran(0, "b", OK), ran(1, "a", OK)}, launch(0, "k", 1, 7), launch(1, "k", 1, 3)))
	got := KernelSlowdown(traced([]Job{ran(0, "a", OK), ran(1, "b", OK)}, launch(0, "k", 1, 3), launch(1, "k", 1, 7)), baseline)
	if *got.Jobs[0].Slowdown != 0.5 || *got.Jobs[1].Slowdown != 0 { // the mean of 1 s and 3 s is 2 s
		t.Errorf("slowdowns %v and %v, want 0.5 and 0", *got.Jobs[0].Slowdown, *got.Jobs[1].Slowdown)
	}
}
