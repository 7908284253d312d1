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

// timed is a run of a mix on a cluster, whose jobs end after so many seconds, by the names of their programs. A job that is not named has failed.
type timed struct {
	mix, scheduler string
	ends           map[string]float64
}

// onCluster are the answers to the statements of a figure from runs on a system, by what the dissertation says.
func onCluster(t *testing.T, source, system string, runs ...timed) map[string]paper.Answer {
	t.Helper()
	p, err := paper.Lookup("cluster")
	if err != nil {
		t.Fatal(err)
	}
	n := paper.Node{Name: "sim", Mode: results.Simulated, Devices: 9, System: system}
	jobs := map[int64][]results.Job{}
	for i, one := range runs {
		m, err := mixes.Lookup(one.mix)
		if err != nil {
			t.Fatal(err)
		}
		s, err := cluster.ParseScheduler(one.scheduler, n.Devices, policies.Parse)
		if err != nil {
			t.Fatal(err)
		}
		r := results.Run{ID: int64(i + 1), Mix: m.Name, MixSource: m.Source, Jobs: len(m.Jobs), Scheduler: s.Name, Parameters: s.Parameters(),
			Node: n.Name, Mode: n.Mode, Repetition: 1, Status: results.Complete}
		last := 0.0
		for k, j := range m.Jobs {
			job := results.Job{Index: k, Name: j.Name, ArrivalS: new(0.0), Outcome: new(results.Crash)}
			if end, ok := one.ends[strings.TrimPrefix(j.Program, "cluster/")]; ok {
				job.EndS, job.Outcome = new(end), new(results.OK)
				r.Metrics.OK++
				last = max(last, end)
			}
			jobs[r.ID] = append(jobs[r.ID], job)
		}
		r.Metrics.MakespanS, r.Metrics.ThroughputJobsPerS = new(last), new(float64(r.Metrics.OK)/last)
		n.Runs = append(n.Runs, r)
	}
	n.Jobs = func(run int64) ([]results.Job, error) { return jobs[run], nil }
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

const (
	batch = "cluster-batch/vgpu:n=1"
	coloc = "coloc:weights=8:4:4/vgpu-preempt:n=4"
)

// shared are runs of a workload under batch scheduling and co-location, and of its jobs alone.
func shared(ending string) []timed {
	runs := []timed{{"C-fig5a", batch, map[string]float64{"adfa": 10, "mm": 20, "nw": 20}}, {"C-fig5a", coloc, map[string]float64{"adfa": 30, "mm": 2, "nw": 4}}}
	for program, took := range map[string][2]float64{"adfa": {10, 20}, "mm": {2, 1}, "nw": {4, 2}} {
		for i, scheduler := range []string{batch, coloc} {
			runs = append(runs, timed{"C-alone-" + program, scheduler, map[string]float64{program: took[i]}})
		}
	}
	for i := range runs {
		runs[i].mix += ending
	}
	return runs
}

// The QoS of a class is the mean over its jobs of their time over that alone, under the same scheduler and with the same GPU times.
func TestQualityOfService(t *testing.T) {
	const unfair, short, fairer = "batch scheduling gives short jobs worse QoS than long ones", "co-location improves the QoS of short jobs", "co-location is fairer than batch scheduling"
	for system, ending := range map[string]string{"high-end": "", "high-end, GPU half": "-half", "high-end, GPU double": "-double"} {
		answers := onCluster(t, "Figure 4-5a", system, shared(ending)...)
		// Under batch 1 for ADFA, and (3 x 10 + 2 x 5) / 5 for MM and NW; co-located 1.5 and 2.
		for says, want := range map[string]float64{unfair: 8, short: 0.25, fairer: 0.5 / 7} {
			if a := answers[says]; a.Answer != "yes" || a.Number == nil || *a.Number != want {
				t.Errorf("%s: %s: %+v, want %g", system, says, a, want)
			}
		}
	}
	for why, runs := range map[string][]timed{
		"no run alone":                 slices.DeleteFunc(shared(""), func(r timed) bool { return r.mix == "C-alone-nw" }),
		"alone with other GPU times":   append(shared("")[:2], shared("-half")[2:]...),
		"alone under other schedulers": slices.DeleteFunc(shared(""), func(r timed) bool { return r.mix == "C-alone-mm" && r.scheduler == batch }),
	} {
		if a := onCluster(t, "Figure 4-5a", "high-end", runs...)[fairer]; a.Answer != "not measured" || !strings.Contains(a.Missing, "alone under") {
			t.Errorf("%s: %+v", why, a)
		}
	}
	failed := shared("")
	delete(failed[1].ends, "nw")
	if a := onCluster(t, "Figure 4-5a", "high-end", failed...)[short]; a.Answer != "not measured" {
		t.Errorf("a job that failed: %+v", a)
	}
}

// A workload of all orders has a case for each. The printed one counts, too.
func TestOrdersBesideThePrintedOne(t *testing.T) {
	var runs []timed
	for order, took := range map[string]float64{"amnmnm": 10, "nnmmma": 5, "ammmnn": 20} {
		for scheduler, factor := range map[string]float64{batch: 2, coloc: 1} {
			seconds := took * factor
			if order == "nnmmma" && scheduler == batch {
				seconds *= 2
			}
			runs = append(runs, timed{"C-fig5a-" + order, scheduler, map[string]float64{"adfa": seconds, "mm": 1, "nw": 1}})
		}
	}
	a := onCluster(t, "Table 4-5", "high-end", runs...)["ours: with no order of the jobs co-location gains more than with the printed one"]
	if a.Answer != "no" || a.Holds != 2 || a.Measured != 3 || a.Cases != 60 || *a.Number != 2 || !strings.HasPrefix(a.Case, "C-fig5a-nnmmma") {
		t.Errorf("%+v", a)
	}
}

// The system of a run follows from the end of its mix's name, and its nodes.
func TestSystemsOfTheCluster(t *testing.T) {
	p, err := paper.Lookup("cluster")
	if err != nil {
		t.Fatal(err)
	}
	on := func(nodes ...int) (devices []results.Device) {
		for i, n := range nodes {
			devices = append(devices, slices.Repeat([]results.Device{{Node: i}}, n)...)
		}
		return devices
	}
	highEnd, commodity := on(4, 3, 2), on(1, 1, 1, 1, 1, 1, 1, 1)
	for _, c := range []struct {
		mix     string
		devices []results.Device
		want    string
	}{
		{"C-fig2-mm", highEnd, "high-end"}, {"C-fig3-nw-half", highEnd, "high-end, GPU half"}, {"C-alone-mm-double", highEnd, "high-end, GPU double"},
		{"C-fig5b", commodity, "commodity"}, {"C-fig5b-amnmnann-half", commodity, "commodity, GPU half"}, {"C-fig3-adfa-double", commodity, "commodity, GPU double"},
		{"C-fig2-mm", on(9), ""}, {"N-fig21-4", highEnd, ""}, {"W1-half", highEnd, ""},
	} {
		if got := p.SystemOf(c.mix, c.devices); got != c.want {
			t.Errorf("%s on %d devices: %q, want %q", c.mix, len(c.devices), got, c.want)
		}
	}
	for mix, want := range map[string]bool{"C-alone-nw": true, "C-alone-nw-half": true, "C-fig5a": true, "C-fig5b-aammnnnn": true, "C-fig3-mm-double": true, "N-fig7": false, "C-alone": false} {
		if got := p.Has(mix); got != want {
			t.Errorf("the paper has %s: %v", mix, got)
		}
	}
}
