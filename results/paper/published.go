package paper

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/userfile/csvfile"
)

// published has two files for each paper: NAME.yaml describes the evaluation, and NAME.csv has the published numbers.
//
//go:embed published
var published embed.FS

// Default is the paper that commands take if none is named.
const Default = "case"

// Paper is the evaluation of a paper: what it has published, and which runs give the same numbers.
type Paper struct {
	Name      string
	Title     string
	Cite      string
	Systems   []System
	Remedy    string   // says how to measure what is missing
	Times     string   // the name of a file beside the store with kernel times of programs; empty: the paper needs none
	Pinned    []string // schedulers whose parameters the paper does not give: only runs with the defaults count
	Workloads map[string]Workload
	Metrics   map[string]Metric
	Sweeps    []Sweep // that measure what the paper did
	Items     []Item
	Alone     []string // mixes of one job each, with whose time that of the same job among others is compared
	// Statements are what the paper says of its figures in words.
	Statements []Statement

	values []Value
}

// System is a node of the paper, or what it was loaded with.
type System struct {
	Name    string
	Devices int

	// Of a system that follows from the runs, which are on so many devices: how many nodes have these, 0 meaning one, the pattern of their mixes' names without
	// Ending, what these end with, such as mixes.OnManaged, and their memory over that of the device; 0: however much that is.
	Nodes        int
	Mixes        string
	Ending       string
	Subscription float64
	Lacks        []string // schedulers under which nothing like it runs
	Hosts        []int    // how many of its devices each host has, if the runs have one node for several hosts
}

// Workload says which mixes a workload of the paper is, if it is not a mix's name. An entry "MIX under SCHEDULER" is the mix under
// that scheduler, whatever the number's scheduler is.
type Workload struct {
	Take  string // mean, geomean, min or max over the mixes; or first, or empty: the first mix that has runs
	Mixes []string
	Job   string // whose time job_time is
	Base  string // the mix with which it is compared under a metric's other scheduler; empty: the same mix
}

// Metric says what a metric of the paper is of runs.
type Metric struct {
	Of     string // a metric of results, or one of figures; empty: no run has it
	Over   string // the scheduler with which it is compared, if the metric is a speedup or slowdown; else empty
	Slower bool   // it is a slowdown: less than 1 is better, if less of Of is
	Unit   string // of rows that the paper does not state; empty: ratio
	Why    string // why no run has it
	Remedy string // in place of the paper's
}

// Sweep measures the paper's mixes.
type Sweep struct {
	Name       string
	Of         string // the suite
	Optional   string // what is missing where a suite lacks the programs and the sweep is left out; empty: then it is an error
	Mixes      []string
	Schedulers map[string][]string // by system
}

// Item is a table, figure or section of the paper.
type Item struct {
	Source  string
	What    string
	Systems []string
	Places  bool     // the numbers are from several places, which are shown
	Notes   []string // with {node}, {mix}, {utilization}, {others} or a pinned scheduler: for measured nodes only
	Others  Others
	Apart   string // why the numbers cannot be compared; empty if they can
	Bars    Drawn  // speedups over a scheduler as bars
	Curves  []string
	Rows    []Rows // that the paper draws and does not state
}

// Rows are a number for each of the item's systems, workloads and schedulers.
type Rows struct {
	Metric                string
	Workloads, Schedulers []string
}

// Others are speedups over other schedulers, which a note lists.
type Others struct {
	Text, Workload, Scheduler, Of string
	Over                          []string
}

// Drawn are the bars of a figure.
type Drawn struct {
	Over       string
	Metric     string // empty: the one that is over Over
	Log        bool   // the axis
	Schedulers []string
}

// Value is a published number.
type Value struct {
	Item      string // the source of its item: "Table 7"
	System    string
	Workload  string // a mix, or one of Workloads
	Scheduler string // as policies.Parse reads it
	Metric    string
	Value     *float64 // nil: the paper draws the number, but does not state it
	Unit      string
	Source    string // where in the paper: "Table 7", "section 5.2.4", "slide 36"
}

// fraction is the unit of numbers that are compared by difference.
const fraction = "fraction"

// numbers is the format of the published numbers.
var numbers = csvfile.Format[Value]{Record: "number",
	Key: func(v Value) string {
		return fmt.Sprintf("%s of %s under %s on %s in %s (%s)", v.Metric, v.Workload, v.Scheduler, v.System, v.Item, v.Source)
	},
	Columns: []csvfile.Column[Value]{
		csvfile.Text("item", func(v *Value) *string { return &v.Item }, true),
		csvfile.Text("system", func(v *Value) *string { return &v.System }, true),
		csvfile.Text("workload", func(v *Value) *string { return &v.Workload }, true),
		csvfile.Text("scheduler", func(v *Value) *string { return &v.Scheduler }, true),
		csvfile.Text("metric", func(v *Value) *string { return &v.Metric }, true),
		{Name: "value", Read: func(v *Value, text string) error {
			if text == "" {
				return nil
			}
			number, err := input.Float(text)
			v.Value = &number
			return err
		}},
		csvfile.Text("unit", func(v *Value) *string { return &v.Unit }, true),
		csvfile.Text("source", func(v *Value) *string { return &v.Source }, true),
	}}

