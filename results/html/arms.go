package html

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/caserun/caserun/results"
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
	names []armName
	index map[string]int // by full name
}

// newArms names the arms of the runs. Arms are in the order of their names, because a sweep
// shuffles its runs.
func newArms(runs []results.Run) *arms {
	short, variants := map[string]string{}, map[string]int{}
	for _, r := range runs {
		if full := fullName(r); short[full] == "" {
			short[full] = shortName(r)
			variants[shortName(r)]++
		}
	}
	a := &arms{index: map[string]int{}}
	for i, full := range slices.Sorted(maps.Keys(short)) {
		n := armName{Index: i, Text: short[full], Full: full}
		if variants[n.Text] > 1 {
			n.Text = full
		}
		a.names, a.index[full] = append(a.names, n), i
	}
	return a
}

func (a *arms) of(r results.Run) armName { return a.names[a.index[fullName(r)]] }

func shortName(r results.Run) string {
	name := line(results.WithProbe(r.Scheduler, r.Probe))
	if r.Traced {
		name += ", traced"
	}
	return name
}

func fullName(r results.Run) string {
	name := line(r.Scheduler)
	if r.Parameters != "" {
		name += ":" + line(r.Parameters)
	}
	name = results.WithProbe(name, r.Probe)
	if r.Traced {
		name += ", traced"
	}
	return name
}

// group has arms that can be compared: arms of one batch on one node, all traced or all not. A
// part of a mix and the whole mix are different batches.
type group struct {
	ID        string
	Title     string
	Simulated bool
	Jobs      int
	Rows      []armRow
	Charts    []chart
	Interval  string // what the brackets in the rows mean; empty if there are none
	Notes     []string
}

// armRow is one line of the comparison.
type armRow struct {
	Arm     armName
	Base    bool
	Crashed cell
	Runs    cell
	Cells   []cell
}

