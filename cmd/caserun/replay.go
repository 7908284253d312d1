package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/replay"
)

// replayOptions are what replay is asked for.
type replayOptions struct {
	asked
	run string
}

func newReplay() *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay RUN",
		Short: "Replay a stored run under another scheduler, in virtual time",
		Long: `Do again, in virtual time, what the jobs of a stored run did: each asks for its
devices as long after its start, holds them as long, and exits as long after, as
it did in the run. Only who waits for what is decided anew, by --sched. RUN is a
number from caserun report, or latest.

The run is also replayed under its own scheduler, which shows the error of what
is kept of a run. The figures are REPLAYED, and not measured: what took time on
the host takes as long as in the run, however many jobs run at once. So a run
under sa makes others look too fast (docs/design/simulator.md). Nothing is
stored.`,
		Example: `  caserun replay latest --sched case-alg3
  caserun replay 12 --sched sa --format csv
  caserun replay 3 --sched exec:./policy.py \
      --db docs/results/bundles/sweep.tar.gz`,
		Args:              named("RUN"),
		ValidArgsFunction: atMost(1, fromStore(selection.OfferRuns)),
		RunE:              verb(onStore{&o}),
	}
	config.AddSchedFlag(c.Flags())
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	return c
}

func (o *replayOptions) settle(c *cobra.Command, args []string) error {
	o.run = args[0]
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if err := config.Check("sched", o.settings.Sched); err != nil {
		return fmt.Errorf("--sched: %w", err)
	}
	return nil
}

func (o *replayOptions) look(c *cobra.Command, db *store.Store) error {
	run, err := selection.Run(c.Context(), db, o.run, store.Filter{})
	if err != nil {
		return err
	}
	stored, err := replay.Load(c.Context(), db, run)
	if err != nil {
		return err
	}
	t, err := stored.Compare(c.Context(), db, o.settings.Sched)
	if err != nil {
		return err
	}
	warnUnseen(c, o.settings.Format, stored.Assumptions)
	return render(c, o.settings.Format, t)
}
