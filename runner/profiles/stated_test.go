package profiles

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
)

// What the mix states takes precedence over what was measured of the command.
func TestStatedProfile(t *testing.T) {
	j := mixes.Job{Name: "n", Program: "needle", Args: []string{"16384", "10"}, Footprint: mixes.Footprint{Bytes: 3 << 30, Blocks: 640, ThreadsPerBlock: 96},
		Profile: &mixes.Profile{Before: 2 * time.Second, After: time.Second, Phases: []mixes.Phase{
			{Host: time.Second, Kernel: 4 * time.Second, CopyIn: 5, Kernels: mixes.Footprint{Bytes: 3 << 30, Blocks: 640, ThreadsPerBlock: 96}},
			{Host: 2 * time.Second, Kernel: time.Second, CopyOut: 7, Kernels: mixes.Footprint{Blocks: 320, ThreadsPerBlock: 32}},
		}}}
	got, err := Catalog().Lookup(j)
	if err != nil {
		t.Fatal(err)
	}
	want := Profile{Job: "n", Command: "needle 16384 10", HostBeforeS: 2, HostHeldS: 3, HostAfterS: 1, KernelS: 5, CopyInBytes: 5, CopyOutBytes: 7,
		// An SM holds 21 blocks of 3 warps, and 32 blocks of one.
		KernelPhases: []KernelPhase{{SMs: 640.0 / 21, S: 4}, {SMs: 10, S: 1}}, Rounds: 2, Kernels: Estimated, Footprint: j.Footprint}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	j.Profile.Phases[1].Kernels = mixes.Footprint{}
	if got, err = Catalog().Lookup(j); err != nil || got.KernelPhases != nil {
		t.Errorf("without a grid: %+v, %v; want the footprint's", got.KernelPhases, err)
	}
}
