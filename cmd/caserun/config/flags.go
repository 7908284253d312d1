package config

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/sweep"
)

// Formats are what --format takes.
var Formats = []string{"table", "csv", "json", "markdown"}

// AddStoreFlag adds --db.
func AddStoreFlag(f *pflag.FlagSet) { f.String("db", defaultStore, "store `FILE`") }

// AddFormatFlag adds --format.
func AddFormatFlag(f *pflag.FlagSet) {
	f.String("format", "table", "output `FORMAT`: table, csv, json or markdown")
}

// AddSchedFlag adds --sched.
func AddSchedFlag(f *pflag.FlagSet) {
	f.String("sched", "case-alg3", "`SCHEDULER` with parameters, as case-alg3:queue=fifo,age-limit=8; see caserun schedulers")
}

// AddRunFlags adds the flags of a run.
func AddRunFlags(f *pflag.FlagSet) {
	AddNodeFlags(f)
	AddSchedFlag(f)
	AddProbeFlag(f)
	f.Bool("isolate-faults", false, "after the batch, run each job that a fault under MPS took down again, alone on a GPU, to find the culprit")
	f.Bool(oldIsolate, false, "the old name of --isolate-faults")
	_ = f.MarkHidden(oldIsolate)
}

// AddProbeFlag adds --probe.
func AddProbeFlag(f *pflag.FlagSet) {
	f.Var(&probeValue{}, "probe", "`PROBE` through which programs ask for GPU tasks: lazy (libcase.so is preloaded), static (programs that casecc built; see docs/reference/sweeps.md) or explicit (nothing is preloaded) (local node)")
}

// AddSuiteFlag adds --suite.
func AddSuiteFlag(f *pflag.FlagSet) {
	f.String("suite", suites.Builtin, "where programs come from: builtin, or a `DIR` with your own Rodinia or Darknet build")
}

// AddDevicesFlag adds --devices.
func AddDevicesFlag(f *pflag.FlagSet) {
	f.String("devices", "", "`LIST` of this machine's GPUs to use, with commas: numbers in PCI bus order, UUIDs or their beginnings; default: CUDA_VISIBLE_DEVICES, or all (local node)")
}

// AddDirectories adds --data and --runs.
func AddDirectories(f *pflag.FlagSet) {
	f.String("data", "data", "`DIR` with the programs' input files")
	f.String("runs", "caserun-runs", "`DIR` for the jobs' output files")
}

// AddHistoryFlag adds --history.
func AddHistoryFlag(f *pflag.FlagSet) {
	f.String("history", "", "`FILE` of caserun history --output: what jobs are expected to do, for schedulers that plan; it goes before what the store knows")
}

// AddAllowSimulatedFlag adds --allow-simulated.
func AddAllowSimulatedFlag(f *pflag.FlagSet) {
	f.Bool("allow-simulated", false, "let live and simulated runs be under one tag, and be compared with each other")
}

// AddLimitsFlag adds --max-regression.
func AddLimitsFlag(f *pflag.FlagSet, limits string) {
	f.String("max-regression", limits, "`LIMITS` by metric, or by SCHEDULER:metric and MIX/SCHEDULER:metric")
}

// AddNodeFlags adds what is the same for every run of a sweep.
func AddNodeFlags(f *pflag.FlagSet) {
	f.String("node", "", "`NODE` to run on: local, or sim:COUNTxMODEL such as sim:4xV100; default: local if there is a GPU, else sim:4xV100")
	f.Bool(requireLive, false, "run on this machine's GPUs or not at all: without a GPU the exit status is 3, and nothing is simulated")
	AddAllowSimulatedFlag(f)
	AddDevicesFlag(f)
	f.Int("workers", 0, "jobs on the node at once (cg, task-bound schedulers); 0: cg two for each device, others one for each host thread")
	f.Duration("timeout", 0, "stop a job that runs longer than `DURATION`; 0: never")
	f.String("mem-cap", "", "make each GPU behave as one with `SIZE` of memory, such as 16GiB")
	f.String("swap", "", "`SIZE` of page-locked host memory that device memory can move to, under a scheduler that takes memory back (vgpu, demand); default: "+harness.DefaultSwap+" (local node)")
	f.Bool("no-mps", false, "let jobs share a GPU by time slices, without MPS: a fault then harms nobody else, and kernels do not overlap")
	f.Bool("guard", false, "map nothing beside allocations, so that a kernel that reads or writes outside them faults; the run is marked as guarded (local node)")
	f.Int("sm-cap", 0, "let jobs use at most this many SMs of each GPU, through MPS (local node); 0: all")
	f.String("context-reserve", harness.DefaultContext(), "`SIZE` of device memory set aside for each process's CUDA context; caserun doctor measures it (local node)")
	f.Bool("trace", false, "record every kernel and copy of the jobs; this costs time, and the run is marked as traced (local node)")
	f.String("tag", "", "`TEXT` to find the run by, such as nightly-2026-11-21")
	AddSuiteFlag(f)
	AddDirectories(f)
	f.Uint64("seed", 1, "seed of everything random in a run")
	f.String("profiles", "", "`FILE` of caserun profile: profiles in addition to the catalog, for simulated nodes and as footprints")
	AddHistoryFlag(f)
	f.Float64(simNoise, 0, "simulated node: σ of the logarithm of each phase's length")
}

// AddSweepNodeFlags adds AddNodeFlags to a command that makes sweeps.
func AddSweepNodeFlags(f *pflag.FlagSet) {
	AddNodeFlags(f)
	f.Lookup(simNoise).Usage += fmt.Sprintf("; default: %v, about %v %%", sweep.DefaultNoise, 100*sweep.DefaultNoise)
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
	flags.String("format", "", "")
	return flags
}

// AddSweepFlags adds the flags of what a sweep's file may have too, and sets the options to what
// they give by default.
func AddSweepFlags(f *pflag.FlagSet, o *sweep.Options) {
	o.Warmups = -1
	addMixesFlag(f, &o.Mixes, "`LIST` of mixes: names, ranges as W1..W8, patterns as D-* and files, split at commas; may be given again", splitMixes)
	f.Func("scheds", "`LIST` of schedulers as sa,case-alg3:queue=fifo,age-limit=8,cg: key=value belongs to the scheduler before it; may be given again", func(list string) error {
		return appendTo(&o.Scheds, splitScheds, list)
	})
	f.Func("probes", "`LIST` of probes as lazy,static, each an arm of its own; may be given again; default: lazy; see docs/reference/sweeps.md (local node)", func(list string) error {
		return appendTo(&o.Probes, splitProbes, list)
	})
	f.Var(atLeast{&o.Reps, 1}, "reps", "repetitions of each mix under each scheduler; default: "+DefaultReps())
	f.Var(atLeast{&o.Warmups, 0}, "warmups", "uncounted runs of each mix under the first scheduler, before all others; default: 1, or 0 on a simulated node")
	f.StringVar(&o.Name, "name", "", "`TEXT` to call the sweep by")
}

// DefaultReps says how many repetitions a sweep has by default.
func DefaultReps() string {
	return fmt.Sprintf("%d, or %d on a simulated node with --sim-noise 0", sweep.DefaultReps, sweep.NoiselessReps)
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
