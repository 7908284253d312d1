package regress

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
)

func observed(change func(*Observation)) []Observation {
	driver, cuda, start, end, none := "580.1", "13.0", int64(345e6), int64(1980e6), "none"
	o := Observation{
		Run: results.Run{Mode: results.Live, Provenance: results.Provenance{Driver: &driver, CUDA: &cuda, CPU: "Xeon", Cores: 16, Kernel: "6.1",
			Version: "v1.0.0", Revision: "abc", Binaries: `{"/a/suite/lud":"1111222233334444","/a/libcase.so":"5555666677778888"}`,
			Configuration: `[{"Key":"mem-cap","Value":"16GiB"},{"Key":"devices","Value":"0,1"},{"Key":"tag","Value":"n1"},{"Key":"seed","Value":1}]`}},
		Devices: []results.Device{{Name: "H200", UUID: "GPU-1", CapacityBytes: 15 << 30, SMs: 132, SMClockStartHz: &start, SMClockEndHz: &end, ThrottleStart: &none}},
	}
	if change != nil {
		change(&o)
	}
	o.settings = results.SettingsOf(o.Run)
	return []Observation{o}
}

func TestEnvironment(t *testing.T) {
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		change func(*Observation)
		want   []string
	}{
		"the same": {nil, nil},
		"driver": {func(o *Observation) { o.Provenance.Driver = text("590.2") },
			[]string{"different driver: 580.1 with CUDA 13.0 and 590.2 with CUDA 13.0"}},
		"unknown driver": {func(o *Observation) { o.Provenance.Driver, o.Provenance.CUDA = nil, nil },
			[]string{"different driver: 580.1 with CUDA 13.0 and unknown with CUDA unknown"}},
		"GPU": {func(o *Observation) { o.Devices[0].UUID = "GPU-2" },
			[]string{"different GPU: H200 GPU-1 (132 SMs) and H200 GPU-2 (132 SMs)"}},
		"memory":       {func(o *Observation) { o.Devices[0].CapacityBytes = 12 << 30 }, []string{"different memory for jobs: 15.0 GiB and 12.0 GiB"}},
		"MPS server":   {func(o *Observation) { o.Devices[0].CapacityBytes -= 128 << 20 }, nil},
		"clocks":       {func(o *Observation) { o.Devices[0].SMClockEndHz = new(int64(1700e6)) }, []string{"different clocks: 1980 MHz and 1700 MHz"}},
		"clocks drift": {func(o *Observation) { o.Devices[0].SMClockEndHz = new(int64(1965e6)) }, nil},
		"no clocks":    {func(o *Observation) { o.Devices[0].SMClockStartHz, o.Devices[0].SMClockEndHz = nil, nil }, nil},
		"throttling":   {func(o *Observation) { o.Devices[0].ThrottleEnd = text("gpu-idle+sw-thermal") }, []string{"different throttling: none and sw-thermal"}},
		"idle":         {func(o *Observation) { o.Devices[0].ThrottleEnd = text("gpu-idle+applications-clocks") }, nil},
		"binary": {func(o *Observation) {
			o.Provenance.Binaries = `{"/b/suite/lud":"9999222233334444","/b/libcase.so":"5555666677778888"}`
		}, []string{"different binary: libcase.so 555566667777; lud 111122223333 and libcase.so 555566667777; lud 999922223333"}},
		"another directory": {func(o *Observation) {
			o.Provenance.Binaries = `{"/b/suite/lud":"1111222233334444","/b/libcase.so":"5555666677778888"}`
		}, nil},
		"host": {func(o *Observation) { o.Provenance.Cores = 8 }, []string{"different host: Xeon, 16 cores, kernel 6.1 and Xeon, 8 cores, kernel 6.1"}},
		"settings": {func(o *Observation) {
			o.Provenance.Configuration = `[{"Key":"mem-cap","Value":"8GiB"},{"Key":"devices","Value":"GPU-0,GPU-1"},{"Key":"tag","Value":"n2"},{"Key":"seed","Value":2},{"Key":"new","Value":true}]`
		}, []string{`different settings: mem-cap="16GiB" and mem-cap="8GiB"`}},
		"unknown setting": {func(o *Observation) {
			o.Provenance.Configuration = `[{"Key":"new","Value":true}]`
		}, nil},
		"version is not of it": {func(o *Observation) { o.Provenance.Revision = "def" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range environment(observed(nil), observed(c.change)) {
				got = append(got, d.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The host does not affect a simulated run, but its settings do.
func TestEnvironmentOfSimulatedRuns(t *testing.T) {
	simulated := func(o *Observation) { o.Mode = results.Simulated }
	got := environment(observed(simulated), observed(func(o *Observation) {
		simulated(o)
		o.Provenance.Cores, o.Provenance.Binaries = 2, "{}"
		o.Provenance.Configuration = `[{"Key":"mem-cap","Value":""}]`
	}))
	if len(got) != 1 || got[0].Kind != "settings" {
		t.Errorf("%v", got)
	}
}

func TestVersionsAreNoted(t *testing.T) {
	got := versions(observed(nil), observed(func(o *Observation) { o.Provenance.Revision = "def" }))
	if len(got) != 1 || got[0].String() != "different version: v1.0.0 abc and v1.0.0 def" {
		t.Errorf("%v", got)
	}
}

// What a caller's environment and its limits change is a cause of its own. Runs of earlier versions say nothing of it.
func TestSurroundings(t *testing.T) {
	of := func(s results.Surroundings) func(*Observation) {
		return func(o *Observation) { o.Provenance.Surroundings = new(s.Text()) }
	}
	variable := func(name, value string) results.Surroundings {
		return results.Surroundings{Environment: map[string]string{name: value}}
	}
	for name, c := range map[string]struct {
		a, b func(*Observation)
		want []string
	}{
		"the same":         {of(variable("OMP_NUM_THREADS", "4")), of(variable("OMP_NUM_THREADS", "4")), nil},
		"earlier versions": {nil, of(variable("OMP_NUM_THREADS", "4")), nil},
		"a variable more":  {of(results.Surroundings{}), of(variable("CUDA_LAUNCH_BLOCKING", "1")), []string{"different environment: without CUDA_LAUNCH_BLOCKING and CUDA_LAUNCH_BLOCKING=1"}},
		"another value":    {of(variable("OMP_NUM_THREADS", "4")), of(variable("OMP_NUM_THREADS", "8")), []string{"different environment: OMP_NUM_THREADS=4 and OMP_NUM_THREADS=8"}},
		"an empty value":   {of(variable("LD_PRELOAD", "")), of(results.Surroundings{}), []string{"different environment: LD_PRELOAD= and without LD_PRELOAD"}},
		"quota": {of(results.Surroundings{CPUs: 8}), of(results.Surroundings{CPUs: 8, CPUQuota: 1.5}),
			[]string{"different limits: 8 processors and 8 processors, a CPU quota of 1.5"}},
		"affinity": {of(results.Surroundings{CPUs: 8}), of(results.Surroundings{CPUs: 1}), []string{"different limits: 8 processors and 1 processors"}},
		"memory":   {of(results.Surroundings{MemoryBytes: 1 << 30}), of(results.Surroundings{MemoryBytes: 2 << 30}), []string{"different limits: 1.0 GiB of memory and 2.0 GiB of memory"}},
	} {
		var got []string
		for _, d := range environment(observed(c.a), observed(c.b)) {
			got = append(got, d.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Doubtful runs are left out unless they are asked for, and a note says so.
func TestDoubtfulRuns(t *testing.T) {
	runs := append(observed(nil), observed(nil)...)
	for i := range runs {
		runs[i].ID, runs[i].Status, runs[i].StartedAt = int64(i+1), results.Complete, nil
	}
	runs[1].Doubts = "the harness stood still for 3.0 s"
	for doubted, want := range map[bool]struct {
		runs int
		says string
	}{false: {1, "doubtful, and are left out: 1"}, true: {2, "doubtful, and are taken in: 1"}} {
		s := Side{Label: "A", Runs: runs, Doubted: doubted}
		arms, n := s.arms(), 0
		for _, of := range arms {
			n += len(of)
		}
		notes := strings.Join(s.notes(arms, namesOf(arms, nil)), "\n")
		if n != want.runs || !strings.Contains(notes, want.says) {
			t.Errorf("doubted %v: %d runs, notes %q", doubted, n, notes)
		}
	}
}
