// Package keeping is what caserun store does with runs and sweeps that a user names: it lists, marks, excludes and removes
// them, and vacuums the store.
package keeping

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
)

// Request says which runs and sweeps a user means, and who is told and asked.
type Request struct {
	Names         []string
	Since, Before string // as input.Moment reads them; "": no limit
	DryRun        bool

	Command string // which the user called
	Yes     bool   // nobody is asked
	Ask     func(question string) (yes, asked bool)

	Say      harness.Say
	Progress func(what string) (done func(n, all int64), stop func())

	span selection.Span
}

// Validate reads the times. named says that the request changes runs, so that some must be named.
func (r *Request) Validate(now time.Time, named bool) (err error) {
	for _, limit := range []struct {
		flag, text string
		at         *time.Time
	}{{"since", r.Since, &r.span.Since}, {"before", r.Before, &r.span.Before}} {
		if limit.text == "" {
			continue
		}
		if *limit.at, err = input.Moment(limit.text, now); err != nil {
			return fmt.Errorf("--%s %q: %w", limit.flag, limit.text, err)
		}
	}
	switch {
	case r.Since != "" && r.Before != "" && !r.span.Since.Before(r.span.Before):
		return fmt.Errorf("--since %s is not before --before %s: nothing can be between them", r.Since, r.Before)
	case named && len(r.Names) == 0 && r.span == selection.Span{}:
		return errors.New("which runs? name runs, sweeps or tags, or give --since or --before")
	}
	return nil
}

// find finds what the user means.
func (r *Request) find(ctx context.Context, db *store.Store) (selection.Kept, error) {
	k, err := selection.Keep(ctx, db, r.Names, r.span)
	if err != nil {
		return k, err
	}
	if k.Undated > 0 {
		r.Say("simulated runs and sweeps without a date in their tag, as nightly-2026-11-21 has one, which --since and --before leave out: %d", k.Undated)
	}
	return k, nil
}

// table has the runs and sweeps; each: a row for each run.
func (r *Request) table(ctx context.Context, db *store.Store, title string, k selection.Kept, each bool) (*report.Table, error) {
	done, stop := r.Progress("tables read for the sizes")
	sizes, err := db.Sizes(ctx, func(n, all int) { done(int64(n), int64(all)) })
	stop()
	if err != nil {
		return nil, err
	}
	return report.Kept(title, k.Sweeps, k.Runs, sizes, each), nil
}

// List has a row for each sweep and each run outside of sweeps, or for each run that is named.
func (r *Request) List(ctx context.Context, db *store.Store) (*report.Table, error) {
	k, err := r.find(ctx, db)
	if err != nil {
		return nil, err
	}
	return r.table(ctx, db, "sweeps and runs", k, len(r.Names) > 0)
}

// change has do change what is found, and shows it as it is then. A dry run shows it as it is.
func (r *Request) change(ctx context.Context, db *store.Store, verb string, do func(k selection.Kept) error) (*report.Table, error) {
	k, err := r.find(ctx, db)
	if err != nil {
		return nil, err
	}
	if r.DryRun {
		return r.table(ctx, db, title("would be "+verb, k), k, false)
	}
	if err := do(k); err != nil {
		return nil, Idle(err)
	}
	if k, err = k.Again(ctx, db); err != nil {
		return nil, err
	}
	return r.table(ctx, db, title(verb, k), k, false)
}

// title is the verb, or says that it did nothing.
func title(verb string, k selection.Kept) string {
	switch {
	case len(k.Runs)+len(k.Sweeps) > 0:
		return verb
	case strings.HasPrefix(verb, "would be "):
		return "nothing " + verb
	}
	return "nothing was " + verb
}

// confirm refuses what the user does not want.
func (r *Request) confirm(question string) error {
	if r.Yes {
		return nil
	}
	switch yes, asked := r.Ask(question); {
	case !asked:
		return harness.Refuse(fmt.Errorf("%s: standard input is not a terminal, so nobody can be asked: add --yes", r.Command))
	case !yes:
		return harness.Refuse(fmt.Errorf("%s: the answer was not yes, and nothing was done", r.Command))
	}
	return nil
}

// Idle adds the remedy to the error of what another process works on.
func Idle(err error) error {
	if errors.Is(err, store.ErrBusy) {
		return harness.Refuse(fmt.Errorf("%w: wait for it", err))
	}
	return err
}

