package html

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
)

// group has arms that can be compared: those of a mix on a node.
type group struct {
	ID        string
	Title     string
	Result    string // the best arm; empty: there is nothing to compare
	Simulated bool
	Open      bool
	Arms      *report.Table
	Jobs      *jobsFigure // nil: the page begins with it, or has no room for it
	Charts    []chart
	Notes     []string

	*batch
}

// batch has the arms of one batch on one node, all traced or all not. A part of a mix and the whole mix are different
// batches.
type batch struct {
	arm     results.Arm // that of all members, without what tells them apart
	members []*member   // first the base, to which ratios are
}

// member is one arm with its complete runs.
type member struct {
	name armName
	runs []results.Run
	jobs [][]results.Job

	noiseFree bool // the runs are one sample
}

// leaveCopies leaves out the runs that are not samples of their own.
func (m *member) leaveCopies() {
	m.noiseFree = results.AllNoiseFree(m.runs)
	runs, jobs := m.runs, m.jobs
	m.runs, m.jobs = nil, nil
	for i, copied := range results.Copies(runs) {
		if !copied {
			m.runs, m.jobs = append(m.runs, runs[i]), append(m.jobs, jobs[i])
		}
	}
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
		return cmp.Or(a.given.CompareMixes(x.arm, y.arm), cmp.Compare(x.arm.Node, y.arm.Node), cmp.Compare(x.arm.Mode, y.arm.Mode), cmp.Compare(y.arm.Jobs, x.arm.Jobs))
	})
	return out
}

// groups compares the arms of each batch, with the bases and the ratios of the matrix of each place.
func groups(runs []results.Run, jobs [][]results.Job, a *arms, matrices []regress.Matrix) []group {
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
		for _, m := range b.members {
			m.leaveCopies()
		}
		b.order(bases[b.arm.WithoutMix()])
		g := newGroup(fmt.Sprintf("mix%d", i+1), b, matrices)
		if slices.ContainsFunc(all, func(o *batch) bool {
			return o.arm.Jobs != b.arm.Jobs && o.arm.Mix == b.arm.Mix && o.arm.Node == b.arm.Node
		}) {
			g.Title += ", " + plural(b.arm.Jobs, "job") // there are runs of the mix and of a part of it
		}
		g.Arms.Page.Label = "Comparison for " + g.Title
		g.Result = bestOf(b, matrices)
		out = append(out, g)
	}
	if len(out) == 1 {
		out[0].Open = true
	}
	return out
}

// bestOf names the arm of a mix with the best headline among arms with comparable figures; empty without such arms.
func bestOf(b *batch, matrices []regress.Matrix) string {
	at := slices.IndexFunc(matrices, func(m regress.Matrix) bool { return m.Of == b.arm.WithoutMix() })
	if at < 0 || len(b.members) < 2 {
		return ""
	}
	m := matrices[at]
	mix, metric := slices.Index(m.Mixes, b.arm), m.IndexOf(results.Headline(m.Of.Open))
	if mix < 0 || metric < 0 {
		return ""
	}
	ranked := m.Ranked(metric, mix)
	if len(ranked) == 0 {
		return ""
	}
	most := map[bool]string{true: "highest", false: "lowest"}[m.Metrics[metric].HigherIsBetter]
	return fmt.Sprintf("%s %s: %s, %s", most, inWords(m.Metrics[metric]), line(m.Rows[ranked[0]].Name), m.Level(ranked[0], mix, metric).Ratio)
}

