package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
)

func newStore() *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Work on the files that runs are stored in",
	}
	c.AddCommand(newStoreMerge())
	return c
}

// storeMerge is what store merge is asked for.
type storeMerge struct {
	settings config.Settings
	out      string
	parts    []string
	add      bool
}

func newStoreMerge() *cobra.Command {
	var add bool
	c := &cobra.Command{
		Use:   "merge OUT PART...",
		Short: "Bring the parts of a sweep together in one store",
		Long: `Bring the runs of a sweep together that were made in several stores, with
caserun sweep --part. OUT is made if it is missing. If it exists, it must have
the sweep, and its other runs stay as they are. The parts are not changed, and
only their runs of the sweep are taken: of the latest sweep of the first part.
A part is a store or a bundle of caserun export.

With --add, an OUT that does not have the sweep gets it beside its own. So
sweeps from several stores come under one tag, for caserun compare tag:TAG.

The order of the parts does not matter, and a part may be merged again. The runs
of the sweep get new numbers. Of several complete runs of a cell the first one
counts; the others are kept, and reports and comparisons leave them out. Runs
that are under way are left out. Parts of another plan are refused.

OUT has all or nothing, also after a kill. No other program may have it open.`,
		Example: `  caserun store merge all.db part-1.db part-2.db
  caserun store merge caserun.db parts/*.db
  caserun store merge --add all.db other-machine.db`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return named("OUT", "PART")(c, args)
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"db", "gz"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: verb(func(c *cobra.Command, args []string) (storeMerge, error) {
			settings, err := load(c)
			return storeMerge{settings, args[0], args[1:], add}, err
		}, mergeStores),
	}
	c.Flags().BoolVar(&add, "add", false, "let OUT be a store without the sweep, and add the sweep to it")
	addFormatFlag(c)
	return c
}

func mergeStores(c *cobra.Command, o storeMerge) error {
	if _, err := os.Stat(o.out); !errors.Is(err, fs.ErrNotExist) {
		db, err := harness.OpenStore(o.out) // runs whose processes died become interrupted
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			return err
		}
	}
	progress := newRecordProgress(c.ErrOrStderr(), "parts merged", time.Now())
	merged, err := store.Merge(c.Context(), o.out, o.parts, store.Merging{Add: o.add, Open: openPart, Progress: func(read int) {
		progress.done(int64(read), int64(len(o.parts)), time.Now())
	}})
	progress.stop()
	if errors.Is(err, store.ErrBusy) {
		return refusal{fmt.Errorf("%w: wait for it", err)}
	}
	if err != nil {
		return err
	}
	return render(c, o.settings.Format, report.MergedSweep(merged, o.out))
}