// Tag gives runs and sweeps a tag; "" takes it away. mixed lets live and simulated runs have one.
func (r *Request) Tag(ctx context.Context, db *store.Store, tag string, mixed bool) (*report.Table, error) {
	return r.change(ctx, db, marked("tag", tag), func(k selection.Kept) error {
		modes := k.Modes()
		if len(modes) > 1 && tag != "" && !mixed {
			return selection.Refuse("tag %s: live and SIMULATED runs are named: name runs of one kind, or add --allow-simulated", tag)
		}
		for _, mode := range modes {
			if err := harness.CheckTag(ctx, db, tag, mode); err != nil && !mixed {
				return err
			}
		}
		return db.SetTag(ctx, k.Chosen(), tag)
	})
}

// Note notes a text of runs and sweeps; "" takes it away. The runs of a sweep that is named have no note of their own.
func (r *Request) Note(ctx context.Context, db *store.Store, text string) (*report.Table, error) {
	return r.change(ctx, db, marked("note", text), func(k selection.Kept) error {
		named := k.Chosen().Sweeps
		k.Runs = slices.DeleteFunc(slices.Clone(k.Runs), func(run results.Run) bool { return run.Sweep != nil && slices.Contains(named, *run.Sweep) })
		return db.SetRemark(ctx, k.Chosen(), text)
	})
}

func marked(what, text string) string {
	if text == "" {
		return "left without a " + what
	}
	return fmt.Sprintf("given the %s %s", what, text)
}

// Exclude takes runs out of comparisons, or in again.
func (r *Request) Exclude(ctx context.Context, db *store.Store, excluded bool) (*report.Table, error) {
	verb := "excluded"
	if !excluded {
		verb = "taken in again"
	}
	return r.change(ctx, db, verb, func(k selection.Kept) error { return db.Exclude(ctx, k.Chosen(), excluded) })
}

// Remove removes runs and sweeps and, if files is set, what the runs' jobs wrote to the directory dir.
func (r *Request) Remove(ctx context.Context, db *store.Store, dir string, files bool) (*report.Table, error) {
	if r.DryRun {
		return r.change(ctx, db, "removed", nil)
	}
	k, err := r.find(ctx, db)
	if err != nil {
		return nil, err
	}
	outputs, err := live.OutputDirs(dir, k.Runs)
	if err != nil {
		return nil, err
	}
	removed, err := r.table(ctx, db, title("removed", k), k, false)
	if err != nil || len(k.Runs)+len(k.Sweeps) == 0 { // nothing began then
		return removed, err
	}
	question := fmt.Sprintf("remove from %s: runs %d, sweeps %d", db.Path(), len(k.Runs), len(k.Sweeps))
	if files {
		question += fmt.Sprintf(", directories of jobs' output %d", len(outputs))
	}
	if err := r.confirm(question + "?"); err != nil {
		return nil, err
	}
	done, stop := r.Progress("runs removed")
	err = db.Remove(ctx, k.Chosen(), func(n, all int) { done(int64(n), int64(all)) })
	stop()
	switch {
	case err != nil:
		return nil, Idle(fmt.Errorf("nothing was removed: %w", err))
	case files:
		return removed, live.RemoveOutput(outputs)
	case len(outputs) > 0:
		r.Say("directories in %s with what the runs' jobs wrote, which stay: %d; --files removes them too", dir, len(outputs))
	}
	return removed, nil
}

// Vacuum gives back what holds nothing in the store at path. The user called it by a name.
func (r *Request) Vacuum(ctx context.Context, db *store.Store, close func() error, path string) (*report.Table, error) {
	needs, err := db.Vacuuming(ctx)
	if err := errors.Join(err, close()); err != nil {
		return nil, err
	}
	if r.DryRun {
		return report.Vacuumed("would be given back", path, needs.Size, needs.Needs), nil
	}
	human := func(bytes int64) string { return report.Human(float64(bytes), report.Bytes) }
	r.Say("vacuum of %s: until it is done, it needs up to %s on the disk, which has %s", path, human(needs.Needs), human(needs.Has))
	if err := errors.Join(needs.Enough(), r.confirm(fmt.Sprintf("vacuum %s?", path))); err != nil {
		return nil, err
	}
	if db, err = harness.OpenStoreTelling(path, r.Say); err == nil { // runs whose processes died become interrupted
		err = db.Close()
	}
	if err != nil {
		return nil, err
	}
	done, stop := r.Progress("bytes written")
	v, err := store.Vacuum(ctx, path, done, func(what string) { r.Say("%s", what) })
	stop()
	if err != nil {
		return nil, Idle(err)
	}
	return report.Vacuumed("given back", path, v.Before, v.After), nil
}
