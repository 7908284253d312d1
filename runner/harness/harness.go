// Package harness makes runs: it takes a request to a node, has the node run the batch, and
// records what happens, with where it comes from.
package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/slurmstep"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// Configuration is what a run's row keeps of its request.
type Configuration struct {
	Options
	Sched   string        `json:"sched"` // with its parameters
	Probe   results.Probe `json:"probe"`
	Isolate bool          `json:"isolate-faults"` // jobs that a fault took down run again, each alone
}

// Request is one run as the user asked for it.
type Request struct {
	Configuration
	// AllowSimulated lets live and simulated runs have one tag.
	AllowSimulated bool
	Mix            mixes.Mix
	// Given, if not nil, is where the run gets jobs from while it runs, beside those of the mix, which may have none. The run
	// takes one after another; one that it cannot have gets an error, and the run goes on. It ends when the channel is
	// closed and its jobs have ended. A run that ends before, such as one that is interrupted, takes no more: who sends
	// must also wait for the run's end.
	Given <-chan Given
	// Know completes what is known of a mix's jobs, for those that are given; nil: nothing is to be completed.
	Know     func(context.Context, *mixes.Mix, profiles.Set) (profiles.Set, error)
	Profiles profiles.Set
	History  history.File // what Options.History has
	Store    *store.Store
	Cell     *results.Cell // of the sweep that the run belongs to; nil outside of sweeps
	Restart  int           // how often a batch system started again what makes the runs of a sweep
	Say      Say
	// Fallback says that a node was chosen in place of this machine, once the request is checked; "": it was not.
	Fallback string
	// Display makes what shows the run to the user; nil: nothing does.
	Display func(mixes.Mix, results.Mode) Display
	// Log takes what happens in the run as it happens; nil: nothing does.
	Log Log
	// Begun, if not nil, is called once the store has the run.
	Begun func()
}

// Display shows a run while it runs.
type Display interface {
	// Start begins. Jobs that share an MPS server learn only at the end whose fault a fault was.
	Start(shared bool)
	Job(results.Job)
	Event(results.Event)
	Stop()
}

// Log takes the records of many runs, by their numbers. Its methods do not block.
type Log interface {
	Begun(results.Run, []results.Device)
	Job(run int64, j results.Job)
	Rank(run int64, r results.Rank)
	Task(run int64, t results.Task)
	Swap(run int64, s results.Swap)
	Event(run int64, e results.Event)
	Ended(results.Run)
}

// Outcome is what a run left.
type Outcome struct {
	Run     results.Run // its ID is 0 if it did not begin
	Jobs    []results.Job
	Devices []results.Device
	Given   []mixes.Job // that the run got while it ran: its last ones
}

// Backend carries out runs on one kind of node.
type Backend interface {
	Mode() results.Mode
	// Options are the request's options as the node takes them.
	Options() Options
	// Ignored are the options that were given and that the node ignores, as flags.
	Ignored() []string
	// History says for which devices predictions are, and knows what profiles do on them.
	History(known profiles.Set) (history.Node, error)
	// Size is the number of devices and of the host's threads of a node, the first of a cluster, and of the devices of all nodes.
	Size() (devices, threads, all int, err error)
	// Machine names where the node's runs are made (results.Machine).
	Machine() (string, error)
	// CheckMix refuses a mix that the node cannot run with a probe.
	CheckMix(m mixes.Mix, probe results.Probe, known profiles.Set) error
	// CheckScheduler refuses a scheduler that the node cannot run.
	CheckScheduler(s policies.Scheduler) error
	// Open prepares the node for one batch. Records go to the recorder while the node runs.
	Open(ctx context.Context, b Batch, to Recorder) (Node, error)
	Close() error
}

