package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/slurmsweep"
	"github.com/caserun/caserun/runner/sweep"
)

// sweepStatus is what sweep status is asked for.
type sweepStatus struct {
	askedSweep
	parts int
	slurm slurmOptions
}

func newSweepStatus() *cobra.Command {
	var o sweepStatus
	c := &cobra.Command{
		Use:   "status [NUMBER|latest]",
		Short: "Show how far a sweep is, by part",
		Long: `Show how many runs of a sweep's plan are done, by the runs in this store. With
--parts, there is a row for each part of as many. A sweep that was submitted
with --slurm has the parts of its tasks. What tasks have published counts once
--resume NUMBER --slurm --collect has merged it.

  blocks     repetitions of one mix under all schedulers
  runs       runs of the plan, warm-ups included; parts share warm-ups
  done       have a complete run
  under way  a process is at it
  failed     the last try did not end complete; --resume tries again
  missing    never begun
  left       what is not done may take, by the estimates of the plan
  task       what Slurm says of the part's task`,
		Example: `  caserun sweep status
  caserun sweep status 3 --parts 8`,
		Args:              atMostOne,
		ValidArgsFunction: atMost(1, fromStore(offerSweeps)),
		RunE:              verb(&o),
	}
	config.AddCountFlag(c.Flags(), &o.parts, "parts", "the `NUMBER` of parts that the plan was cut into with --part K/N")
	c.Flags().StringVar(&o.slurm.shared, "shared", "", "the `DIR` that --slurm had; default: the store's name with .parts")
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	return c
}

func (o *sweepStatus) do(c *cobra.Command) error {
	return o.find(c, func(db *store.Store, w results.Sweep) error { return o.print(c, db, w) })
}

// print prints how far a sweep is.
func (o *sweepStatus) print(c *cobra.Command, db *store.Store, w results.Sweep) error {
	tasks, of, notes, err := o.tasks(c.Context(), db, w.ID)
	if err != nil {
		return err
	}
	if o.parts == 0 {
		o.parts = of
	}
	found, err := sweep.Standings(c.Context(), db, w, o.parts)
	if err != nil {
		return err
	}
	where := report.DataOnly
	if of > 0 {
		where = report.Everywhere
	}
	t := &report.Table{Title: fmt.Sprintf("%s: %s", report.SweepOn(w), store.Standing(w)), Columns: []report.Column{
		{Name: "sweep_id", Place: report.DataOnly}, {Name: "part"}, {Name: "blocks"}, {Name: "runs"}, {Name: "runs_done", Heading: "done"},
		{Name: "runs_under_way", Heading: "under way"}, {Name: "runs_failed", Heading: "failed"}, {Name: "runs_missing", Heading: "missing"},
		{Name: "left", Unit: report.Seconds}, {Name: "task", Place: where}}}
	for _, s := range found {
		part, task := "all", any(nil)
		if !s.Part.Whole() {
			part = s.Part.String()
		}
		if said, known := tasks[s.Part.K]; known && o.parts == of {
			task = said
		}
		t.Add(w.ID, part, s.Blocks, s.Runs, s.Done, s.UnderWay, s.Failed, s.Missing, s.LeftS, task)
	}
	for _, note := range notes {
		t.Notes = append(t.Notes, report.Note{Text: note})
	}
	return render(c, o.settings.Format, t)
}

// tasks says what Slurm does for each part of a sweep that was submitted, and into how many parts its plan is cut. notes
// are what does not fit into a cell.
func (o *sweepStatus) tasks(ctx context.Context, db *store.Store, id int64) (tasks map[int]string, of int, notes []string, err error) {
	s, err := slurmsweep.Latest(ctx, db, id, o.slurm.dir(o.settings.DB))
	if errors.Is(err, slurmsweep.ErrNone) {
		return nil, 0, nil, nil
	}
	if err != nil {
		return nil, 0, nil, err
	}
	known, err := s.Tasks(ctx)
	if err != nil {
		notes = append(notes, fmt.Sprintf("submitted as %s; what its tasks do is not known: %v", s.Name, err))
	}
	tasks = map[int]string{}
	for part, t := range known {
		tasks[part] = describeTask(t)
	}
	for _, w := range slurm.Waits(slices.SortedFunc(maps.Values(known), func(a, b slurm.Task) int { return a.Number - b.Number })) {
		if w.Remedy != "" {
			notes = append(notes, w.String())
		}
	}
	return tasks, s.Of, notes, nil
}

// describeTask says what Slurm does with a task, in a few words.
func describeTask(t slurm.Task) string {
	said := strings.ToLower(t.State)
	if t.Nodes != "" {
		said += " on " + t.Nodes
	}
	for _, w := range slurm.Waits([]slurm.Task{t}) {
		said += ": " + w.Short()
	}
	if t.Restarts > 0 {
		said += fmt.Sprintf(", started again %d times", t.Restarts)
	}
	return said
}
