package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
)

// about is a title such as "run 3: W7 under sa". It says if the run is simulated, traced or
// guarded, because the numbers of such a run do not compare with others.
func about(what string, r results.Run) string {
	title := fmt.Sprintf("%s %d: %s under %s", what, r.ID, r.Mix, results.NameOf(r))
	if r.Mode == results.Simulated {
		return "SIMULATED " + title + " on " + r.Node
	}
	if r.Traced {
		title += ", traced"
	}
	if results.Guarded(r) {
		title += ", guarded"
	}
	return title
}

// ofRun adds the columns that name a row's run in csv and json.
func ofRun(columns ...Column) []Column {
	return append([]Column{{Name: "run_id", Place: DataOnly}, {Name: "mode", Place: DataOnly}}, columns...)
}

func schedulerOfRun(r results.Run) Cell { return Cell{Value: r.Scheduler, Text: results.NameOf(r)} }

// whereKnown is the place of a column that text leaves out if nothing of it is known.
func whereKnown(known bool) Place {
	if known {
		return Everywhere
	}
	return DataOnly
}

// columnOf is a column of the store, with the heading of its metric, if it is of one. Only csv and json have a metric without
// a heading.
func columnOf(name string, place Place) Column {
	c := Column{Name: name, Place: place}
	if m := results.MetricOf(name); m.Column != "" {
		if c.Heading, c.Title, c.Unit = m.Heading, m.Title(), MetricUnit(m); c.Heading == "" {
			c.Place = DataOnly
		}
	} else if strings.HasSuffix(name, suffixes[Seconds]) {
		c.Unit = Seconds
	}
	c.Name = strings.TrimSuffix(name, suffixes[c.Unit])
	return c
}

const openLoadNote = "jobs arrive at times of their own, so makespan and throughput say mostly when they arrived. Turnaround is the time in the system, from a job's arrival to its end."

// OpenLoadNotes are what a reader of a run's figures must know if its jobs arrived at times of their own.
func OpenLoadNotes(r results.Run) (notes []string) {
	if r.Arrivals != nil {
		notes = append(notes, "open load: "+openLoadNote)
	}
	if r.BacklogGrows() {
		notes = append(notes, fmt.Sprintf("the backlog grew by %s of the jobs that arrived: the load is above what this scheduler serves, so turnaround, wait and backlog are not steady and grow with the length of the run.", Human(*r.Metrics.Open.Growth, Ratio)))
	}
	return notes
}

