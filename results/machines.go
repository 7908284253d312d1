package results

import (
	"fmt"
	"slices"
	"strings"
)

// SeveralMachines says on how many hosts and sets of GPUs the complete measured
// runs were done ("hosts: 2, sets of GPUs: 3"), devices being those that each run
// found. It is empty where that is one machine. GPUs are told by their UUIDs.
func SeveralMachines(runs []Run, devices map[int64][]Device) string {
	hosts, sets := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		if r.Mode != Live || r.Status != Complete {
			continue
		}
		hosts[r.Provenance.Host] = true
		var uuids []string
		for _, d := range devices[r.ID] {
			uuids = append(uuids, d.UUID)
		}
		slices.Sort(uuids)
		sets[strings.Join(uuids, " ")] = true
	}
	if len(hosts) < 2 && len(sets) < 2 {
		return ""
	}
	return fmt.Sprintf("hosts: %d, sets of GPUs: %d", len(hosts), len(sets))
}
