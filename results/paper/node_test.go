package paper_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// ran is a run of a mix under a scheduler, with so many jobs at once. Without a time its jobs stand still.
type ran struct {
	mix, scheduler string
	workers        int
	seconds        float64
}

// answersTo are the answers to the statements of a figure from runs on a system of the dissertation.
func answersTo(t *testing.T, source, system string, devices int, runs ...ran) map[string]paper.Answer {
	t.Helper()
	n := paper.Node{Name: "sim", Mode: results.Simulated, Devices: devices, System: system}
	n.Jobs = func(int64) ([]results.Job, error) { return []results.Job{{Outcome: new(results.Timeout)}}, nil }
	for i, one := range runs {
		m, err := mixes.Lookup(one.mix)
		if err != nil {
			t.Fatal(err)
		}
		s, err := cluster.ParseScheduler(one.scheduler, devices, policies.Parse)
		if err != nil {
			t.Fatal(err)
		}
		r := results.Run{ID: int64(i + 1), Mix: m.Name, MixSource: m.Source, Jobs: len(m.Jobs), Scheduler: s.Name, Parameters: s.Parameters(), Workers: one.workers,
			Node: n.Name, Mode: n.Mode, Repetition: 1, Status: results.Complete, Metrics: results.Metrics{MakespanS: new(0.5)}}
		if one.seconds > 0 {
			r.Metrics = results.Metrics{OK: len(m.Jobs), MakespanS: new(one.seconds)}
		}
		n.Runs = append(n.Runs, r)
	}
	p, err := paper.Lookup("node")
	if err != nil {
		t.Fatal(err)
	}
	page, err := p.Build([]paper.Node{n})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]paper.Answer{}
	for _, a := range page.Answers {
		if a.Source == source && a.System == system {
			answers[a.Says] = a
		}
	}
	return answers
}

// Batch scheduling is vgpu:n=1 with one job at a time, also where all jobs at once stand still under it. A run that stands still has no
// time, and is told.
func TestBatchAndStuckRuns(t *testing.T) {
	const mix, other = "N-fig16-0.3-best-10", "N-fig16-0.3-worst-10"
	runs := []ran{{mix, "vgpu:n=1", 1, 240}, {mix, "vgpu:n=1", 4, 0}, {mix, "vgpu-preempt:n=2", 4, 160}, {other, "vgpu:n=1", 1, 240}, {other, "vgpu-preempt:n=2", 4, 0}}
	a := answersTo(t, "Figure 3-16", "4 GPUs", 4, runs...)["preemption is faster than batch scheduling in almost every case"]
	if a.Answer != "yes" || a.Number == nil || *a.Number != 1.5 || a.Measured != 1 || a.Stuck != 1 || !strings.Contains(a.Missing, "no complete run") {
		t.Errorf("%+v", a)
	}
	for says, want := range map[string]string{"preemption runs jobs of any number of ranks": "no", "batch scheduling cannot run jobs of more ranks than GPUs": "not measured"} {
		if a := answersTo(t, "section 3.4", "4 GPUs", 4, runs...)[says]; a.Answer != want || a.Stuck != 0 {
			t.Errorf("%s: %+v", says, a)
		}
	}
	slower := ran{"N-fig16-0.3-worst-20", "vgpu-preempt:n=2", 4, 300}
	for cases, want := range map[int]string{1: "no", 4: "yes"} { // 80 % of the cases are almost every case
		more := append(runs[:3:3], ran{slower.mix, "vgpu:n=1", 1, 240}, slower)
		for _, by := range []string{"20", "30", "40"}[:cases-1] {
			more = append(more, ran{"N-fig16-0.3-best-" + by, "vgpu:n=1", 1, 240}, ran{"N-fig16-0.3-best-" + by, "vgpu-preempt:n=2", 4, 160})
		}
		a := answersTo(t, "Figure 3-16", "4 GPUs", 4, more...)["preemption is faster than batch scheduling in almost every case"]
		if a.Answer != want || a.Holds != cases || a.Measured != cases+1 || *a.Number != 0.8 || a.Wants() != "at least 1 in 80 % of the cases" {
			t.Errorf("%d of %d cases: %+v", cases, cases+1, a)
		}
	}
	a = answersTo(t, "Figure 3-16", "4 GPUs", 4, runs[1:3]...)["preemption is faster than batch scheduling in almost every case"]
	if a.Answer != "not measured" || a.Stuck != 0 {
		t.Errorf("all jobs at once are not batch scheduling: %+v", a)
	}
}

