package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/schedshm"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/surroundings"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// Backend is this machine.
type Backend struct {
	options harness.Options
	gpus    *nvml.Node
	say     harness.Say
	swap    *Swap
	limits  results.Surroundings // of the host
	cores   int                  // host threads that runs may use
}

var _ harness.Backend = (*Backend)(nil)

// Open opens NVML for the GPUs that the options choose. The swap area is the caller's. Close must follow a
// success.
func Open(ctx context.Context, o harness.Options, swap *Swap, say harness.Say) (*Backend, error) {
	gpus, err := OpenGPUs(ctx, o.Devices)
	if err != nil {
		return nil, err
	}
	limits := surroundings.Limits()
	b := &Backend{options: o, gpus: gpus, say: say, swap: swap, limits: limits, cores: surroundings.Cores(limits, runtime.NumCPU())}
	job, err := slurm.Current()
	if err != nil {
		return nil, errors.Join(harness.Refuse(err), gpus.Close())
	}
	if job != nil {
		b.cores = surroundings.Cores(limits, job.CPUs)
	}
	return b, nil
}

func (*Backend) Mode() results.Mode { return results.Live }

func (b *Backend) Options() harness.Options { return b.options }

func (*Backend) Ignored() []string { return nil }

func (b *Backend) Size() (devices, threads, all int, err error) {
	found, err := b.gpus.Devices()
	return len(found), b.cores, len(found), err
}

func (b *Backend) Machine() (string, error) {
	found, err := b.gpus.Devices()
	var devices []results.Device
	for _, d := range found {
		devices = append(devices, results.Device{UUID: d.UUID})
	}
	host, _ := os.Hostname() // as in provenance
	return results.Machine(results.Live, host, devices), err
}

func (b *Backend) CheckMix(m mixes.Mix, probe results.Probe, _ profiles.Set) error {
	_, _, err := Resolve(b.options, probe, m)
	return err
}

// History says that a live run learns from live runs only.
func (b *Backend) History(profiles.Set) (history.Node, error) {
	found, err := b.gpus.Devices()
	n := history.Node{Mode: results.Live, Suite: b.options.Suite}
	for _, d := range found {
		n.FreeBytes = max(n.FreeBytes, int64(d.Memory.Free))
		if !slices.Contains(n.GPUs, d.Name) {
			n.GPUs = append(n.GPUs, d.Name)
		}
	}
	return n, err
}

// BuildFor is the build of the builtin suite that a probe needs.
func BuildFor(probe results.Probe) suites.Build {
	if probe == results.Static {
		return suites.Compiled
	}
	return suites.Plain
}

// Resolve finds the programs and working directories of jobs, and refuses a probe that cannot
// serve them. Beside reasons why single jobs cannot run it returns what it found (suites.Suite.Resolve).
func Resolve(o harness.Options, probe results.Probe, m mixes.Mix) (programs, dirs []string, err error) {
	jobs := m.Jobs
	if i := slices.IndexFunc(jobs, mixes.Job.OnlySimulated); i >= 0 {
		return nil, nil, harness.Refuse(fmt.Errorf("job %d (%s) has steps or a profile and no program, so a GPU cannot run it: simulate the mix with --node sim:4xV100, or give the job a program", i, jobs[i].Name))
	}
	ofBuiltin := func(j mixes.Job) bool { return suites.IsBuilt(j) && o.Suite == suites.Builtin }
	if i := slices.IndexFunc(jobs, ofBuiltin); probe == results.Explicit && i >= 0 {
		return nil, nil, harness.Refuse(fmt.Errorf("--probe explicit: %s is a program of the builtin suite, which does not call the task API, so nothing would be scheduled: use --probe lazy or static", jobs[i].Program))
	}
	if i := slices.IndexFunc(jobs, mixes.Job.OfTorch); probe != results.Lazy && i >= 0 {
		return nil, nil, harness.Refuse(fmt.Errorf("--probe %v: %s is a PyTorch program, which casecc did not compile, so nothing would be scheduled: use --probe lazy", probe, jobs[i].Program))
	}
	return suites.Resolve(o.Suite, BuildFor(probe), o.Data, m)
}

