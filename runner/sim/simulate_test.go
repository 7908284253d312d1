package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// tape is everything a run records, in order.
type tape struct {
	Jobs     []results.Job
	Tasks    []results.Task
	Ranks    []results.Rank `json:",omitempty"`
	Swaps    []results.Swap
	Kernels  []results.Kernel
	Segments []results.Segment
	Events   []results.Event
}

func (r *tape) Job(j results.Job)         { r.Jobs = append(r.Jobs, j) }
func (r *tape) Task(t results.Task)       { r.Tasks = append(r.Tasks, t) }
func (r *tape) Rank(k results.Rank)       { r.Ranks = append(r.Ranks, k) }
func (r *tape) Swap(s results.Swap)       { r.Swaps = append(r.Swaps, s) }
func (r *tape) Kernel(k results.Kernel)   { r.Kernels = append(r.Kernels, k) }
func (r *tape) Segment(s results.Segment) { r.Segments = append(r.Segments, s) }
func (r *tape) Event(e results.Event)     { r.Events = append(r.Events, e) }

// trial is one simulated run.
type trial struct {
	node      Node
	scheduler string
	jobs      []mixes.Job
	workers   int
	timeout   time.Duration
	seed      uint64
	noise     float64
	profiles  profiles.Set // beside the catalog's
	expected  []*schedulers.Prediction
	moves     func(time.Duration) time.Duration // nil: only the scheduler moves tasks (mover)
	failures  string                            // ParseFailures
}

func (r trial) run(ctx context.Context) ([]results.Job, *tape, *Executor, error) {
	s, err := policies.Parse(r.scheduler, r.node.Count())
	if err != nil {
		return nil, nil, nil, err
	}
	if r.moves != nil {
		s.Policy = &mover{Policy: s.Policy, at: r.moves}
	}
	return r.under(ctx, s)
}

// under is run with a scheduler that is parsed.
func (r trial) under(ctx context.Context, s policies.Scheduler) ([]results.Job, *tape, *Executor, error) {
	rec := &tape{}
	failures, err := ParseFailures(r.failures, []int{r.node.Count()}, false)
	if err != nil {
		return nil, nil, nil, err
	}
	x, err := NewExecutor(Config{Failures: failures, Node: r.node, Jobs: r.jobs, MPS: s.Shares && !s.Checkpoints, Revokes: s.Swaps(), Checkpoints: s.Checkpoints, Bursts: s.Bursts, Seed: r.seed, Noise: r.noise, Profiles: profiles.Catalog().With(r.profiles)}, rec)
	if err != nil {
		return nil, nil, nil, err
	}
	jobs, err := runner.Run(ctx, runner.Config{Jobs: r.jobs, Devices: r.node.Devices(s.Shares && !s.Checkpoints), Scheduler: s,
		Workers: r.workers, Timeout: r.timeout, MPS: s.Shares && !s.Checkpoints, Predictions: r.expected,
		Restartable: func(j *mixes.Job) bool { return j.Restartable != nil && *j.Restartable }}, x, rec)
	return jobs, rec, x, err
}

// must fails the test on an error, and where the node is not as it was before.
func (r trial) must(t testing.TB) ([]results.Job, *tape) {
	t.Helper()
	jobs, rec, err := r.clean(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return jobs, rec
}

// clean is run with an error where the node is not as it was before.
func (r trial) clean(ctx context.Context) ([]results.Job, *tape, error) {
	jobs, rec, x, err := r.run(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !x.cores.empty() {
		err = errors.New("host activities are left")
	}
	for _, d := range x.devices {
		whole := d.model.MemoryBytes
		if x.config.MPS {
			whole -= runner.ServerBytes
		}
		if d.free != whole || d.aged.oldest != nil || len(d.paging) != 0 || !d.sms.empty() || !d.link.empty() || !d.peers.empty() || !d.faults.empty() {
			err = fmt.Errorf("device %d: %d bytes free of %d, %d kernels with managed memory, no kernels (%v), copies (%v) and page faults (%v) are left",
				d.index, d.free, whole, len(d.paging), d.sms.empty(), d.link.empty(), d.faults.empty())
		}
	}
	return jobs, rec, err
}

func mustNode(t testing.TB, text string) Node {
	t.Helper()
	n, err := ParseNode(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// mixJobs has the jobs of a mix of the catalog, or of one of benchmarks/plan.
func mixJobs(t testing.TB, name string) []mixes.Job {
	t.Helper()
	m, err := mixes.Lookup(name)
	if slices.Contains(halfMixes, name) {
		m, err = mixes.Load("../../benchmarks/plan/"+strings.ToLower(name)+".yaml", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Jobs
}

// catalogJobs is the catalog's jobs with these names.
func catalogJobs(t testing.TB, names ...string) []mixes.Job {
	t.Helper()
	var out []mixes.Job
	for _, name := range names {
		all := mixes.Jobs()
		i := slices.IndexFunc(all, func(j mixes.Job) bool { return j.Name == name })
		if i < 0 {
			t.Fatalf("no job %s in the catalog", name)
		}
		out = append(out, all[i])
	}
	return out
}

var mixNames = []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"}

// halfMixes are those of benchmarks/plan.
var halfMixes = []string{"W2-half", "W5-half", "W7-half", "W8-half"}