// Node is prepared for one batch. Close gives it back.
type Node interface {
	Devices() []results.Device
	// Describe completes a run's row with what is known of the node before the run begins.
	Describe(run *results.Run)
	// Helpers are the processes that keep the node prepared, each with a channel that is
	// closed when the process ends.
	Helpers() map[string]<-chan struct{}
	// Execute runs the batch. The run's number is for names of files. Live batches arrive at
	// the given time; simulated ones in virtual time.
	Execute(ctx context.Context, run int64, arrival time.Time) ([]results.Job, error)
	// Close completes a run's row with what was measured beside the jobs. Its errors are
	// reasons why the run's measurements do not count.
	Close(run *results.Run) []error
}

// Recorder takes a run's records.
type Recorder interface {
	runner.Recorder
	Copy(results.Copy)
}

// Batch is a request that is settled for its node.
type Batch struct {
	Request
	Scheduler policies.Scheduler
	Workers   int // jobs that run at once; 0: the scheduler decides
	// FaultsAlone says of jobs, by index, where they faulted without neighbours before.
	FaultsAlone map[int]string
	// Predictions say what each job is expected to do, under a scheduler that wants to know.
	Predictions []*schedulers.Prediction
	Feed        *Feed           // nil: the batch has all its jobs
	Notes       []results.Event // as in runner.Config
	Started     time.Time       // of a live run
	// JobNumber and DeviceNumber are as in runner.Config, if the batch is one node's part of a larger one.
	JobNumber, DeviceNumber func(int) int
	apart                   *apart          // nil: no job has portions
	Desk                    *slurmstep.Desk // has the seats of ranks in steps of Slurm; nil: they take part in none
}

// MPS reports whether the jobs share devices through MPS.
func (b Batch) MPS() bool { return UsesMPS(b.Options, b.Scheduler) }

// StartsAgain reports whether a job starts again that a lost node takes along; nil: none does.
func (b Batch) StartsAgain() func(*mixes.Job) bool {
	if !b.RetryLost {
		return nil
	}
	return b.restartable
}

func (b Batch) restartable(j *mixes.Job) bool { return suites.Restartable(b.Suite, j) }

// Config is what the batch is made of on a node with these devices and host cores.
func (b Batch) Config(devices []schedulers.Device, cores int) runner.Config {
	return runner.Config{Jobs: b.Mix.Jobs, Open: b.Feed != nil, Devices: devices, Scheduler: b.Scheduler, Workers: b.Workers, Timeout: time.Duration(b.Timeout), MPS: b.MPS(),
		FaultsAlone: b.FaultsAlone, Predictions: b.Predictions, JobNumber: b.JobNumber, DeviceNumber: b.DeviceNumber, Cores: cores, Seed: b.Seed, Notes: b.Notes, StarvedAfter: runner.StarvedAfter,
		Restartable: b.restartable}
}

// UsesMPS reports whether jobs share devices through MPS under a scheduler, among themselves or with what --slow starts.
func UsesMPS(o Options, s policies.Scheduler) bool {
	if l := s.Layer; l != nil && l.MPS != nil {
		return *l.MPS
	}
	return (s.Shares || o.Slow != "") && !s.Checkpoints && !o.NoMPS
}

// SayIgnored says which options the node ignores.
func SayIgnored(b Backend, say Say) {
	switch ignored := b.Ignored(); len(ignored) {
	case 0:
	case 1:
		say("%s is ignored on simulated nodes", ignored[0])
	default:
		say("%s are ignored on simulated nodes", strings.Join(ignored, ", "))
	}
}

