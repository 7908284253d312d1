package sim

import (
	"fmt"
	"testing"

	"github.com/caserun/caserun/docs/pagetest"
)

// TestThePageShowsWhatTheModelPredicts keeps the tables of docs/simulation.md true.
func TestThePageShowsWhatTheModelPredicts(t *testing.T) {
	pagetest.Shows(t, "../../docs/simulation.md",
		pagetest.Table{Name: "flatness", Generate: flatness},
		pagetest.Table{Name: "utilization", Generate: utilization},
		pagetest.Table{Name: "table7", Generate: table7},
		pagetest.Table{Name: "ratios", Generate: ratios},
		pagetest.Table{Name: "table3", Generate: table3},
		pagetest.Table{Name: "table4", Generate: table4},
		pagetest.Table{Name: "turnaround", Generate: turnaround},
		pagetest.Table{Name: "darknet", Generate: darknet},
	)
}

// errorOf is simulated against published in percent of the published value.
func errorOf(simulated, published float64) string {
	return fmt.Sprintf("%+.0f", 100*(simulated/published-1))
}
