package main

import (
	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/policytest"
)

// schedulersTestOptions are what schedulers test is asked for.
type schedulersTestOptions struct {
	asked
	policytest.Test
}

func newSchedulersTest() *cobra.Command {
	var o schedulersTestOptions
	c := &cobra.Command{
		Use:   "test SCHEDULER",
		Short: "Check that a policy keeps the rules of all policies, on random workloads",
		Long: `Let a scheduler decide about random workloads on random nodes, under each order
of the queue, and check what it decides: no device beyond its capacity, every
task granted once or refused, everything given back at the end, the same
decisions for the same calls. SCHEDULER is a name from caserun schedulers, or a
program of yours as exec:PATH. A program is also held to what its greeting
promises. Of coloc/case-alg3 or exec:PATH/case-alg3 the head is tested.

A workload that fails is made small and printed. 1@0 is task 1 granted device 0,
!1 task 1 refused, +1@0 grown, -1@0 growth refused. The exit status is then 1.`,
		Example: `  caserun schedulers test exec:./policy.py
  caserun schedulers test case-alg3 --workloads 1000 --seed 7`,
		Args:              named("SCHEDULER"),
		ValidArgsFunction: atMost(1, completeScheduler),
		RunE:              verb(&o),
	}
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of the workloads: the same `SEED` makes the same")
	config.NoSetting(c.Flags(), "seed")
	c.Flags().IntVar(&o.Workloads, "workloads", policytest.Workloads, "`NUMBER` of workloads under each order of the queue")
	addFormatFlag(c)
	return c
}

func (o *schedulersTestOptions) settle(c *cobra.Command, args []string) error {
	o.Sched = args[0]
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	return o.Validate()
}

func (o *schedulersTestOptions) do(c *cobra.Command) error {
	o.Display = display.NewWorkloads(c.ErrOrStderr())
	tables, err := o.Run(c.Context())
	if len(tables) == 0 {
		return err
	}
	if failed := render(c, o.settings.Format, tables...); failed != nil {
		return failed
	}
	return err
}
