package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers/policies"
)

func newSchedulers() *cobra.Command {
	c := &cobra.Command{
		Use:   "schedulers",
		Short: "List the schedulers with their parameters and their sources",
		Args:  noArguments,
		RunE: verb(loadAlone, func(c *cobra.Command, settings config.Settings) error {
			return render(c, settings.Format, schedulerList(), parameterList())
		}),
	}
	addFormatFlag(c)
	return c
}

func schedulerList() *report.Table {
	t := &report.Table{Title: "schedulers", Columns: []report.Column{{Name: "scheduler"}, {Name: "binds"}, {Name: "parameters", Drop: 1},
		{Name: "rule"}, {Name: "source"}}}
	for _, s := range policies.Listed() {
		var names []string
		for _, p := range s.Params {
			names = append(names, p.Name+"="+p.Default)
		}
		t.Add(s.Name, string(s.Binds), strings.Join(names, ","), s.Rule, s.Source)
	}
	return t
}

func parameterList() *report.Table {
	t := &report.Table{Title: "parameters, as in --sched case-alg3:queue=fifo,age-limit=8",
		Columns: []report.Column{{Name: "scheduler"}, {Name: "parameter"}, {Name: "default"}, {Name: "meaning"}}}
	for _, s := range policies.Listed() {
		for _, p := range s.Params {
			t.Add(s.Name, p.Name, p.Default, p.Help)
		}
	}
	return t
}
