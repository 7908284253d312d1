package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
)

// split moves runs to Parts that have the name of a catalog mix but are not runs of that mix: a
// retry of some of its jobs, or a mix of the user's. Such runs are not repetitions of the mix.
func split(n Node) Node {
	catalog := map[string]mixes.Mix{}
	for _, m := range mixes.Catalog() {
		catalog[m.Name] = m
	}
	all := n.Runs
	n.Runs, n.Parts = nil, nil
	for _, r := range all {
		if m, known := catalog[r.Mix]; known && (r.MixSource != m.Source || r.Jobs != len(m.Jobs)) {
			n.Parts = append(n.Parts, r)
		} else {
			n.Runs = append(n.Runs, r)
		}
	}
	return n
}

// named is the largest number of excluded runs that a note names.
const named = 10

// parts returns a note for each node that has excluded runs of a table's mixes.
func parts(systems []string, rows []Row, all map[string]*arms) []string {
	var notes []string
	for _, system := range systems {
		a := all[system]
		if a == nil {
			continue
		}
		var left []string
		for _, r := range a.node.Parts {
			if slices.ContainsFunc(rows, func(row Row) bool { return slices.Contains(mixesOf(row.Workload), r.Mix) }) {
				left = append(left, fmt.Sprintf("%d (%s, %d jobs, from %s)", r.ID, r.Mix, r.Jobs, r.MixSource))
			}
		}
		if more := len(left) - named; more > 0 {
			left = append(left[:named], fmt.Sprintf("and %d more", more))
		}
		if len(left) > 0 {
			notes = append(notes, fmt.Sprintf("Runs on %s that have the name of the paper's mix and are not of the catalog's, and are left out: %s.", a.node.Name, strings.Join(left, ", ")))
		}
	}
	return notes
}

// mixesOf returns the mixes of a row's workload.
func mixesOf(workload string) []string {
	switch {
	case ratios[workload] != nil:
		return ratios[workload]
	case workload == "Darknet 8 jobs":
		return eightJobs
	case workload == "mean" || strings.HasSuffix(workload, " W1-W8"):
		return Mixes()
	}
	return []string{workload}
}