func (b *Backend) CheckScheduler(s policies.Scheduler) error {
	o := b.options
	switch {
	case s.Head != nil:
		return harness.Refuse(fmt.Errorf("--sched %s: %s gives jobs to the nodes of a cluster, and this machine is one node: leave it out, or name a cluster: slurm, parts of this machine such as local:0:1, or a simulated one such as sim:2x4xV100", s.Name, s.Head))
	case o.RetryLost:
		return harness.Refuse(errors.New("--retry-lost: this machine is one node, and no node of it can be lost: leave it out"))
	case o.Failures != "":
		return harness.Refuse(fmt.Errorf("--sim-failures %s: these GPUs are real: leave it out, or give a simulated node", o.Failures))
	case s.Swaps() && b.swapBytes() == 0:
		return harness.Refuse(fmt.Errorf("--swap %s: a scheduler that takes memory back needs some", o.Swap))
	case o.SMCap > 0 && !harness.UsesMPS(o, s):
		return harness.Refuse(fmt.Errorf("--sm-cap %d: want 0 or more, and a run under MPS; this one, %s, is not", o.SMCap, s.Name))
	case o.MemCap != size.Amount{}:
		if _, err := FindBallast(); err != nil {
			return err
		}
	}
	if s.Checkpoints {
		if b.gpus.Divided() {
			return harness.Refuse(fmt.Errorf("--sched %s: the driver takes no checkpoints of processes on instances of MIG: leave via=checkpoint out, or choose whole GPUs with --devices", s.Name))
		}
		if _, err := FindCheckpoint(); err != nil {
			return err
		}
	}
	return b.checkSlow(s)
}

func (b *Backend) Close() error { return closeGPUs(b.gpus, b.say) }