// load reads the files, which are part of the program: a test checks what they say.
var load = sync.OnceValue(func() map[string]*Paper {
	all := map[string]*Paper{}
	described, err := fs.Glob(published, "published/*.yaml")
	for _, file := range described {
		name := strings.TrimSuffix(path.Base(file), ".yaml")
		p, failed := parsePaper(name)
		all[name], err = p, errors.Join(err, failed)
	}
	if err != nil {
		panic(err)
	}
	return all
})

func parsePaper(name string) (*Paper, error) {
	var p Paper
	text, err := published.ReadFile("published/" + name + ".yaml")
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, &p, yaml.Strict())
	}
	if err != nil {
		return nil, err
	}
	text, err = published.ReadFile("published/" + name + ".csv")
	if err != nil {
		return nil, err
	}
	p.values, err = numbers.Read(name+".csv", bytes.NewReader(text))
	p.expand()
	for _, item := range p.Items {
		for _, rows := range item.Rows {
			p.addRows(item, rows)
		}
	}
	return &p, err
}

// expand puts the mixes of the catalog in the place of patterns such as N-fig9-*.
func (p *Paper) expand() {
	p.Alone = matching(p.Alone)
	for key, w := range p.Workloads {
		w.Mixes = matching(w.Mixes)
		p.Workloads[key] = w
	}
	for i := range p.Items {
		for k := range p.Items[i].Rows {
			rows := &p.Items[i].Rows[k]
			rows.Workloads = matching(rows.Workloads)
		}
	}
	for i := range p.Statements {
		s := &p.Statements[i]
		s.Workloads, s.Than = matching(s.Workloads), matching(s.Than)
	}
}

func matching(names []string) (out []string) {
	for _, name := range names {
		fits := []string{name}
		if strings.ContainsRune(name, '*') {
			fits, _ = mixes.Match(name) // a pattern that fits nothing fails a test
		}
		out = append(out, fits...)
	}
	return out
}

func (p *Paper) addRows(item Item, rows Rows) {
	for _, system := range item.Systems {
		for _, workload := range rows.Workloads {
			for _, scheduler := range p.system(system).schedulers(rows.Schedulers) {
				p.values = append(p.values, Value{Item: item.Source, System: system, Workload: workload, Scheduler: scheduler,
					Metric: rows.Metric, Unit: cmp.Or(p.Metrics[rows.Metric].Unit, "ratio"), Source: item.Source})
			}
		}
	}
}

// Names are the papers, the default first.
func Names() []string {
	var names []string
	for name := range load() {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Concat([]string{Default}, slices.DeleteFunc(names, func(name string) bool { return name == Default }))
}

// Lookup finds a paper by its name.
func Lookup(name string) (*Paper, error) {
	if p := load()[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("unknown paper %q: %s", name, near.OrKnown(name, Names()))
}

// Case is the paper that commands take if none is named.
func Case() *Paper { return load()[Default] }

// of returns the numbers of an item on a system, in the order of the file.
func (p *Paper) of(item, system string) []Value {
	return slices.DeleteFunc(slices.Clone(p.values), func(v Value) bool { return v.Item != item || v.System != system })
}

// Published returns the numbers of one item and system that the paper states, such as "Table 7" and "4xV100". It returns an error
// if the paper has none.
func (p *Paper) Published(item, system string) ([]Value, error) {
	out := slices.DeleteFunc(p.of(item, system), func(v Value) bool { return v.Value == nil })
	if len(out) == 0 {
		return nil, fmt.Errorf("published values: nothing from %q on %q", item, system)
	}
	return out, nil
}

// SystemNames are the paper's systems.
func (p *Paper) SystemNames() []string {
	var names []string
	for _, s := range p.Systems {
		names = append(names, s.Name)
	}
	return names
}

// SystemFor returns the paper's system with which a node is compared by default: the system
// with equally many devices.
func (p *Paper) SystemFor(node string, devices int) (string, error) {
	if name := strings.TrimPrefix(node, "sim:"); slices.Contains(p.SystemNames(), name) {
		return name, nil
	}
	var have []string
	for _, s := range p.Systems {
		if s.Devices == devices {
			return s.Name, nil
		}
		have = append(have, fmt.Sprintf("%d (%s)", s.Devices, s.Name))
	}
	return "", fmt.Errorf("node %s has %d devices, and the paper's systems have %s: say which to compare with", node, devices, strings.Join(have, " and "))
}

// SchedulersOf returns the schedulers under which the sweep must run its mixes for a system's numbers; none if the paper has none.
func (p *Paper) SchedulersOf(s Sweep, system string, devices int) ([]string, error) {
	var out []string
	for _, scheduler := range s.Schedulers[system] {
		text, err := p.scheduler(scheduler, devices)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out, nil
}

// SystemsOf are the systems on which the paper has the sweep's numbers.
func (p *Paper) SystemsOf(s Sweep) []string {
	return slices.DeleteFunc(p.SystemNames(), func(name string) bool { return s.Schedulers[name] == nil })
}
