// Package history says what jobs are expected to do: what a file says, or else what the same command
// did in earlier runs, or else, on a simulated node, what its profile says. A live node goes by other models of GPU
// if nothing is known of its own (docs/reference/history.md).
package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// Node says for which devices predictions are.
type Node struct {
	Mode  results.Mode
	GPUs  []string // the names of its devices
	Suite string   // of the node's runs, as the store has it
	// FreeBytes is the free memory of the device that has most, of a live node.
	FreeBytes int64
	// Alone returns what the job's profile does alone on a device of the node, and that device's GPU. false: its profile
	// cannot run there. nil: the node has no profiles.
	Alone func(mixes.Job) (e results.Known, known bool, err error)
}

// Options say what may be known.
type Options struct {
	File     File          // goes before everything else
	Runs     bool          // earlier runs count
	Probe    results.Probe // of the runs
	Before   int64         // runs with smaller numbers only; 0: all
	NotMixes []string      // leave out the runs of these mixes
}

// Known returns what is known of each job on a node; nil where nothing is known of it. A live node
// learns from live runs only, and a simulated node from simulated runs and profiles only. If a job's
// mix states what the job does, only that counts on a simulated node, because another mix can state
// something else of the same command. What a live node's models of GPU do not tell of a command, other models do.
func Known(ctx context.Context, db *store.Store, jobs []mixes.Job, n Node, o Options) ([]*results.Known, error) {
	learned := map[string]results.Known{}
	if o.Runs {
		var err error
		if learned, err = n.learn(ctx, db, jobs, o); err != nil {
			return nil, err
		}
	}
	alone := n.alone()
	known := make([]*results.Known, len(jobs))
	for i, j := range jobs {
		if ctx.Err() != nil { // a large mix takes seconds
			return nil, context.Cause(ctx)
		}
		e, ok := o.File.lookup(j.Command(), n.GPUs)
		if !ok {
			var err error
			if e, ok, err = n.expect(j, learned, alone); err != nil {
				return nil, fmt.Errorf("what is known of job %d (%s): %w", i, j.Command(), err)
			}
		}
		if ok {
			known[i] = &e
		}
	}
	if n.Mode == results.Live {
		return known, n.complete(ctx, db, jobs, known, o)
	}
	return known, nil
}

// complete fills in what is known only of other models of GPU: what the file says of them, or else what runs show.
func (n Node) complete(ctx context.Context, db *store.Store, jobs []mixes.Job, known []*results.Known, o Options) error {
	missing := map[string]bool{}
	var of []mixes.Job
	for i, j := range jobs {
		if known[i] != nil {
			continue
		}
		if e, ok := o.File.elsewhere(j.Command(), n.Mode); ok {
			known[i] = &e
		} else if !missing[j.Command()] {
			missing[j.Command()] = true
			of = append(of, j)
		}
	}
	if !o.Runs || len(of) == 0 {
		return nil
	}
	n.GPUs = nil // any
	learned, err := n.learn(ctx, db, of, o)
	if err != nil {
		return err
	}
	for i, j := range jobs {
		if e, ok := learned[j.Command()]; ok && known[i] == nil {
			e.Source += " on " + e.GPU
			known[i] = &e
		}
	}
	return nil
}

// Elsewhere returns of how many jobs something is known from other models of GPU alone, and the names of these models.
func (n Node) Elsewhere(known []*results.Known) (jobs int, gpus []string) {
	for _, k := range known {
		if k != nil && k.GPU != "" && !slices.Contains(n.GPUs, k.GPU) {
			jobs++
			gpus = append(gpus, k.GPU)
		}
	}
	slices.Sort(gpus)
	return jobs, slices.Compact(gpus)
}

