package html

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
)

// armName is the name of a scheduler with parameters. One checkbox hides the arm in all mixes
// and nodes.
type armName struct {
	Index int
	Text  string
	Full  string // with every parameter
}

type arms struct {
	shown results.Names
	names []armName
	index map[results.Arm]int // by what of an arm is its name
}

// newArms names the arms of the runs, in the order in which the user gave them.
func newArms(runs []results.Run) *arms {
	a := &arms{shown: results.NamesOf(runs), index: map[results.Arm]int{}}
	seen := map[results.Arm]bool{}
	for _, r := range runs {
		seen[ofName(results.ArmOf(r))] = true
	}
	for i, arm := range a.shown.Sorted(maps.Keys(seen)) {
		full := arm.Scheduler
		if arm.Parameters != "" {
			full += ":" + arm.Parameters
		}
		n := armName{Index: i, Text: line(a.shown.Scheduler(arm)), Full: line(results.WithProbe(full, arm.Probe))}
		if arm.Traced {
			n.Text, n.Full = n.Text+", traced", n.Full+", traced"
		}
		a.names, a.index[arm] = append(a.names, n), i
	}
	return a
}

// ofName is what of an arm is its name.
func ofName(a results.Arm) results.Arm {
	return results.Arm{Scheduler: a.Scheduler, Parameters: a.Parameters, Probe: a.Probe, Traced: a.Traced}
}

func (a *arms) of(r results.Run) armName { return a.names[a.index[ofName(results.ArmOf(r))]] }

// group has arms that can be compared.
type group struct {
	ID        string
	Title     string
	Simulated bool
	Arms      *report.Table
	Charts    []chart
	Notes     []string
}

// batch has the arms of one batch on one node, all traced or all not. A part of a mix and the whole mix are different
// batches.
type batch struct {
	arm     results.Arm // that of all members, without what tells them apart
	members []*member   // first the base, to which ratios are
	left    int         // runs that do not count
}

// member is one arm with its complete runs.
type member struct {
	name armName
	runs []results.Run
	jobs [][]results.Job

	noiseFree bool // the runs are one sample
}

// leaveCopies leaves out the runs that are not samples of their own, and counts them.
func (m *member) leaveCopies() int {
	m.noiseFree = results.AllNoiseFree(m.runs)
	runs, jobs := m.runs, m.jobs
	m.runs, m.jobs = nil, nil
	for i, copied := range results.Copies(runs) {
		if !copied {
			m.runs, m.jobs = append(m.runs, runs[i]), append(m.jobs, jobs[i])
		}
	}
	return len(runs) - len(m.runs)
}

// batches sorts the runs into arms. Only complete runs that are neither warm-ups nor doubtful count, because other runs
// are not measurements.
func batches(runs []results.Run, jobs [][]results.Job, a *arms) []*batch {
	var out []*batch
	for i, r := range runs {
		arm := results.ArmOf(r).Batch()
		at := slices.IndexFunc(out, func(b *batch) bool { return b.arm == arm })
		if at < 0 {
			at, out = len(out), append(out, &batch{arm: arm})
		}
		b := out[at]
		if r.Status != results.Complete || r.Warmup || r.Doubts != "" {
			b.left++
			continue
		}
		name := a.of(r)
		at = slices.IndexFunc(b.members, func(m *member) bool { return m.name.Index == name.Index })
		if at < 0 {
			at, b.members = len(b.members), append(b.members, &member{name: name})
		}
		m := b.members[at]
		m.runs, m.jobs = append(m.runs, r), append(m.jobs, jobs[i])
	}
	slices.SortStableFunc(out, func(x, y *batch) int {
		return cmp.Or(a.shown.CompareMixes(x.arm, y.arm), cmp.Compare(x.arm.Node, y.arm.Node), cmp.Compare(x.arm.Mode, y.arm.Mode), cmp.Compare(y.arm.Jobs, x.arm.Jobs))
	})
	return out
}

// groups compares the arms of each batch, with the bases and the ratios of the matrix of each place.
func groups(runs []results.Run, jobs [][]results.Job, devices map[int64][]results.Device, a *arms, matrices []regress.Matrix) []group {
	all := batches(runs, jobs, a)
	bases := map[results.Arm]results.Arm{} // without a mix, by place
	for _, m := range matrices {
		bases[m.Of] = m.Base().Arm
	}
	var out []group
	for i, b := range all {
		if len(b.members) == 0 {
			continue
		}
		copies := 0
		for _, m := range b.members {
			copies += m.leaveCopies()
		}
		b.order(bases[anywhere(b.arm)])
		g := newGroup(fmt.Sprintf("mix%d", i+1), b, matrices)
		if slices.ContainsFunc(all, func(o *batch) bool {
			return o.arm.Jobs != b.arm.Jobs && o.arm.Mix == b.arm.Mix && o.arm.Node == b.arm.Node
		}) {
			g.Title += ", " + plural(b.arm.Jobs, "job") // there are runs of the mix and of a part of it
		}
		g.Arms.Page.Label = "Comparison for " + g.Title
		if slices.ContainsFunc(b.members, func(m *member) bool { return m.noiseFree }) {
			g.Notes = append(g.Notes, sentence(results.NoNoise))
		}
		if copies > 0 {
			g.Notes = append(g.Notes, sentence(results.SaysCopies(copies)))
		}
		g.Notes = append(g.Notes, b.differences(devices)...)
		out = append(out, g)
	}
	return out
}

// order puts the base first.
func (b *batch) order(base results.Arm) {
	isBase := func(m *member) bool { return anywhere(results.ArmOf(m.runs[0])) == base }
	slices.SortStableFunc(b.members, func(x, y *member) int {
		switch {
		case isBase(x) == isBase(y):
			return x.name.Index - y.name.Index
		case isBase(x):
			return -1
		}
		return 1
	})
}

