package report

import (
	"slices"

	"github.com/caserun/caserun/results"
)

// energySources are the words for readers of text.
var energySources = map[results.EnergySource]string{
	results.EnergyCounter: "the devices' counters",
	results.EnergyPower:   "integral of power samples",
	results.EnergyNone:    "unknown: a device has no meter, or readings are missing",
}

// energyColumns are the energy of runs in a list. Text has them if a run has energy, and drops
// them first where lines would be too long.
func energyColumns(runs []results.Run) []Column {
	place := whereKnown(slices.ContainsFunc(runs, func(r results.Run) bool { return r.Metrics.Energy.UsedJ != nil }))
	return []Column{
		{Name: "energy", Unit: Joules, Place: place, Drop: 9}, {Name: "energy_per_ok_job", Heading: "energy per ok job", Unit: Joules, Place: place, Drop: 8},
		{Name: "energy_source", Place: DataOnly},
	}
}

// energyNote explains energies that are shares or integrals.
const energyNote = "Energy of jobs and energy with no task are estimates: what a device used at a time is divided equally among the jobs that had tasks on it."
