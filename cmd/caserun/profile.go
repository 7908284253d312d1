package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/live"
)

// profileOptions are what profile has beyond the shared settings.
type profileOptions struct {
	mix, stdin, name, out string
	untraced              bool
}

func newProfile() *cobra.Command {
	var o profileOptions
	c := &cobra.Command{
		Use:   "profile [flags] -- PROGRAM [ARGS...]",
		Short: "Run a job alone on a GPU and write what it does, for simulated nodes",
		Long: `Run a program, or each command of a mix, alone on one GPU and without MPS,
and write its profile: host time before, with and after device memory, copies,
kernels by what they need of a device, memory, and the shape of the largest
kernel. Where the tracer is built (make native says what it needs), each runs
twice: kernels and copies are those of a traced run, the rest of one that is not
slowed down by tracing. A simulated node replays it (caserun mix --node sim:4xV100
--profiles FILE), and it is the footprint of a program that must be bound as a
whole. docs/profile.md describes the file.`,
		Example: `  caserun profile --out mine.csv -- ./my/solver -n 512
  caserun profile --mix W7 --out w7.csv
  caserun profile --mix their.wl --suite ~/rodinia --out their.csv
  caserun mix my.yaml --node sim:4xV100 --profiles mine.csv`,
		Args: func(c *cobra.Command, args []string) error { return o.validate(args) },
		RunE: func(c *cobra.Command, args []string) error { return runProfile(c, o, args) },
	}
	f := c.Flags()
	f.StringVar(&o.mix, "mix", "", "profile each command of `MIX`, a name or a file, once")
	f.StringVar(&o.stdin, "stdin", "", "`FILE` as the program's standard input")
	f.StringVar(&o.name, "name", "", "label of the program; default: its base name")
	f.StringVarP(&o.out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	addDevicesFlag(f)
	f.BoolVar(&o.untraced, "untraced", false, "one run only, without kernels and copies")
	f.Duration("timeout", 0, "stop a job that runs longer than `DURATION`; 0: never")
	f.String("context-reserve", mixes.FormatBytes(runner.DefaultContextBytes), "`SIZE` that a process's CUDA context takes; caserun doctor measures it")
	addSuiteFlag(f)
	f.String("data", "data", "`DIR` with the programs' input files")
	f.String("runs", "caserun-runs", "`DIR` for the jobs' output files")
	_ = c.RegisterFlagCompletionFunc("mix", completeMixes)
	return c
}

func (o profileOptions) validate(args []string) error {
	switch {
	case (o.mix == "") == (len(args) == 0):
		return usageError(errors.New("profile: name one program behind --, or a mix with --mix"))
	case o.mix != "" && (o.stdin != "" || o.name != ""):
		return usageError(errors.New("profile: --stdin and --name are for one program; a mix has its own"))
	}
	return nil
}

// jobs are the distinct commands to profile, in the mix's order.
func (o profileOptions) jobs(c config, args []string, stderr io.Writer) ([]mixes.Job, error) {
	if o.mix == "" {
		program, err := findCommand(c, args[0])
		if err != nil {
			return nil, err
		}
		j := mixes.FromCommand(append([]string{program}, args[1:]...))
		if o.name != "" {
			j.Name = o.name
		}
		if o.stdin != "" {
			j.Stdin = o.stdin
		}
		return []mixes.Job{j}, nil
	}
	mix, err := loadMix(o.mix, c, profiles.Set{}, stderr)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(mix.Jobs, func(j mixes.Job) bool {
		again := seen[j.Command()]
		seen[j.Command()] = true
		return again
	}), nil
}

// findCommand is the program of a command line as jobs have it: a name of the suite's
// stays, any other is looked up as a shell does.
func findCommand(c config, program string) (string, error) {
	suite, err := ownSuite(c)
	if err != nil || strings.Contains(program, "/") || slices.Contains(mixes.SuitePrograms(), program) || suite.Has(program) {
		return program, err
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", infrastructureError(fmt.Errorf("program %s: %w", program, err))
	}
	return path, nil
}

// runProfile keeps what was measured also where the rest failed or was stopped, by
// whatever signal.
func runProfile(c *cobra.Command, o profileOptions, args []string) error {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	jobs, err := o.jobs(settings, args, c.ErrOrStderr())
	if err != nil {
		return err
	}
	out, err := newOutput(c, o.out) // first: measuring takes long
	if err != nil {
		return err
	}
	found, err := o.profile(c, settings, jobs, profiles.NewWriter(out))
	err = errors.Join(err, infrastructureError(out.close()))
	if found == 0 {
		err = errors.Join(err, infrastructureError(out.remove()))
	}
	return err
}

// profile measures jobs on the first GPU, and writes the profile of each as it ends. It
// returns how many it wrote, also beside an error.
func (o profileOptions) profile(c *cobra.Command, settings config, jobs []mixes.Job, out *profiles.Writer) (found int, err error) {
	programs, dirs, err := resolve(settings, jobs)
	if err != nil {
		return 0, infrastructureError(err)
	}
	library, err := live.FindLibrary(c.Context())
	if err != nil {
		return 0, infrastructureError(err)
	}
	node, err := openGPUs(settings)
	if err != nil {
		return 0, fmt.Errorf("profile measures on a GPU of this machine: %w", err)
	}
	defer func() { err = errors.Join(err, infrastructureError(node.Close())) }()
	if err := node.Select("0"); err != nil {
		return 0, infrastructureError(err)
	}
	p := profiling{jobs: jobs, programs: programs, dirs: dirs, library: library, stderr: c.ErrOrStderr()}
	if !o.untraced {
		p.tracer = findTracer(c.Context(), p.stderr)
	}
	return p.measure(c.Context(), node, settings, out)
}

// resolve finds the jobs' programs; the suite need not be there where none is
// of it.
func resolve(c config, jobs []mixes.Job) (programs, dirs []string, err error) {
	var suite live.Suite
	if slices.ContainsFunc(jobs, mixes.Job.OfSuite) {
		if suite, err = live.OpenSuite(c.Suite, c.Data); err != nil {
			return nil, nil, err
		}
	}
	return suite.Resolve(jobs)
}

// profiling is the work of one caserun profile.
type profiling struct {
	jobs           []mixes.Job
	programs, dirs []string
	library        string // libcase.so
	tracer         string // "": not traced
	stderr         io.Writer
}

// findTracer is the tracer's path, or "" and a word on what that costs.
func findTracer(ctx context.Context, stderr io.Writer) string {
	path, err := live.FindTracer(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "caserun: not traced, so times of kernels and copies stay unknown: %v\n", err)
	}
	return path
}