// member is one arm with its complete runs.
type member struct {
	name armName
	base bool
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

// groups compares the arms. Only complete runs that are neither warm-ups nor doubtful count, because other runs
// are not measurements. bases are the arms that ratios are to, without a mix, by place.
func groups(runs []results.Run, jobs [][]results.Job, devices map[int64][]results.Device, a *arms, bases map[results.Arm]results.Arm) []group {
	var order []results.Arm
	members := map[results.Arm][]*member{}
	left := map[results.Arm]int{}
	for i, r := range runs {
		k := results.ArmOf(r).Batch()
		if members[k] == nil {
			order = append(order, k)
			members[k] = []*member{}
		}
		if r.Status != results.Complete || r.Warmup || r.Doubts != "" {
			left[k]++
			continue
		}
		name := a.of(r)
		at := slices.IndexFunc(members[k], func(m *member) bool { return m.name.Index == name.Index })
		if at < 0 {
			at = len(members[k])
			members[k] = append(members[k], &member{name: name, base: bases[anywhere(k)] == anywhere(results.ArmOf(r))})
		}
		m := members[k][at]
		m.runs, m.jobs = append(m.runs, r), append(m.jobs, jobs[i])
	}
	slices.SortStableFunc(order, func(x, y results.Arm) int {
		return cmp.Or(cmp.Compare(x.Mix, y.Mix), cmp.Compare(x.Node, y.Node), cmp.Compare(x.Mode, y.Mode), cmp.Compare(y.Jobs, x.Jobs))
	})
	var out []group
	for i, k := range order {
		own := members[k]
		if len(own) == 0 {
			continue
		}
		again := 0
		for _, m := range own {
			again += m.leaveCopies()
		}
		slices.SortStableFunc(own, func(x, y *member) int { return x.name.Index - y.name.Index })
		if at := slices.IndexFunc(own, func(m *member) bool { return m.base }); at > 0 {
			base := own[at]
			own = slices.Insert(slices.Delete(own, at, at+1), 0, base)
		}
		own[0].base = true
		for _, m := range own[1:] {
			m.base = false
		}
		g := newGroup(fmt.Sprintf("mix%d", i+1), k, own, left[k])
		if slices.ContainsFunc(own, func(m *member) bool { return m.noiseFree }) {
			g.Notes = append(g.Notes, "There are "+results.NoNoise+".")
		}
		if again > 0 {
			g.Notes = append(g.Notes, "There are "+results.SaysCopies(again)+".")
		}
		if slices.ContainsFunc(order, func(o results.Arm) bool { return o.Jobs != k.Jobs && o.Mix == k.Mix && o.Node == k.Node }) {
			g.Title += ", " + plural(k.Jobs, "job") // there are runs of the mix and of a part of it
		}
		var all []results.Run
		commands := map[int64]string{}
		for _, m := range own {
			for i, r := range m.runs {
				all, commands[r.ID] = append(all, r), results.CommandList(m.jobs[i])
			}
		}
		if found := results.SeveralMixes(all, commands); found != "" {
			g.Notes = append(g.Notes, "The runs are of different mixes of this name ("+line(found)+"), so medians and comparisons include the differences between the mixes.")
		}
		for _, m := range own {
			if found := results.SeveralSettings(m.runs); found != "" {
				g.Notes = append(g.Notes, "The runs under "+m.name.Text+" have different settings ("+line(found)+"), and are taken together.")
			}
		}
		if machines := results.SeveralMachines(all, devices); machines != "" {
			g.Notes = append(g.Notes, "The runs are of several machines ("+machines+"), so medians and comparisons include the differences between the machines.")
		}
		out = append(out, g)
	}
	return out
}

// anywhere is an arm without its mix.
func anywhere(a results.Arm) results.Arm {
	a.Mix, a.Jobs = "", 0
	return a
}

func newGroup(id string, k results.Arm, own []*member, left int) group {
	g := group{ID: id, Title: fmt.Sprintf("%s on %s", line(k.Mix), line(k.Node)), Simulated: k.Mode == results.Simulated, Jobs: k.Jobs}
	if k.Traced {
		g.Title += ", traced"
	}
	if left > 0 {
		g.Notes = append(g.Notes, plural(left, "run")+" left out: a warm-up, doubtful, interrupted or unfinished run is not a measurement.")
	}
	against, reasons := verdicts(own)
	for i, m := range own {
		g.Rows = append(g.Rows, newArmRow(m, own[0], against[i]))
	}
	if slices.ContainsFunc(own, func(m *member) bool { crashed, _ := m.lost(); return crashed > 0 }) {
		g.Notes = append(g.Notes, report.SurvivorsNote("here or under the base"))
	}
	for _, r := range reasons {
		g.Notes = append(g.Notes, "Inconclusive: "+r+".")
	}
	if slices.ContainsFunc(own, func(m *member) bool { return summarize(m.values(throughputOf)).Bounded() }) {
		g.Interval = intervalWords
	}
	g.Charts = charts(own)
	return g
}

func newArmRow(m, base *member, against []stats.Comparison) armRow {
	crashed, jobs := m.lost()
	row := armRow{Arm: m.name, Base: m.base, Crashed: crashCell(crashed, jobs), Runs: integer(len(m.runs))}
	factors := make([]cell, len(compared))
	for i, c := range compared {
		factors[i] = cell{Text: "–"}
		if summarize(m.values(c.of)).Median > 0 { // otherwise it is 0/0
			factors[i] = cell{Text: "1.00 ×", Value: "1"}
		}
	}
	for i, c := range against {
		factors[i] = factor(c)
	}
	throughput := summaryCell(summarize(m.values(throughputOf)), report.JobsPerSecond)
	turnaround := summaryCell(summarize(m.values(turnaroundOf)), report.Seconds)
	makespan := summaryCell(summarize(m.values(makespanOf)), report.Seconds)
	var marked []*cell // as those of results.Metric.OfSurvivors
	if crashed > 0 {
		marked = append(marked, &throughput, &turnaround, &makespan)
	}
	if ofBase, _ := base.lost(); crashed+ofBase > 0 {
		marked = append(marked, &factors[0], &factors[1])
	}
	for _, c := range marked {
		if c.Text != "–" {
			c.Text += report.SurvivorsMark
		}
	}
	row.Cells = append(row.Cells, throughput, factors[0], turnaround, factors[1], makespan, summaryCell(summarize(m.values(utilizationOf)), report.Ratio))
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

func crashCell(crashed, jobs int) cell {
	if jobs == 0 {
		return cell{Text: "–"}
	}
	share := float64(crashed) / float64(jobs)
	c := number(&share, report.Ratio)
	c.Text = fmt.Sprintf("%d of %d", crashed, jobs)
	if crashed > 0 {
		c.Text = fmt.Sprintf("✕ %s (%s)", c.Text, report.Human(share, report.Ratio))
	}
	return c
}

// metric is one figure of a run.
type metric func(results.Run) *float64

func throughputOf(r results.Run) *float64  { return r.Metrics.ThroughputJobsPerS }
func turnaroundOf(r results.Run) *float64  { return r.Metrics.TurnaroundMeanS }
func makespanOf(r results.Run) *float64    { return r.Metrics.OfWork(r.Metrics.MakespanS) }
func utilizationOf(r results.Run) *float64 { return r.Metrics.UtilizationMean }

func (m *member) values(of metric) []float64 {
	var out []float64
	for _, r := range m.runs {
		if v := of(r); v != nil {
			out = append(out, *v)
		}
	}
	return out
}

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
