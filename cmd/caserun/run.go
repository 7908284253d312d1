package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/schedshm"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers/policies"
)

// request is one run as the user asked for it.
type request struct {
	config   config
	mix      mixes.Mix
	profiles profiles.Set
	store    *store.Store
	stderr   io.Writer
	cell     *results.Cell // of the sweep that the run belongs to; nil outside of sweeps
	begun    func()        // if not nil, called once the store has the run
}

// outcome is what a run left: the records that its summary shows.
type outcome struct {
	run     results.Run
	jobs    []results.Job
	devices []results.Device
}

// execute does one run on the node that the configuration names.
func execute(ctx context.Context, r request) (outcome, error) {
	node, err := settleNode(r.config, r.stderr)
	if err != nil {
		return outcome{}, err
	}
	if node != localNode {
		return executeSim(ctx, r, node)
	}
	gpus, err := openGPUs(r.config)
	if err != nil {
		return outcome{}, err
	}
	o, err := executeLive(ctx, r, gpus)
	return o, withStatus(exitInfrastructure, errors.Join(err, gpus.Close()))
}

// scheduler settles --sched and --workers for a node. Under a scheduler with a
// workers parameter --workers is that parameter.
func (r request) scheduler(devices, hostThreads int) (policies.Scheduler, int, error) {
	text := r.config.Sched
	workers := r.config.Workers
	if workers < 0 {
		return policies.Scheduler{}, 0, usageError(fmt.Errorf("--workers %d: want 0 or more", workers))
	}
	name, rest, _ := strings.Cut(text, ":")
	if name == "cg" && workers > 0 && !strings.Contains(rest, "workers=") {
		text = fmt.Sprintf("%s:%s,workers=%d", name, rest, workers)
	}
	s, err := policies.Parse(text, devices)
	if err != nil {
		return s, 0, usageError(err)
	}
	if s.Binds == policies.BindsJob {
		return s, 0, nil
	}
	if workers == 0 {
		workers = hostThreads
	}
	return s, min(workers, len(r.mix.Jobs)), nil
}

// record is the run's row before it starts.
func (r request) record(s policies.Scheduler, workers int) (results.Run, error) {
	settings, err := json.Marshal(r.config.settings())
	if err != nil {
		return results.Run{}, fmt.Errorf("record configuration: %w", err)
	}
	run := results.Run{Mix: r.mix.Name, MixSource: r.mix.Source, Scheduler: s.Name, Parameters: s.Parameters(),
		Suite: r.config.Suite, Repetition: 1, Tag: r.config.Tag, Seed: r.config.Seed, Workers: workers, Status: results.Running,
		Jobs: len(r.mix.Jobs), Provenance: provenance()}
	run.Provenance.Configuration = string(settings)
	return run, nil
}

func executeSim(ctx context.Context, r request, name string) (outcome, error) {
	if r.config.Trace {
		return outcome{}, simTraceError(name)
	}
	if r.cell == nil { // a sweep has said it of all its runs
		r.config.sayIgnored(name, r.stderr)
	}
	r.config, _ = r.config.onSim()
	node, err := sim.ParseNode(name)
	if err != nil {
		return outcome{}, usageError(err)
	}
	s, workers, err := r.scheduler(node.Count, node.Threads())
	if err == nil {
		err = checkSimulated(s, name)
	}
	if err != nil {
		return outcome{}, err
	}
	run, err := r.record(s, workers)
	if err != nil {
		return outcome{}, err
	}
	run.Node, run.Mode, run.Suite = node.Name, results.Simulated, "profiles"
	run.Provenance.PID = new(os.Getpid()) // until it is complete
	schedulable := node.Devices(r.mps(s))
	var devices []results.Device
	for i, d := range schedulable {
		devices = append(devices, results.Device{Index: i, UUID: fmt.Sprintf("%s/%d", node.Name, i), Name: d.Name + " (simulated)",
			MemoryBytes: node.Model.MemoryBytes, CapacityBytes: d.CapacityBytes, ContextBytes: d.ContextBytes,
			SMs: d.SMs, WarpsPerSM: d.WarpsPerSM, BlocksPerSM: d.BlocksPerSM})
	}
	t := new(tracker)
	x, err := sim.NewExecutor(sim.Config{Node: node, Jobs: r.mix.Jobs, MPS: r.mps(s), Profiles: r.profiles, Seed: r.config.Seed, Noise: r.config.Noise}, t)
	if err != nil {
		return outcome{}, usageError(toMeasure(err, r.config, r.mix))
	}
	if err := t.begin(ctx, r, run, devices); err != nil {
		return outcome{}, err
	}
	return t.drive(ctx, runner.Config{Jobs: r.mix.Jobs, Devices: schedulable, Scheduler: s, Workers: workers,
		Timeout: r.config.Timeout, MPS: r.mps(s)}, x)
}

