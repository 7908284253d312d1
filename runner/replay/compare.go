package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers/cluster"
)

// Load makes a Stored of a run of a store.
func Load(ctx context.Context, db *store.Store, run results.Run) (*Stored, error) {
	devices, err := db.Devices(ctx, run.ID)
	jobs, err2 := db.Jobs(ctx, run.ID)
	tasks, err3 := db.Tasks(ctx, run.ID)
	swaps, err4 := db.Swaps(ctx, run.ID)
	events, err5 := db.Events(ctx, run.ID)
	ranks, err6 := db.Ranks(ctx, run.ID)
	if err := cmp.Or(err, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	if len(ranks) > 0 && ranks[0].Portion {
		return nil, harness.Refuse(fmt.Errorf("replay run %d: job %d has portions, and its tasks do not tell which portion began when: use caserun mix on a simulated node", run.ID, ranks[0].Job))
	}
	if len(ranks) > 0 {
		return nil, harness.Refuse(fmt.Errorf("replay run %d: job %d has several ranks, and the run does not tell when they wait for each other: use caserun mix on a simulated node", run.ID, ranks[0].Job))
	}
	if head, _ := cluster.Cut(run.Scheduler); head != "" {
		return nil, harness.Refuse(fmt.Errorf("replay run %d: it is of a cluster, and a replay cannot choose nodes again: use caserun mix on %s", run.ID, run.Node))
	}
	threads := run.Provenance.Cores
	if run.Mode == results.Simulated {
		model, err := sim.Open(harness.Options{Node: run.Node})
		if err != nil {
			return nil, err
		}
		if _, threads, _, err = model.Size(); err != nil {
			return nil, err
		}
	}
	s, err := NewStored(run, threads, devices, jobs, tasks, swaps, events)
	return s, harness.Refuse(err)
}

// Compare replays the run under its own scheduler and under another, and shows both beside the run.
func (s *Stored) Compare(ctx context.Context, db *store.Store, sched string) (*report.Table, error) {
	if err := s.predict(ctx, db); err != nil {
		return nil, err
	}
	t := s.table()
	recorded := t.add(s.Run, string(s.Run.Mode), s.records)
	own, ownErr := t.replay(ctx, s.Own(), nil)
	if ownErr != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t.note("its own scheduler cannot replay it: %v", ownErr)
	}
	other, err := t.replay(ctx, sched, own)
	if err != nil {
		return nil, err
	}
	t.finish(recorded, own, other)
	return t.Table, nil
}

// predict says what a scheduler that plans expects of the jobs: what that of the run expected, or else what
// the store's runs show.
func (s *Stored) predict(ctx context.Context, db *store.Store) error {
	expected, err := db.Predictions(ctx, s.Run.ID)
	if err != nil {
		return err
	}
	known := make([]*results.Known, len(s.records))
	if len(expected) > 0 {
		s.PredictedFrom = "the run's own scheduler expected of them"
		for _, p := range expected {
			known[p.Job] = &results.Known{Expected: p.Expected}
		}
		s.Predictions = history.ForScheduler(known)
		return nil
	}
	filter := store.Filter{Mode: s.Run.Mode, Suite: s.Run.Suite, Probe: &s.Run.Probe}
	for _, d := range s.Devices {
		if !slices.Contains(filter.GPUs, d.Name) {
			filter.GPUs = append(filter.GPUs, d.Name)
		}
	}
	commands := make([]string, len(s.records))
	for i, j := range s.records {
		commands[i] = j.Command
	}
	learned, err := history.Learned(ctx, db, filter, commands)
	if err != nil {
		return err
	}
	s.PredictedFrom = "runs in the store show, the replayed run among them"
	of := map[string]*results.Known{}
	for _, k := range learned {
		if other := of[k.Command]; other == nil || k.Jobs > other.Jobs { // the node has several models
			of[k.Command] = &k
		}
	}
	for i, j := range s.records {
		known[i] = of[j.Command]
	}
	s.Predictions = history.ForScheduler(known)
	return nil
}

// replayTable has a row for the run, and one for each replay.
type replayTable struct {
	*report.Table
	stored *Stored
	rows   []replayRow
}

