package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/results"
)

// someSweep has a warm-up, which does not count, and three arms: with enough runs for an
// interval, with too few, and without runs.
func someSweep() (results.Sweep, []results.Cell, []results.Run) {
	w := results.Sweep{ID: 2, Name: "main", Node: "local", Mode: results.Live, Seed: 1<<64 - 1, Repetitions: 7,
		CreatedAt: ptr(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), Status: results.Interrupted,
		Note: "resumed at run 3 of 22 by another program"}
	var cells []results.Cell
	var runs []results.Run
	add := func(scheduler string, repetition int, warmup bool, metrics *results.Metrics) {
		c := results.Cell{Sweep: 2, Position: len(cells), Mix: "W7", Scheduler: scheduler, Repetition: repetition, Warmup: warmup}
		if metrics != nil {
			r := liveRun()
			r.ID, r.Sweep, r.Warmup, r.Scheduler, r.Metrics = int64(len(runs)+10), &w.ID, warmup, scheduler, *metrics
			c.Run, runs = &r.ID, append(runs, r)
		}
		cells = append(cells, c)
	}
	took := func(seconds float64, crashed int) *results.Metrics {
		return &results.Metrics{OK: 4 - crashed, Crashed: crashed, MakespanS: ptr(seconds), ThroughputJobsPerS: ptr(float64(4-crashed) / seconds),
			TurnaroundMeanS: ptr(seconds / 2), UtilizationMean: ptr(0.5)}
	}
	add("sa", 1, true, took(1000, 0))
	for i := range 7 {
		add("sa", i+1, false, took(100+float64(i), 0))
		var second *results.Metrics
		if i < 2 {
			second = took(50+float64(i), i)
		}
		add("cg:workers=8", i+1, false, second)
		add("case-alg3", i+1, false, nil)
	}
	return w, cells, runs
}

// The list shows noise as it was set.
func TestNoiseInTheList(t *testing.T) {
	var list []SweepProgress
	for _, noise := range []string{"0.07", "0.012345", "0"} {
		list = append(list, SweepProgress{Sweep: results.Sweep{Mode: results.Simulated, Spec: `{"settings":{"sim-noise":` + noise + `}}`}})
	}
	text := render(t, SweepList(list), Text, Options{})
	for _, want := range []string{" 7 % ", " 1.2345 % ", " 0 % "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
	if csv := render(t, SweepList(list), CSV, Options{}); !strings.Contains(csv, ",0.012345,") || strings.Contains(csv, "%") {
		t.Errorf("CSV:\n%s", csv)
	}
}

// Medians are without doubtful runs, and a list names them.
func TestDoubtfulRunsInTables(t *testing.T) {
	w, cells, runs := someSweep()
	for i := range runs {
		if runs[i].Scheduler == "sa" && !runs[i].Warmup && *runs[i].Metrics.MakespanS > 102 {
			runs[i].Doubts = "the harness stood still for 3.0 s"
		}
	}
	text := render(t, SweepArms(w, cells, runs, nil, "/x/caserun.db", "", "this makes them again"), Text, Options{})
	if !strings.Contains(text, "101.0 s") || !strings.Contains(text, results.SaysDoubtful(4)) || !strings.Contains(text, "count as done: this makes them again") {
		t.Errorf("the arms:\n%s", text)
	}
	if text = render(t, RunList(runs), Text, Options{}); !strings.Contains(text, "doubtful runs, which comparisons leave out: 4; caserun report 16 says why the first one is") {
		t.Errorf("the list:\n%s", text)
	}
}

func TestSweepTables(t *testing.T) {
	w, cells, runs := someSweep()
	simulated := w
	simulated.ID, simulated.Name, simulated.Mode, simulated.CreatedAt, simulated.Node = 3, "", results.Simulated, nil, "sim:4xV100"
	simulated.Note, simulated.Status, simulated.Tag, simulated.Spec = "", results.Complete, "nightly", `{"settings":{"sim-noise":0.013}}`
	for name, table := range map[string]*Table{
		"sweep":      SweepArms(w, cells, runs, nil, "/x/caserun.db", "caserun sweep --resume 2 continues it", ""),
		"sweep_sim":  SweepArms(simulated, cells[:2], runs[:2], nil, "/x/caserun.db", "caserun sweep --resume 2 continues it", ""),
		"sweep_list": SweepList([]SweepProgress{{w, 22, 10}, {simulated, 22, 22}}),
	} {
		for format, ending := range map[Format]string{Text: "txt", CSV: "csv", JSON: "json", Markdown: "md"} {
			golden(t, fmt.Sprintf("%s.%s", name, ending), render(t, table, format, Options{}))
		}
	}
}

// A table with runs of several machines says so.
func TestSweepOfSeveralMachines(t *testing.T) {
	w, cells, runs := someSweep()
	const say = "The runs are of several machines (host names: 1, sets of GPUs: 2)"
	devices := map[int64][]results.Device{}
	for _, r := range runs {
		devices[r.ID] = []results.Device{{UUID: "GPU-1"}}
	}
	if text := render(t, SweepArms(w, cells, runs, devices, "", "", ""), Text, Options{}); strings.Contains(text, "machines") {
		t.Errorf("of one machine:\n%s", text)
	}
	devices[runs[3].ID] = []results.Device{{UUID: "GPU-2"}}
	for _, format := range []Format{Text, Markdown} {
		if text := render(t, SweepArms(w, cells, runs, devices, "", "", ""), format, Options{}); !strings.Contains(text, say) {
			t.Errorf("%s: no %q:\n%s", format, say, text)
		}
	}
}
