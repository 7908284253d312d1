package live

import (
	"errors"
	"testing"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/runner/slurm"
)

// What hides all GPUs from CUDA leaves none to use.
func TestHiddenGPUs(t *testing.T) {
	for value, hidden := range map[string]bool{
		"": true, " ": true, "-1": true, "NoDevFiles": true, " NoDevFiles ": true, "-1,0": true, "NoDevFiles,1": true,
		"0": false, "0,1": false, "GPU-1": false,
	} {
		t.Setenv(VisibleDevices, value)
		for _, job := range []*slurm.Allocation{nil, {Job: "7"}} {
			if _, _, err := chosen("", job); errors.Is(err, nvml.ErrNoGPU) != hidden {
				t.Errorf("%q: %v", value, err)
			}
		}
		if list, _, err := chosen("0", nil); err != nil || list != "0" {
			t.Errorf("%q with --devices 0: %q, %v", value, list, err)
		}
	}
}
