package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
)

// Profiling measures jobs alone on the first of this machine's GPUs.
type Profiling struct {
	Options  harness.Options
	Jobs     []mixes.Job
	Untraced bool // one run of each job, without kernels and copies
	Once     bool // one run of each job, traced
	Say      harness.Say
}

// PartError says that some jobs have no profile, where the jobs themselves are the reason.
type PartError struct {
	Measured int // jobs that have a profile
	err      error
}

func (e *PartError) Error() string { return e.err.Error() }

// Run passes each profile to keep as its job ends, and returns how many it kept, also beside
// an error. A job that fails does not keep the others from being measured.
func (p Profiling) Run(ctx context.Context, keep func(profiles.Profile) error) (kept int, err error) {
	programs, dirs, err := Resolve(p.Options, results.Lazy, mixes.Mix{Jobs: p.Jobs})
	if err != nil {
		return 0, err
	}
	library, err := FindLibrary(ctx)
	if err != nil {
		return 0, err
	}
	gpus, err := OpenGPUs(ctx, p.Options.Devices)
	if err != nil {
		return 0, fmt.Errorf("profile measures on a GPU of this machine: %w", err)
	}
	defer func() { err = errors.Join(err, closeGPUs(gpus, p.Say)) }()
	callers(os.Environ(), p.Jobs, p.Say)
	if err := gpus.First(); err != nil {
		return 0, err
	}
	tracer := ""
	if !p.Untraced {
		if tracer, err = findTracer(ctx); err != nil {
			p.Say("not traced, so times of kernels and copies stay unknown: %v", err)
		}
	}
	a := &alone{Profiling: p, preload: library, tracer: tracer}
	return a.measure(ctx, gpus, programs, dirs, keep)
}

// measure prepares the GPU, runs every job on it and has the profiles kept.
func (a *alone) measure(ctx context.Context, gpus *nvml.Node, programs, dirs []string, keep func(profiles.Profile) error) (kept int, err error) {
	n := &node{gpus: gpus, Batch: harness.Batch{Request: harness.Request{Configuration: harness.Configuration{Options: harness.Options{Context: a.Options.Context}}, Say: a.Say}}}
	if err := n.prepare(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, n.giveBack()) }()
	dir, err := filepath.Abs(a.Options.Runs)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	d, found := n.devices[0], n.found[0]
	a.sm = profiles.SM{Warps: *found.MaxWarpsPerSM, Blocks: *found.MaxBlocksPerSM, SharedBytes: int64(*found.SharedPerSMBytes)}
	a.device, a.uuid, a.id, a.idle = n.schedulable()[0], d.UUID, found.UUIDBytes, d.UsedAtStartBytes
	a.dir, a.epoch = filepath.Join(dir, "profile-"+now.UTC().Format(dirTime)), now
	a.watch = func(run func()) ([]results.Segment, error) {
		seen := &notebook{}
		n.to = seen
		if err := n.sample(now); err != nil {
			return nil, err
		}
		run()
		_, err := n.unsample()
		return seen.segments, err
	}
	return a.runAll(ctx, programs, dirs, func(q profiles.Profile) error {
		q.GPU, q.Driver, q.MeasuredAt = d.Name, n.versions.Driver, now.UTC().Truncate(time.Second)
		return keep(q)
	})
}

// runAll runs the jobs one after another. It stops at the end of ctx, and at a profile that
// cannot be kept. The error is a *PartError where all reasons are jobs'.
func (a *alone) runAll(ctx context.Context, programs, dirs []string, keep func(profiles.Profile) error) (kept int, err error) {
	var problems []error
	ofJobs := true
	for i, j := range a.Jobs {
		a.Say("profiling %d of %d: %s", i+1, len(a.Jobs), j.Command())
		q, err := a.profile(ctx, i, j, programs[i], dirs[i])
		if err == nil {
			if err = keep(q); err == nil {
				kept++
				continue
			}
			problems, ofJobs = append(problems, err), false
			break
		}
		if ctx.Err() != nil {
			problems, ofJobs = append(problems, context.Cause(ctx)), false
			break
		}
		problems, ofJobs = append(problems, err), ofJobs && errors.As(err, new(*jobError))
	}
	if len(problems) == 0 {
		return kept, nil
	}
	err = errors.Join(problems...)
	if kept == 0 {
		err = fmt.Errorf("nothing was measured: %w", err)
	} else {
		err = fmt.Errorf("%d of %d commands were measured: %w", kept, len(a.Jobs), err)
	}
	if ofJobs {
		err = &PartError{kept, err}
	}
	return kept, err
}
