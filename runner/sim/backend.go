package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/policies"
)

// Backend is a simulated node, or a cluster.
type Backend struct {
	kinds     []Kind // with the memory that --mem-cap leaves; of a node that is alone one, of one node
	whole     []Kind
	isCluster bool
	failures  Failures // of devices, or of a cluster's nodes
	options   harness.Options
}

// Open parses the node's name, such as sim:4xV100, or a cluster's.
func Open(o harness.Options) (*Backend, error) {
	kinds, isCluster, err := parse(o.Node)
	if err != nil {
		return nil, harness.Refuse(err)
	}
	if o.Trace {
		return nil, harness.Refuse(fmt.Errorf("--trace: not available on %s: a simulated node runs no kernels; it always records one interval for each task's kernels", o.Node))
	}
	if o.Slow != "" {
		return nil, harness.Refuse(fmt.Errorf("--slow %s: only for GPUs: %s may have devices of several models, such as sim:1xH200+1xL4", o.Slow, o.Node))
	}
	b := &Backend{kinds: kinds, whole: kinds, isCluster: isCluster, options: o}
	if b.failures, err = b.parseFailures(); err != nil {
		return nil, harness.Refuse(fmt.Errorf("--sim-failures %w", err))
	}
	if o.MemCap == (size.Amount{}) {
		return b, nil
	}
	b.kinds = slices.Clone(kinds)
	for i := range b.kinds {
		k := &b.kinds[i]
		k.Node = k.Capped(o.MemCap.Bytes)
		for _, d := range k.Devices(true) {
			if d.CapacityBytes <= d.ContextBytes {
				return nil, harness.Refuse(fmt.Errorf("--mem-cap %s: a CUDA context and the MPS server alone take %s: raise it", o.MemCap, size.Text(d.ContextBytes+runner.ServerBytes)))
			}
		}
	}
	return b, nil
}

// parseFailures reads the failures of devices, or of a cluster's nodes.
func (b *Backend) parseFailures() (Failures, error) {
	var devices []int
	for _, k := range b.kinds {
		devices = append(devices, slices.Repeat([]int{k.Count()}, k.Nodes)...)
	}
	f, err := ParseFailures(b.options.Failures, devices, b.isCluster)
	if err == nil && f.snapshot > 0 && b.isCluster && !f.ofDevices() {
		err = errors.New("snapshot: jobs of a node that is lost do not start again: leave it out, or name a device such as 0.1@30s")
	}
	return f, err
}

func (*Backend) Mode() results.Mode { return results.Simulated }

func (b *Backend) Options() harness.Options {
	o := b.options
	o.Swap, o.SMCap, o.Guard, o.Context, o.Output = size.Amount{}, 0, false, harness.DefaultContext, size.Amount{}
	if !b.isCapped() {
		o.MemCap = size.Amount{}
	}
	return o
}

// isCapped reports whether --mem-cap leaves a device less memory than it has.
func (b *Backend) isCapped() bool {
	return !slices.EqualFunc(b.kinds, b.whole, func(k, whole Kind) bool { return slices.Equal(k.Groups, whole.Groups) })
}

func (b *Backend) Ignored() (flags []string) {
	o, none := b.options, size.Amount{}
	for _, s := range []struct {
		flag  string
		given bool
	}{{fmt.Sprintf("--mem-cap %s (no less than a device has)", o.MemCap), o.MemCap != none && !b.isCapped()}, {"--swap", o.Swap != none}, {"--sm-cap", o.SMCap > 0}, {"--guard", o.Guard}, {"--no-footprints", o.NoFootprints},
		{"--after-oom", o.AfterOOM == harness.AlwaysOOM}, {"--output-limit", o.Output != none && o.Output != harness.DefaultOutput}, {"--context-reserve", o.Context != none && o.Context != harness.DefaultContext}} {
		if s.given {
			flags = append(flags, s.flag)
		}
	}
	return flags
}

func (b *Backend) Size() (devices, threads, all int, err error) {
	for _, k := range b.kinds {
		all += k.Nodes * k.Count()
	}
	return b.kinds[0].Count(), b.kinds[0].Host.Threads, all, nil
}

func (*Backend) Machine() (string, error) { return "", nil }

func (b *Backend) CheckMix(m mixes.Mix, probe results.Probe, known profiles.Set) error {
	if err := b.checkProbe(probe); err != nil {
		return err
	}
	_, err := b.executor(Config{Node: b.kinds[0].Node, Jobs: m.Jobs, Profiles: known}, m, nil)
	if err != nil {
		err = fmt.Errorf("mix %s: %w", m.Name, err)
	}
	return harness.Refuse(err)
}

