package paper

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/policies"
)

// notes returns the choices behind an item's numbers, and what is missing.
func (p *Paper) notes(item Item, rows []Row, all map[string]*arms) []string {
	a := all[item.Systems[0]]
	var notes []string
	for _, text := range item.Notes {
		filled := strings.NewReplacer(p.placeholders(item, a)...).Replace(text)
		if a != nil || filled == text { // what a note says of a node needs one
			notes = append(notes, filled)
		}
	}
	for _, each := range []func(*arms, []Row) []string{mixed, named, unlike, parts} {
		for _, system := range item.Systems {
			if a := all[system]; a != nil {
				notes = append(notes, each(a, rows)...)
			}
		}
	}
	return append(notes, p.missing(item, rows)...)
}

// placeholders are what notes of an item may name, with what each stands for. Without a node they stand for nothing.
func (p *Paper) placeholders(item Item, a *arms) []string {
	if a == nil {
		return []string{"{", ""}
	}
	out := []string{"{node}", a.node.Name, "{mix}", a.first(p.of(item.Source, item.Systems[0])[0].Workload).mix, "{utilization}", utilizationNote(a.node.Mode), "{others}", p.others(item.Others, a)}
	for _, name := range p.Pinned {
		if text, err := p.scheduler(name, a.node.Devices); err == nil {
			out = append(out, "{"+name+"}", text)
		}
	}
	return out
}

// others lists the speedups that have runs; it is empty if none has.
func (p *Paper) others(o Others, a *arms) string {
	var list []string
	for _, scheduler := range o.Over {
		found, err := p.value(a, o.Workload, o.Scheduler, Metric{Of: o.Of, Over: scheduler})
		if err == nil {
			_, parameter, _ := strings.Cut(scheduler, "=")
			list = append(list, fmt.Sprintf("%.2f with %s", summarize(found.values).Median, parameter))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return o.Text + strings.Join(list, ", ") + "."
}

// utilizationNote says what utilization is on a node.
func utilizationNote(mode results.Mode) string {
	if mode == results.Simulated {
		return "Utilization is NVML's in the paper, the fraction of time in which a kernel was on the device. A simulated node has no NVML: its numbers are that fraction (kernel resident), the peak that of a mean over 1/6 s. The model is not fitted to it: docs/design/simulator.md."
	}
	return "Utilization is NVML's, the fraction of time in which a kernel was on the device."
}

// mixed returns a note if the numbers of a node come from several machines.
func mixed(a *arms, rows []Row) []string {
	if a.node.Machines == "" || !slices.ContainsFunc(rows, func(r Row) bool { return r.Node == a.node.Name }) {
		return nil
	}
	return []string{fmt.Sprintf("The runs on %s are of several machines (%s): differences between the machines are part of these numbers.", a.node.Name, a.node.Machines)}
}

// usedIn are the runs behind rows.
func usedIn(rows []Row) map[int64]bool {
	used := map[int64]bool{}
	for _, r := range rows {
		for _, id := range r.Runs {
			used[id] = true
		}
	}
	return used
}

// named returns a note for each arm that the user named and whose runs count as those of a scheduler of the paper.
func named(a *arms, rows []Row) (notes []string) {
	used := usedIn(rows)
	for _, r := range a.node.Runs {
		if used[r.ID] && r.Arm != "" {
			notes = once(notes, fmt.Sprintf("On %s, %s is what the runs call %s (%s).", a.node.Name, r.Scheduler, r.Arm, policies.With(r.Scheduler, r.Parameters)))
		}
	}
	return notes
}

// unlike returns a note for each arm whose numbers come from runs with different settings.
func unlike(a *arms, rows []Row) (notes []string) {
	used := usedIn(rows)
	names := results.NamesOf(a.node.Runs)
	for _, arm := range names.Sorted(maps.Keys(a.runs)) {
		own := slices.DeleteFunc(slices.Clone(a.runs[arm]), func(r results.Run) bool { return !used[r.ID] })
		if found := results.SeveralSettings(own); found != "" {
			notes = append(notes, fmt.Sprintf("The runs of %s have different settings (%s), and are taken together.", names.Of(arm), found))
		}
	}
	return notes
}

// split moves runs to Parts that have the name of a catalog mix but are not runs of that mix: a
// retry of some of its jobs, or a mix of the user's. Such runs are not repetitions of the mix.
func split(n Node) Node {
	catalog := map[string]mixes.Mix{}
	all := n.Runs
	n.Runs, n.Parts = nil, nil
	for _, r := range all {
		m, known := catalog[r.Mix]
		if !known {
			m, _ = mixes.Lookup(r.Mix) // without a name if it has no such mix
			catalog[r.Mix] = m
		}
		if m.Name == r.Mix && (r.MixSource != m.Source || r.Jobs != len(m.Jobs)) {
			n.Parts = append(n.Parts, r)
		} else {
			n.Runs = append(n.Runs, r)
		}
	}
	return n
}

// fewRuns is the largest number of excluded runs that a note names.
const fewRuns = 10

// parts returns a note if a node has excluded runs of a table's mixes.
func parts(a *arms, rows []Row) []string {
	var left []string
	for _, r := range a.node.Parts {
		if slices.ContainsFunc(rows, func(row Row) bool { return a.paper.isOf(row.Workload, r.Mix) }) {
			left = append(left, fmt.Sprintf("%d (%s, %d jobs, from %s)", r.ID, r.Mix, r.Jobs, r.MixSource))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Runs on %s that have the name of the paper's mix and are not of the catalog's, and are left out: %s.", a.node.Name, size.Few(left, fewRuns, ", "))}
}

// missing returns a note for each system whose rows lack numbers, with the reasons and the
// command that measures them.
func (p *Paper) missing(item Item, rows []Row) (notes []string) {
	for _, system := range slices.Sorted(slices.Values(item.Systems)) {
		n, total := 0, 0
		var why, remedies []string
		for _, r := range rows {
			if r.System != system {
				continue
			}
			total++
			if r.Measured == nil {
				n++
				why, remedies = once(why, r.Missing), once(remedies, p.remedy(p.Metrics[r.Metric], system))
			}
		}
		if n == 0 {
			continue
		}
		notes = append(notes, fmt.Sprintf("Missing beside the paper's %s: %d of %d numbers (%s).%s", system, n, total, size.Few(why, 3, "; "), strings.Join(remedies, "")))
	}
	return notes
}

// once appends a text that the texts lack.
func once(texts []string, text string) []string {
	if slices.Contains(texts, text) {
		return texts
	}
	return append(texts, text)
}

// remedy is a sentence that says how to measure a metric, after a space; empty if it cannot be measured.
func (p *Paper) remedy(m Metric, name string) string {
	switch {
	case m.Remedy != "":
		return " " + m.Remedy
	case m.Of == "":
		return ""
	}
	system := p.system(name)
	return " " + strings.NewReplacer("{devices}", fmt.Sprint(system.Devices), "{system}", system.Name).Replace(p.Remedy)
}
