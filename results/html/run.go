package html

import (
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// runRow is a run in the summary of all runs.
type runRow struct {
	ID        int64
	Section   bool // it has one
	Title     string
	Crashed   cell
	Mix       string
	Arm       armName
	Node      string
	Mode      string
	Status    string
	Simulated bool
	Cells     []cell
	Sweep     cell
	Tag       string
	Warned    bool
}

func newRunRow(r results.Run, arm armName) runRow {
	m := r.Metrics
	row := runRow{ID: r.ID, Title: titleOf(r, arm), Sweep: number(r.Sweep, report.None), Tag: line(r.Tag), Mix: line(r.Mix), Arm: arm, Node: line(r.Node), Mode: modeOf(r), Status: string(r.Status),
		Simulated: r.Mode == results.Simulated, Warned: doubtful(r)}
	if r.Warmup {
		row.Status += ", warm-up"
	}
	row.Crashed = cell{Text: "–"}
	if r.Status != results.Running {
		row.Crashed = integer(m.Crashed)
		if m.Crashed > 0 {
			row.Crashed.Text = fmt.Sprintf("✕ %d", m.Crashed)
		}
	}
	row.Cells = []cell{integer(r.Repetition), integer(r.Jobs), number(m.MakespanS, report.Seconds), number(m.ThroughputJobsPerS, report.JobsPerSecond),
		number(m.TurnaroundMeanS, report.Seconds), number(m.TurnaroundP95S, report.Seconds), number(m.WaitMeanS, report.Seconds), number(m.UtilizationMean, report.Ratio)}
	return row
}

func modeOf(r results.Run) string {
	mode := "live"
	if r.Mode == results.Simulated {
		mode = "SIMULATED"
	}
	if r.Traced {
		mode += ", traced"
	}
	if results.Guarded(r) {
		mode += ", guarded"
	}
	return mode
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
	Series    []seriesView
	Jobs      []jobLine
	Failures  []failure
	Devices   []deviceLine
	Events    []eventLine
	Config    string
}

// fact is a name with a value.
type fact struct{ Name, Value string }

type jobLine struct {
	Index int
	Name  string
	Bad   bool
	Cells []cell
}

type failure struct {
	Title, Detail, Tail string
}

type deviceLine struct {
	Index int
	Cells []cell
}

type eventLine struct {
	At   cell
	Kind string
	Of   string
	Text string
}

// maxEvents is the largest number of events that a section shows.
const maxEvents = 200

func newRunView(r records, arm armName, b *budget) runView {
	end := horizon(r)
	m := r.run.Metrics
	v := runView{ID: r.run.ID, Arm: arm, Simulated: r.run.Mode == results.Simulated, Warnings: warnings(r),
		Title:    titleOf(r.run, arm),
		Timeline: newTimeline(r, end), Series: newSeries(r, end, b), Config: configuration(r.run.Provenance.Configuration)}
	v.Option = fmt.Sprintf("%d: %s, %s, %s, repetition %d", r.run.ID, line(r.run.Mix), arm.Text, line(r.run.Node), r.run.Repetition)
	if v.Simulated {
		v.Option += " (simulated)"
	}
	show := func(name string, v *float64, u report.Unit) fact { return fact{name, number(v, u).Text} }
	v.Facts = []fact{
		{"Status", string(r.run.Status)}, {"Jobs", fmt.Sprintf("%d: %d ok, %d crashed", r.run.Jobs, m.OK, m.Crashed)},
		show("Makespan", m.MakespanS, report.Seconds), show("Throughput", m.ThroughputJobsPerS, report.JobsPerSecond),
		show("Mean turnaround", m.TurnaroundMeanS, report.Seconds), show("95th percentile", m.TurnaroundP95S, report.Seconds),
		show("Mean wait", m.WaitMeanS, report.Seconds), show("Mean utilization", m.UtilizationMean, report.Ratio),
		show("Peak utilization", m.UtilizationPeak, report.Ratio), show("Kernel resident", m.KernelUtilizationMean, report.Ratio),
		{"Parameters", line(r.run.Parameters)}, {"Probe", r.run.Probe.String()}, {"Repetition", fmt.Sprint(r.run.Repetition)}, {"Seed", fmt.Sprint(r.run.Seed)},
		{"Mix from", line(r.run.MixSource)}, {"Suite", line(r.run.Suite)},
	}
	if r.run.Status == results.Running {
		v.Facts[1].Value = fmt.Sprint(r.run.Jobs)
	}
	if e := m.Energy; e.UsedJ != nil {
		v.Facts = append(v.Facts, show("Energy", e.UsedJ, report.Joules), show("Energy per ok job", e.PerOK, report.Joules), show("Energy with no task (estimated)", e.IdleJ, report.Joules))
		if *e.Source == results.EnergyPower {
			v.Facts = append(v.Facts, fact{"Energy from", "integral of power samples"})
		}
	}
	if w := m.Swapping; w.Swaps != nil {
		v.Facts = append(v.Facts, fact{"Swaps", fmt.Sprintf("%d, and %d asked in vain", *w.Swaps, *w.InVain)},
			fact{"Moved to the host", number(w.OutBytes, report.Bytes).Text}, fact{"Moved back", number(w.InBytes, report.Bytes).Text},
			show("Drain", w.DrainS, report.Seconds), show("Copies", w.CopyS, report.Seconds), show("Bookkeeping", w.BookkeepingS, report.Seconds),
			fact{"Most on the host", number(w.HostPeakBytes, report.Bytes).Text}, show("Slowdown by host access", w.HostMappedS, report.Seconds))
	}
	if n := r.run.Workers; n > 0 {
		v.Facts = append(v.Facts, fact{"Jobs at once", fmt.Sprint(n)})
	}
	if at := r.run.StartedAt; at != nil {
		v.Facts = append(v.Facts, fact{"Started", at.UTC().Format(time.RFC3339)})
	}
	if r.run.Tag != "" {
		v.Facts = append(v.Facts, fact{"Tag", line(r.run.Tag)})
	}
	if r.run.Sweep != nil {
		v.Facts = append(v.Facts, fact{"Sweep", fmt.Sprint(*r.run.Sweep)})
	}
	for _, j := range r.jobs {
		v.Jobs = append(v.Jobs, newJobLine(j))
		if j.Outcome != nil && !j.EndedOK() {
			v.Failures = append(v.Failures, failure{Title: fmt.Sprintf("job %d %s: %s", j.Index, line(j.Name), *j.Outcome),
				Detail: line(j.Detail), Tail: b.tail(j.StderrTail)})
		}
	}
	for _, d := range r.devices {
		v.Devices = append(v.Devices, newDeviceLine(d))
	}
	for i, e := range r.events {
		if i == maxEvents {
			v.Events = append(v.Events, eventLine{Kind: "…", Text: fmt.Sprintf("%d more are in the store", len(r.events)-i)})
			break
		}
		v.Events = append(v.Events, newEventLine(e))
	}
	return v
}

func titleOf(r results.Run, arm armName) string {
	return fmt.Sprintf("Run %d: %s under %s on %s", r.ID, line(r.Mix), arm.Text, line(r.Node))
}

func newJobLine(j results.Job) jobLine {
	outcome, device, exit := "–", cell{Text: "–"}, "–"
	if j.Outcome != nil {
		outcome = string(*j.Outcome)
	}
	if j.Device != nil {
		device = integer(*j.Device)
	}
	switch {
	case j.Signal != nil:
		exit = line(*j.Signal)
	case j.ExitStatus != nil:
		exit = fmt.Sprint(*j.ExitStatus)
	}
	l := jobLine{Index: j.Index, Name: line(j.Name), Bad: j.Outcome != nil && !j.EndedOK()}
	if l.Bad {
		outcome = "✕ " + outcome
	}
	l.Cells = []cell{{Text: outcome}, device, number(j.FootprintBytes, report.Bytes), number(j.WaitS, report.Seconds), number(j.StartS, report.Seconds),
		number(j.EndS, report.Seconds), {Text: exit}, {Text: line(j.Command)}, {Text: line(j.Detail)}}
	return l
}

func newDeviceLine(d results.Device) deviceLine {
	text := func(s *string) cell {
		if s == nil {
			return cell{Text: "–"}
		}
		return cell{Text: line(*s)}
	}
	return deviceLine{d.Index, []cell{{Text: line(d.Name)}, {Text: line(d.UUID)}, number(&d.MemoryBytes, report.Bytes), number(&d.CapacityBytes, report.Bytes),
		number(d.PeakUsedBytes, report.Bytes), number(d.UtilizationMean, report.Ratio), number(d.UtilizationPeak, report.Ratio), number(d.ResidentMean, report.Ratio),
		number(d.RefreshS, report.Seconds), number(d.SMClockStartHz, report.Hertz), number(d.SMClockEndHz, report.Hertz), text(d.ThrottleStart), text(d.ThrottleEnd)}}
}

func newEventLine(e results.Event) eventLine {
	l := eventLine{At: number(&e.AtS, report.Seconds), Kind: line(string(e.Kind)), Text: line(e.Detail)}
	if e.Job != nil {
		l.Of = fmt.Sprintf("job %d", *e.Job)
	}
	if e.Device != nil {
		if l.Of != "" {
			l.Of += ", "
		}
		l.Of += fmt.Sprintf("GPU %d", *e.Device)
	}
	return l
}
