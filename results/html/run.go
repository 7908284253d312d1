package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// newRunList has a row for each run. A run without a section can be linked to in its row.
func newRunList(runs []results.Run, a *arms, sections map[int64]bool) *report.Table {
	t := report.RunList(runs).Pick("run_id", "jobs_crashed", "mix", "scheduler", "node", "mode", "status", "repetition", "jobs", "makespan", "throughput",
		"turnaround_mean", "turnaround_p95", "wait_mean", "utilization_mean", "sweep_id", "tag")
	t.Page = report.Page{Label: "Table of all runs", Class: "sortable"}
	for i, r := range runs {
		arm, row := a.of(r), t.Rows[i]
		id := report.Cell{Value: row[0], Link: fmt.Sprintf("#run-%d", r.ID)}
		if doubtful(r) {
			id.Text, id.Title = fmt.Sprintf("%d ⚠", r.ID), "see its warnings"
		}
		mode := row[5].(report.Cell).Text
		row[0], row[3], row[5], row[16] = id, arm.Text, mode, r.Tag
		if r.Warmup {
			row[6] = string(r.Status) + ", warm-up"
		}
		attributes := armRow(arm)
		if !sections[r.ID] {
			attributes += " " + rowAttribute("id", fmt.Sprintf("run-%d", r.ID)) + " " + rowAttribute("data-title", titleOf(r, arm)) + " " + rowAttribute("data-mode", r.Mode)
		}
		t.Page.Rows = append(t.Page.Rows, attributes)
	}
	return t
}

// runView is a run's own section.
type runView struct {
	ID        int64
	Title     string
	Option    string // the run's line in the chooser
	Arm       armName
	Simulated bool
	Warnings  []string
	Facts     []fact
	Timeline  timeline
	Held      *jobsFigure // by device
	Series    []seriesView
	Jobs      *report.Table
	Ranks     *report.Table // nil: no job has several
	RankTitle string
	Failures  []failure
	Devices   *report.Table
	Events    *report.Table
	Config    string
}

// fact is a name with a value.
type fact struct{ Name, Value string }

type failure struct {
	Title, Detail, Tail string
}

// maxEvents is the largest number of events that a section shows.
const maxEvents = 200

func newRunView(r records, arm armName, b *budget) runView {
	end := horizon(r)
	v := runView{ID: r.run.ID, Arm: arm, Simulated: r.run.Mode == results.Simulated, Warnings: warnings(r),
		Title: titleOf(r.run, arm), Facts: newFacts(r), Jobs: newJobs(r), Ranks: newRanks(r), RankTitle: rankTitle(r), Devices: newDevices(r), Events: newEvents(r),
		Timeline: newTimeline(r, end), Held: newJobsFigure(titleOf(r.run, arm), []pictured{{records: r, arm: arm}}, true), Series: newSeries(r, end, b), Config: configuration(r.run.Provenance.Configuration)}
	v.Option = fmt.Sprintf("%d: %s, %s, %s, repetition %d", r.run.ID, line(r.run.Mix), arm.Text, line(r.run.Node), r.run.Repetition)
	if v.Simulated {
		v.Option += " (simulated)"
	}
	for _, j := range r.jobs {
		if j.Outcome != nil && !j.EndedOK() {
			v.Failures = append(v.Failures, failure{Title: fmt.Sprintf("job %d %s: %s", j.Index, line(j.Name), *j.Outcome),
				Detail: line(j.Detail), Tail: b.tail(j.StderrTail)})
		}
	}
	return v
}

func titleOf(r results.Run, arm armName) string {
	title := fmt.Sprintf("Run %d: %s under %s on %s", r.ID, line(r.Mix), arm.Text, line(r.Node))
	if r.Traced {
		title += ", traced"
	}
	return title
}

