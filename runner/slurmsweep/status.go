package slurmsweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/sweep"
)

// Status shows how far a sweep is: as a whole, and in so many parts. 0 parts are those of its submission, if there is one.
func Status(ctx context.Context, db *store.Store, w results.Sweep, parts int, shared string) (*report.Table, error) {
	tasks, of, notes, err := describeTasks(ctx, db, w.ID, shared)
	if err != nil {
		return nil, err
	}
	if parts == 0 {
		parts = of
	}
	found, err := sweep.Standings(ctx, db, w, parts)
	if err != nil {
		return nil, err
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
		if said, known := tasks[s.Part.K]; known && parts == of {
			task = said
		}
		t.Add(w.ID, part, s.Blocks, s.Runs, s.Done, s.UnderWay, s.Failed, s.Missing, s.LeftS, task)
	}
	t.Say(notes...)
	return t, nil
}

// describeTasks says what Slurm does for each part of a sweep that was submitted, and into how many parts its plan is cut.
// notes are what does not fit into a cell.
func describeTasks(ctx context.Context, db *store.Store, id int64, shared string) (tasks map[int]string, of int, notes []string, err error) {
	s, err := Latest(ctx, db, id, shared)
	if errors.Is(err, ErrNone) {
		return nil, 0, nil, nil
	}
	if err != nil {
		return nil, 0, nil, err
	}
	known, err := s.tasks(ctx)
	if err != nil {
		notes = append(notes, fmt.Sprintf("submitted as %s; what its tasks do is not known: %v", s.Name, err))
	}
	tasks = map[int]string{}
	for part, t := range known {
		tasks[part] = describe(t)
	}
	for _, w := range slurm.Waits(slices.SortedFunc(maps.Values(known), func(a, b slurm.Task) int { return a.Number - b.Number })) {
		if w.Remedy != "" {
			notes = append(notes, w.String())
		}
	}
	return tasks, s.Of, notes, nil
}

// describe says what Slurm does with a task, in a few words.
func describe(t slurm.Task) string {
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