// learn returns what runs on the node's GPUs show, by command: if several models have it, on that of most jobs.
func (n Node) learn(ctx context.Context, db *store.Store, jobs []mixes.Job, o Options) (map[string]results.Known, error) {
	wanted := map[string]bool{}
	commands := []string{}
	for _, j := range jobs {
		if c := j.Command(); !wanted[c] && (!stated(j) || n.Mode != results.Simulated) {
			wanted[c] = true
			commands = append(commands, c)
		}
	}
	found, err := Learned(ctx, db, store.Filter{Mode: n.Mode, Suite: n.Suite, Probe: &o.Probe, GPUs: n.GPUs,
		Before: o.Before, NotMixes: o.NotMixes}, commands)
	byCommand := map[string]results.Known{}
	for _, e := range found {
		if other, both := byCommand[e.Command]; !both || e.Jobs > other.Jobs { // there are several models
			byCommand[e.Command] = e
		}
	}
	return byCommand, err
}

// stated reports whether the job's mix says what the job does on a simulated node.
func stated(j mixes.Job) bool { return j.Profile != nil || j.Steps != "" }

// expect prefers runs to the job's profile. Runs on a simulated node do not say how much of a device
// kernels fill, but the profile does.
func (n Node) expect(j mixes.Job, learned map[string]results.Known, alone func(mixes.Job) (results.Known, bool, error)) (results.Known, bool, error) {
	run, ran := learned[j.Command()]
	if n.Alone == nil || ran && run.SMs != nil {
		return run, ran, nil
	}
	profile, profiled, err := alone(j)
	if err != nil || !ran {
		return profile, profiled, err
	}
	if profiled {
		run.SMs = profile.SMs
	}
	return run, true, nil
}

// alone is Alone that does each command once.
func (n Node) alone() func(mixes.Job) (results.Known, bool, error) {
	type key struct {
		command   string
		steps     string
		footprint mixes.Footprint
		profile   *mixes.Profile
	}
	type answer struct {
		e     results.Known
		known bool
	}
	done := map[key]answer{}
	return func(j mixes.Job) (results.Known, bool, error) {
		k := key{j.Command(), j.Steps, j.Footprint, j.Profile}
		a, again := done[k]
		if !again {
			e, known, err := n.Alone(j)
			if err != nil {
				return results.Known{}, false, err
			}
			e.Command, e.Source = k.command, sourceProfile
			a = answer{e, known}
			done[k] = a
		}
		return a.e, a.known, nil
	}
}

// Sources of what is known that is not known from runs.
const (
	sourceProfile = "profile"
	sourceFile    = "file"
)

// ForScheduler is what is known of a run's jobs as schedulers take it.
func ForScheduler(known []*results.Known) []*schedulers.Prediction {
	out := make([]*schedulers.Prediction, len(known))
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	part := func(p *float64) float64 {
		if p == nil {
			return 0
		}
		return *p
	}
	for i, e := range known {
		if e != nil {
			out[i] = &schedulers.Prediction{Before: seconds(e.BeforeS), Held: seconds(e.HeldS), After: seconds(e.AfterS),
				Bytes: e.Bytes, Kernels: part(e.Kernels), SMs: part(e.SMs)}
		}
	}
	return out
}

// Measured returns what profiles say of jobs on the GPUs on which they were measured, by command.
func Measured(known profiles.Set) []results.Known {
	var out []results.Known
	for _, p := range known.All() {
		e := results.Known{Command: p.Command, GPU: p.GPU, Expected: results.Expected{BeforeS: p.HostBeforeS, AfterS: p.HostAfterS,
			HeldS: p.CopyInS + p.KernelS + p.CopyOutS + p.HostHeldS, Bytes: p.Footprint.Bytes, Source: sourceProfile}}
		if p.Kernels == profiles.Traced && e.HeldS > 0 {
			e.Kernels = new(p.KernelS / e.HeldS)
		}
		out = append(out, e)
	}
	sortKnown(out)
	return out
}

// sortKnown puts entries in the order of tables and files: by GPU, command and source.
func sortKnown(entries []results.Known) {
	slices.SortFunc(entries, func(a, b results.Known) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Command, b.Command), cmp.Compare(a.Source, b.Source))
	})
}