func executeLive(ctx context.Context, r request, node *nvml.Node) (outcome, error) {
	programs, dirs, err := resolve(r.config, r.mix.Jobs)
	if err != nil {
		return outcome{}, err
	}
	found, err := node.Devices()
	if err != nil {
		return outcome{}, err
	}
	s, workers, err := r.scheduler(len(found), runtime.NumCPU())
	if err != nil {
		return outcome{}, err
	}
	library, err := live.FindLibrary(ctx)
	if err != nil {
		return outcome{}, err
	}
	tracer := ""
	if r.config.Trace {
		if tracer, err = live.FindTracer(ctx); err != nil {
			return outcome{}, err
		}
	}
	warn := func(format string, args ...any) { fmt.Fprintf(r.stderr, "caserun: "+format+"\n", args...) }
	notes, err := r.bind(s, programs, warn)
	if err != nil {
		return outcome{}, err
	}
	live.CheckDescriptors(workers, warn)
	faultsAlone, err := r.faultsAlone(ctx)
	if err != nil {
		return outcome{}, err
	}
	options, err := r.nodeOptions(s, warn)
	if err != nil {
		return outcome{}, err
	}
	run, err := r.record(s, workers)
	if err != nil {
		return outcome{}, err
	}
	run.Node, run.Mode, run.Traced = "local", results.Live, r.config.Trace
	run.Provenance.PID = new(os.Getpid())
	files := append(slices.Clone(programs), library)
	if tracer != "" {
		files = append(files, tracer)
	}
	if run.Provenance.Binaries, err = hashes(files); err != nil {
		return outcome{}, err
	}
	runs, err := filepath.Abs(r.config.Runs)
	if err != nil {
		return outcome{}, fmt.Errorf("output directory: %w", err)
	}
	fmt.Fprintf(r.stderr, "caserun: preparing %d GPUs%s\n", len(found), r.config.gpusGiven())
	session, err := live.Prepare(ctx, node, options)
	if err != nil {
		return outcome{}, err
	}
	run.Provenance.Driver, run.Provenance.CUDA = &session.Versions.Driver, &session.Versions.CUDA
	run.StartedAt = new(time.Now())
	t := &tracker{session: session}
	if err := t.begin(ctx, r, run, session.Devices); err != nil {
		return outcome{}, errors.Join(err, session.Close())
	}
	t.arrival = time.Now()
	if err := session.Sample(t.arrival, t); err != nil {
		return t.settle(ctx, nil, err)
	}
	heal := session.Heal()
	if os.Getenv(noHealVariable) != "" {
		heal = nil
	}
	x, err := live.NewExecutor(live.Config{Jobs: r.mix.Jobs, Programs: programs, Dirs: dirs, UUIDs: session.UUIDs(),
		IDs: session.IDs(), Builtin: r.config.Suite == live.BuiltinSuite,
		Dir: filepath.Join(runs, fmt.Sprintf("run-%d-%s", t.run.ID, t.arrival.UTC().Format(dirTime))),
		Env: session.Env(), Guard: r.config.Guard, Preload: library, Tracer: tracer, Traces: t, Grace: stopGrace, Terminate: session.Terminate(), Heal: heal, WatchServer: session.WatchServer(), Warn: warn, Start: t.arrival,
		Clients: clientsOf(s, session)})
	if err != nil {
		return t.settle(ctx, nil, err)
	}
	return t.drive(ctx, runner.Config{Jobs: r.mix.Jobs, Devices: session.Schedulable(), Scheduler: s, Workers: workers,
		Timeout: r.config.Timeout, MPS: r.mps(s), QuietAfter: quietAfter, Notes: notes, FaultsAlone: faultsAlone}, x)
}

// clientsOf is what clients that decide for themselves are told; nil where the run decides.
func clientsOf(s policies.Scheduler, session *live.Session) *schedshm.Config {
	if !s.ClientsDecide {
		return nil
	}
	d := session.Schedulable()[s.SharedDevice]
	return &schedshm.Config{Policy: string(s.Config.Queue), WaitLimit: s.Config.WaitLimit, Devices: []schedshm.Device{{
		UUID: session.IDs()[s.SharedDevice], Ordinal: s.SharedDevice, CapacityBytes: d.CapacityBytes, ContextBytes: d.ContextBytes}}}
}

// noHealVariable, set, has nobody wait for a broken MPS server, so that
// benchmarks/lazy.sh can measure what the waiting is worth.
const noHealVariable = "CASERUN_BENCH_NO_HEAL"

// mps reports whether the run's jobs share devices through MPS.
func (r request) mps(s policies.Scheduler) bool { return s.Shares && !r.config.NoMPS }

// dirTime is the time in the name of a directory for output files. Its microseconds
// tell the first runs of two stores apart that begin at once, on other GPUs.
const dirTime = "20060102T150405.000000"

// quietAfter is how long a live batch may make no progress before a line says so. A
// simulated one waits in virtual time, and nobody waits for it.
const quietAfter = time.Minute

// stopGrace is how long a job has between SIGTERM and SIGKILL.
const stopGrace = 2 * time.Second

func (r request) nodeOptions(s policies.Scheduler, warn func(string, ...any)) (live.Options, error) {
	o := live.Options{MPS: r.mps(s), SMCap: r.config.SMCap, Warn: warn}
	var err error
	if o.ContextBytes, err = mixes.ParseBytes(r.config.Context); err != nil {
		return o, usageError(fmt.Errorf("--context-reserve: %w", err))
	}
	if r.config.SMCap < 0 || r.config.SMCap > 0 && !r.mps(s) {
		return o, usageError(fmt.Errorf("--sm-cap %d: want 0 or more, and a run under MPS; this one, %s, is not", r.config.SMCap, s.Name))
	}
	if r.config.MemCap != "" {
		if o.MemCap, err = mixes.ParseBytes(r.config.MemCap); err != nil {
			return o, usageError(fmt.Errorf("--mem-cap: %w", err))
		}
		if o.Ballast, err = live.FindBallast(); err != nil {
			return o, err
		}
	}
	return o, nil
}

// hashes is a JSON object of the sha256 of each program, and of the libraries
// that they start with.
func hashes(programs []string) (string, error) {
	out := map[string]string{}
	for _, p := range programs {
		if _, done := out[p]; done {
			continue
		}
		sum, err := hashFile(p)
		if err != nil {
			return "", err
		}
		out[p] = sum
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("record binaries: %w", err)
	}
	return string(text), nil
}
