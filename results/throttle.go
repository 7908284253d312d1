package results

import (
	"slices"
	"strings"
)

// harmless are NVML's clock event reasons that do not slow work down or that the user set. An
// idle GPU lowers its clocks, which is not throttling.
var harmless = []string{"none", "gpu-idle", "applications-clocks", "sync-boost", "display-clocks"}

// Throttling returns the reasons, each once, for which the device's clocks were lowered under
// load at the start or the end of the run.
func (d Device) Throttling() []string {
	var out []string
	for _, reasons := range []*string{d.ThrottleStart, d.ThrottleEnd} {
		if reasons == nil {
			continue
		}
		for r := range strings.SplitSeq(*reasons, "+") {
			if r != "" && !slices.Contains(harmless, r) && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}