// order puts the base first.
func (b *batch) order(base results.Arm) {
	isBase := func(m *member) bool { return results.ArmOf(m.runs[0]).WithoutMix() == base }
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

// middle is the member's run with the median makespan, and the run's jobs.
func (m *member) middle() (results.Run, []results.Job) {
	order := make([]int, len(m.runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(orElse(m.runs[a].Metrics.MakespanS, math.Inf(1)), orElse(m.runs[b].Metrics.MakespanS, math.Inf(1)))
	})
	at := order[(len(order)-1)/2]
	return m.runs[at], m.jobs[at]
}

func newGroup(id string, b *batch, matrices []regress.Matrix) group {
	g := group{ID: id, batch: b, Title: fmt.Sprintf("%s on %s", line(b.arm.Mix), line(b.arm.Node)), Simulated: b.arm.Mode == results.Simulated}
	if b.arm.Traced {
		g.Title += ", traced"
	}
	g.Arms = &report.Table{Columns: []report.Column{{Name: "Scheduler"}, {Name: "Crashed jobs", Unit: report.Ratio, Crashes: true}, {Name: "Runs"}}}
	shown := shownMetrics(b.arm.Open)
	for i, of := range shown {
		g.Arms.Columns = append(g.Arms.Columns, report.Column{Name: of.Title(), Unit: report.MetricUnit(of)})
		if i < judged && len(b.members) > 1 {
			g.Arms.Columns = append(g.Arms.Columns, report.Column{Name: "Against base", Unit: report.Factor})
		}
	}
	against, reasons := verdicts(b.members)
	lost, intervals := false, ""
	for i, m := range b.members {
		g.Arms.Add(armCells(m, b.members, against[i], matrices)...)
		g.Arms.Page.Rows = append(g.Arms.Page.Rows, armRow(m.name))
		crashed, _ := m.lost()
		lost = lost || crashed > 0
		if summarize(m.values(shown[0])).Bounded() {
			intervals = ", in brackets the " + intervalWords
		}
	}
	if found := mixesOf(b.members); found != "" {
		g.Notes = append(g.Notes, "The runs are of different mixes of this name ("+line(found)+"), so medians and comparisons include the differences between the mixes.")
	}
	g.Arms.Page.Class = "sortable"
	g.Arms.Page.Caption = fmt.Sprintf("%d jobs. Medians over the runs%s.", b.arm.Jobs, intervals)
	if len(b.members) > 1 {
		g.Arms.Page.Caption += fmt.Sprintf(" Ratios and verdicts are against the base. The verdicts of the mix hold together at %.0f %%.", 100*stats.DefaultAlpha)
	}
	if lost {
		g.Notes = append(g.Notes, report.SurvivorsNote("here or under the base"))
	}
	for _, r := range reasons {
		g.Notes = append(g.Notes, "Inconclusive: "+r+".")
	}
	g.Charts = charts(b.members)
	return g
}

// mixesOf says how the mixes of the runs differ that have one name; empty if they do not.
func mixesOf(members []*member) string {
	var all []results.Run
	commands := map[int64]string{}
	for _, m := range members {
		for i, r := range m.runs {
			all, commands[r.ID] = append(all, r), results.CommandList(m.jobs[i])
		}
	}
	return results.SeveralMixes(all, commands)
}

// armCells are the row of an arm.
func armCells(m *member, members []*member, against []stats.Comparison, matrices []regress.Matrix) []any {
	crashed, jobs := m.lost()
	name, base := report.Cell{Text: m.name.Text, Title: m.name.Full}, members[0]
	if m == base && len(members) > 1 {
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
	for i, of := range shownMetrics(results.ArmOf(base.runs[0]).Open) {
		all := summarize(m.values(of))
		add(summaryCell(all, of), of.OfSurvivors && crashed > 0)
		if i >= judged || len(members) == 1 {
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

// shownMetrics are those of arms, the most telling first. The page's matrix has the metrics of them that are compared.
func shownMetrics(open bool) (out []results.Metric) {
	names := []string{"throughput", "turnaround", "makespan", "utilization"}
	if open {
		names = []string{"turnaround", "turnaround-p95", "backlog", "utilization"}
	}
	for _, name := range names {
		out = append(out, results.MetricNamed(name))
	}
	return out
}

// judged are how many of the first of shownMetrics have verdicts.
const judged = 2

// inWords is a metric inside a sentence, as "mean turnaround".
func inWords(of results.Metric) string { return strings.ToLower(of.Title()) }

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
