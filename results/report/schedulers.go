package report

import (
	"slices"
	"strings"

	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// SchedulerTables show a scheduler and its parameters.
func SchedulerTables(s policies.Info) []*Table {
	tables := []*Table{schedulerDetails(s)}
	if len(s.Params) > 0 {
		tables = append(tables, parameterList(s))
	}
	return tables
}

// SchedulerList lists the schedulers.
func SchedulerList() *Table {
	t := &Table{Title: "schedulers", Columns: []Column{{Name: "scheduler"}, {Name: "binds"}, {Name: "in_brief"},
		{Name: "parameters", Drop: 1}, {Name: "rule", Place: DataOnly}, {Name: "source", Drop: 1}}}
	for _, s := range policies.Listed() {
		var names []string
		for _, p := range s.Params {
			names = append(names, p.Name+"="+p.Default)
		}
		t.Add(s.Name, string(s.Binds), s.Brief, strings.Join(names, ","), s.Rule, s.Source)
	}
	var heads []string
	for _, h := range cluster.Listed() {
		heads = append(heads, h.Name)
	}
	t.Say("caserun schedulers NAME has the parameters, the whole rule and the source",
		"on a cluster a policy of its head and a slash go before, as in coloc/case-alg3: "+strings.Join(heads, ", "))
	return t
}

func schedulerDetails(s policies.Info) *Table {
	t := &Table{Title: s.Name, Columns: []Column{{Name: "property"}, {Name: "value"}}}
	binds := map[policies.Binding]string{
		policies.BindsJob:  "job: a device for the whole process, before it starts",
		policies.BindsTask: "task: a device for each GPU task, when its process asks",
		policies.BindsNode: "node: nodes of a cluster for the ranks of a job. A slash and the scheduler of each node follow",
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
	if s.Binds == policies.BindsNode {
		return t
	}
	says("several jobs on a device", s.Shares)
	if promises, known := schedtest.Promises[s.Name]; known {
		says("never more memory than a device has", promises.MemoryHard)
	}
	says("moves memory to the host", s.Revokes)
	learns := map[bool]string{true: "under queue=" + string(engine.ShortestFirst), false: "no"}[slices.Contains(s.Orders(), engine.ShortestFirst)]
	if s.Predicts {
		learns = "yes"
	}
	t.Add("uses what jobs did before", learns)
	return t
}

func parameterList(s policies.Info) *Table {
	as := s.Name + ":" + s.Params[0].Name + "=" + example(s.Params[0])
	if s.Binds == policies.BindsNode {
		as += "/case-alg3"
	}
	if s.Name == cluster.Offload {
		as = "coloc+" + as
	}
	t := &Table{Title: "parameters, as in --sched " + as,
		Columns: []Column{{Name: "parameter"}, {Name: "default"}, {Name: "meaning"}}}
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
