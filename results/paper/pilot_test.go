package paper_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
)

func pilot(t *testing.T) *paper.Paper {
	t.Helper()
	p, err := paper.Lookup("pilot")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// loaded is a node with a run of each mix under each scheduler. The first job of a mix takes as many seconds as is said.
func loaded(t *testing.T, system string, seconds map[string]map[string]float64) paper.Node {
	t.Helper()
	n := paper.Node{Name: "sim:1xH200", Mode: results.Simulated, Devices: 1, System: system}
	jobs, faults := map[int64][]results.Job{}, map[int64]string{}
	for mix, arms := range seconds {
		m, err := mixes.Lookup(mix)
		if err != nil {
			t.Fatal(err)
		}
		for scheduler, took := range arms {
			id := int64(len(n.Runs) + 1)
			n.Runs = append(n.Runs, results.Run{ID: id, Mix: mix, MixSource: m.Source, Jobs: len(m.Jobs), Scheduler: scheduler, Node: n.Name, Mode: n.Mode,
				Repetition: 1, Status: results.Complete, Metrics: results.Metrics{OK: len(m.Jobs), MakespanS: new(took)}})
			for i, j := range m.Jobs {
				jobs[id] = append(jobs[id], results.Job{Index: i, Name: j.Name, Outcome: new(results.OK), StartS: new(1.0), EndS: new(1 + took)})
			}
			faults[id] = fmt.Sprintf("%g page faults brought memory", 100*took)
		}
	}
	n.Jobs = func(run int64) ([]results.Job, error) { return jobs[run], nil }
	n.Events = func(run int64) ([]results.Event, error) {
		return []results.Event{{Kind: results.EventOOM, Detail: "7 page faults"}, {Kind: results.EventPageFaults, Detail: faults[run]}}, nil
	}
	return n
}

func TestStatements(t *testing.T) {
	arms := map[string]float64{"sa": 1, "zero": 10, "demand": 4, "mfit": 2}
	slow := map[string]float64{"sa": 1, "zero": 10, "demand": 2, "mfit": 20}
	page, err := pilot(t).Build([]paper.Node{loaded(t, "150 % managed", map[string]map[string]float64{"P-fig4-bfs-managed": arms, "P-fig4-nn-managed": slow,
		"P-fig5-corr-backprop-managed": {"sa": 1, "demand": 2}, "P-fig5-bfs-nn-managed": {"sa": 1, "demand": 3}})})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]paper.Answer{}
	for _, a := range page.Answers {
		if a.System == "150 % managed" {
			answers[a.Says] = a
		} else if a.Answer != "not measured" || a.Missing == "" || a.Number != nil {
			t.Errorf("%s on %s, without runs: %+v", a.Says, a.System, a)
		}
	}
	for _, want := range []struct {
		says, answer    string
		number          float64
		of              string
		holds, measured int
	}{
		{"at 100 % and more the base is dramatically slower for all ten", "no", 2, "nn under demand", 1, 2},
		{"MFit is far faster than MPS", "no", 2, "nn under mfit", 1, 2},
		{"MFit lowers the page faults", "no", 2, "nn under mfit", 1, 2},
		{"pairs at 150 %: more pronounced slowdown", "yes", 2, "corr beside backprop under demand", 4, 4},
		{"it is worst for hs3d beside 2dconvol and bfs beside nn", "yes", 1, "bfs beside nn under demand", 1, 1},
	} {
		a := answers[want.says]
		if a.Answer != want.answer || a.Number == nil || *a.Number != want.number || a.Case != want.of || a.Holds != want.holds || a.Measured != want.measured {
			t.Errorf("%s: %+v, number %v", want.says, a, a.Number)
		}
	}
	if a := answers["AMFit is far faster than MPS"]; a.Answer != "not measured" || a.Cases != 10 || !strings.Contains(a.Missing, "amfit") {
		t.Errorf("%+v", a)
	}
}

// What can never run is not asked for.
func TestSystemsLackSchedulers(t *testing.T) {
	page, err := pilot(t).Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range page.Tables {
		for _, r := range found.Rows {
			if r.Scheduler == "zero" && strings.HasSuffix(r.System, "movable") {
				t.Errorf("%s: %+v", found.Source, r)
			}
		}
	}
}

// The system of a run follows from its mix and its devices.
func TestSystemOf(t *testing.T) {
	const context, mib = 576 << 20, 1 << 20
	for _, c := range []struct {
		mix  string
		mib  int64
		want string
	}{
		{"P-fig4-bfs", 10112, "100 % movable"},
		{"P-fig4-bfs-managed", 9914, "100 % managed"}, // 102 %
		{"P-fig4-bfs", 6741, "150 % movable"},
		{"P-fig5-bfs-nn-managed", 12760, "75 % managed"},
		{"P-fig4-bfs", 1000, ""},
		{"P-fig4-bfs", 100000, ""},
		{"P-fig2-10g", 3763, "blocked movable"},
		{"P-fig2-1g-managed", 3763, "blocked managed"},
		{"P-fig1-4", 100000, "together"},
		{"W1", 16000, ""},
	} {
		devices := []results.Device{{CapacityBytes: c.mib*mib + 2*context, ContextBytes: context}}
		if got := pilot(t).SystemOf(c.mix, devices); got != c.want {
			t.Errorf("%s with %d MiB is of %q, want %q", c.mix, c.mib, got, c.want)
		}
	}
}

