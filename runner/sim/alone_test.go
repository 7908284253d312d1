package sim

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
)

func historyOf(t *testing.T, node string, known profiles.Set) history.Node {
	t.Helper()
	b, err := Open(harness.Options{Node: node})
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.History(known)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A profile is scaled as docs/design/simulator.md says: host and copies by 1.315, kernels by 1.5 on a V100.
func TestAlone(t *testing.T) {
	known := profiles.Catalog()
	node := historyOf(t, "sim:4xV100", known)
	if node.Mode != results.Simulated || node.GPUs[0] != "V100 (simulated)" {
		t.Errorf("the node is %+v", node)
	}
	jobs := map[string]mixes.Job{}
	for _, m := range mixes.Catalog() {
		for _, j := range m.Jobs {
			if j.Ranks == 0 { // whose times are not a sum over processes
				jobs[j.Command()] = j
			}
		}
	}
	job, ok := jobs["backprop 8388608"]
	if !ok {
		t.Fatal("the catalog lacks the job")
	}
	got, ran, err := node.Alone(job)
	const host, kernel = 1.315, 0.001449 * 1.5
	want := results.Expected{BeforeS: 5 * host, HeldS: (0.196+0.035+1.26755)*host + kernel, Bytes: job.Footprint.Bytes}
	want.Kernels, want.SMs = new(kernel/want.HeldS), new(1.0)
	if diff := cmp.Diff(want, got.Expected, cmpopts.EquateApprox(1e-6, 0)); err != nil || !ran || diff != "" {
		t.Errorf("%v %v (-want +got):\n%s", ran, err, diff)
	}
	for _, name := range []string{"sim:1xP100", "sim:1xV100", "sim:1xH200"} {
		node := historyOf(t, name, known)
		for command, j := range jobs {
			e, ran, err := node.Alone(j)
			if err != nil || !ran {
				t.Errorf("%s on %s: %v (%v)", command, name, ran, err)
				continue
			}
			p, err := known.Lookup(j)
			if err != nil {
				t.Fatal(err)
			}
			says, within := p.WallS(), 1e-6
			if mixes.Managed(j) { // which comes by page faults
				for _, s := range p.Steps(j.Footprint, 0) {
					if s.Kind == profiles.Allocate {
						says += float64(s.Bytes) / 10.3e9
					}
				}
				within = 1e-3
			}
			if took := e.BeforeS + e.HeldS + e.AfterS; name == "sim:1xH200" && p.GPU == "NVIDIA H200" && math.Abs(took-says) > within*took {
				t.Errorf("%s takes %v s on the GPU of its profile, which says %v s", command, took, says)
			}
			if *e.Kernels < 0 || *e.Kernels > 1 || e.SMs != nil && (*e.SMs <= 0 || *e.SMs > 1) {
				t.Errorf("%s on %s: kernels %v, SMs %v", command, name, *e.Kernels, *e.SMs)
			}
		}
	}
}

// What a steps file says is known too, with its tasks together and without the time between them. A job
// that does not fit a device is not known.
func TestAloneWithSteps(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/two.jsonl"
	text := `{"step": "host", "seconds": 1}
{"step": "allocate", "object": "a", "bytes": "1GiB"}
{"step": "kernel", "blocks": 10000000, "threads": 256, "seconds": 2}
{"step": "free", "object": "a"}
{"step": "host", "seconds": 4}
{"step": "allocate", "object": "b", "bytes": "3GiB"}
{"step": "kernel", "blocks": 10000000, "threads": 256, "seconds": 1}
{"step": "host", "seconds": 1}
{"step": "free", "object": "b"}
{"step": "host", "seconds": 0.5}
`
	write(t, path, text)
	jobs := []mixes.Job{{Name: "two", Steps: path}}
	known, err := profiles.Catalog().WithSteps(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	got, ran, err := historyOf(t, "sim:2xH200", known).Alone(jobs[0])
	want := results.Expected{BeforeS: 1, HeldS: 4, AfterS: 0.5, Bytes: 3 << 30, Kernels: new(0.75), SMs: new(1.0)}
	if diff := cmp.Diff(want, got.Expected, cmpopts.EquateApprox(1e-6, 0)); err != nil || !ran || diff != "" {
		t.Errorf("%v %v (-want +got):\n%s", ran, err, diff)
	}
	huge := mixes.Job{Program: "needle", Args: []string{"32768", "10"}, Footprint: mixes.Footprint{Bytes: 20 << 30}}
	if e, ran, err := historyOf(t, "sim:1xV100", known).Alone(huge); ran || err != nil {
		t.Errorf("a job of 20 GiB on a V100 does %+v (%v)", e, err)
	}
	if e, ran, err := historyOf(t, "sim:1xV100", known).Alone(mixes.Job{Program: "./unknown"}); ran || err != nil {
		t.Errorf("a job without a profile does %+v (%v)", e, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// On a node of devices that differ, a job is known by the first device that it fits, with the host that the node has.
func TestAloneOnTheFirstDeviceThatFits(t *testing.T) {
	node := historyOf(t, "sim:1xQuadro2000+2xV100+1xQuadro2000", profiles.Catalog())
	if want := []string{"Quadro2000 (simulated)", "V100 (simulated)"}; !slices.Equal(node.GPUs, want) {
		t.Errorf("GPUs %q, want %q", node.GPUs, want)
	}
	for _, j := range catalogJobs(t, "backprop-16777216", "lavaMD-120") {
		for gib, gpu := range []string{"Quadro2000 (simulated)", "V100 (simulated)"} {
			j.Footprint.Bytes = int64(gib)<<30 + 1<<20
			if e, ran, err := node.Alone(j); e.GPU != gpu || !ran || err != nil || e.BeforeS <= 0 {
				t.Errorf("%s with %d GiB: %+v, %v, %v; want it of a %s", j.Name, gib, e, ran, err, gpu)
			}
		}
		j.Footprint.Bytes = 20 << 30
		if e, ran, err := node.Alone(j); ran || err != nil {
			t.Errorf("%s with 20 GiB: %+v, %v", j.Name, e, err)
		}
	}
}
