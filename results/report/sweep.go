package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers"
)

const tracedNote = "The times of traced runs include the kernel tracer's cost: compare them only with each other."

// SweepProgress is a sweep, and how many of its runs are done.
type SweepProgress struct {
	Sweep results.Sweep
	Runs  int // of the plan, warm-ups included
	Done  int
}

// SweepList has a row for each sweep.
func SweepList(sweeps []SweepProgress) *Table {
	t := &Table{Title: "sweeps", Columns: []Column{{Name: "sweep_id", Heading: "sweep"}, {Name: "name"}, {Name: "tag"},
		{Name: "created_at", Heading: "created", Drop: 3}, {Name: "node"}, {Name: "mode"}, {Name: "status"}, {Name: "runs_done", Heading: "done"},
		{Name: "runs"}, {Name: "repetitions", Drop: 2}, {Name: "noise", Drop: 2}, {Name: "seed", Place: DataOnly}, {Name: "note"}}}
	for _, p := range sweeps {
		w := p.Sweep
		if w.Mode == results.Simulated {
			t.Title = "sweeps (those of mode sim are SIMULATED)"
		}
		noise := Cell{Value: w.Noise()}
		if set := w.Noise(); set != nil {
			noise.Text = results.NoisePercent(*set)
		}
		t.Add(w.ID, given(w.Name), given(w.Tag), w.CreatedAt, w.Node, w.Mode, w.Status, p.Done, p.Runs, w.Repetitions, noise, fmt.Sprint(w.Seed), given(notesOf(w)))
	}
	return t
}

// notesOf are what the program and the user have noted of a sweep.
func notesOf(w results.Sweep) string {
	return strings.Join(slices.DeleteFunc([]string{w.Note, w.Remark}, func(note string) bool { return note == "" }), "; ")
}

// SweepOn is what a title calls a sweep: "sweep 3 on local", or "SIMULATED sweep 3 on sim:4xV100,
// 7 repetitions, noise 1 %".
func SweepOn(w results.Sweep) string {
	text := fmt.Sprintf("sweep %d on %s", w.ID, w.Node)
	if w.Mode == results.Simulated {
		text = "SIMULATED " + text + ", " + results.Repeats(w.Repetitions, w.Noise())
	}
	return text
}