func TestStopOverhead(t *testing.T) {
	times, err := pilot(t).ReadTimes("t.csv", []byte("program,size,rep,build,kernels_s\n"+
		"bfs,lg,1,pilot,3\nbfs,lg,1,pilot-plain,2\nbfs,lg,2,pilot,5\nbfs,lg,2,pilot-plain,2\nbfs,lg,3,pilot,9\nnn,lg,1,pilot,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := pilot(t).Build([]paper.Node{{Name: "t.csv", Mode: results.Live, System: "lg", Times: times}})
	if err != nil {
		t.Fatal(err)
	}
	one := table(t, page, "Table I")
	if r := row(t, one, "lg", "bfs", "stop points"); r.Measured == nil || r.Measured.Median != 2 || r.Measured.N != 2 || *r.Published != 1.4 {
		t.Errorf("%+v", r)
	}
	if r := row(t, one, "lg", "nn", "stop points"); r.Measured != nil || r.Missing != "t.csv has no repetition of nn with and without stop points" {
		t.Errorf("%+v", r)
	}
	if r := row(t, one, "sm", "bfs", "stop points"); r.Measured != nil {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]string{"bfs,lg,1,plain,3": "t.csv:2: ", "bfs,lg,1,pilot,0": "t.csv:2: ", "bfs,lg,1,pilot,1\nbfs,lg,1,pilot,2": "t.csv:3: ",
		"bsf,lg,1,pilot,1": `t.csv:2: program is "bsf": want one of backprop, bfs, `, "bfs,xl,1,pilot,1": `t.csv:2: size is "xl": want one of sm, md, lg`} {
		if _, err := pilot(t).ReadTimes("t.csv", []byte("program,size,rep,build,kernels_s\n"+text+"\n")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A job that ended early would have had more page faults.
func TestPageFaultsOfJobsThatFailDoNotCount(t *testing.T) {
	for ok, measured := range map[int]int{2: 1, 1: 0} {
		n := loaded(t, "150 % managed", map[string]map[string]float64{"P-fig4-bfs-managed": {"zero": 10, "amfit": 2}})
		for i := range n.Runs {
			if n.Runs[i].Scheduler == "amfit" {
				n.Runs[i].Metrics.OK = ok
			}
		}
		page, err := pilot(t).Build([]paper.Node{n})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Answers {
			if a.System == "150 % managed" && a.Says == "AMFit lowers the page faults" && a.Measured != measured {
				t.Errorf("%d of 2 jobs ok: %+v", ok, a)
			}
		}
	}
}

// A simulated node beside a measured one of the same system gives no numbers of the paper. Cells that only one of them has are left out.
func TestSimulatedBesideMeasured(t *testing.T) {
	simulated := loaded(t, "75 % movable", map[string]map[string]float64{"P-fig4-bfs": {"sa": 1, "demand": 2, "mfit": 3}, "P-fig4-nn": {"sa": 2}})
	measured := loaded(t, "75 % movable", map[string]map[string]float64{"P-fig4-bfs": {"sa": 1, "demand": 4, "amfit": 3}, "P-fig4-nn": {"sa": 2.5}})
	measured.Name, measured.Mode = "local", results.Live
	failed := simulated.Runs[0]
	failed.Metrics.OK--
	simulated.Runs = append(simulated.Runs, failed)
	page, err := pilot(t).Build([]paper.Node{simulated, measured})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, b := range page.Besides {
		got += fmt.Sprintf("%s, %s under %s on %s: %g of %d beside %g of %d, %g\n", b.System, b.Mix, b.Scheduler, b.Node, b.Simulated.Median, b.Simulated.N, b.Measured.Median, b.Measured.N, b.Ratio())
	}
	const of = "75 % movable, P-fig4-"
	if want := of + "bfs under demand on sim:1xH200: 2 of 1 beside 4 of 1, 0.5\n" + of + "bfs under sa on sim:1xH200: 1 of 1 beside 1 of 1, 1\n" +
		of + "nn under sa on sim:1xH200: 2 of 1 beside 2.5 of 1, 0.8\n"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if len(page.Nodes) != 1 || page.Nodes[0].Mode != results.Live {
		t.Errorf("the page is of %d nodes, want the measured one", len(page.Nodes))
	}
	says := strings.Join(paper.Off(page.Besides), "\n")
	if want := "Simulated makespans are off by 20.0 % in the median of 3 cells, and by at most 15 % in 1 of them.\n" +
		"Under demand: 50.0 % in the median of 1.\nUnder sa: 10.0 % in the median of 2."; says != want {
		t.Errorf("%s, want\n%s", says, want)
	}
	other := loaded(t, "75 % movable", nil)
	other.Name, other.Mode = "elsewhere", results.Live
	if _, err := pilot(t).Build([]paper.Node{measured, other}); err == nil || !strings.Contains(err.Error(), "select those of one node") {
		t.Error("two measured nodes of one system:", err)
	}
}