// Execute makes one run. The outcome counts beside an error if its run has a number.
func Execute(ctx context.Context, backend Backend, r Request) (Outcome, error) {
	b, known, err := prepare(ctx, backend, r)
	if err != nil {
		return Outcome{}, err
	}
	t := new(tracker)
	var to Recorder = t
	var join *joiner
	if b.apart != nil {
		join = newJoiner(t, b.apart)
		to = join
	}
	if b.Given != nil {
		b.Feed = &Feed{backend: backend, to: t, known: b.Profiles}
	}
	node, err := b.open(to, func(b Batch) (Node, error) {
		if b.Scheduler.Program != nil { // its greeting may have said that it takes memory back
			if err := backend.CheckScheduler(b.Scheduler); err != nil {
				return nil, err
			}
		}
		return backend.Open(ctx, b, to)
	})
	if err != nil {
		return Outcome{}, err
	}
	if join != nil {
		node = joinedNode{node, join}
	}
	b.sayTooLarge(backend.Mode(), node.Devices())
	b.sayIgnoredShares()
	if b.Feed != nil {
		b.Feed.batch, b.Feed.devices = b, node.Devices()
	}
	run, err := b.record()
	if err == nil {
		node.Describe(&run)
		asked := b.Request
		asked.Mix = b.requested()
		err = t.begin(ctx, asked, run, node.Devices())
	}
	if err != nil {
		return Outcome{}, errors.Join(append([]error{err}, node.Close(&run)...)...)
	}
	for i, k := range known {
		if ctx.Err() != nil { // the run is interrupted, and a large mix has many
			break
		}
		if join != nil {
			if _, portions := join.portions(i); portions > 0 {
				continue // what is expected of a portion says nothing of its job
			}
			i = join.number(i)
		}
		if k != nil {
			t.Prediction(results.Prediction{Job: i, Expected: k.Expected})
		}
	}
	o, err := t.drive(ctx, node, b.MPS())
	if b.Feed != nil {
		o.Given = b.Feed.jobs
	}
	return o, err
}

// prepare settles all of a batch that needs no node: it refuses what the node cannot do, and finds what is known of the jobs.
func prepare(ctx context.Context, backend Backend, r Request) (b Batch, known []*results.Known, err error) {
	r.Options = backend.Options()
	if r.Mix, err = r.Mix.Arriving(r.Seed); err != nil {
		return b, nil, Refuse(err)
	}
	devices, threads, _, err := backend.Size()
	if err != nil {
		return b, nil, err
	}
	if r.Cell == nil && !r.AllowSimulated { // a sweep is checked when it is planned
		if err := CheckTag(ctx, r.Store, r.Tag, backend.Mode()); err != nil {
			return b, nil, err
		}
	}
	b.Request, b.Started = r, time.Now()
	if b.Scheduler, b.Workers, err = r.Scheduler(devices, threads); err != nil {
		return b, nil, err
	}
	if err := backend.CheckScheduler(b.Scheduler); err != nil {
		return b, nil, err
	}
	if err := CheckDevices(r.Mix, b.Scheduler, devices); err != nil {
		return b, nil, err
	}
	if err := b.setApart(); err != nil {
		return b, nil, err
	}
	r = b.Request
	if r.Fallback != "" {
		r.Say("%s", r.Fallback)
	}
	if r.Cell == nil { // a sweep says so once for all its runs
		SayIgnored(backend, r.Say)
	}
	if backend.Mode() == results.Live {
		if b.FaultsAlone, err = r.faultsAlone(ctx); err != nil {
			return b, nil, err
		}
	}
	if b.Scheduler.Expects() {
		if known, err = r.known(ctx, backend, b.Scheduler.Plans == nil || b.Scheduler.Plans.Learn); err != nil {
			return b, nil, err
		}
		b.Predictions = history.ForScheduler(known)
	}
	b.sayOrder(known)
	if err = b.reach(ctx, backend); err == nil {
		err = b.checkWhole()
	}
	return b, known, err
}

// known returns what is known of the jobs. The runs of a sweep know only what was known before the
// first of them, so that they do not depend on their order. Those of a simulated sweep know nothing of runs, so that they depend on its plan
// alone, in whatever store they are made. If it counts, the user is told of what only other GPUs tell.
func (r Request) known(ctx context.Context, backend Backend, counts bool) ([]*results.Known, error) {
	node, err := backend.History(r.Profiles)
	if err != nil {
		return nil, err
	}
	o, err := r.historyOptions(ctx, backend)
	if err != nil {
		return nil, err
	}
	known, err := history.Known(ctx, r.Store, r.Mix.Jobs, node, o)
	if err != nil {
		return nil, err
	}
	if file := r.Options.History; counts && file != "" && !slices.ContainsFunc(known, history.FromFile) {
		r.Say("%s says nothing of the jobs of %s on %s, so it changes nothing: its column gpu names other models, or it has none of their commands", file, r.Mix.Name, strings.Join(node.GPUs, ", "))
	}
	if n, gpus := node.Elsewhere(known); counts && n > 0 {
		r.Say("what %d of %d jobs will do is expected from what they did on %s, because nothing is known of them on this node's GPUs", n, len(known), strings.Join(gpus, ", "))
	}
	return known, nil
}

