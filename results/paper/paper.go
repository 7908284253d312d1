// Package paper knows the evaluation of the CASE paper (Chen et al., PPoPP 2022, section 5):
// which runs make which of its tables and figures. It puts measured numbers beside published
// numbers and says in words, computed from the numbers, how far they agree. It does no I/O.
package paper

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/schedulers/policies"
)

// Node is one node with its complete runs, which are compared with one of the paper's systems.
type Node struct {
	Name     string // "local", "sim:4xV100"
	Hardware string // "4 x NVIDIA H200 (16.0 GiB)"
	Mode     results.Mode
	Devices  int
	System   string // "4xV100" or "2xP100"
	Runs     []results.Run
	Parts    []results.Run // runs that Build excluded, because they are not of the catalog's mix
	Machines string        // as results.SeveralMachines says; empty: one machine

	// Utilization and Trace read data of a run that only some figures need. Utilization reads the series "gpu", or
	// "resident" of a simulated run, and may read others.
	Utilization func(results.Run) ([]results.Segment, error)
	Trace       func(run int64) (results.Traced, error)
}

// Row is one number of the paper beside the same number computed from runs.
type Row struct {
	System, Workload, Scheduler, Metric string
	Unit                                string       // as Value
	Published                           *float64     // nil: the paper draws the number, but does not state it
	Apart                               bool         // the numbers are of different work, so there is neither Ratio nor Difference
	Node                                string       // empty if nothing was measured
	Mode                                results.Mode // empty if nothing was measured
	Measured                            *stats.Summary
	Runs                                []int64 // the runs from which Measured comes
	Missing                             string  // why Measured is nil
	// LostMore says that a ratio of schedulers is not comparable: the one that looks better lost significantly
	// more jobs, in one mix at least.
	LostMore bool
}

// Ratio is measured over published.
func (r Row) Ratio() *float64 {
	if r.Measured == nil || r.Published == nil || *r.Published == 0 || r.Apart {
		return nil
	}
	return new(r.Measured.Median / *r.Published)
}

// Difference is measured minus published, for fractions only.
func (r Row) Difference() *float64 {
	if r.Measured == nil || r.Published == nil || r.Unit != fraction || r.Apart {
		return nil
	}
	return new(r.Measured.Median - *r.Published)
}

// Table is one table, figure or section of the paper as numbers.
type Table struct {
	Source    string // "Table 7", "Figure 6a", "section 5.3"
	What      string // "throughput of the baselines"
	Rows      []Row
	Agreement string   // how far the numbers agree, in words
	Notes     []string // choices that were made; missing numbers with the command that measures them
}

// ID is the table's name in file names, such as "table-7".
func (t Table) ID() string { return strings.ReplaceAll(strings.ToLower(t.Source), " ", "-") }

// Measured counts the rows with a number from runs.
func (t Table) Measured() int {
	n := 0
	for _, r := range t.Rows {
		if r.Measured != nil {
			n++
		}
	}
	return n
}

// How says in one phrase where the table's numbers come from.
func (t Table) How() string {
	simulated := slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Mode == results.Simulated })
	live := slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Mode == results.Live })
	switch {
	case simulated && live:
		return "measured or SIMULATED"
	case simulated:
		return "SIMULATED"
	case live:
		return "measured"
	}
	return "not measured"
}

// Title says what the table shows and, if it is simulated, says so.
func (t Table) Title() string {
	if t.Measured() == 0 {
		return fmt.Sprintf("%s: %s, published; %s", t.Source, t.What, t.How())
	}
	return fmt.Sprintf("%s: %s, published beside %s", t.Source, t.What, t.How())
}

// Page is the whole evaluation.
type Page struct {
	Nodes   []Node
	Tables  []Table
	Figures []Figure
}

// Measured counts the numbers that come from runs.
func (p Page) Measured() int {
	n := 0
	for _, t := range p.Tables {
		n += t.Measured()
	}
	return n
}

// Confidence is the confidence of all intervals.
const Confidence = 0.95

func summarize(values []float64) stats.Summary { return stats.Summarize(values, Confidence) }

const (
	fraction = "fraction"
	ratio    = "ratio"
)

