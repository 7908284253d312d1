package results

import (
	"slices"
	"strings"
)

// harmless are NVML's clock event reasons that slow no work down, or that the
// user set: an idle GPU lowers its clocks, which is no throttling.
var harmless = []string{"none", "gpu-idle", "applications-clocks", "sync-boost", "display-clocks"}

// Throttling are the reasons, each once, for which the device's clocks were held
// down at either end of the run while there was work.
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
