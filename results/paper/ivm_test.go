package paper_test

import (
	"math"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
)

// done is a run of a mix whose jobs took so many seconds one after the other, and whose portions were done by these devices.
type done struct {
	mix, scheduler, parameters string
	took                       []float64
	portions                   []int
}

const byCores = "9 GPUs, by cores"

// ofIVM is the page of such runs on nine GPUs.
func ofIVM(t *testing.T, runs ...done) paper.Page {
	t.Helper()
	p, err := paper.Lookup("ivm")
	if err != nil {
		t.Fatal(err)
	}
	n := paper.Node{Name: "sim", Mode: results.Simulated, Devices: 9, System: byCores}
	jobs, ranks := map[int64][]results.Job{}, map[int64][]results.Rank{}
	for i, one := range runs {
		id, end := int64(i+1), 0.0
		for k, took := range one.took {
			jobs[id] = append(jobs[id], results.Job{Index: k, StartS: new(end), EndS: new(end + took), Outcome: new(results.OK)})
			end += took
		}
		for k, device := range one.portions {
			ranks[id] = append(ranks[id], results.Rank{Rank: k, Portion: true, Device: new(device)})
		}
		n.Runs = append(n.Runs, results.Run{ID: id, Mix: one.mix + "-cores", Jobs: len(one.took), Scheduler: one.scheduler, Parameters: one.parameters, Node: n.Name, Mode: n.Mode,
			Repetition: 1, Status: results.Complete, Metrics: results.Metrics{OK: len(one.took), MakespanS: new(end)}})
	}
	n.Jobs = func(run int64) ([]results.Job, error) { return jobs[run], nil }
	n.Ranks = func(run int64) ([]results.Rank, error) { return ranks[run], nil }
	page, err := p.Build([]paper.Node{n})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// number is the measured value of a row.
func number(page paper.Page, metric, workload string) float64 {
	for _, table := range page.Tables {
		for _, r := range table.Rows {
			if r.System == byCores && r.Metric == metric && r.Workload == workload && r.Measured != nil {
				return r.Measured.Median
			}
		}
	}
	return math.NaN()
}

// A workload's speedup is over the runs of another mix, its baseline.
func TestSpeedupOverTheBaseline(t *testing.T) {
	page := ofIVM(t,
		done{mix: "ivm-nbody-mpi-9", scheduler: "sa", took: []float64{30}}, done{mix: "ivm-nbody-49", scheduler: "sa", took: []float64{20}},
		done{mix: "ivm-nbody-mpi-16", scheduler: "cg", parameters: "workers=16", took: []float64{40}}, done{mix: "ivm-dmm-49", scheduler: "sa", took: []float64{5}},
		done{mix: "ivm-himeno-1", scheduler: "sa", took: []float64{2, 8}}, done{mix: "ivm-himeno-steady", scheduler: "sa", took: []float64{3, 6}})
	for workload, want := range map[string]float64{"NBODY, 49 PEs": 1.5, "NBODY, 16 MPI processes": 0.75, "HIMENO, steady": 10. / 9} {
		if got := number(page, "speedup_over_mpi", workload); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", workload, got, want)
		}
	}
	if got := number(page, "speedup_over_mpi", "DMM, 49 PEs"); !math.IsNaN(got) {
		t.Errorf("DMM without its baseline: %g", got)
	}
	if got := number(page, "longest_over_shortest_pe", "HIMENO, first iteration"); got != 4 {
		t.Errorf("the PEs of HIMENO differ by %g, want 4", got)
	}
}

// Hosts have three, four and two devices. Between them a product of matrices in 4 × 4 portions has the blocks that a host needs, and those of the result.
func TestPortionsOfHosts(t *testing.T) {
	page := ofIVM(t, done{mix: "ivm-dmm-16", scheduler: "sa", took: []float64{1}, portions: []int{
		0, 3, 0, 1, // Host-II has a column of two, and the third row but its last
		1, 6, 2, 0,
		3, 4, 5, 7,
		8, 7, 8, 0}})
	for metric, want := range map[string]float64{"load_of_host_1": 7. / 16, "load_of_host_2": 5. / 16, "load_of_host_3": 4. / 16} {
		if got := number(page, metric, "DMM, 16 PEs"); got != want {
			t.Errorf("%s: %g, want %g", metric, got, want)
		}
	}
	// Host-II: three rows and three columns. Host-III: two rows and four columns. In quarters of a matrix, beside 9 of 16 blocks of the result.
	had, result := 12./4, 9./16
	for metric, want := range map[string]float64{"traffic_saved_over_whole": 1 - (had+result)/(4+result), "traffic_saved_over_parts": 1 - (had+result)/(9*2./4+result)} {
		if got := number(page, metric, "DMM, 16 PEs"); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", metric, got, want)
		}
	}
	lead := ofIVM(t, done{mix: "ivm-nbody-49", scheduler: "sa", took: []float64{1}, portions: []int{0, 0, 0, 3, 4, 8}})
	for _, a := range lead.Answers {
		if a.Metric == "lead_of_host_1" && a.System == byCores && (a.Answer != "yes" || *a.Number != 1.5 || a.Measured != 1) {
			t.Errorf("%+v", a)
		}
	}
}

// The system follows from the end of the mix's name.
func TestSystemsOfIVM(t *testing.T) {
	p, err := paper.Lookup("ivm")
	if err != nil {
		t.Fatal(err)
	}
	nine, two := make([]results.Device, 9), make([]results.Device, 2)
	for _, c := range []struct {
		mix     string
		devices []results.Device
		want    string
	}{
		{"ivm-nbody-49-cores", nine, byCores}, {"ivm-nbody-49-20-cores", nine, "9 GPUs, 20 time-steps, by cores"}, {"ivm-nw-small-memory", nine, "9 GPUs, by memory"},
		{"ivm-nbody", two, "2 GPUs"}, {"ivm-nbody-49-cores", two, ""}, {"nbody", nine, ""},
	} {
		if got := p.SystemOf(c.mix, c.devices); got != c.want {
			t.Errorf("%s on %d devices: %q, want %q", c.mix, len(c.devices), got, c.want)
		}
	}
	for _, mix := range []string{"ivm-dmm-mpi-9-memory", "ivm-nbody-mpi-9-20-cores", "ivm-himeno-1-cores", "ivm-nw-mpi", "ivm-nw-mpi-64-cores"} {
		if !p.Has(mix) {
			t.Errorf("the paper has not %s", mix)
		}
	}
}