// Build makes every table and figure. Each system of the paper may have at most
// one node.
func Build(nodes []Node) (Page, error) {
	page := Page{}
	for _, n := range nodes {
		page.Nodes = append(page.Nodes, split(n))
	}
	arms := map[string]*arms{}
	for i, n := range page.Nodes {
		if other, taken := arms[n.System]; taken {
			return Page{}, fmt.Errorf("runs on %s and on %s would both be compared with the paper's %s: select those of one node", other.node.Name, n.Name, n.System)
		}
		if !slices.Contains(Systems(), n.System) {
			return Page{}, fmt.Errorf("system %q: the paper has %s", n.System, strings.Join(Systems(), " and "))
		}
		arms[n.System] = newArms(&page.Nodes[i])
	}
	for _, s := range sources {
		t, err := s.table(arms)
		if err != nil {
			return Page{}, err
		}
		page.Tables = append(page.Tables, t)
		if s.draw == nil || t.Measured() == 0 {
			continue
		}
		f, err := s.draw(t, arms)
		if err != nil {
			return Page{}, err
		}
		page.Figures = append(page.Figures, f)
	}
	return page, nil
}

// Systems are the paper's two nodes.
func Systems() []string { return []string{"4xV100", "2xP100"} }

// SystemFor returns the paper's system with which a node is compared by default: the system
// with equally many devices.
func SystemFor(node string, devices int) (string, error) {
	name := strings.TrimPrefix(node, "sim:")
	switch {
	case slices.Contains(Systems(), name):
		return name, nil
	case devices == 4:
		return "4xV100", nil
	case devices == 2:
		return "2xP100", nil
	}
	return "", fmt.Errorf("node %s has %d devices, and the paper's systems have 4 (4xV100) and 2 (2xP100): say which to compare with", node, devices)
}

// source is one table or figure of the paper.
type source struct {
	name    string
	what    string
	systems []string
	// unstated returns the values that a figure draws but the text does not state.
	unstated func(system string) []Value
	apart    string                                        // why the numbers cannot be compared; empty if they can
	draw     func(Table, map[string]*arms) (Figure, error) // nil: the paper draws nothing
	notes    func(map[string]*arms) []string
}

func (s source) table(all map[string]*arms) (Table, error) {
	t := Table{Source: s.name, What: s.what}
	for _, system := range s.systems {
		values, err := Published(s.name, system)
		if err != nil {
			return t, err
		}
		for _, v := range values {
			row, err := measure(v, new(v.Value), all[system])
			if err != nil {
				return t, err
			}
			row.Apart = s.apart != ""
			t.Rows = append(t.Rows, row)
		}
		if s.unstated == nil {
			continue
		}
		for _, v := range s.unstated(system) {
			row, err := measure(v, nil, all[system])
			if err != nil {
				return t, err
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.Agreement = agreement(t, s.systems, s.apart)
	if s.notes != nil {
		t.Notes = s.notes(all)
	}
	t.Notes = append(t.Notes, mixed(s.systems, t.Rows, all)...)
	t.Notes = append(t.Notes, unlike(s.systems, t.Rows, all)...)
	t.Notes = append(t.Notes, parts(s.systems, t.Rows, all)...)
	t.Notes = append(t.Notes, missing(s.name, t.Rows)...)
	return t, nil
}

// mixed returns a note for each node whose numbers come from several machines.
func mixed(systems []string, rows []Row, all map[string]*arms) []string {
	var notes []string
	for _, system := range systems {
		a := all[system]
		if a != nil && a.node.Machines != "" && slices.ContainsFunc(rows, func(r Row) bool { return r.Node == a.node.Name }) {
			notes = append(notes, fmt.Sprintf("The runs on %s are of several machines (%s): differences between the machines are part of these numbers.", a.node.Name, a.node.Machines))
		}
	}
	return notes
}

// unlike returns a note for each arm whose numbers come from runs with different settings.
func unlike(systems []string, rows []Row, all map[string]*arms) []string {
	used := map[int64]bool{}
	for _, r := range rows {
		for _, id := range r.Runs {
			used[id] = true
		}
	}
	var notes []string
	for _, system := range systems {
		if all[system] == nil {
			continue
		}
		runs := all[system].runs
		keys := slices.SortedFunc(maps.Keys(runs), results.Arm.Compare)
		for _, arm := range keys {
			own := slices.DeleteFunc(slices.Clone(runs[arm]), func(r results.Run) bool { return !used[r.ID] })
			if found := results.SeveralSettings(own); found != "" {
				notes = append(notes, fmt.Sprintf("The runs of %s have different settings (%s), and are taken together.", results.Names(keys).Of(arm), found))
			}
		}
	}
	return notes
}

// parse reads a scheduler as the paper's tables write it.
func parse(text string, devices int) (policies.Scheduler, error) {
	return policies.Parse(text, devices)
}
