package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
)

// tracerLine says how complete the kernels of a traced run are. ? is unknown, as stores of other programs may have it.
func tracerLine(x results.Tracer) any {
	if x.Kernels == nil {
		return nil
	}
	number := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	parts := []string{fmt.Sprintf("%d kernels and %s copies of %s processes", *x.Kernels, number(x.Copies), number(x.Processes)), number(x.Lost) + " records lost"}
	if x.Cut == nil || *x.Cut > 0 {
		parts = append(parts, number(x.Cut)+" processes did not exit in order")
	}
	if x.Untraced == nil || *x.Untraced > 0 {
		parts = append(parts, number(x.Untraced)+" jobs left no trace")
	}
	return strings.Join(parts, ", ")
}

// kernelTable sums up the kernels of each job by name, in descending order of their time.
func kernelTable(r results.Run, kernels []results.Kernel) *Table {
	t := &Table{Name: "kernel", Title: about("kernels of run", r), Detail: true, Columns: ofRun(
		Column{Name: "job_index", Heading: "job"},
		Column{Name: "name", Heading: "kernel", Cut: leastName}, Column{Name: "launches"},
		Column{Name: "kernel", Heading: "time", Unit: Seconds}, Column{Name: "longest", Unit: Seconds, Drop: 1},
		Column{Name: "registers", Drop: 2}, Column{Name: "shared", Heading: "shared memory", Unit: Bytes, Drop: 3},
	)}
	type key struct {
		job  int
		name string
	}
	type sum struct {
		key
		launches          int
		busyS, longestS   float64
		registers, shared int
		aggregate         bool
	}
	found := map[key]*sum{}
	for _, k := range kernels {
		at := key{k.Job, k.Name}
		s := found[at]
		if s == nil {
			s = &sum{key: at}
			found[at] = s
		}
		s.launches++
		s.busyS += k.BusyS
		s.longestS = max(s.longestS, k.BusyS)
		s.registers = max(s.registers, k.Registers)
		s.shared = max(s.shared, k.StaticSharedBytes+k.DynamicSharedBytes)
		s.aggregate = s.aggregate || k.Grid == ""
	}
	var rows []*sum
	var names []string
	for _, s := range found {
		rows, names = append(rows, s), append(names, s.name)
	}
	short := shortNames(names)
	slices.SortFunc(rows, func(a, b *sum) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(b.busyS, a.busyS), cmp.Compare(a.name, b.name))
	})
	cut := false
	for _, s := range rows {
		cut = cut || short[s.name] != s.name
		var launches, longest, registers, shared any
		if !s.aggregate {
			launches, longest, registers, shared = s.launches, s.longestS, s.registers, s.shared
		}
		t.Add(r.ID, r.Mode, s.job, Cell{Value: s.name, Text: short[s.name]}, launches, s.busyS, longest, registers, shared)
	}
	if cut {
		t.Say("Names of kernels are shortened. --format csv has them whole.")
	}
	return t
}

// SlowdownTables are the kernel slowdown of a traced run against another run: the mix's
// figure, and a row for each job.
func SlowdownTables(candidate, baseline results.Run, s results.Slowdown) []*Table {
	versus := fmt.Sprintf(" against run %d under %s", baseline.ID, baseline.Scheduler)
	compared, pairs, unpaired, missing := 0, 0, 0, 0
	jobs := &Table{Title: about("kernel slowdown of the jobs of run", candidate) + versus, Columns: ofRun(
		Column{Name: "baseline_run_id", Place: DataOnly}, Column{Name: "job_index", Heading: "job"}, Column{Name: "name"},
		Column{Name: "command", Place: DataOnly}, Column{Name: "kernel", Heading: "kernel time", Unit: Seconds},
		Column{Name: "baseline_kernel", Heading: "baseline", Unit: Seconds}, Column{Name: "slowdown", Unit: Ratio},
		Column{Name: "pairs"}, Column{Name: "unpaired"}, Column{Name: "missing"}, Column{Name: "why", Heading: "why without a figure"},
	)}
	for _, j := range s.Jobs {
		var kernel, base any
		if j.Pairs > 0 {
			kernel, base = j.KernelS, j.BaselineS
		}
		if j.Slowdown != nil {
			compared++
		}
		pairs, unpaired, missing = pairs+j.Pairs, unpaired+j.Unpaired, missing+j.Missing
		jobs.Add(candidate.ID, candidate.Mode, baseline.ID, j.Job, j.Name, j.Command, kernel, base, j.Slowdown, j.Pairs, j.Unpaired, j.Missing, given(j.Why))
	}
	mix := &Table{Title: about("kernel slowdown of run", candidate) + versus, Sheet: true, Columns: ofRun(
		Column{Name: "baseline_run_id", Heading: "baseline run"}, Column{Name: "slowdown", Heading: "kernel slowdown", Unit: Ratio},
		Column{Name: "jobs_compared", Heading: "jobs compared"}, Column{Name: "jobs"}, Column{Name: "pairs", Heading: "launches paired"},
		Column{Name: "unpaired", Heading: "  without a partner"}, Column{Name: "missing", Heading: "  in the baseline alone"},
		Column{Name: "lost_records", Heading: "records lost"}, Column{Name: "baseline_lost_records", Heading: "  in the baseline"},
	)}
	mix.Add(candidate.ID, candidate.Mode, baseline.ID, s.Mean, compared, len(s.Jobs), pairs, unpaired, missing,
		candidate.Tracer.Lost, baseline.Tracer.Lost)
	note := func(format string, args ...any) {
		mix.Say(fmt.Sprintf(format, args...))
	}
	if baseline.Scheduler != "sa" {
		note("the metric is defined against a run under sa; run %d is under %s.", baseline.ID, baseline.Scheduler)
	}
	if candidate.Mix != baseline.Mix {
		note("the runs are of different mixes: %s and %s.", candidate.Mix, baseline.Mix)
	}
	for _, r := range []results.Run{candidate, baseline} {
		if r.Status != results.Complete {
			note("run %d is %s: this is not a measurement.", r.ID, r.Status)
		}
	}
	return []*Table{mix, jobs}
}