// replayRow is a run, or what it would have been under another scheduler.
type replayRow struct {
	results.Run
	mode string // as shown
}

func (s *Stored) table() *replayTable {
	title := fmt.Sprintf("REPLAYED run %d: %s on %s", s.Run.ID, s.Run.Mix, s.Run.Node)
	if s.Run.Mode == results.Simulated {
		title += ", itself SIMULATED"
	}
	return &replayTable{Table: &report.Table{Title: title, Columns: []report.Column{
		{Name: "run_id", Heading: "run", Place: report.DataOnly}, {Name: "mix", Place: report.DataOnly}, {Name: "node", Place: report.DataOnly},
		{Name: "scheduler"}, {Name: "parameters", Drop: 2}, {Name: "mode"}, {Name: "jobs"}, {Name: "jobs_ok", Heading: "ok"},
		{Name: "makespan", Unit: report.Seconds}, {Name: "throughput", Unit: report.JobsPerSecond},
		{Name: "turnaround_mean", Heading: "mean turnaround", Unit: report.Seconds},
		{Name: "arm", Place: report.DataOnly}}}, stored: s}
}

// add adds a row, and returns its metrics.
func (t *replayTable) add(run results.Run, mode string, jobs []results.Job) *results.Metrics {
	run.Jobs = len(jobs)
	run.Metrics = results.Compute(run, t.stored.Devices, jobs, nil, results.Residence{})
	t.rows = append(t.rows, replayRow{run, mode})
	return &run.Metrics
}

// fill shows the rows, when all arms that need names are known.
func (t *replayTable) fill() {
	var runs []results.Run
	for _, r := range t.rows {
		runs = append(runs, r.Run)
	}
	names := results.NamesOf(runs)
	t.Say(names.Notes()...)
	for _, r := range t.rows {
		m, name := r.Metrics, names.Scheduler(results.ArmOf(r.Run))
		t.Add(r.ID, r.Mix, r.Node, report.Cell{Value: r.Scheduler, Text: name}, r.Parameters, r.mode, r.Jobs, m.OK, m.MakespanS, m.ThroughputJobsPerS,
			m.TurnaroundMeanS, name)
	}
}

// replay replays the run and adds its row. Under the run's own scheduler a replay that has been made
// is not made again.
func (t *replayTable) replay(ctx context.Context, text string, made *results.Metrics) (_ *results.Metrics, err error) {
	s, closed, err := harness.Decider(text, len(t.stored.Devices))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closed()) }()
	if made != nil && s.Name == t.stored.Run.Scheduler && s.Parameters() == t.stored.Run.Parameters {
		return made, nil
	}
	if err := t.stored.Check(s); err != nil {
		return nil, harness.Refuse(err)
	}
	jobs, err := t.stored.Under(ctx, s)
	if err != nil {
		return nil, err
	}
	run := t.stored.Run
	run.Scheduler, run.Parameters, run.Arm = s.Name, s.Parameters(), s.Arm
	return t.add(run, "replayed", jobs), nil
}

func (t *replayTable) note(format string, args ...any) {
	t.Say(fmt.Sprintf(format, args...))
}

// finish adds what the rows say together, and what they assume.
func (t *replayTable) finish(recorded, own, other *results.Metrics) {
	t.fill()
	if own != nil {
		t.note("error of the records, which is the run replayed under its own scheduler against the run: makespan %s, mean turnaround %s; what another crowd would change is not in it",
			change(recorded.MakespanS, own.MakespanS), change(recorded.TurnaroundMeanS, own.TurnaroundMeanS))
		if other != own {
			t.note("replay against replay: throughput %s, mean turnaround %s",
				change(own.ThroughputJobsPerS, other.ThroughputJobsPerS), change(own.TurnaroundMeanS, other.TurnaroundMeanS))
		}
	}
	t.note("REPLAYED: rows of the mode replayed were not measured. Assumed:")
	for _, a := range t.stored.Assumptions {
		t.note("- %s", a)
	}
}

// change is how much more b is than a, in words.
func change(a, b *float64) string {
	if a == nil || b == nil || *a == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%+.1f %%", (*b / *a - 1)*100)
}
