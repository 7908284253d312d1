package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/keeping"
	"github.com/caserun/caserun/userfile"
)

// keep is what the commands are asked for that list, mark and remove runs, and vacuum the store.
type keep struct {
	asked
	keeping.Request
	changes bool   // it names runs and changes them
	word    string // what the first argument is, such as TAG; "": a name
	text    string // the first argument
	undo    bool
	files   bool
	action  func(ctx context.Context, db *store.Store) (*report.Table, error)
}

// command adds the flags of a command that names runs.
func (o *keep) command(c *cobra.Command) *cobra.Command {
	o.changes = c.Name() != "list"
	c.ValidArgsFunction = others(fromStore(selection.OfferSides))
	if c.RunE = verb(o); !o.changes {
		c.RunE = verb(onStore{o})
	}
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	c.Flags().StringVar(&o.Since, "since", "", "only what began at `TIME` or later: a day, a time, or how long ago, such as 14d")
	c.Flags().StringVar(&o.Before, "before", "", "only what began before `TIME`")
	for _, flag := range []string{"since", "before"} {
		_ = c.RegisterFlagCompletionFunc(flag, fixed("24h", "7d", "30d", "90d"))
	}
	if o.changes {
		c.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would be changed, and change nothing")
	}
	return c
}

func (o *keep) settle(c *cobra.Command, args []string) error {
	if o.word != "" && !o.undo {
		if len(args) == 0 {
			return fmt.Errorf("%s is missing: %s", o.word, c.UseLine())
		}
		o.text, args = input.Name(args[0]), args[1:]
		if err := config.CheckName(o.word, o.text); err != nil {
			return err
		}
	}
	o.Names, o.Say = args, sayTo(c)
	o.Progress = func(what string) (done func(n, all int64), stop func()) {
		p := display.NewRecords(c.ErrOrStderr(), what, time.Now())
		return func(n, all int64) { p.Done(n, all, time.Now()) }, p.Stop
	}
	o.Command, o.Ask = c.CommandPath(), func(question string) (yes, asked bool) {
		return display.Ask(c.InOrStdin(), c.ErrOrStderr(), question)
	}
	return errors.Join(o.Validate(time.Now(), o.changes), o.asked.settle(c, args))
}

func (o *keep) look(c *cobra.Command, db *store.Store) error {
	t, err := o.action(c.Context(), db)
	if err != nil {
		return err
	}
	return render(c, o.settings.Format, t)
}

func (o *keep) do(c *cobra.Command) error {
	look := func(db *store.Store) error { return o.look(c, db) }
	switch {
	case o.DryRun:
		return o.read(c, look)
	case userfile.Absent(o.settings.DB):
		return noStore(o.settings.DB)
	}
	return o.write(c, look)
}

func newStoreList() *cobra.Command {
	var o keep
	o.action = o.List
	return o.command(&cobra.Command{
		Use:   "list [RUN|SWEEP|TAG]...",
		Short: "List sweeps and runs with their sizes, tags and notes",
		Long: `List the sweeps of the store, and the runs that belong to none; of what is
named, each run. Names are

` + selection.Help + `

The size is the part of the file that the rows take, about. A simulated run has
no date, unless its tag has one: --since and --before leave it out.`,
		Example: `  caserun store list
  caserun store list sweep:3 --format csv
  caserun store list --before 90d`,
	})
}

func newStoreTag() *cobra.Command {
	o := keep{word: "TAG"}
	o.action = func(ctx context.Context, db *store.Store) (*report.Table, error) {
		return o.Tag(ctx, db, o.text, o.settings.AllowSimulated)
	}
	c := o.command(&cobra.Command{
		Use:   "tag TAG RUN|SWEEP|TAG...",
		Short: "Give runs and sweeps another tag",
		Long: `Give runs and sweeps a tag. The runs of a sweep get it too, and runs that
caserun sweep --resume makes later. Names are those of caserun store list.`,
		Example: `  caserun store tag v1.4 sweep:12
  caserun store tag --remove 17 18`,
	})
	c.Flags().BoolVar(&o.undo, "remove", false, "take the tag away; all arguments are names")
	config.AddAllowSimulatedFlag(c.Flags())
	return c
}