// executor is the executor of a mix on a node. If jobs have no profile, the error says where they are, and
// how to measure them.
func (b *Backend) executor(c Config, m mixes.Mix, to harness.Recorder) (*Executor, error) {
	c.Noise = b.options.Noise
	if !b.isCluster {
		c.Failures = b.failures
	}
	x, err := NewExecutor(c, to)
	if errors.Is(err, profiles.ErrNone) {
		err = harness.ToMeasure(missing(m, c.Profiles), profiles.ErrNone, b.options, m)
	}
	return x, harness.Refuse(err)
}

// missing is the error of the commands of a mix that have no profile, with the places of the first.
func missing(m mixes.Mix, known profiles.Set) (first error) {
	const shown = 8
	var also []string
	seen := map[string]bool{}
	for i, j := range m.Jobs {
		_, err := known.Lookup(j)
		if !errors.Is(err, profiles.ErrNone) || seen[j.Command()] {
			continue
		}
		seen[j.Command()] = true
		switch where := m.Where(i); {
		case first == nil && where != "":
			first = fmt.Errorf("%s: %w", where, err)
		case first == nil:
			first = err
		case where != "":
			also = append(also, fmt.Sprintf("%s: %q", where, j.Command()))
		default:
			also = append(also, strconv.Quote(j.Command()))
		}
	}
	if len(also) == 0 {
		return first
	}
	return fmt.Errorf("%w; nor of %s", first, size.Few(also, shown, ", "))
}

func (b *Backend) checkProbe(probe results.Probe) error {
	if probe != results.Lazy {
		return harness.Refuse(fmt.Errorf("--probe %s: not available on %s: a simulated node runs no programs, so all probes would be alike", probe, b.options.Node))
	}
	return nil
}

func (b *Backend) CheckScheduler(s policies.Scheduler) error {
	if err := b.checkHead(s); err != nil {
		return harness.Refuse(err)
	}
	if s.ClientsDecide {
		return harness.Refuse(fmt.Errorf("--sched %s:arch=shared: not available on %s: a simulated node has no processes that could decide for themselves; arch=server has the same policies", s.Name, b.options.Node))
	}
	if l := s.Layer; l != nil && (l.MPS == nil || !*l.MPS || l.Percent > 0 || l.Path != "") {
		return harness.Refuse(fmt.Errorf("--sched %s: not available on %s: kernels of several processes share a simulated GPU as under MPS, so of layers only mps can be simulated", s.Name, b.options.Node))
	}
	return nil
}

func (*Backend) Close() error { return nil }

// node is the model with one batch on it.
type node struct {
	harness.Batch
	model    Node
	whole    Node // without --mem-cap
	executor *Executor
}

func (b *Backend) Open(_ context.Context, batch harness.Batch, to harness.Recorder) (harness.Node, error) {
	if err := b.checkProbe(batch.Probe); err != nil {
		return nil, err
	}
	if b.isCluster {
		return b.openCluster(batch, to)
	}
	model := b.kinds[0].Node
	x, err := b.executor(Config{Node: model, Jobs: batch.Mix.Jobs, MPS: batch.MPS(), Profiles: batch.Profiles, Revokes: batch.Scheduler.Swaps(), Checkpoints: batch.Scheduler.Checkpoints, Bursts: batch.Scheduler.Bursts, Seed: batch.Seed, Feed: batch.Feed, Number: batch.JobNumber}, batch.Mix, to)
	if err != nil {
		return nil, err
	}
	return &node{batch, model, b.whole[0].Node, x}, nil
}

func (n *node) Devices() (devices []results.Device) {
	whole := n.whole.models()
	for i, d := range n.model.Devices(n.MPS()) {
		devices = append(devices, results.Device{Index: i, UUID: fmt.Sprintf("%s/%d", n.model.Name, i), Name: gpuName(d.Name),
			MemoryBytes: whole[i].MemoryBytes, CapacityBytes: d.CapacityBytes, ContextBytes: d.ContextBytes,
			SMs: d.SMs, WarpsPerSM: d.WarpsPerSM, BlocksPerSM: d.BlocksPerSM, Profile: whole[i].profile()})
	}
	return devices
}

func (n *node) Describe(run *results.Run) { describe(run, n.model.Name) }

func describe(run *results.Run, name string) {
	run.Node, run.Mode, run.Suite = name, results.Simulated, suite
	run.Provenance.PID = new(os.Getpid()) // until the run is complete
}

func (*node) Helpers() map[string]<-chan struct{} { return nil }

func (n *node) Execute(ctx context.Context, _ int64, _ time.Time) ([]results.Job, error) {
	return runner.Run(ctx, n.Config(n.model.Devices(n.MPS()), n.model.Host.Cores), n.executor, n.executor.rec)
}

func (*node) Close(*results.Run) []error { return nil }
