package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/keeping"
)

func newStore() *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Work on the files that runs are stored in",
	}
	c.AddCommand(newStoreList(), newStoreTag(), newStoreNote(), newStoreExclude(), newStoreRemove(), newStoreVacuum(), newStoreMerge())
	return c
}

// storeMerge is what store merge is asked for.
type storeMerge struct {
	asked
	add bool
}

func newStoreMerge() *cobra.Command {
	var o storeMerge
	c := &cobra.Command{
		Use:   "merge OUT PART...",
		Short: "Bring the parts of a sweep together in one store",
		Long: `Bring the runs of a sweep together that were made in several stores, with
caserun sweep --part. OUT is made if it is missing. If it exists, it must have
the sweep, and its other runs stay as they are. The parts are not changed, and
only their runs of the sweep are taken: of the latest sweep of the first part.
A part is a store or a bundle of caserun export.

With --add, all sweeps of all parts are merged, and an OUT that does not have
one of them gets it beside its own. So sweeps from several stores come under one
tag, for caserun compare tag:TAG.

The order of the parts does not matter, and a part may be merged again. The runs
of the sweep get new numbers. Of several complete runs of a cell the first one
counts; the others are kept, and reports and comparisons leave them out. Runs
that are under way are left out. Parts of another plan are refused.

OUT has all of a sweep or nothing, also after a kill. No other program may have
it open.`,
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
		RunE: verb(&o),
	}
	c.Flags().BoolVar(&o.add, "add", false, "merge all sweeps of the parts, and add those that OUT does not have")
	addFormatFlag(c)
	return c
}

func (o *storeMerge) do(c *cobra.Command) error {
	out := o.args[0]
	progress := display.NewRecords(c.ErrOrStderr(), "parts merged", time.Now())
	t, err := keeping.Merge(c.Context(), out, o.args[1:], o.add, func(n, all int) { progress.Done(int64(n), int64(all), time.Now()) })
	progress.Stop()
	if err != nil {
		return err
	}
	o.settings.DB = out
	return orAgain(render(c, o.settings.Format, t), "the merge is done", "caserun sweep list"+o.settings.StoreFlag()+" shows what there is")
}
