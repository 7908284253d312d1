package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
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
		Args: atMostOne,
		ValidArgsFunction: atMost(1, func(*cobra.Command, []string, string) (offers []string, _ cobra.ShellCompDirective) {
			for _, s := range policies.Listed() {
				offers = append(offers, s.Name+"\t"+s.Brief)
			}
			return offers, cobra.ShellCompDirectiveNoFileComp
		}),
		RunE: verb(&o),
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
		if _, err := policies.Lookup(o.name); err != nil {
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
		return render(c, o.settings.Format, schedulerList())
	}
	s, err := policies.Lookup(o.name)
	if err != nil {
		return err
	}
	tables := []*report.Table{schedulerDetails(s)}
	if len(s.Params) > 0 {
		tables = append(tables, parameterList(s))
	}
	return render(c, o.settings.Format, tables...)
}

func schedulerList() *report.Table {
	t := &report.Table{Title: "schedulers", Columns: []report.Column{{Name: "scheduler"}, {Name: "binds"}, {Name: "in_brief"},
		{Name: "parameters", Drop: 1}, {Name: "rule", Place: report.DataOnly}, {Name: "source", Drop: 1}}}
	for _, s := range policies.Listed() {
		var names []string
		for _, p := range s.Params {
			names = append(names, p.Name+"="+p.Default)
		}
		t.Add(s.Name, string(s.Binds), s.Brief, strings.Join(names, ","), s.Rule, s.Source)
	}
	t.Say("caserun schedulers NAME has the parameters, the whole rule and the source")
	return t
}

func schedulerDetails(s policies.Info) *report.Table {
	t := &report.Table{Title: s.Name, Columns: []report.Column{{Name: "property"}, {Name: "value"}}}
	binds := map[policies.Binding]string{
		policies.BindsJob:  "job: a device for the whole process, before it starts",
		policies.BindsTask: "task: a device for each GPU task, when its process asks",
	}
	says := func(property string, is bool) {
		t.Add(property, map[bool]string{true: "yes", false: "no"}[is])
	}
	t.Add("rule", s.Rule)
	t.Add("source", s.Source)
	t.Add("binds", binds[s.Binds])
	if s.External {
		t.Add("decides", "a program of yours, whose greeting says what it can")
		return t
	}
	says("several jobs on a device", s.Shares)
	if promises, known := schedtest.Promises[s.Name]; known {
		says("never more memory than a device has", promises.MemoryHard)
	}
	says("moves memory to the host", s.Revokes)
	says("uses what jobs did before", s.Predicts)
	return t
}

func parameterList(s policies.Info) *report.Table {
	t := &report.Table{Title: "parameters, as in --sched " + s.Name + ":" + s.Params[0].Name + "=" + example(s.Params[0]),
		Columns: []report.Column{{Name: "parameter"}, {Name: "default"}, {Name: "meaning"}}}
	for _, p := range s.Params {
		t.Add(p.Name, p.Default, p.Help)
	}
	return t
}

// example is a value of a parameter.
func example(p policies.Param) string {
	if p.Default == "" {
		return strings.ToUpper(p.Name)
	}
	return p.Default
}
