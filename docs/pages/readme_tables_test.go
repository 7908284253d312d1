package pages

import (
	"fmt"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
)

// readmePage is what README says of simulated runs. Its sentence about plan is apart: its runs take half a minute of
// processor time, and only the full tier makes them again.
var (
	readmePage     = page{"README.md", []table{{"result", result}, {"schedulers", schedulersTable}, {"workers", workersSentence}}}
	readmePlanPage = page{"README.md", []table{{"plan", planSentence}}}
)

// compared are schedulers as caserun compare has them after a sweep, by what --scheds has for them. The first is sa, their base.
func compared(mixes []string, schedulers ...string) map[string]regress.Standing {
	throughput := must(regress.LookupMetric("throughput"))
	out := map[string]regress.Standing{}
	swept(mixes, schedulers, func(db *store.Store, _ []results.Run) {
		side := must(selection.Select(ctx, db, selection.Latest))
		for _, m := range must(regress.Matrices(side, "sa", regress.Options{Metrics: []results.Metric{throughput}})) {
			for _, row := range m.Rows {
				for _, s := range schedulers {
					if row.Arm.IsUnder(s, nil) {
						out[s] = row
					}
				}
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

// measuredOver is case-alg3's throughput over sa's in the committed sweep, which has one run of each.
func measuredOver(mix string) float64 {
	b := must(bundle.Open(ctx, "docs/results/bundles/sweep.tar.gz"))
	defer b.Close()
	of := func(scheduler string) float64 {
		runs := must(b.Runs(ctx, store.Filter{Mix: mix, Scheduler: scheduler, Status: results.Complete}))
		if len(runs) != 1 {
			fail("%d measured runs of %s under %s, want 1", len(runs), mix, scheduler)
		}
		return *runs[0].Metrics.ThroughputJobsPerS
	}
	return of("case-alg3") / of("sa")
}

// result is README's first sentences of numbers.
func result() string {
	alg3 := compared([]string{"W7"}, "sa", "case-alg3")["case-alg3"]
	lost := "no job lost"
	if alg3.Crashed > 0 {
		lost = fmt.Sprintf("%.0f %% of the jobs lost", 100**alg3.CrashRate())
	}
	return fmt.Sprintf("**%s times the throughput of one job a GPU, and %s**: 32 jobs share four GPUs under the scheduler\n`case-alg3`, in a simulation of four V100s. Measured on four NVIDIA H200s, limited to 16 GiB each, it is %.2f\ntimes: one run with sharing, and one without.\n",
		over(alg3), lost, measuredOver("W7"))
}

// described are the schedulers of README's table.
var described = []struct{ name, source, rule string }{
	{"sa", "CASE: single assignment", "each job has a GPU of its own until it ends"},
	{"cg", "CASE: core-to-GPU", "two jobs a GPU (`workers`), and nobody looks at their memory: jobs can crash"},
	{"case-alg2", "CASE: Algorithm 2", "a job shares a GPU if its memory fits and all its threads can run there at once"},
	{"case-alg3", "CASE: Algorithm 3", "of the GPUs where its memory fits, a job shares the one whose jobs use the fewest threads"},
	{"schedgpu", "schedGPU: Reaño et al., TPDS 2018", "jobs share one GPU of the node, as far as their memory fits"},
	{"vgpu", "a dissertation on runtime support for CPU-GPU clusters", "four jobs a GPU; the memory of a job that does not compute moves to the host"},
	{"vgpu-preempt", "the same", "two jobs a GPU; a job that is idle gives its place to one that waits"},
	{"demand", "PILOT, multi-tenant GPU unified memory: its base without policies", "every job at once; memory comes to the GPU when a kernel needs it"},
	{"mfit", "PILOT: MFit", "kernels run together as far as their memory fits; the largest stop for one that has waited too long"},
	{"amfit", "PILOT: AMFit", "all kernels start; while the memory that they use does not fit, the largest stops"},
	{"madvise", "PILOT: MAdvise", "all kernels start; what exceeds a job's quota of a full GPU stays in the host's memory"},
	{"quantum", "nvshare: Alexopoulos, Mitropoulos", "a GPU is one job's at a time, in turns"},
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

// workersSentence has cg with fewer and more workers than by default.
func workersSentence() string {
	standings := compared(mixNames, "sa", "cg:workers=6", "cg:workers=8", "cg:workers=10", "cg:workers=12") // as in docs/guide/compare.md
	few, many := standings["cg:workers=6"], standings["cg:workers=12"]
	return fmt.Sprintf("With more workers `cg` has more throughput, and loses more jobs: %s times the throughput of `sa` and %.1f %% of the jobs\nwith 6 workers, %s and %.1f %% with 12 (two a GPU are 8).\n",
		over(few), 100**few.CrashRate(), over(many), 100**many.CrashRate())
}

func planSentence() string {
	s := compared(mixNames, "sa", "plan")["plan"]
	r := s.Over[0].Ratio
	return fmt.Sprintf("`plan` searches for an order of the whole batch. It has %s times the throughput of `sa` (95 %% interval: %.2f to %.2f),\nand %.1f %% of its jobs crash.\n",
		over(s), r.Low, r.High, 100**s.CrashRate())
}
