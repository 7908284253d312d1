package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers/cluster"
)

// shownScheduler is what schedulers is asked for.
type shownScheduler struct {
	asked
	name string // "": a list of all
}

func newSchedulers() *cobra.Command {
	var o shownScheduler
	c := &cobra.Command{
		Use:   "schedulers [NAME]",
		Short: "List the schedulers, or show one with its parameters",
		Example: `  caserun schedulers
  caserun schedulers case-alg3`,
		Args:              atMostOne,
		ValidArgsFunction: atMost(1, words(config.OfferSchedulerName)),
		RunE:              verb(&o),
	}
	addFormatFlag(c)
	return c
}

func (o *shownScheduler) settle(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		o.name, _, _ = strings.Cut(args[0], ":") // reports print names with parameters
		if results.HasEmptyPart(args[0]) {
			return fmt.Errorf("%q has an empty part: write a scheduler's name alone, such as case-alg3", args[0])
		}
		if _, err := cluster.Lookup(o.name); err != nil {
			if hint := near.DidYouMean("caserun schedulers ", o.name, []string{"test"}); hint != "" {
				return fmt.Errorf("unknown scheduler %q: %s", o.name, hint)
			}
			return err
		}
	}
	return o.asked.settle(c, args)
}

func (o *shownScheduler) do(c *cobra.Command) error {
	if o.name == "" {
		return render(c, o.settings.Format, report.SchedulerList())
	}
	s, err := cluster.Lookup(o.name)
	if err != nil {
		return err
	}
	return render(c, o.settings.Format, report.SchedulerTables(s)...)
}