// differences are those between the runs that comparisons include.
func (b *batch) differences(devices map[int64][]results.Device) []string {
	var notes, settings []string
	var all []results.Run
	commands := map[int64]string{}
	for _, m := range b.members {
		for i, r := range m.runs {
			all, commands[r.ID] = append(all, r), results.CommandList(m.jobs[i])
		}
		if found := results.SeveralSettings(m.runs); found != "" {
			settings = append(settings, "The runs under "+m.name.Text+" have different settings ("+line(found)+"), and are taken together.")
		}
	}
	if found := results.SeveralMixes(all, commands); found != "" {
		notes = append(notes, "The runs are of different mixes of this name ("+line(found)+"), so medians and comparisons include the differences between the mixes.")
	}
	notes = append(notes, settings...)
	if machines := results.SeveralMachines(all, devices); machines != "" {
		notes = append(notes, "The runs are of several machines ("+machines+"), so medians and comparisons include the differences between the machines.")
	}
	return notes
}

// anywhere is an arm without its mix.
func anywhere(a results.Arm) results.Arm {
	a.Mix, a.Jobs = "", 0
	return a
}

func newGroup(id string, b *batch, matrices []regress.Matrix) group {
	g := group{ID: id, Title: fmt.Sprintf("%s on %s", line(b.arm.Mix), line(b.arm.Node)), Simulated: b.arm.Mode == results.Simulated}
	if b.arm.Traced {
		g.Title += ", traced"
	}
	if b.left > 0 {
		g.Notes = append(g.Notes, plural(b.left, "run")+" left out: a warm-up, doubtful, interrupted or unfinished run is not a measurement.")
	}
	g.Arms = &report.Table{Columns: []report.Column{{Name: "Scheduler"}, {Name: "Crashed jobs", Unit: report.Ratio, Crashes: true}, {Name: "Runs"}}}
	for i, of := range shownMetrics {
		g.Arms.Columns = append(g.Arms.Columns, report.Column{Name: of.Title(), Unit: report.MetricUnit(of)})
		if i < judged {
			g.Arms.Columns = append(g.Arms.Columns, report.Column{Name: "Against base", Unit: report.Factor})
		}
	}
	against, reasons := verdicts(b.members)
	lost, intervals := false, ""
	for i, m := range b.members {
		g.Arms.Add(armCells(m, b.members[0], against[i], matrices)...)
		g.Arms.Page.Rows = append(g.Arms.Page.Rows, rowAttribute("data-arm", m.name.Index))
		crashed, _ := m.lost()
		lost = lost || crashed > 0
		if summarize(m.values(shownMetrics[0])).Bounded() {
			intervals = ", in brackets the " + intervalWords
		}
	}
	g.Arms.Page.Class = "sortable"
	g.Arms.Page.Caption = caption(g.Simulated, fmt.Sprintf("%d jobs. Medians over the runs%s. Factors and verdicts are against the base.", b.arm.Jobs, intervals))
	if lost {
		g.Notes = append(g.Notes, report.SurvivorsNote("here or under the base"))
	}
	for _, r := range reasons {
		g.Notes = append(g.Notes, "Inconclusive: "+r+".")
	}
	g.Charts = charts(b.members)
	return g
}

// armCells are the row of an arm.
func armCells(m, base *member, against []stats.Comparison, matrices []regress.Matrix) []any {
	crashed, jobs := m.lost()
	name := report.Cell{Text: m.name.Text, Title: m.name.Full}
	if m == base {
		name.Small = "(base)"
	}
	row := []any{name, crashCell(crashed, jobs), len(m.runs)}
	add := func(c report.Cell, survivors bool) {
		if survivors && c.Value != nil {
			c.Text += report.SurvivorsMark
		}
		row = append(row, c)
	}
	ofBase, _ := base.lost()
	for i, of := range shownMetrics {
		all := summarize(m.values(of))
		add(summaryCell(all, report.MetricUnit(of)), of.OfSurvivors && crashed > 0)
		if i >= judged {
			continue
		}
		var verdict stats.Verdict // the base has none
		if against != nil {
			verdict = against[i].Verdict
		}
		add(factor(regress.LevelOf(matrices, results.ArmOf(m.runs[0]), of).Ratio, verdict), crashed+ofBase > 0)
	}
	return row
}

// lost counts the jobs of all runs that crashed, and all jobs.
func (m *member) lost() (crashed, jobs int) {
	for _, r := range m.runs {
		crashed += r.Metrics.Crashed
		jobs += r.Jobs
	}
	return crashed, jobs
}

func crashCell(crashed, jobs int) report.Cell {
	if jobs == 0 {
		return report.Cell{}
	}
	c := report.Cell{Value: float64(crashed) / float64(jobs), Text: fmt.Sprintf("%d of %d", crashed, jobs)}
	if crashed > 0 {
		c.Text = fmt.Sprintf("%s (%s)", c.Text, report.Human(float64(crashed)/float64(jobs), report.Ratio))
	}
	return c
}

// shownMetrics are those of arms.
var shownMetrics = []results.Metric{results.MetricNamed("throughput"), results.MetricNamed("turnaround"), results.MetricNamed("makespan"), results.MetricNamed("utilization")}

// judged are how many of the first of shownMetrics have verdicts.
const judged = 2

func (m *member) values(of results.Metric) []float64 { return of.Values(m.runs) }

// jobValues returns one figure of the jobs of all runs.
func (m *member) jobValues(of func(results.Job) *float64) []float64 {
	var out []float64
	for _, jobs := range m.jobs {
		for _, j := range jobs {
			if v := of(j); v != nil {
				out = append(out, *v)
			}
		}
	}
	return out
}
