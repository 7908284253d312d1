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
	defer func() { err = errors.Join(err, CloseGPUs(gpus, p.Say)) }()
	callers(os.Environ(), p.Jobs, p.Say)
	if err := gpus.Select("0", ""); err != nil {
		return 0, err
	}
	tracer := ""
	if !p.Untraced {
		if tracer, err = FindTracer(ctx); err != nil {
			p.Say("not traced, so times of kernels and copies stay unknown: %v", err)
		}
	}
	a := &alone{preload: library, tracer: tracer, once: p.Once, suite: p.Options.Suite, timeout: time.Duration(p.Options.Timeout), warn: p.Say}
	return p.measure(ctx, gpus, a, programs, dirs, keep)
}

// measure prepares the GPU, runs every job on it and has the profiles kept.
func (p Profiling) measure(ctx context.Context, gpus *nvml.Node, a *alone, programs, dirs []string, keep func(profiles.Profile) error) (kept int, err error) {
	session, err := Prepare(ctx, gpus, Options{ContextBytes: p.Options.Context.Bytes, Warn: p.Say})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	dir, err := filepath.Abs(p.Options.Runs)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	d := session.Devices[0]
	if a.sm, err = smOf(gpus); err != nil {
		return 0, err
	}
	a.device, a.uuid, a.id, a.idle = session.Schedulable()[0], d.UUID, session.IDs()[0], d.UsedAtStartBytes
	a.dir, a.epoch = filepath.Join(dir, "profile-"+now.UTC().Format(dirTime)), now
	a.watch = func(run func()) ([]results.Segment, error) {
		seen := &notebook{}
		if err := session.Sample(now, seen); err != nil {
			return nil, err
		}
		run()
		_, err := session.Unsample()
		return seen.segments, err
	}
	return p.runAll(ctx, a, programs, dirs, func(q profiles.Profile) error {
		q.GPU, q.Driver, q.MeasuredAt = d.Name, session.Versions.Driver, now.UTC().Truncate(time.Second)
		return keep(q)
	})
}

// smOf is what an SM of the node's device holds, which Prepare found to be known.
func smOf(gpus *nvml.Node) (profiles.SM, error) {
	found, err := gpus.Devices()
	if err != nil {
		return profiles.SM{}, err
	}
	d := found[0]
	return profiles.SM{Warps: *d.MaxWarpsPerSM, Blocks: *d.MaxBlocksPerSM, SharedBytes: int64(*d.SharedPerSMBytes)}, nil
}

// runAll runs the jobs one after another. It stops at the end of ctx, and at a profile that
// cannot be kept. The error is a *PartError where all reasons are jobs'.
func (p Profiling) runAll(ctx context.Context, a *alone, programs, dirs []string, keep func(profiles.Profile) error) (kept int, err error) {
	var problems []error
	ofJobs := true
	for i, j := range p.Jobs {
		p.Say("profiling %d of %d: %s", i+1, len(p.Jobs), j.Command())
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
		err = fmt.Errorf("%d of %d commands were measured: %w", kept, len(p.Jobs), err)
	}
	if ofJobs {
		err = &PartError{kept, err}
	}
	return kept, err
}
