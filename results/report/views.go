package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
)

// about is a title such as "run 3: W7 under sa". It says if the run is simulated, traced or
// guarded, because the numbers of such a run do not compare with others.
func about(what string, r results.Run) string {
	title := fmt.Sprintf("%s %d: %s under %s", what, r.ID, r.Mix, results.WithProbe(r.Scheduler, r.Probe))
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

// whereKnown is the place of a column that text leaves out if nothing of it is known.
func whereKnown(known bool) Place {
	if known {
		return Everywhere
	}
	return DataOnly
}

// RunSummary is what caserun prints at the end of a run.
func RunSummary(r results.Run, jobs []results.Job, devices []results.Device, dbPath string) *Table {
	m, s := r.Metrics, r.Sampler
	ok, oom, crashed, others, cancelled, unstarted := counts(r)
	t := &Table{Title: about("run", r), Sheet: true}
	var values []any
	field := func(c Column, v any) {
		t.Columns, values = append(t.Columns, c), append(values, v)
	}
	field(Column{Name: "run_id", Heading: "run"}, r.ID)
	field(Column{Name: "mix"}, r.Mix)
	field(Column{Name: "mix_source", Place: DataOnly}, r.MixSource)
	field(Column{Name: "scheduler", Place: DataOnly}, r.Scheduler)
	field(Column{Name: "scheduler_text", Heading: "scheduler", Place: TextOnly}, results.WithProbe(r.Scheduler, r.Probe))
	field(Column{Name: "parameters"}, r.Parameters)
	field(Column{Name: "node"}, r.Node)
	field(Column{Name: "mode"}, r.Mode)
	field(Column{Name: "devices"}, deviceNames(devices))
	field(Column{Name: "suite", Place: DataOnly}, r.Suite)
	field(Column{Name: "repetition", Place: DataOnly}, r.Repetition)
	field(Column{Name: "seed", Place: DataOnly}, fmt.Sprint(r.Seed))
	field(Column{Name: "workers", Place: DataOnly}, r.Workers)
	field(Column{Name: "started_at", Place: DataOnly}, r.StartedAt)
	field(Column{Name: "status"}, r.Status)
	field(Column{Name: "jobs"}, r.Jobs)
	field(Column{Name: "jobs_ok", Heading: "  ok"}, ok)
	field(Column{Name: "jobs_oom", Heading: "  out of memory"}, oom)
	field(Column{Name: "jobs_crashed", Place: DataOnly}, crashed)
	field(Column{Name: "others", Heading: "  otherwise crashed", Place: TextOnly}, others)
	field(Column{Name: "jobs_cancelled", Heading: "  cancelled"}, cancelled)
	notStarted := Column{Name: "jobs_not_started", Heading: "  not started", Place: DataOnly}
	if m.NotStarted > 0 {
		notStarted.Place = Everywhere
	}
	field(notStarted, unstarted)
	field(Column{Name: "makespan", Unit: Seconds}, m.MakespanS)
	field(Column{Name: "throughput", Unit: JobsPerSecond}, m.ThroughputJobsPerS)
	field(Column{Name: "attempted_throughput", Unit: JobsPerSecond, Place: DataOnly}, m.AttemptedJobsPerS)
	field(Column{Name: "turnaround_mean", Heading: "mean turnaround", Unit: Seconds}, m.TurnaroundMeanS)
	field(Column{Name: "turnaround_p95", Heading: "p95 turnaround", Unit: Seconds}, m.TurnaroundP95S)
	field(Column{Name: "wait_mean", Heading: "mean wait", Unit: Seconds}, m.WaitMeanS)
	field(Column{Name: "utilization_mean", Heading: "mean utilization", Unit: Ratio}, m.UtilizationMean)
	field(Column{Name: "utilization_peak", Heading: "peak utilization", Unit: Ratio}, m.UtilizationPeak)
	field(Column{Name: "kernel_utilization_mean", Heading: "kernel resident", Unit: Ratio}, m.KernelUtilizationMean)
	energyFields(field, m.Energy)
	swappingFields(field, m.Swapping)
	if r.Mode == results.Live {
		field(Column{Name: "sampler", Place: TextOnly}, samplerLine(s, m.MakespanS))
	}
	field(Column{Name: "sampler_period", Unit: Seconds, Place: DataOnly}, s.PeriodS)
	field(Column{Name: "sampler_samples", Place: DataOnly}, s.Samples)
	field(Column{Name: "sampler_missed_deadlines", Place: DataOnly}, s.MissedDeadlines)
	field(Column{Name: "sampler_longest_gap", Unit: Seconds, Place: DataOnly}, s.LongestGapS)
	field(Column{Name: "sampler_cpu", Unit: Seconds, Place: DataOnly}, s.CPUS)
	field(Column{Name: "sampler_errors", Place: DataOnly}, s.Errors)
	field(Column{Name: "sampler_first_error", Place: DataOnly}, s.FirstError)
	if r.Traced {
		field(Column{Name: "tracer", Place: TextOnly}, tracerLine(r.Tracer))
	}
	field(Column{Name: "traced", Place: DataOnly}, r.Traced)
	field(Column{Name: "tracer_processes", Place: DataOnly}, r.Tracer.Processes)
	field(Column{Name: "tracer_kernels", Place: DataOnly}, r.Tracer.Kernels)
	field(Column{Name: "tracer_copies", Place: DataOnly}, r.Tracer.Copies)
	field(Column{Name: "tracer_lost_records", Place: DataOnly}, r.Tracer.Lost)
	field(Column{Name: "tracer_cut_processes", Place: DataOnly}, r.Tracer.Cut)
	field(Column{Name: "tracer_untraced_jobs", Place: DataOnly}, r.Tracer.Untraced)
	field(Column{Name: "probe", Place: DataOnly}, r.Probe.String())
	field(Column{Name: "doubts", Place: DataOnly}, given(r.Doubts))
	field(Column{Name: "surroundings", Place: DataOnly}, r.Provenance.Surroundings)
	field(Column{Name: "sweep_id", Heading: "sweep", Place: whereKnown(r.Sweep != nil)}, r.Sweep)
	field(Column{Name: "tag", Place: whereKnown(r.Tag != "")}, given(r.Tag))
	field(Column{Name: "store"}, dbPath)
	t.Add(values...)

	if r.Mode == results.Simulated {
		t.Notes = append(t.Notes, Note{Text: "SIMULATED: these figures come from a model of the node, not from devices."})
	}
	if r.Traced {
		t.Notes = append(t.Notes, Note{Text: "traced: its times include the kernel tracer's cost, and compare only with those of traced runs."})
	}
	if results.Guarded(r) {
		t.Notes = append(t.Notes, Note{Text: "guarded: nothing was mapped beside allocations. A job that read or wrote outside its own faulted; without --guard it may run."})
	}
	if r.Doubts != "" {
		for doubt := range strings.SplitSeq(r.Doubts, "\n") {
			t.Notes = append(t.Notes, Note{Text: "doubtful, and left out of comparisons: " + doubt})
		}
	}
	if r.Status == results.Interrupted {
		t.Notes = append(t.Notes, Note{Text: "interrupted: these figures are not a measurement."})
	}
	t.Notes = append(t.Notes, misdeclared(jobs)...)
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

// counts are the numbers of jobs by outcome, unknown while the run is under way.
func counts(r results.Run) (ok, oom, crashed, others, cancelled, unstarted any) {
	if r.Status == results.Running {
		return nil, nil, nil, nil, nil, nil
	}
	m := r.Metrics
	return m.OK, m.OOM, m.Crashed, m.Crashed - m.OOM, m.Cancelled, m.NotStarted
}

// deviceNames is "4 x Tesla V100 (16 GiB)", by kind in bus order.
func deviceNames(devices []results.Device) any {
	var kinds []string
	number := map[string]int{}
	for _, d := range devices {
		kind := fmt.Sprintf("%s (%s)", d.Name, Human(float64(d.MemoryBytes), Bytes))
		if number[kind]++; number[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil
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
	notes := failures(jobs, false, mostFailures)
	more := -len(notes)
	for i := range jobs {
		if !endedWell(&jobs[i]) {
			more++
		}
	}
	if more > 0 {
		notes = append(notes, Note{Text: fmt.Sprintf("%d more jobs did not end ok: caserun report %d -v has them.", more, run)})
	}
	return notes
}

func endedWell(j *results.Job) bool { return j.Outcome == nil || *j.Outcome == results.OK }

// failures has a note for each job whose outcome is not ok, up to a number of them.
func failures(jobs []results.Job, tails bool, most int) []Note {
	var notes []Note
	for i := range jobs {
		j := &jobs[i]
		if endedWell(j) {
			continue
		}
		if len(notes) == most {
			break
		}
		n := Note{Text: fmt.Sprintf("job %d (%s): %s", j.Index, j.Name, *j.Outcome)}
		if j.Detail != "" {
			n.Text += ": " + j.Detail
		}
		if tails {
			n.Block = j.StderrTail
		}
		notes = append(notes, n)
	}
	return notes
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
		{Name: "scheduler", Place: DataOnly}, {Name: "scheduler_text", Heading: "scheduler", Place: TextOnly},
		{Name: "parameters", Place: DataOnly}, {Name: "node", Drop: dropNode, Narrow: 2}, {Name: "mode", Place: DataOnly},
		{Name: "mode_text", Heading: "mode", Place: TextOnly}, {Name: "repetition", Heading: "rep", Drop: 7}, {Name: "status", Drop: dropStatus}, {Name: "jobs", Drop: 1}, {Name: "jobs_ok", Heading: "ok"},
		{Name: "jobs_oom", Heading: "oom"}, {Name: "jobs_crashed", Place: DataOnly, Crashes: true},
		{Name: "others", Heading: "other crashed", Place: TextOnly}, {Name: "jobs_cancelled", Place: DataOnly},
		{Name: "jobs_not_started", Place: DataOnly},
		{Name: "makespan", Unit: Seconds, Drop: 4}, {Name: "throughput", Unit: JobsPerSecond},
		{Name: "turnaround_mean", Heading: "mean turnaround", Unit: Seconds, Narrow: 1},
		{Name: "turnaround_p95", Heading: "p95", Unit: Seconds, Drop: 9}, {Name: "wait_mean", Heading: "mean wait", Unit: Seconds, Drop: 6},
		{Name: "utilization_mean", Heading: "mean util", Unit: Ratio, Drop: 5},
		{Name: "utilization_peak", Heading: "peak util", Unit: Ratio, Place: DataOnly},
		{Name: "traced", Place: DataOnly}, {Name: "probe", Place: DataOnly},
		{Name: "sweep_id", Heading: "sweep", Place: sweepPlace}, {Name: "tag", Place: tagPlace, Cut: 18},
	}}
	t.Columns = append(t.Columns, energyColumns(runs)...)
	swapping := swappingColumns(runs)
	t.Columns = append(t.Columns, swapping...)
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
		t.Notes = append(t.Notes, Note{Text: tracedNote})
	}
	if at := slices.IndexFunc(runs, func(r results.Run) bool { return r.Doubts != "" }); at >= 0 {
		_, _, doubtful := samplesOf(runs)
		t.Notes = append(t.Notes, Note{Text: fmt.Sprintf("doubtful runs, which comparisons leave out: %d; caserun report %d says why the first one is", doubtful, runs[at].ID)})
	}
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
		row := []any{r.ID, r.StartedAt, r.Mix, r.Scheduler, results.WithProbe(r.Scheduler, r.Probe), r.Parameters, r.Node, r.Mode, mode, r.Repetition, r.Status, r.Jobs,
			ok, oom, crashed, others, cancelled, unstarted, m.MakespanS, m.ThroughputJobsPerS, m.TurnaroundMeanS, m.TurnaroundP95S,
			m.WaitMeanS, m.UtilizationMean, m.UtilizationPeak, r.Traced, r.Probe.String(), r.Sweep, given(r.Tag), m.Energy.UsedJ, m.Energy.PerOK, m.Energy.Source}
		if len(swapping) > 0 {
			row = append(row, m.Swapping.Swaps, m.Swapping.OutBytes, m.Swapping.InBytes)
		}
		t.Add(row...)
	}
	return t
}
