package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
)

func newSweepList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the sweeps of the store",
		Example: "  caserun sweep list",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			db, done, err := openForReading(c.Context(), settings)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, done()) }()
			sweeps, err := db.Sweeps(c.Context())
			if err != nil {
				return infrastructureError(err)
			}
			var progress []report.SweepProgress
			for _, w := range sweeps {
				left, finished, err := remaining(c.Context(), db, w.ID)
				if err != nil {
					return infrastructureError(err)
				}
				progress = append(progress, report.SweepProgress{Sweep: w, Runs: len(left) + finished, Done: finished})
			}
			return render(c, settings.Format, report.SweepList(progress))
		},
	}
	addStoreFlags(c.Flags())
	addFormatFlag(c)
	return c
}

func newSweepShow() *cobra.Command {
	c := &cobra.Command{
		Use:               "show [NUMBER|latest]",
		Short:             "Show the arms of a sweep: medians, and how many runs they are of",
		Example:           "  caserun sweep show latest",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: fromStore(offerSweeps),
		RunE: func(c *cobra.Command, args []string) (err error) {
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			db, done, err := openForReading(c.Context(), settings)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, done()) }()
			sweep, err := findSweep(c.Context(), db, append(args, "latest")[0])
			if err != nil {
				return err
			}
			return showSweep(c, settings.Format, db, sweep.ID)
		},
	}
	addStoreFlags(c.Flags())
	addFormatFlag(c)
	return c
}

// showSweep prints a sweep's arms.
func showSweep(c *cobra.Command, format string, db *store.Store, id int64) error {
	sweep, err := db.Sweep(c.Context(), id)
	if err != nil {
		return infrastructureError(err)
	}
	cells, err := db.Cells(c.Context(), id)
	if err != nil {
		return infrastructureError(err)
	}
	runs, err := db.Runs(c.Context(), store.Filter{Sweep: id})
	if err != nil {
		return infrastructureError(err)
	}
	devices, err := db.DevicesOf(c.Context(), store.Filter{Sweep: id})
	if err != nil {
		return infrastructureError(err)
	}
	spec, err := readSpec(sweep)
	if err != nil {
		return err
	}
	spec.sort(cells)
	return render(c, format, report.SweepArms(sweep, cells, runs, devices, db.Path()))
}