// measure prepares the node, which has one device, runs every job and writes the
// profiles of those that ended ok; the error tells of the others.
func (p profiling) measure(ctx context.Context, node *nvml.Node, c config, out *profiles.Writer) (found int, err error) {
	warn := func(format string, args ...any) { fmt.Fprintf(p.stderr, "caserun: "+format+"\n", args...) }
	reserve, err := mixes.ParseBytes(c.Context)
	if err != nil {
		return 0, usageError(fmt.Errorf("--context-reserve: %w", err))
	}
	session, err := live.Prepare(ctx, node, live.Options{ContextBytes: reserve, Warn: warn})
	if err != nil {
		return 0, infrastructureError(err)
	}
	defer func() { err = errors.Join(err, infrastructureError(session.Close())) }()
	dir, err := filepath.Abs(c.Runs)
	if err != nil {
		return 0, infrastructureError(err)
	}
	now := time.Now()
	d := session.Devices[0]
	sm, err := smOf(node)
	if err != nil {
		return 0, infrastructureError(err)
	}
	a := &alone{device: session.Schedulable()[0], sm: sm, uuid: d.UUID, id: session.IDs()[0], idle: d.UsedAtStartBytes,
		dir: filepath.Join(dir, "profile-"+now.UTC().Format(dirTime)), preload: p.library, tracer: p.tracer,
		builtin: c.Suite == live.BuiltinSuite, timeout: c.Timeout, warn: warn, epoch: now}
	a.watch = func(run func()) ([]results.Segment, error) {
		seen := &notebook{}
		if err := session.Sample(now, seen); err != nil {
			return nil, err
		}
		run()
		_, err := session.Unsample()
		return seen.segments, err
	}
	found, err = p.runAll(ctx, a, func(q profiles.Profile) error {
		q.GPU, q.Driver, q.MeasuredAt = d.Name, session.Versions.Driver, now.UTC().Truncate(time.Second)
		return out.Write(q)
	})
	return found, p.verdict(found, err)
}

// smOf is what an SM of the node's device holds, which Prepare found to be known.
func smOf(node *nvml.Node) (profiles.SM, error) {
	found, err := node.Devices()
	if err != nil {
		return profiles.SM{}, err
	}
	d := found[0]
	return profiles.SM{Warps: *d.MaxWarpsPerSM, Blocks: *d.MaxBlocksPerSM, SharedBytes: int64(*d.SharedPerSMBytes)}, nil
}

// runAll runs the jobs one after another and has the profile of each kept. One that
// fails does not keep the others from being measured; the end of ctx does, and so does
// a profile that cannot be kept.
func (p profiling) runAll(ctx context.Context, a *alone, keep func(profiles.Profile) error) (kept int, err error) {
	var problems []error
	for i, j := range p.jobs {
		fmt.Fprintf(p.stderr, "caserun: profiling %d of %d: %s\n", i+1, len(p.jobs), j.Command())
		q, err := a.profile(ctx, i, j, p.programs[i], p.dirs[i])
		var stopped signalError
		if errors.As(err, &stopped) {
			return kept, withStatus(stopped.status(), errors.Join(append(problems, stopped)...))
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if err := keep(q); err != nil {
			return kept, errors.Join(append(problems, infrastructureError(err))...)
		}
		kept++
	}
	return kept, errors.Join(problems...)
}

// verdict is the exit status of what was not measured.
func (p profiling) verdict(found int, err error) error {
	switch {
	case err == nil:
		return nil
	case found == 0:
		return withStatus(exitNothing, fmt.Errorf("nothing was measured: %w", err))
	}
	return withStatus(exitJobsFailed, fmt.Errorf("%d of %d commands were measured: %w", found, len(p.jobs), err))
}