// given is nil for text that the user did not give.
func given(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// SweepArms has a row for each mix under each scheduler of a sweep, with each probe, in the order
// of the cells, with medians over the complete runs. Warm-ups do not count. devices has the
// devices of each run. remedy says how a sweep that is not complete becomes so, and redo how doubtful runs are made again.
func SweepArms(w results.Sweep, cells []results.Cell, runs []results.Run, devices map[int64][]results.Device, dbPath, remedy, redo string) *Table {
	t := &Table{Title: SweepOn(w) + ": medians", Columns: []Column{
		{Name: "sweep_id", Place: DataOnly}, {Name: "mode", Place: DataOnly}, {Name: "mix"}, {Name: "scheduler"}, {Name: "parameters", Place: DataOnly}, {Name: "runs", Heading: "n"}, {Name: "runs_planned", Heading: "of", Drop: 1},
		{Name: "jobs", Narrow: 2}, {Name: "jobs_crashed", Heading: "crashed"},
		{Name: "throughput", Unit: JobsPerSecond}, {Name: "throughput_low", Heading: "low", Unit: JobsPerSecond, Narrow: 1},
		{Name: "throughput_high", Heading: "high", Unit: JobsPerSecond, Narrow: 1},
		{Name: "turnaround_mean", Heading: "mean turnaround", Unit: Seconds},
		{Name: "turnaround_mean_low", Heading: "low", Unit: Seconds, Place: DataOnly},
		{Name: "turnaround_mean_high", Heading: "high", Unit: Seconds, Place: DataOnly},
		{Name: "makespan", Unit: Seconds, Drop: 2},
		{Name: "makespan_low", Heading: "low", Unit: Seconds, Place: DataOnly},
		{Name: "makespan_high", Heading: "high", Unit: Seconds, Place: DataOnly},
		{Name: "utilization_mean", Heading: "mean util", Unit: Ratio, Drop: 3}, {Name: "traced", Place: DataOnly},
		{Name: "probe", Place: DataOnly}, {Name: "arm", Place: DataOnly},
	}}
	if w.Mode == results.Live {
		t.Title += " over repetitions"
	}
	if w.Name != "" {
		t.Title += " (" + w.Name + ")"
	}
	byID := map[int64]results.Run{}
	for _, r := range runs {
		byID[r.ID] = r
	}
	traced, again, doubtful, noiseFree := false, 0, 0, false
	names := results.NamesOf(runs)
	for _, a := range armsOf(cells, byID) {
		noiseFree = noiseFree || results.AllNoiseFree(a.runs)
		done := len(a.runs)
		var copies, doubts int
		a.runs, copies, doubts = samplesOf(a.runs)
		again, doubtful = again+copies, doubtful+doubts
		var jobs *int
		var parameters *string
		_, scheduler, _ := schedulers.CutName(a.cell.Scheduler)
		arm := a.cell.SchedulerText()
		if len(a.runs) > 0 {
			arm = names.Scheduler(results.ArmOf(a.runs[0]))
			jobs, parameters, traced = &a.runs[0].Jobs, &a.runs[0].Parameters, a.runs[0].Traced
		}
		row := []any{w.ID, w.Mode, a.cell.Mix, Cell{Value: scheduler, Text: arm}, parameters, done, a.planned, jobs, median(a.runs, "crashed")[0]}
		for _, metric := range []string{"throughput", "turnaround", "makespan"} {
			row = append(row, median(a.runs, metric)...)
		}
		t.Add(append(row, median(a.runs, "utilization")[0], traced, a.cell.Probe.String(), arm)...)
	}
	t.Say("n: complete runs. of: planned runs. low and high: 95 % confidence interval of the median throughput, which takes 6 runs.")
	var open []string
	for _, r := range runs {
		if r.Arrivals != nil && !slices.Contains(open, r.Mix) {
			open = append(open, r.Mix)
		}
	}
	if len(open) > 0 {
		t.Say(fmt.Sprintf("open load (%s): %s", size.Few(open, 3, ", "), openLoadNote))
	}
	t.Say(samplesNotes(noiseFree, again, doubtful)...)
	if doubtful > 0 {
		t.Say("doubtful runs count as done: " + redo)
	}
	if traced {
		t.Title += ", traced"
		t.Say(tracedNote)
	}
	if machines := results.SeveralMachines(runs, devices); machines != "" {
		t.Say(fmt.Sprintf("The runs are of several machines (%s). The medians, and the differences between arms, have the differences between machines in them.", machines))
	}
	if w.Status != results.Complete {
		t.Say(fmt.Sprintf("the sweep is %s: %s", w.Status, remedy))
	}
	if w.Note != "" {
		t.Say(w.Note)
	}
	if w.Remark != "" {
		t.Say(w.Remark)
	}
	t.Say("stored in " + dbPath)
	return t
}

// samplesNotes says which runs are not samples of their own, or not measurements.
func samplesNotes(noiseFree bool, copies, doubtful int) (notes []string) {
	if noiseFree {
		notes = append(notes, results.NoNoise)
	}
	if copies > 0 {
		notes = append(notes, results.SaysCopies(copies))
	}
	if doubtful > 0 {
		notes = append(notes, results.SaysDoubtful(doubtful))
	}
	return notes
}

// samplesOf are the runs that are samples of their own and not doubtful. It counts the others.
func samplesOf(runs []results.Run) (out []results.Run, copies, doubtful int) {
	for i, copied := range results.Copies(runs) {
		switch {
		case copied:
			copies++
		case runs[i].Doubts != "":
			doubtful++
		default:
			out = append(out, runs[i])
		}
	}
	return out, copies, doubtful
}

// sweepArm is a mix under a scheduler, with a probe.
type sweepArm struct {
	cell    results.Cell // one of the arm's
	planned int
	runs    []results.Run // complete ones
}

func armsOf(cells []results.Cell, runs map[int64]results.Run) []*sweepArm {
	type key struct{ mix, way string }
	index := map[key]*sweepArm{}
	var arms []*sweepArm
	for _, c := range cells {
		if c.Warmup {
			continue
		}
		k := key{c.Mix, c.SchedulerText()}
		a := index[k]
		if a == nil {
			a = &sweepArm{cell: c}
			index[k], arms = a, append(arms, a)
		}
		a.planned++
		if c.Run != nil && runs[*c.Run].Status == results.Complete {
			a.runs = append(a.runs, runs[*c.Run])
		}
	}
	return arms
}

// median is the median of a metric, with the bounds of its confidence interval, for which it takes enough values.
func median(runs []results.Run, metric string) []any {
	values := results.MetricNamed(metric).Values(runs)
	if len(values) == 0 {
		return []any{nil, nil, nil}
	}
	s := stats.Summarize(values, 1-stats.DefaultAlpha)
	return []any{s.Median, finite(s.Low), finite(s.High)}
}

// SweepColumns says what each column of the table of a sweep is.
func SweepColumns() string {
	about := func(metric string) string { return results.MetricNamed(metric).About }
	return Pairs([][2]string{
		{"mix", "the mix"},
		{"scheduler", "the scheduler, with the parameters that the sweep gives it"},
		{"n", "complete runs, which the medians are of"},
		{"of", "planned runs"},
		{"jobs", "jobs of one run"},
		{"crashed", "jobs of one run that did not end ok and were not cancelled"},
		{"throughput", about("throughput")},
		{"low, high", "the 95 % confidence interval of the throughput, which takes 6 runs"},
		{"mean turnaround", about("turnaround")},
		{"makespan", about("makespan")},
		{"mean util", "utilization, mean over the devices and over the makespan"},
	}, 0)
}

// StoredSweepArms shows the arms of a stored sweep.
func StoredSweepArms(ctx context.Context, db *store.Store, id int64, remedy, redo string) (*Table, error) {
	w, err := db.Sweep(ctx, id)
	cells, err2 := db.Cells(ctx, id)
	runs, err3 := db.Runs(ctx, store.Filter{Sweep: id})
	devices, err4 := db.DevicesOf(ctx, store.Filter{Sweep: id})
	if err := cmp.Or(err, err2, err3, err4); err != nil {
		return nil, err
	}
	spec, err := results.ReadSpec(w)
	if err != nil {
		return nil, err
	}
	spec.Sort(cells)
	excluded, err := db.Excluded(ctx, store.Filter{Sweep: id})
	if err != nil {
		return nil, err
	}
	t := SweepArms(w, cells, runs, devices, db.Path(), remedy, redo)
	if excluded > 0 {
		t.Say(results.SaysExcluded(excluded))
	}
	return t, nil
}
