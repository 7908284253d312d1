package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// devicesOf are the devices of run 1 as its store has them.
func devicesOf(t *testing.T, id int64) []results.Device {
	t.Helper()
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	devices, err := s.Devices(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

// A live run has the energy that its devices' meters give: here 100 W of GPU 0 and 200 W of
// GPU 1. sa puts the only job on GPU 0, so that GPU 1 is idle.
func TestEnergyOfARun(t *testing.T) {
	library := fakeNVML(t)
	for _, tt := range []struct {
		meters string
		source results.EnergySource
		known  bool
	}{
		{"counter power instant", results.EnergyCounter, true},
		{"power", results.EnergyPower, true},
		{"counter power falls", results.EnergyNone, false},
		{"counter power fails", results.EnergyNone, false},
		{"", results.EnergyNone, false},
	} {
		t.Run(tt.meters, func(t *testing.T) {
			dir := fakeNode(t, "sleep 0.6", "")
			status, text := finish(t, onFakes(dir, library, []string{"FAKE_METER=" + tt.meters}, "mix", "own.yaml", "--sched", "sa", "--no-mps", "--devices", "0,1"))
			if status != exitOK {
				t.Fatalf("exit %d:\n%s", status, text)
			}
			run, jobs, events := stored(t, 1)
			e, devices := run.Metrics.Energy, devicesOf(t, 1)
			if run.Status != results.Complete || *e.Source != tt.source || *devices[1].EnergySource != tt.source {
				t.Errorf("the run is %s, its energy is from %s, that of GPU 1 from %s; want %s", run.Status, *e.Source, *devices[1].EnergySource, tt.source)
			}
			if fell := has(events, results.EventEnergy, "the energy counter fell"); fell != strings.Contains(tt.meters, "falls") {
				t.Errorf("events %+v", events)
			}
			first := ""
			if run.Sampler.FirstError != nil {
				first = *run.Sampler.FirstError
			}
			if failed := *run.Sampler.Errors > 0; failed != strings.Contains(tt.meters, "fails") {
				t.Errorf("%d calls failed, the first: %s", *run.Sampler.Errors, first)
			}
			for name, v := range map[string]*float64{"run": e.UsedJ, "idle": e.IdleJ, "per job": e.PerOK, "GPU 0": devices[0].EnergyJ, "job": jobs[0].EnergyEstimateJ} {
				if tt.known != (v != nil) {
					t.Errorf("energy of %s: %v, want known %t", name, v, tt.known)
				}
			}
			if !tt.known || t.Failed() {
				return
			}
			makespan := *run.Metrics.MakespanS
			if got, want := *e.UsedJ, 300*makespan; got < want/2 || got > want*1.5 || tt.source == results.EnergyPower && math.Abs(got-want) > 1e-6 {
				t.Errorf("%v J in %v s at 300 W, want %v", got, makespan, want)
			}
			if sum := *jobs[0].EnergyEstimateJ + *e.IdleJ; math.Abs(sum-*e.UsedJ) > 1e-6 || *devices[1].IdleEnergyJ != *devices[1].EnergyJ || *e.PerOK != *e.UsedJ {
				t.Errorf("job %v J + idle %v J, of %v J; GPU 1 idle %v of %v", *jobs[0].EnergyEstimateJ, *e.IdleJ, *e.UsedJ, *devices[1].IdleEnergyJ, *devices[1].EnergyJ)
			}
		})
	}
}

// Energy is in the tables, in every format, and in comparisons and gates.
func TestEnergyInTablesAndGates(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "sleep 0.3", "")
	for _, meters := range []string{"power", "counter", ""} {
		status, text := finish(t, onFakes(dir, library, []string{"FAKE_METER=" + meters}, "mix", "own.yaml", "--sched", "sa", "--no-mps", "--devices", "0", "--tag", "metered"+meters))
		if status != exitOK {
			t.Fatalf("exit %d:\n%s", status, text)
		}
	}
	for _, tt := range []struct {
		args   []string
		status int
		says   []string
	}{
		{[]string{"report", "1", "-v"}, exitOK, []string{"per ok job", "integral of power samples", "energy (est.)", "with no task", "are estimates"}},
		{[]string{"report", "2"}, exitOK, []string{"the devices' counters"}},
		{[]string{"report", "3"}, exitOK, []string{"a device has no meter"}},
		{[]string{"report", "-v"}, exitOK, []string{"energy per ok job"}},
		{[]string{"report", "--format", "csv"}, exitOK, []string{"energy_j,energy_per_ok_job_j,energy_source"}},
		{[]string{"compare", "1", "2", "--metrics", "energy,energy-per-job"}, exitOK, []string{"energy-per-job", " J"}},
		{[]string{"compare", "1", "3", "--metrics", "energy"}, exitNothing, []string{"nothing measured"}},
		{[]string{"regress", "--baseline", "1", "--candidate", "2", "--max-regression", "energy=3%,energy-per-job=3%"}, exitNothing, []string{"energy-per-job"}},
		{[]string{"export", "--benchfmt", "-"}, exitOK, []string{"Unit J/ok-job better=lower", " J/run"}},
	} {
		var out, errs strings.Builder
		status := run(t.Context(), tt.args, nil, &out, &errs)
		if status != tt.status {
			t.Errorf("%v: exit %d, want %d:\n%s%s", tt.args, status, tt.status, out.String(), errs.String())
		}
		for _, want := range tt.says {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v does not say %q:\n%s", tt.args, want, out.String())
			}
		}
	}
}

// A simulated run has no energy, in no format.
func TestSimulatedRunsHaveNoEnergy(t *testing.T) {
	inTempDir(t)
	var out, errs strings.Builder
	if status := run(t.Context(), []string{"mix", "W1", "--node", "sim:4xV100", "--sched", "sa"}, nil, &out, &errs); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs.String())
	}
	out.Reset()
	run(t.Context(), []string{"report", "1", "-v"}, nil, &out, &errs)
	if strings.Contains(out.String(), "energy") {
		t.Errorf("the tables of a simulated run have energy:\n%s", out.String())
	}
	out.Reset()
	run(t.Context(), []string{"report", "--format", "json"}, nil, &out, &errs)
	var table struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(out.String()), &table); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	for _, key := range []string{"energy_j", "energy_per_ok_job_j", "energy_source"} {
		if v, has := table.Rows[0][key]; !has || v != nil {
			t.Errorf("%s is %v, want null", key, v)
		}
	}
	if d := devicesOf(t, 1)[0]; d.EnergyJ != nil || d.EnergySource != nil {
		t.Errorf("a simulated device has energy: %+v", d)
	}
}
