package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/policies"
)

func (b *Backend) History(known profiles.Set) (history.Node, error) {
	var gpus []string
	for _, k := range b.kinds {
		for _, g := range k.Groups {
			if name := gpuName(g.Name); !slices.Contains(gpus, name) {
				gpus = append(gpus, name)
			}
		}
	}
	return history.Node{Mode: results.Simulated, GPUs: gpus, Suite: suite, Alone: func(j mixes.Job) (results.Known, bool, error) {
		for _, k := range b.kinds {
			for _, g := range k.Groups {
				if e, ran, err := alone(k.Node, g.Model, j, known); ran || err != nil {
					return results.Known{GPU: gpuName(g.Name), Expected: e}, ran, err
				}
			}
		}
		return results.Known{}, false, nil
	}}, nil
}

// alone returns what a job does on one device of the node that it has to itself. It is what a batch of
// this job alone does, so that profiles are scaled in one place.
func alone(node Node, device Model, j mixes.Job, known profiles.Set) (e results.Expected, ran bool, err error) {
	// Nothing of this changes what the job does; most of it has no meaning for a job alone.
	j.Binding, j.Pin, j.Isolate, j.Group, j.At, j.Timeout, j.Wait, j.UntilOthersEnd = mixes.BindProbe, false, false, 0, 0, 0, nil, false
	if j.Profile != nil && j.Profile.Exponential { // the mean is what is expected
		mean := *j.Profile
		mean.Exponential, j.Profile = false, &mean
	}
	node.Groups = []Group{{device, 1}}
	var seen watched
	x, err := NewExecutor(Config{Node: node, Jobs: []mixes.Job{j}, Profiles: known}, &seen)
	if errors.Is(err, profiles.ErrNone) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	scheduler, err := policies.Parse("zero", 1)
	if err != nil {
		return e, false, err
	}
	jobs, err := runner.Run(context.Background(), runner.Config{Jobs: []mixes.Job{j}, Devices: node.Devices(false), Scheduler: scheduler}, x, &seen)
	if err != nil {
		return e, false, fmt.Errorf("simulate %s alone: %w", j.Command(), err)
	}
	e, ran = results.Observe(jobs[0], seen.tasks)
	if ran && e.HeldS > 0 {
		e.Kernels = new(min(seen.kernelsS/e.HeldS, 1))
		if seen.kernelsS > 0 {
			e.SMs = new(min(seen.smSeconds/seen.kernelsS, 1))
		}
	}
	return e, ran, nil
}

// watched keeps what Observe needs of one job, and sums up its kernels.
type watched struct {
	runner.Forgetful
	tasks               []results.Task // by Seq
	kernelsS, smSeconds float64
}

func (w *watched) Task(t results.Task) {
	if t.Seq == len(w.tasks) {
		w.tasks = append(w.tasks, t)
	}
	w.tasks[t.Seq] = t
}

func (w *watched) Kernel(k results.Kernel) { w.kernelsS += k.BusyS }

func (w *watched) Segment(s results.Segment) {
	if s.Series == results.SeriesSimulated {
		w.smSeconds += (s.LastS - s.FirstS) * *s.Value
	}
}

// gpuName is the name of a model's devices in the store.
func gpuName(model string) string { return model + results.SimulatedGPU }

// suite is that of simulated runs in the store, because profiles take the programs' place.
const suite = "profiles"
