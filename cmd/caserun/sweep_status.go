package main

import (
	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/slurmsweep"
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
		ValidArgsFunction: atMost(1, fromStore(selection.OfferSweeps)),
		RunE:              verb(&o),
	}
	config.AddCountFlag(c.Flags(), &o.parts, "parts", "the `NUMBER` of parts that the plan was cut into with --part K/N")
	c.Flags().StringVar(&o.slurm.shared, "shared", "", "the `DIR` that --slurm had; default: the store's name with .parts")
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	return c
}

func (o *sweepStatus) do(c *cobra.Command) error {
	return o.find(c, func(db *store.Store, w results.Sweep) error {
		t, err := slurmsweep.Status(c.Context(), db, w, o.parts, o.slurm.dir(o.settings.DB))
		if err != nil {
			return err
		}
		return render(c, o.settings.Format, t)
	})
}
