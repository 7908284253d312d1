// Package paper knows evaluations of papers: what they have published, and which runs give the same numbers. It puts
// measured numbers beside published numbers and says in words, computed from the numbers, how far they agree. It does no
// I/O. A paper is two files in published.
package paper

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// Node is one node with its complete runs, which are compared with one of the paper's systems.
type Node struct {
	Name          string // "local", "sim:4xV100"
	Hardware      string // "4 x NVIDIA H200 (16.0 GiB)"
	CapacityBytes int64  // of a device in the mean, for jobs
	Mode          results.Mode
	Devices       int
	System        string // "4xV100"
	Runs          []results.Run
	Parts         []results.Run // runs that Build excluded, because they are not of the catalog's mix
	Machines      string        // as results.SeveralMachines says; empty: one machine

	// Utilization and Trace read data of a run that only some figures need. Utilization reads the series "gpu", or
	// "resident" of a simulated run, and may read others.
	Utilization func(results.Run) ([]results.Segment, error)
	Trace       func(run int64) (results.Traced, error)
	// Jobs and Events are those of a run, which papers need whose systems follow from the runs.
	Jobs   func(run int64) ([]results.Job, error)
	Events func(run int64) ([]results.Event, error)
	// Tasks are those of a simulated run, which has no samples of memory in use.
	Tasks func(run int64) ([]results.Task, error)
	// Ranks are the ranks and portions of a run's jobs, by job and number.
	Ranks func(run int64) ([]results.Rank, error)
	// Times are kernel times of programs, of a node that has nothing else.
	Times []Time
}

// Row is one number of the paper beside the same number computed from runs.
type Row struct {
	System, Workload, Scheduler, Metric string
	Unit                                string       // as Value
	Source                              string       // as Value
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
	Places    bool   // the rows' sources differ from it, and are shown
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

// Says says whether a mode measures.
func Says(mode results.Mode) string {
	if mode == results.Simulated {
		return "SIMULATED"
	}
	return "measured"
}

// How says in one phrase where the table's numbers come from.
func (t Table) How() string {
	var how []string
	for _, mode := range []results.Mode{results.Live, results.Simulated} {
		if slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Mode == mode }) {
			how = append(how, Says(mode))
		}
	}
	return cmp.Or(strings.Join(how, " or "), "not measured")
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
	Paper   *Paper
	Nodes   []Node
	Tables  []Table
	Figures []Figure
	Answers []Answer // to the paper's statements
	Besides []Beside // what simulated nodes have of what was measured, too
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

// Build makes every table and figure. Each system of the paper may have at most
// one node, and simulated nodes beside a measured one if systems follow from runs.
func (p *Paper) Build(nodes []Node) (Page, error) {
	page := Page{Paper: p}
	for _, n := range nodes {
		page.Nodes = append(page.Nodes, split(n))
	}
	page.Nodes, page.Besides = p.apart(page.Nodes)
	all := map[string]*arms{}
	for i, n := range page.Nodes {
		if other, taken := all[n.System]; taken {
			return Page{}, fmt.Errorf("runs on %s and on %s would both be compared with the paper's %s: select those of one node", other.node.Name, n.Name, n.System)
		}
		if !slices.Contains(p.SystemNames(), n.System) {
			return Page{}, fmt.Errorf("system %q: the paper has %s", n.System, strings.Join(p.SystemNames(), " and "))
		}
		all[n.System] = newArms(p, &page.Nodes[i])
	}
	var err error
	if page.Answers, err = p.answers(all); err != nil {
		return Page{}, err
	}
	for _, item := range p.Items {
		t, err := p.table(item, all)
		if err != nil {
			return Page{}, err
		}
		page.Tables = append(page.Tables, t)
		if f, err := p.figure(item, t, all); err != nil {
			return Page{}, err
		} else if f != nil {
			page.Figures = append(page.Figures, *f)
		}
	}
	return page, nil
}

func (p *Paper) table(item Item, all map[string]*arms) (Table, error) {
	t := Table{Source: item.Source, What: item.What, Places: item.Places}
	for _, system := range item.Systems {
		for _, v := range p.of(item.Source, system) {
			row, err := p.measure(v, all[system])
			if err != nil {
				return t, err
			}
			row.Apart = item.Apart != "" && row.Published != nil
			t.Rows = append(t.Rows, row)
		}
	}
	t.Agreement = agreement(t, item.Systems, item.Apart)
	t.Notes = p.notes(item, t.Rows, all)
	return t, nil
}
