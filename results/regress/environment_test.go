package regress

import (
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