// RunSummary is what caserun prints at the end of a run.
func RunSummary(r results.Run, jobs []results.Job, devices []results.Device, dbPath string) *Table {
	m := r.Metrics
	t := &Table{Name: "run", Title: about("run", r), Sheet: true}
	var values []any
	field := func(c Column, v any) {
		t.Columns, values = append(t.Columns, c), append(values, v)
	}
	show := func(place Place, fields ...results.Field) {
		for _, f := range fields {
			field(columnOf(f.Name, place), f.Value())
		}
	}
	of := r.Fields().Pick
	field(Column{Name: "run_id", Heading: "run"}, r.ID)
	show(Everywhere, of("mix")...)
	show(DataOnly, of("mix_source")...)
	field(Column{Name: "scheduler"}, schedulerOfRun(r))
	show(Everywhere, of("parameters", "node", "mode")...)
	field(Column{Name: "devices"}, given(DeviceNames(devices)))
	show(DataOnly, of("suite", "repetition", "seed", "workers", "started_at")...)
	show(Everywhere, of("status", "jobs", "jobs_ok", "jobs_oom", "jobs_crashed")...)
	_, _, _, others, _, _ := counts(r)
	field(Column{Name: "others", Heading: "  otherwise crashed", Place: TextOnly}, others)
	show(Everywhere, of("jobs_cancelled")...)
	show(whereKnown(m.NotStarted > 0), of("jobs_not_started")...)
	show(Everywhere, m.Fields()...)
	show(whereKnown(m.Energy.Source != nil), m.EnergyFields()...)
	show(DataOnly, of("energy_source")...)
	if source := m.Energy.Source; source != nil {
		field(Column{Name: "energy_from", Heading: "  measured by", Title: "Energy from", Place: TextOnly}, energySources[*source])
	}
	if m.Swapping.Swaps != nil { // the scheduler took memory back
		show(Everywhere, m.SwappingFields()...)
		show(whereKnown(m.Swapping.LostS != nil && *m.Swapping.LostS > 0), m.LostFields()...)
	}
	if m.DeadlinesMet != nil {
		show(Everywhere, m.DeadlineFields()...)
	}
	if r.Arrivals != nil {
		show(Everywhere, of("arrivals")...)
		show(Everywhere, m.OpenLoadFields()...)
	}
	if r.Mode == results.Live {
		field(Column{Name: "sampler", Place: TextOnly}, samplerLine(r.Sampler, m.MakespanS))
	}
	show(DataOnly, r.Sampler.Fields()...)
	if r.Traced {
		field(Column{Name: "tracer", Place: TextOnly}, tracerLine(r.Tracer))
	}
	show(DataOnly, of("traced")...)
	show(DataOnly, r.Tracer.Fields()...)
	show(DataOnly, of("probe")...)
	field(Column{Name: "arm", Place: DataOnly}, results.NameOf(r))
	field(Column{Name: "doubts", Place: DataOnly}, given(r.Doubts))
	show(DataOnly, of("surroundings")...)
	field(Column{Name: "sweep_id", Heading: "sweep", Place: whereKnown(r.Sweep != nil)}, r.Sweep)
	show(whereKnown(r.Tag != ""), of("tag")...)
	show(DataOnly, of("excluded", "remark")...)
	field(Column{Name: "store"}, dbPath)
	t.Add(values...)

	if r.Mode == results.Simulated {
		t.Say("SIMULATED: these figures come from a model of the node, not from devices.")
	}
	t.Say(OpenLoadNotes(r)...)
	if r.Traced {
		t.Say("traced: its times include the kernel tracer's cost, and compare only with those of traced runs.")
	}
	if results.Guarded(r) {
		t.Say("guarded: nothing was mapped beside allocations. A job that read or wrote outside its own faulted; without --guard it may run.")
	}
	if r.Doubts != "" {
		for doubt := range strings.SplitSeq(r.Doubts, "\n") {
			t.Say("doubtful, and left out of comparisons: " + doubt)
		}
	}
	if r.Excluded {
		t.Say("excluded, and left out of comparisons: caserun store exclude --undo takes it in again.")
	}
	if r.Remark != "" {
		t.Say("note: " + r.Remark)
	}
	if r.Status == results.Interrupted {
		t.Say("interrupted: these figures are not a measurement.")
	}
	t.Notes = append(t.Notes, misdeclared(jobs)...)
	t.Notes = append(t.Notes, unaccounted(jobs)...)
	t.Notes = append(t.Notes, firstFailures(jobs, r.ID)...)
	return t
}

// misdeclared has a note for each command that used far more or less memory than its mix
// declares.
func misdeclared(jobs []results.Job) []Note {
	const shown = 8
	all := results.Misdeclarations(jobs)
	var notes []Note
	for _, m := range all[:min(shown, len(all))] {
		notes = append(notes, Note{Text: fmt.Sprintf("%s: its mix declares %s of device memory, and its jobs used up to %s. caserun mixes learn writes what was used into a mix.",
			m.Name, Human(float64(m.DeclaredBytes), Bytes), Human(float64(m.UsedBytes), Bytes))})
	}
	if more := len(all) - len(notes); more > 0 {
		notes = append(notes, Note{Text: fmt.Sprintf("%d more commands declare less than a third of the memory that they used, or more than three times as much.", more)})
	}
	return notes
}

// unaccounted has a note for each job that used memory that no call showed, the one with most first.
func unaccounted(jobs []results.Job) []Note {
	const shown = 8
	var all []results.Job
	for _, j := range jobs {
		if j.UnaccountedBytes != nil && *j.UnaccountedBytes > 0 {
			all = append(all, j)
		}
	}
	slices.SortStableFunc(all, func(a, b results.Job) int { return cmp.Compare(*b.UnaccountedBytes, *a.UnaccountedBytes) })
	var notes []Note
	for _, j := range all[:min(shown, len(all))] {
		notes = append(notes, Note{Text: fmt.Sprintf("job %d (%s) used %s of device memory that no call showed, so it was not reserved before: docs/reference/outcomes.md says what to do.",
			j.Index, j.Name, Human(float64(*j.UnaccountedBytes), Bytes))})
	}
	if more := len(all) - len(notes); more > 0 {
		notes = append(notes, Note{Text: fmt.Sprintf("%d more jobs used memory that no call showed.", more)})
	}
	return notes
}

// counts are the numbers of jobs by outcome, unknown while the run is under way.
func counts(r results.Run) (ok, oom, crashed, others, cancelled, unstarted any) {
	if r.Status == results.Running {
		return nil, nil, nil, nil, nil, nil
	}
	m := r.Metrics
	return m.OK, m.OOM, m.Crashed, m.Crashed - m.OOM, m.Cancelled, m.NotStarted
}

