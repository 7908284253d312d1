package paper

import (
	"fmt"
	"strings"
)

// missing returns a note for each system whose rows lack numbers, with the reasons and the
// command that measures them.
func missing(name string, rows []Row) []string {
	type gap struct{ system, why string }
	var order []gap
	count := map[gap]int{}
	total := map[string]int{}
	for _, r := range rows {
		total[r.System]++
		if r.Measured != nil {
			continue
		}
		g := gap{r.System, r.Missing}
		if count[g]++; count[g] == 1 {
			order = append(order, g)
		}
	}
	var notes []string
	for _, system := range []string{"2xP100", "4xV100"} {
		n := 0
		var why []string
		for _, g := range order {
			if g.system == system {
				n += count[g]
				why = append(why, g.why)
			}
		}
		if n == 0 {
			continue
		}
		if len(why) > 3 {
			why = append(why[:3], fmt.Sprintf("and %d more", len(why)-3))
		}
		notes = append(notes, fmt.Sprintf("Missing beside the paper's %s: %d of %d numbers (%s). %s", system, n, total[system],
			strings.Join(why, "; "), remedy(name, system)))
	}
	return notes
}

// remedy says how to measure what a table lacks.
func remedy(name, system string) string {
	if name == "Table 6" {
		return "A simulated node runs no kernels of its own; on a machine with NVIDIA GPUs: caserun sweep --mixes W1..W8 --scheds sa,case-alg2,case-alg3 --trace, then give that sweep to caserun paper beside the one of the times, as in --sweep 3,4."
	}
	return fmt.Sprintf("To measure them: caserun paper --run on a machine with %s GPUs, or simulated with --node sim:%s.", system[:1], system)
}