func (b *Backend) Open(ctx context.Context, batch harness.Batch, to harness.Recorder) (harness.Node, error) {
	n := &node{Batch: batch, gpus: b.gpus, to: to, cores: b.cores, binaries: map[string]string{}}
	var err error
	n.programs, n.dirs, err = Resolve(n.Options, n.Probe, n.Mix)
	switch {
	case err == nil:
	case n.Cell != nil && n.programs != nil: // CheckMix found all of them when the sweep began
		n.Say("%v; these jobs will fail, and the sweep continues", err)
	default:
		return nil, err
	}
	if n.layer, err = n.readLayer(ctx); err != nil {
		return nil, err
	}
	if n.Probe != results.Explicit && !n.layer.interposes() {
		if n.library, err = FindLibrary(ctx); err != nil {
			return nil, err
		}
	}
	if n.Trace {
		if n.tracer, err = findTracer(ctx); err != nil {
			return nil, err
		}
	}
	if err := n.bind(); err != nil {
		return nil, err
	}
	n.around = b.limits
	of := n.Mix.Jobs
	if n.Feed != nil {
		of = nil // jobs to come may need what those of the mix do not
	}
	n.around.Environment = callers(os.Environ(), of, n.Say)
	processes := 1 // of the job with most
	for i := range n.Mix.Jobs {
		processes = max(processes, n.Mix.Jobs[i].Processes())
	}
	checkDescriptors(n.Workers, processes, n.Say)
	if err := n.hash(slices.Concat(n.programs, n.layer.files(), []string{n.library, n.tracer})...); err != nil {
		return nil, err
	}
	if n.runs, err = filepath.Abs(n.Runs); err != nil {
		return nil, fmt.Errorf("output directory: %w", err)
	}
	if n.Scheduler.Swaps() {
		if n.swap, err = b.swapArea(ctx, n.Say); err != nil {
			return nil, err
		}
	}
	if n.Scheduler.Checkpoints {
		if n.checkpoint, err = findWorkingCheckpoint(ctx); err != nil {
			return nil, err
		}
	}
	if n.Scheduler.ExceedsManaged() {
		n.Say("managed=exceed: managed memory beyond what is free can hang some GPUs until they are reset")
	}
	n.Say("preparing %s%s", size.Count(b.gpus.Count(), "GPU"), Given(n.Options.Devices))
	if err := n.prepare(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *node) Devices() []results.Device { return n.devices }

func (n *node) Describe(run *results.Run) {
	run.Node, run.Mode, run.Traced = "local", results.Live, n.Trace
	run.StartedAt = &n.Started
	p := &run.Provenance
	p.PID, p.Binaries, p.Cores = new(os.Getpid()), n.hashes(), n.cores
	p.Surroundings = new(n.around.Text())
	p.Driver, p.CUDA = &n.versions.Driver, &n.versions.CUDA
}

// callers returns what of the caller's environment changes how jobs execute, and says what jobs get of it and do not get.
func callers(environ []string, jobs []mixes.Job, say harness.Say) map[string]string {
	found := surroundings.Variables(environ, setByAll(jobs))
	if names := surroundings.Unexpected(found); len(names) > 0 {
		say("the jobs get %s from this environment, which can change how they execute: unset what the measurement does not need, or set it in the mix (env)", strings.Join(names, ", "))
	}
	if _, removed := surroundings.WithoutMPS(environ); len(removed) > 0 {
		say("the jobs do not get %s of this environment, which are for another MPS daemon", strings.Join(removed, ", "))
	}
	return found
}

// setByAll are the names of the variables that every job sets by itself.
func setByAll(jobs []mixes.Job) []string {
	times := map[string]int{}
	for _, j := range jobs {
		own := map[string]bool{}
		for _, entry := range j.Env {
			name, _, _ := strings.Cut(entry, "=")
			if !own[name] {
				own[name] = true
				times[name]++
			}
		}
	}
	var out []string
	for name, n := range times {
		if n == len(jobs) {
			out = append(out, name)
		}
	}
	return out
}

// noRecoveryVariable, if set, makes nobody wait for a broken MPS server, so that
// benchmarks/lazy.sh can measure what the wait is worth.
const noRecoveryVariable = "CASERUN_BENCH_NO_RECOVERY"

// answerGrace is how long after its deadline a process may answer a revocation.
const answerGrace = 2 * time.Second

// noProgressAfter is how long a live batch may make no progress before a line says so.
const noProgressAfter = time.Minute

// stopGrace is how long a job has between SIGTERM and SIGKILL.
const stopGrace = 2 * time.Second

func (n *node) Execute(ctx context.Context, run int64, arrival time.Time) ([]results.Job, error) {
	if err := n.sample(arrival); err != nil {
		return nil, err
	}
	devices := n.schedulable()
	c := Config{Jobs: n.Mix.Jobs, Programs: n.programs, Dirs: n.dirs, UUIDs: uuids(n.found), IDs: n.ids(), Checks: suites.Checks(n.Suite, n.Mix.Jobs),
		Dir:   filepath.Join(n.runs, OutputDir(run, n.Started)),
		Guard: n.Guard, Preload: n.library, Tracer: n.tracer, Traces: n.to, OutputLimit: cmp.Or(n.Output, harness.DefaultOutput).Bytes, Grace: stopGrace,
		Swap: n.swap, Checkpoint: n.checkpoint, Bursts: n.Scheduler.Bursts, TaskBytes: taskBytes(devices), Capped: n.MemCap != size.Amount{}, Feed: n.Feed, Desk: n.Desk, JobNumber: n.JobNumber, DeviceNumber: n.DeviceNumber, Admit: n.admit, Lost: n.lost, Users: n.users, Run: run, Compares: runner.ComparesUse(n.Scheduler), Warn: n.Say, Start: arrival}
	c.Layer = n.layer
	if s := n.mps; s != nil {
		c.ServerEnv, c.Pipes, c.MendServer, c.AwaitServer, c.WatchServer = s.Env, s.Pipes(), s.Mend, s.AwaitHealthy, s.WatchFaults
		c.Terminate = func(pids ...int) error { return s.TerminateClients(context.Background(), pids...) } // each command has a limit of its own
	}
	if os.Getenv(noRecoveryVariable) != "" {
		c.AwaitServer = nil
	}
	if s := n.Scheduler; s.ClientsDecide {
		d := devices[s.SharedDevice]
		c.Clients = &schedshm.Config{Policy: string(s.Config.Queue), WaitLimit: s.Config.WaitLimit, Devices: []schedshm.Device{{
			UUID: c.IDs[s.SharedDevice], Ordinal: s.SharedDevice, CapacityBytes: d.CapacityBytes, ContextBytes: d.ContextBytes}}}
	}
	var err error
	if n.executor, err = NewExecutor(c); err != nil {
		return nil, err
	}
	if err := n.layer.keepLog(c.Dir); err != nil {
		return nil, err
	}
	batch := n.Config(devices, n.cores)
	batch.Grace = answerGrace
	batch.GuardsManaged = !n.Scheduler.ExceedsManaged()
	batch.NoProgressAfter, batch.Notes, batch.OOMFails = noProgressAfter, slices.Concat(batch.Notes, n.notes), n.AfterOOM == harness.AlwaysOOM
	return runner.Run(ctx, batch, n.executor, n.to)
}

func (n *node) Close(run *results.Run) []error {
	run.Provenance.Binaries = n.hashes() // with those of given jobs
	if n.executor != nil && run.Traced {
		run.Tracer = n.executor.Traced()
	}
	var sampleErr error
	run.Sampler, sampleErr = n.unsample()
	return []error{sampleErr, n.giveBack()}
}

// taskBytes is the most that one task can have on one of the devices.
func taskBytes(devices []schedulers.Device) int64 {
	var most int64
	for _, d := range devices {
		most = max(most, d.CapacityBytes-d.ContextBytes)
	}
	return most
}

// hash takes the sha256 of files that are there. The jobs of a program that is gone fail.
func (n *node) hash(files ...string) error {
	for _, path := range files {
		if n.binaries[path] != "" {
			continue
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		sum, err := harness.Hash(path)
		if err != nil {
			return err
		}
		n.binaries[path] = sum
	}
	return nil
}

// hashes is a JSON object of the files' sha256.
func (n *node) hashes() string {
	text, err := json.Marshal(n.binaries)
	if err != nil {
		panic(err) // it is a map of text
	}
	return string(text)
}