// DeviceNames is "4 x Tesla V100 (16 GiB)", by kind in bus order; empty where nothing is known.
func DeviceNames(devices []results.Device) string {
	var kinds []string
	number := map[string]int{}
	for _, d := range devices {
		kind := fmt.Sprintf("%s (%s)", d.Name, Human(float64(d.MemoryBytes), Bytes))
		if number[kind]++; number[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d x %s", number[kind], kind)
	}
	return strings.Join(kinds, ", ")
}

// samplerLine says how far to trust the utilization beside it.
func samplerLine(s results.Sampler, makespan *float64) any {
	if s.Samples == nil {
		return nil
	}
	parts := []string{fmt.Sprintf("%d samples", *s.Samples)}
	if s.PeriodS != nil {
		parts = append(parts, "every "+Human(*s.PeriodS, Seconds))
	}
	if s.MissedDeadlines != nil {
		parts = append(parts, fmt.Sprintf("%d deadlines missed", *s.MissedDeadlines))
	}
	if s.LongestGapS != nil {
		parts = append(parts, "longest gap "+Human(*s.LongestGapS, Seconds))
	}
	if s.CPUS != nil && makespan != nil && *makespan > 0 {
		parts = append(parts, Human(*s.CPUS / *makespan, Ratio)+" of a core")
	}
	if s.Errors != nil && *s.Errors > 0 {
		text := fmt.Sprintf("%d errors", *s.Errors)
		if s.FirstError != nil {
			text += " (first: " + *s.FirstError + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// mostFailures is how many jobs a run's summary names. A large mix that is stopped has half a million.
const mostFailures = 200

// firstFailures are the first of failures, and how many more there are.
func firstFailures(jobs []results.Job, run int64) []Note {
	notes, more := failures(jobs, false, mostFailures)
	if more > 0 {
		notes = append(notes, Note{Text: fmt.Sprintf("%d more jobs did not end ok: caserun report %d -v has them.", more, run)})
	}
	return notes
}

func endedWell(j *results.Job) bool { return j.Outcome == nil || *j.Outcome == results.OK }

// failures has a note for each job whose outcome is not ok, up to a number of them, and says how many more such jobs there
// are. Jobs that were cancelled for one reason have one note.
func failures(jobs []results.Job, tails bool, most int) (notes []Note, more int) {
	type cancelled struct{ note, jobs int }
	reasons := map[string]*cancelled{}
	for i := range jobs {
		j := &jobs[i]
		if endedWell(j) {
			continue
		}
		alike := *j.Outcome == results.Cancelled && j.Detail != "" && (!tails || j.StderrTail == "")
		if c := reasons[j.Detail]; alike && c != nil {
			c.jobs++
			continue
		}
		if len(notes) == most {
			more++
			continue
		}
		n := Note{Text: fmt.Sprintf("job %d (%s): %s", j.Index, j.Name, *j.Outcome)}
		if j.Detail != "" {
			n.Text += ": " + j.Detail
		}
		if tails {
			n.Block = j.StderrTail
		}
		if alike {
			reasons[j.Detail] = &cancelled{len(notes), 1}
		}
		notes = append(notes, n)
	}
	for _, c := range reasons {
		if c.jobs > 1 {
			notes[c.note].Text = fmt.Sprintf("%d jobs, the first of them %s", c.jobs, notes[c.note].Text)
		}
	}
	return notes, more
}

// RunList has a row for each run. Where the text is too wide, columns go that say the same of
// every run.
func RunList(runs []results.Run) *Table {
	differs := func(of func(results.Run) any) bool {
		return slices.ContainsFunc(runs, func(r results.Run) bool { return of(r) != of(runs[0]) })
	}
	dropStatus, dropNode := 3, 2
	if len(runs) == 0 || runs[0].Status != results.Complete || differs(func(r results.Run) any { return r.Status }) {
		dropStatus = 0
	}
	if differs(func(r results.Run) any { return r.Node }) {
		dropNode = 0
	}
	sweepPlace := whereKnown(slices.ContainsFunc(runs, func(r results.Run) bool { return r.Sweep != nil }))
	tagPlace := whereKnown(slices.ContainsFunc(runs, func(r results.Run) bool { return r.Tag != "" }))
	t := &Table{Title: "runs", Columns: []Column{
		{Name: "run_id", Heading: "run"}, {Name: "started_at", Heading: "started", Drop: 8}, {Name: "mix"},
		{Name: "scheduler"}, {Name: "parameters", Place: DataOnly}, {Name: "node", Drop: dropNode, Narrow: 2}, {Name: "mode"}, {Name: "repetition", Heading: "rep", Title: "Rep.", Drop: 7}, {Name: "status", Drop: dropStatus}, {Name: "jobs", Drop: 1}, {Name: "jobs_ok", Heading: "ok"},
		{Name: "jobs_oom", Heading: "oom"}, {Name: "jobs_crashed", Place: DataOnly, Title: "Crashed", Crashes: true},
		{Name: "others", Heading: "other crashed", Place: TextOnly}, {Name: "jobs_cancelled", Place: DataOnly},
		{Name: "jobs_not_started", Place: DataOnly},
		{Name: "makespan", Unit: Seconds, Drop: 4}, {Name: "throughput", Unit: JobsPerSecond},
		{Name: "turnaround_mean", Heading: "mean turnaround", Unit: Seconds, Narrow: 1},
		{Name: "turnaround_p95", Heading: "p95", Title: "p95 turnaround", Unit: Seconds, Drop: 9}, {Name: "wait_mean", Heading: "mean wait", Unit: Seconds, Drop: 6},
		{Name: "utilization_mean", Heading: "mean util", Title: "Mean utilization", Unit: Ratio, Drop: 5},
		{Name: "utilization_peak", Heading: "peak util", Unit: Ratio, Place: DataOnly},
		{Name: "traced", Place: DataOnly}, {Name: "probe", Place: DataOnly},
		{Name: "sweep_id", Heading: "sweep", Place: sweepPlace}, {Name: "tag", Place: tagPlace, Cut: 18},
	}}
	t.Columns = append(t.Columns, energyColumns(runs)...)
	swapping := swappingColumns(runs)
	t.Columns = append(t.Columns, swapping...)
	deadlines := slices.ContainsFunc(runs, func(r results.Run) bool { return r.Metrics.DeadlinesMet != nil })
	if deadlines {
		t.Columns = append(t.Columns, Column{Name: "deadlines_met", Unit: Ratio, Drop: 9})
	}
	t.Columns = append(t.Columns, Column{Name: "excluded", Place: whereKnown(slices.ContainsFunc(runs, func(r results.Run) bool { return r.Excluded }))})
	t.Columns = append(t.Columns, Column{Name: "arm", Place: DataOnly})
	if dropNode > 0 && len(runs) > 0 {
		t.Title += " on " + runs[0].Node
	}
	switch simulated := func(r results.Run) bool { return r.Mode == results.Simulated }; {
	case !slices.ContainsFunc(runs, simulated):
	case differs(func(r results.Run) any { return r.Mode }):
		t.Title += " (those of mode sim are SIMULATED)"
	default:
		t.Title = "SIMULATED " + t.Title
	}
	if slices.ContainsFunc(runs, func(r results.Run) bool { return r.Traced }) {
		t.Say(tracedNote)
	}
	if at := slices.IndexFunc(runs, func(r results.Run) bool { return r.Doubts != "" }); at >= 0 {
		_, _, doubtful := samplesOf(runs)
		t.Say(fmt.Sprintf("doubtful runs, which comparisons leave out: %d; caserun report %d says why the first one is", doubtful, runs[at].ID))
	}
	names := results.NamesOf(runs)
	t.Say(names.Notes()...)
	for _, r := range runs {
		m := r.Metrics
		ok, oom, crashed, others, cancelled, unstarted := counts(r)
		mode := string(r.Mode)
		if r.Traced {
			mode += ", traced"
		}
		if results.Guarded(r) {
			mode += ", guarded"
		}
		row := []any{r.ID, r.StartedAt, r.Mix, Cell{Value: r.Scheduler, Text: names.Scheduler(results.ArmOf(r))}, r.Parameters, r.Node, Cell{Value: r.Mode, Text: mode}, r.Repetition, r.Status, r.Jobs,
			ok, oom, crashed, others, cancelled, unstarted, m.MakespanS, m.ThroughputJobsPerS, m.TurnaroundMeanS, m.TurnaroundP95S,
			m.WaitMeanS, m.UtilizationMean, m.UtilizationPeak, r.Traced, r.Probe.String(), r.Sweep, given(r.Tag), m.Energy.UsedJ, m.Energy.PerOK, m.Energy.Source}
		if len(swapping) > 0 {
			row = append(row, m.Swapping.Swaps, m.Swapping.OutBytes, m.Swapping.InBytes)
		}
		if deadlines {
			row = append(row, m.DeadlinesMet)
		}
		t.Add(append(row, r.Excluded, names.Scheduler(results.ArmOf(r)))...)
	}
	return t
}