// What is divided by other workloads is divided by those under the same scheduler.
func TestOtherWorkloadsUnderTheSameScheduler(t *testing.T) {
	var runs []ran
	for scheduler, seconds := range map[string]float64{"vgpu:n=2": 50, "vgpu:n=4": 10} {
		runs = append(runs, ran{"N-fig14a-10", scheduler, 4, 2 * seconds}, ran{"N-fig14a-50", scheduler, 4, seconds})
	}
	runs = append(runs, ran{"N-fig14a-10", "vgpu:n=1", 1, 100}, ran{"N-fig14a-50", "vgpu:n=1", 1, 100})
	a := answersTo(t, "Figure 3-14a", "4 GPUs", 4, runs...)["the gain of sharing and of preemption grows with the imbalance"]
	if a.Answer != "yes" || a.Number == nil || *a.Number != 2 || a.Holds != 2 || a.Cases != 4 {
		t.Errorf("%+v", a)
	}
}

// The system of a run follows from its mix, and the number of its devices and nodes.
func TestSystemsOfTheNodeRuntime(t *testing.T) {
	p, err := paper.Lookup("node")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mix     string
		devices int
		want    string
	}{{"N-fig7-8-1", 1, "1 GPU"}, {"N-fig9-50", 3, "3 GPUs"}, {"N-fig9-50", 2, "2 GPUs"}, {"N-pairs-10", 2, "2 GPUs"}, {"N-fig11-6-0", 3, "unequal GPUs"}, {"N-fig20-3-0-1", 4, "4 GPUs"},
		{"N-fig21-4", 7, ""}, {"N-fig12-16-1", 4, "4 GPUs"}, {"W1", 4, ""}} {
		if got := p.SystemOf(c.mix, make([]results.Device, c.devices)); got != c.want {
			t.Errorf("%s on %d devices: %q, want %q", c.mix, c.devices, got, c.want)
		}
	}
	for mix, c := range map[string]struct {
		first, second int
		want          string
	}{"N-fig12-16-1": {3, 1, "3 + 1 GPUs"}, "N-fig13-48": {3, 1, "3 + 1 GPUs"}, "N-fig21-8": {4, 3, "4 + 3 GPUs"}, "N-fig7-8-1": {3, 1, ""}} {
		if got := p.SystemOf(mix, slices.Concat(make([]results.Device, c.first), slices.Repeat([]results.Device{{Node: 1}}, c.second))); got != c.want {
			t.Errorf("%s on %d + %d devices: %q, want %q", mix, c.first, c.second, got, c.want)
		}
	}
}

// Gains on two nodes are over the runs on them, under the scheduler of a cluster that the statement names.
func TestGainsOnTwoNodes(t *testing.T) {
	var runs []ran
	for _, mix := range []string{"N-fig21-4", "N-fig21-6"} {
		runs = append(runs, ran{mix, "cluster-batch/vgpu:n=1", 0, 100}, ran{mix, "cluster-rr/vgpu:n=4", 0, 80}, ran{mix, "cluster-rr/vgpu-preempt:n=2", 0, 80})
	}
	answers := answersTo(t, "Figure 3-21", "4 + 3 GPUs", 7, runs...)
	for says, want := range map[string]string{"four-way sharing is 25 to 30 % faster than batch scheduling": "yes", "preemption is 40 to 45 % faster than batch scheduling": "no"} {
		if a := answers[says]; a.Answer != want || a.Number == nil || *a.Number != 1.25 {
			t.Errorf("%s: %+v", says, a)
		}
	}
}