// historyOptions say which runs count.
func (r Request) historyOptions(ctx context.Context, backend Backend) (o history.Options, err error) {
	o = history.Options{File: r.History, Runs: r.Cell == nil || backend.Mode() == results.Live, Probe: r.Probe}
	if r.Cell != nil && o.Runs {
		o.Before, err = r.Store.FirstOfSweep(ctx, r.Cell.Sweep)
	}
	return o, err
}

// Scheduler settles the scheduler and the number of workers for a node. Under a scheduler with
// a workers parameter, Workers is that parameter.
func (r Request) Scheduler(devices, hostThreads int) (policies.Scheduler, int, error) {
	head, text := cluster.Cut(r.Sched)
	workers := r.Workers
	_, unnamed, _ := schedulers.CutName(text)
	unnamed, _, _ = schedulers.CutLayer(unnamed)
	if name, rest, _ := strings.Cut(unnamed, ":"); name == "cg" && workers > 0 && !strings.Contains(rest, "workers=") {
		text = policies.With(text, fmt.Sprintf("workers=%d", workers))
	}
	s, err := cluster.ParseScheduler(head+text, devices, policies.ParseStored)
	if err == nil {
		s, err = Pinned(s)
	}
	if err == nil {
		err = checkLayer(r.Options, s)
	}
	if err != nil {
		return s, 0, Refuse(err)
	}
	if s.Binds == policies.BindsJob {
		return s, 0, nil
	}
	if workers == 0 {
		workers = hostThreads
	}
	if r.Given == nil {
		workers = min(workers, r.Mix.Startable())
	}
	return s, workers, nil
}

// record is the run's row before the run starts.
func (b Batch) record() (results.Run, error) {
	settings, err := json.Marshal(b.Configuration)
	if err != nil {
		return results.Run{}, fmt.Errorf("record configuration: %w", err)
	}
	run := results.Run{Mix: b.Mix.Name, MixSource: b.Mix.Source, Scheduler: b.Scheduler.Name, Parameters: b.Scheduler.Parameters(), Probe: b.Probe, Arm: b.Scheduler.Arm,
		Suite: b.Suite, Repetition: 1, Tag: b.Tag, Seed: b.Seed, Workers: b.Workers, Status: results.Running,
		Jobs: len(b.requested().Jobs), Provenance: provenance()}
	run.Provenance.Configuration = string(settings)
	if open := b.Mix.OpenLoad(); open != "" {
		run.Arrivals = &open
	}
	return run, nil
}

// ToMeasure adds to an error the command that measures the jobs' profiles, if the error wraps the reason,
// which is that a job has no profile, or no footprint.
func ToMeasure(err, reason error, o Options, mix mixes.Mix) error {
	if !errors.Is(err, reason) {
		return err
	}
	what := mix.Source
	if !suites.IsMixFile(what) {
		what = mix.Name
	}
	var options []string
	isForeign := func(j mixes.Job) bool { return j.OfSuite() && !slices.Contains(mixes.SuitePrograms(), j.Program) }
	if o.Suite != suites.Builtin {
		options = append(options, "--suite", o.Suite)
	} else if slices.ContainsFunc(mix.Jobs, isForeign) {
		options = append(options, "--suite", "DIR")
	}
	if o.Data != DefaultData {
		options = append(options, "--data", o.Data)
	}
	return fmt.Errorf("%w; to measure one, run %s on a machine with a GPU, and add --profiles %s", err, mixes.ProfileCommand(what, options...), mixes.ProfilesFile)
}
