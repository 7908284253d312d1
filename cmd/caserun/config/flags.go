package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/sweep"
)

// AddStoreFlag adds --db.
func AddStoreFlag(f *pflag.FlagSet) { f.String("db", defaultStore, "store `FILE`") }

// AddFormatFlag adds --format.
func AddFormatFlag(f *pflag.FlagSet) {
	f.String("format", string(report.Text), "output `FORMAT`: "+report.FormatNames())
}

// AddPageFlag adds --html.
func AddPageFlag(f *pflag.FlagSet) {
	f.String("html", "", "write the page of report --html to `FILE` as runs end")
}

// AddSchedFlag adds --sched.
func AddSchedFlag(f *pflag.FlagSet) {
	f.String("sched", "case-alg3", "`SCHEDULER` of caserun schedulers, or cg@mps")
}

// AddRunFlags adds the flags of a run.
func AddRunFlags(f *pflag.FlagSet) {
	AddNodeFlags(f)
	AddSchedFlag(f)
	AddProbeFlag(f)
	f.Bool("isolate-faults", false, "run jobs that a fault under MPS took down again, each alone on a GPU")
	f.Bool(oldIsolate, false, "the old name of --isolate-faults")
	_ = f.MarkHidden(oldIsolate)
}

// AddProbeFlag adds --probe.
func AddProbeFlag(f *pflag.FlagSet) {
	f.Var(&probeValue{}, "probe", "`PROBE` of programs: "+probeNames())
}

func probeNames() string {
	names := results.Probes()
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// AddSuiteFlag adds --suite.
func AddSuiteFlag(f *pflag.FlagSet) {
	f.String("suite", suites.Builtin, "builtin, or `DIR` with your programs")
}

// AddCountFlag adds a flag that takes a whole number, 1 or more. 0 means that it is not given.
func AddCountFlag(f *pflag.FlagSet, n *int, name, usage string) { f.Var(atLeast{n, 1}, name, usage) }

// AddListFlag adds a flag that takes a list, and may be given again.
func AddListFlag(f *pflag.FlagSet, items *[]string, name, usage string) {
	f.Func(name, usage, func(list string) error { return appendTo(items, input.List, list) })
}

// AddDevicesFlag adds --devices.
func AddDevicesFlag(f *pflag.FlagSet) {
	f.String("devices", "", "`LIST` of GPUs, as 1, 0:1 (MIG) or UUID; default: all visible")
}

// AddDirectories adds --data and --runs.
func AddDirectories(f *pflag.FlagSet) {
	f.String("data", harness.DefaultData, "`DIR` with the programs' input files")
	AddRunsFlag(f)
}

// AddRunsFlag adds --runs.
func AddRunsFlag(f *pflag.FlagSet) {
	f.String("runs", "caserun-runs", "`DIR` for the jobs' output files")
}

// AddHistoryFlag adds --history.
func AddHistoryFlag(f *pflag.FlagSet) {
	f.String("history", "", "`FILE` of caserun history -o, for schedulers that plan")
}

// AddAllowSimulatedFlag adds --allow-simulated.
func AddAllowSimulatedFlag(f *pflag.FlagSet) {
	f.Bool("allow-simulated", false, "let live and simulated runs share a tag or a comparison")
}

// AddLimitsFlag adds --max-regression.
func AddLimitsFlag(f *pflag.FlagSet, limits string) {
	f.String("max-regression", limits, "`LIMITS` by metric, or by SCHEDULER:metric and MIX/SCHEDULER:metric")
}

// AddNodeFlags adds what is the same for every run of a sweep.
func AddNodeFlags(f *pflag.FlagSet) {
	f.String("node", "", "`NODE`, local, slurm, sim:[NODESx]COUNTxMODEL; no GPU: sim:4xV100")
	f.Bool(requireLive, false, "run on this machine's GPUs or not at all: simulate nothing")
	AddAllowSimulatedFlag(f)
	AddDevicesFlag(f)
	f.Int("workers", 0, "`NUMBER` of jobs at once; 0: what suits the scheduler")
	f.Duration("timeout", 0, "stop a job that runs longer than `DURATION`; 0: never")
	f.String("mem-cap", "", "make each GPU behave as one with `SIZE` of memory, such as 16GiB")
	f.String("swap", "", "`SIZE` of host memory to move memory to; default: "+harness.DefaultSwap.String())
	f.Bool("no-mps", false, "share GPUs by time slices, without MPS")
	f.Bool("no-footprints", false, "take no footprints of jobs from earlier runs")
	f.Bool("retry-lost", false, "start jobs again that a lost node of a cluster took along")
	f.Bool("guard", false, "make kernels that read or write outside allocations fault")
	f.Bool("strict", false, "a doubtful run is interrupted, and fails")
	f.Int("sm-cap", 0, "`NUMBER` of SMs of each GPU that jobs may use; 0: all")
	f.String("slow", "", "`LIST` of GPUs with the share of SMs that each keeps, as 1=0.25")
	f.String("context-reserve", harness.DefaultContext.String(), "`SIZE` set aside for each CUDA context")
	f.String("after-oom", harness.ByCheck, "`RULE` after a failed allocation: check or oom")
	f.String("output-limit", harness.DefaultOutput.String(), "stop a job beyond `SIZE` of output; 0: never")
	f.Bool("trace", false, "record every kernel and copy, which costs time")
	f.String("tag", "", "`TEXT` to find the run by, such as nightly-2026-11-21")
	AddSuiteFlag(f)
	AddDirectories(f)
	f.Uint64("seed", 1, "`NUMBER` that all chance in a run comes from")
	f.String("profiles", "", "`FILE` of caserun profile, in addition to the catalog's profiles")
	AddHistoryFlag(f)
	f.Float64(simNoise, 0, "`SIGMA` of the logarithm of simulated phases")
	f.String("sim-failures", "", "`LIST` of failures of simulated GPUs or nodes, as every=10m,3.1@9s")
}

// AddSweepNodeFlags adds AddNodeFlags to a command that makes sweeps.
func AddSweepNodeFlags(f *pflag.FlagSet) {
	AddNodeFlags(f)
	f.Lookup(simNoise).Usage += fmt.Sprintf("; default: %v", sweep.DefaultNoise)
	_ = f.SetAnnotation(simNoise, ofSweeps, []string{})
}

// ofSweeps annotates a flag whose default is that of a sweep.
const ofSweeps = "of-sweeps"

// allFlags are the flags of all settings, to check what does not come as a flag.
func allFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddRunFlags(flags)
	AddStoreFlag(flags)
	AddLimitsFlag(flags, "")
	AddFormatFlag(flags)
	AddPageFlag(flags)
	return flags
}