// newFacts are what the summary of a run has.
func newFacts(r records) []fact {
	m := r.run.Metrics
	var shown []string
	add := func(known bool, names ...string) {
		if known {
			shown = append(shown, names...)
		}
	}
	figures := func(known bool, fields results.Fields) {
		for _, f := range fields {
			add(known && results.MetricOf(f.Name).Heading != "" && f.Name != "swaps_in_vain", f.Name) // which is beside the swaps
		}
	}
	add(true, "status", "jobs")
	figures(true, m.Fields())
	add(true, "parameters", "probe", "repetition", "seed", "mix_source", "suite")
	figures(m.Energy.UsedJ != nil, m.EnergyFields().Pick("energy_j", "energy_per_ok_job_j", "energy_idle_j"))
	add(m.Energy.UsedJ != nil && m.Energy.Source != nil && *m.Energy.Source == results.EnergyPower, "energy_from")
	figures(m.Swapping.Swaps != nil, m.SwappingFields())
	figures(m.Swapping.LostS != nil && *m.Swapping.LostS > 0, m.LostFields())
	figures(m.DeadlinesMet != nil, m.DeadlineFields())
	figures(r.run.Arrivals != nil, m.OpenLoadFields())
	add(r.run.Workers > 0, "workers")
	add(r.run.StartedAt != nil, "started_at")
	add(r.run.Tag != "", "tag")
	add(r.run.Sweep != nil, "sweep_id")
	t := report.RunSummary(r.run, r.jobs, r.devices, "").Pick(shown...)
	titles := map[string]string{"mix_source": "Mix from", "workers": "Jobs at once", "started_at": "Started"}
	row := t.HTML()[0].Cells
	var out []fact
	for i, c := range t.Headings() {
		f := fact{cmp.Or(titles[shown[i]], c.Text), row[i].Text}
		switch {
		case shown[i] == "jobs" && r.run.Status != results.Running:
			f.Value += fmt.Sprintf(": %d ok, %d crashed", m.OK, m.Crashed)
		case shown[i] == "swaps" && m.Swapping.InVain != nil:
			f.Value += fmt.Sprintf(", and %d unsuccessful", *m.Swapping.InVain)
		}
		out = append(out, f)
	}
	return out
}

func newJobs(r records) *report.Table {
	columns := []string{"job_index", "name", "outcome", "device_index", "footprint", "wait", "start", "end", "exit", "command", "detail"}
	if slices.ContainsFunc(r.jobs, func(j results.Job) bool { return j.DeadlineS != nil }) {
		columns = slices.Insert(columns, 8, "deadline", "deadline_met")
	}
	if slices.ContainsFunc(r.jobs, func(j results.Job) bool { return j.LostS != nil }) {
		columns = slices.Insert(columns, 6, "lost")
	}
	t := report.JobTable(r.run, r.jobs).Pick(columns...)
	t.Page = report.Page{Label: fmt.Sprintf("Jobs of run %d", r.run.ID), Class: "sortable"}
	for _, j := range r.jobs {
		attributes := rowAttribute("data-job", j.Index)
		if j.Outcome != nil && !j.EndedOK() {
			attributes += ` class="failed"`
		}
		t.Page.Rows = append(t.Page.Rows, attributes)
	}
	return t
}

func newRanks(r records) *report.Table {
	if len(r.ranks) == 0 {
		return nil
	}
	one, _ := results.KindOfRanks(r.ranks)
	columns := []string{"job_index", "rank"}
	if one != "rank" {
		columns = append(columns, "device_index")
	}
	t := report.RankTable(r.run, r.ranks).Pick(append(columns, "pid", "outcome", "start", "end", "user", "sys", "max_rss", "exit", "detail")...)
	t.Page = report.Page{Label: fmt.Sprintf("%s of run %d", rankTitle(r), r.run.ID), Class: "sortable"}
	return t
}

// rankTitle is "Ranks", or what else the processes are called.
func rankTitle(r records) string {
	_, all := results.KindOfRanks(r.ranks)
	return strings.ToUpper(all[:1]) + all[1:]
}

func newDevices(r records) *report.Table {
	t := report.DeviceTable(r.run, r.devices)
	of := []string{"device_index"}
	if results.OnSeveralNodes(r.devices) {
		of = append(of, "node_index")
	}
	t = t.Pick(append(of, "name", "uuid", "memory", "capacity", "peak_used", "utilization_mean", "utilization_peak", "resident_mean", "refresh",
		"sm_clock_start", "sm_clock_end", "throttle_start", "throttle_end")...)
	t.Page.Label = fmt.Sprintf("Devices of run %d", r.run.ID)
	return t
}

func newEvents(r records) *report.Table {
	t := report.EventTable(r.run, r.events[:min(len(r.events), maxEvents)]).Pick("at", "kind", "of", "detail")
	if more := len(r.events) - len(t.Rows); more > 0 {
		t.Add("", "…", "", fmt.Sprintf("%d more are in the store", more))
	}
	t.Page.Label = fmt.Sprintf("Events of run %d", r.run.ID)
	return t
}