func newStoreNote() *cobra.Command {
	o := keep{word: "TEXT"}
	o.action = func(ctx context.Context, db *store.Store) (*report.Table, error) { return o.Note(ctx, db, o.text) }
	c := o.command(&cobra.Command{
		Use:   "note TEXT RUN|SWEEP|TAG...",
		Short: "Note a text of runs and sweeps",
		Long: `Note a text of runs and sweeps, in place of an earlier one. Comparisons of a
sweep print its note. Names are those of caserun store list.`,
		Example: `  caserun store note "fan replaced" nightly-2026-11-21
  caserun store note --remove sweep:12`,
	})
	c.Flags().BoolVar(&o.undo, "remove", false, "take the note away; all arguments are names")
	return c
}

func newStoreExclude() *cobra.Command {
	var o keep
	o.action = func(ctx context.Context, db *store.Store) (*report.Table, error) { return o.Exclude(ctx, db, !o.undo) }
	c := o.command(&cobra.Command{
		Use:   "exclude RUN|SWEEP|TAG...",
		Short: "Leave runs out of comparisons, and keep them",
		Long: `Exclude runs. Comparisons, gates, trends, pages, papers and exports leave them
out, and say how many; --excluded of report and export takes them in. A run that
is named by its number counts all the same. For caserun sweep --resume, an
excluded run is not done: it is made again. Names are those of
caserun store list.`,
		Example: `  caserun store exclude 17
  caserun store exclude nightly-2026-11-21/cg
  caserun store exclude --undo sweep:12`,
	})
	c.Flags().BoolVar(&o.undo, "undo", false, "take the runs in again")
	return c
}

func newStoreRemove() *cobra.Command {
	var o keep
	o.action = func(ctx context.Context, db *store.Store) (*report.Table, error) {
		return o.Remove(ctx, db, o.settings.Runs, o.files)
	}
	c := o.command(&cobra.Command{
		Use:   "rm RUN|SWEEP|TAG...",
		Short: "Remove runs and sweeps from the store",
		Long: `Remove runs with all their rows, and sweeps of which no run is left: all of it,
or nothing after a kill or an error. It is refused while a process works on a
run or a sweep of the store. The file gets shorter with caserun store vacuum.
What the jobs wrote stays, unless --files removes it too. Names are those of
caserun store list.`,
		Example: `  caserun store rm 17 18 --dry-run
  caserun store rm --before 90d --yes
  caserun store rm nightly-2026-08-01 --files`,
	})
	addYesFlag(c, &o.Yes)
	c.Flags().BoolVar(&o.files, "files", false, "remove also the directories in --runs with what the jobs wrote")
	config.AddRunsFlag(c.Flags())
	return c
}

func addYesFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVarP(yes, "yes", "y", false, "do not ask; without it, a terminal is asked")
}

func newStoreVacuum() *cobra.Command {
	var o vacuum
	c := &cobra.Command{
		Use:   "vacuum",
		Short: "Give back the bytes of what was removed from the store",
		Long: `Write the file of the store anew without the bytes that hold nothing, and
replace it at the end. It says how much room that takes on the disk before it
begins. After a kill, and on a full disk, the store is as it was. No other
program may have the store open.`,
		Example: `  caserun store vacuum --dry-run
  caserun store vacuum --yes`,
		Args: noArguments,
		RunE: verb(&o),
	}
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	addYesFlag(c, &o.Yes)
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would be given back, and change nothing")
	return c
}

// vacuum is what store vacuum is asked for.
type vacuum struct{ keep }

func (o *vacuum) do(c *cobra.Command) error {
	db, done, err := openForReading(c.Context(), o.settings.DB)
	if err != nil {
		return err
	}
	t, err := o.Vacuum(c.Context(), db, done, o.settings.DB)
	if err != nil {
		return err
	}
	return render(c, o.settings.Format, t)
}
