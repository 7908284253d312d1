package main

import (
	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/control"
)

// drain is what drain is asked for.
type drain struct {
	asked
	control.Request
}

func newDrain() *cobra.Command {
	var o drain
	c := &cobra.Command{
		Use:   "drain RUN DEVICE",
		Short: "Take a device out of a run that is under way, or put it back",
		Long: `Take a device out of a live run that is under way: nothing new goes there. Under
a scheduler that moves memory, what is there goes to another device or to the
host; tasks that cannot move stay until they end. The command waits until no
task is on the device, says what keeps it, and prints what is there then. A run
of which a device was taken out is doubtful: comparisons leave it out.

RUN is a number from caserun report, or latest: the last run that is under way.
DEVICE is its number in the run, or its UUID.`,
		Example: `  caserun drain latest 1
  caserun drain 12 1 --no-wait --format json
  caserun drain 12 1 --undo`,
		Args: named("RUN", "DEVICE"),
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return atMost(2, fromStore(control.Offer(args)))(c, args, typed)
		},
		RunE: verb(onStore{&o}),
	}
	c.Flags().BoolVar(&o.Undo, "undo", false, "put the device back: jobs may go there again")
	c.Flags().BoolVar(&o.NoWait, "no-wait", false, "do not wait until the device is empty")
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	return c
}

func (o *drain) look(c *cobra.Command, db *store.Store) error {
	o.Run, o.Device, o.Say = o.args[0], o.args[1], sayTo(c)
	tables, err := o.Do(c.Context(), db)
	if err != nil {
		return err
	}
	return render(c, o.settings.Format, tables...)
}
