package main

import (
	"fmt"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/sides"
	"github.com/caserun/caserun/results/store"
)

// readmePage is what README says of simulated runs. Its sentence about plan is apart: its runs take half a minute of
// processor time, and only the full tier makes them again.
var (
	readmePage     = page{"README.md", []table{{"result", result}, {"schedulers", schedulersTable}}}
	readmePlanPage = page{"README.md", []table{{"plan", planSentence}}}
)

// compared are schedulers as caserun compare has them after a sweep: by name, and their base.
func compared(mixes []string, schedulers ...string) map[string]regress.Standing {
	throughput := must(regress.LookupMetric("throughput"))
	out := map[string]regress.Standing{}
	swept(mixes, schedulers, func(db *store.Store, _ []results.Run) {
		side := must(sides.Select(ctx, db, sides.Latest))
		for _, m := range must(regress.Matrices(side, "sa", regress.Options{Metrics: []regress.Metric{throughput}})) {
			for _, row := range m.Rows {
				out[row.Arm.Scheduler] = row
			}
		}
	})
	if len(out) != len(schedulers) {
		fail("%d schedulers ran, want %d", len(out), len(schedulers))
	}
	return out
}

// over is a scheduler's throughput over that of the base.
func over(s regress.Standing) string { return fmt.Sprintf("%.2f", s.Over[0].Ratio.Value) }

// result is README's first sentence.
func result() string {
	alg3 := compared([]string{"W7"}, "sa", "case-alg3")["case-alg3"]
	lost := "no job lost"
	if alg3.Crashed > 0 {
		lost = fmt.Sprintf("%.0f %% of the jobs lost", 100**alg3.CrashRate())
	}
	return fmt.Sprintf("**%s times the throughput of one job a GPU, and %s**: 32 jobs share four GPUs under the scheduler\n`case-alg3`, in simulation.\n", over(alg3), lost)
}

// described are the schedulers of README's table.
var described = []struct{ name, source, rule string }{
	{"sa", "CASE: single assignment", "each job has a GPU of its own until it ends"},
	{"cg", "CASE: core-to-GPU", "two jobs a GPU, blind to their memory: jobs can crash"},
	{"case-alg2", "CASE: Algorithm 2", "a job shares a GPU if its memory fits and all its blocks find a free place on the SMs"},
	{"case-alg3", "CASE: Algorithm 3", "a job shares the GPU with the fewest warps in use, of those where its memory fits"},
	{"schedgpu", "schedGPU (TPDS 2018)", "jobs share one GPU of the node, as far as their memory fits"},
	{"vgpu", "a dissertation on CPU-GPU clusters", "four jobs a GPU; the memory of a job that does not compute moves to the host"},
	{"demand", "PILOT's base without policies", "every job at once; memory comes to the GPU when a kernel needs it"},
}

// schedulersTable has each scheduler over all mixes of the paper.
func schedulersTable() string {
	var names []string
	for _, d := range described {
		names = append(names, d.name)
	}
	standings := compared(mixNames, names...)
	rows := [][]string{{"scheduler", "from", "what it does", "throughput over `sa`", "jobs that crashed"}}
	for _, d := range described {
		s := standings[d.name]
		rows = append(rows, []string{"`" + d.name + "`", d.source, d.rule, over(s), fmt.Sprintf("%.1f %%", 100**s.CrashRate())})
	}
	return markdown(rows)
}

func planSentence() string {
	s := compared(mixNames, "sa", "plan")["plan"]
	r := s.Over[0].Ratio
	return fmt.Sprintf("`plan` searches for an order of the whole batch. It has %s times the throughput of `sa` (95 %% interval: %.2f to %.2f),\nand %.1f %% of its jobs crash.\n",
		over(s), r.Low, r.High, 100**s.CrashRate())
}