// AddSweepFlags adds the flags of what a sweep's file may have too, and sets the options to what
// they give by default.
func AddSweepFlags(f *pflag.FlagSet, o *sweep.Options) {
	o.Warmups = -1
	addMixesFlag(f, &o.Mixes, "`LIST` of mixes: names, ranges as W1..W8, patterns as D-*, files", splitMixes)
	f.Func("scheds", "`LIST` of schedulers as sa,cg@mps,fifo:=case-alg3:queue=fifo", func(list string) error {
		return appendTo(&o.Scheds, splitScheds, list)
	})
	f.Func("probes", "`LIST` of probes, each an arm of its own; default: lazy", func(list string) error {
		return appendTo(&o.Probes, splitProbes, list)
	})
	f.Var(atLeast{&o.Reps, 1}, "reps", "repetitions of each arm; default: "+DefaultReps())
	f.Var(atLeast{&o.Warmups, 0}, "warmups", "uncounted runs of each mix first; default: 1, simulated 0")
	f.StringVar(&o.Name, "name", "", "`TEXT` to call the sweep by")
}

// SweepDefault is the text of a setting of a sweep's runs that is not given; "": no flag has it.
func SweepDefault(setting string) string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddSweepNodeFlags(f)
	if found := f.Lookup(setting); found != nil {
		return found.DefValue
	}
	return ""
}

// DefaultReps says how many repetitions a sweep has by default.
func DefaultReps() string {
	return fmt.Sprintf("%d, or %d with --sim-noise 0", sweep.DefaultReps, sweep.NoiselessReps)
}

// AddJobsFlag adds --jobs of a sweep, and sets its default.
func AddJobsFlag(f *pflag.FlagSet, jobs *int) {
	*jobs = 1
	f.Var(atLeast{jobs, 1}, "jobs", "runs at once (simulated node)")
}

// AddCatalogMixesFlag adds --mixes to a command that takes mixes of the catalog alone.
func AddCatalogMixesFlag(f *pflag.FlagSet, names *[]string, usage string) {
	addMixesFlag(f, names, usage, splitCatalogMixes)
}

// addMixesFlag adds --mixes, which may be given again.
func addMixesFlag(f *pflag.FlagSet, names *[]string, usage string, split func(string) ([]string, error)) {
	f.Func("mixes", usage, func(list string) error { return appendTo(names, split, list) })
}

// AddDoubtedFlag adds --doubted to a command that compares.
func AddDoubtedFlag(f *pflag.FlagSet, doubted *bool) {
	f.BoolVar(doubted, "doubted", false, "take in doubtful runs, which may not have measured their jobs")
}

// AddAlphaFlag adds --alpha.
func AddAlphaFlag(f *pflag.FlagSet, alpha *float64) {
	f.Float64Var(alpha, "alpha", stats.DefaultAlpha, "`PROBABILITY` of any false finding among all comparisons together")
}

// CheckAlpha checks the value of --alpha.
func CheckAlpha(alpha float64) error {
	if !(alpha > 0 && alpha < 1) {
		return fmt.Errorf("--alpha %g: want a probability above 0 and below 1", alpha)
	}
	return nil
}

// FlagName finds a flag also under the other number of its name, --mix as --mixes, because which of both a command
// has depends on how many it takes. --out and --output are names of the flag that -o is.
func FlagName(flags *pflag.FlagSet, name string) pflag.NormalizedName {
	var names []string
	written := ""
	flags.VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if f.Shorthand == "o" {
			written = f.Name
		}
	})
	has := func(name string) bool { return slices.Contains(names, name) }
	switch {
	case has(name):
	case (name == "out" || name == "output") && written != "":
		return pflag.NormalizedName(written)
	default:
		for one, many := range Plurals {
			if name == one && has(many) {
				return pflag.NormalizedName(many)
			}
			if name == many && has(one) {
				return pflag.NormalizedName(one)
			}
		}
	}
	return pflag.NormalizedName(name)
}

// Plurals are flags that commands have in one of two numbers. Not among them are --run and --runs, a run and a
// directory, and --part and --parts, one part and how many there are.
var Plurals = map[string]string{"mix": "mixes", "sched": "scheds", "probe": "probes", "device": "devices", "node": "nodes",
	"sweep": "sweeps", "tag": "tags", "metric": "metrics", "rep": "reps", "warmup": "warmups", "worker": "workers", "job": "jobs",
	"profile": "profiles", "workload": "workloads"}
