package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/profiles"
)

// profileOptions are what profile is asked for.
type profileOptions struct {
	asked
	mix, stdin, name, out string
	untraced, once        bool
}

func newProfile() *cobra.Command {
	var o profileOptions
	c := &cobra.Command{
		Use:   "profile [flags] -- PROGRAM [ARGS...]",
		Short: "Measure a job alone on a GPU, for simulated nodes",
		Long: `Run a program, or each command of a mix, alone on one GPU and without MPS, and
write its profile. A profile has the host time before, with and after device
memory, copies, kernels by what they need of a device, memory, and the shape of
the largest kernel.

Where the tracer is built, each program runs twice, because tracing costs time.
Kernels and copies come from the traced run, and everything else from the other
run. make native says what the tracer needs.

A simulated node replays the profile (caserun mix --node sim:4xV100 --profiles
FILE). It is also the footprint of a program that must be bound as a whole.
To simulate a job whose memory comes and goes, list its steps in a file and name
it with steps: in a mix. docs/reference/profiles.md describes both files.`,
		Example: `  caserun profile -o mine.csv -- ./my/solver -n 512
  caserun profile --mix W7 -o w7.csv
  caserun profile --mix their.wl --suite ~/rodinia -o their.csv
  caserun mix my.yaml --node sim:4xV100 --profiles mine.csv`,
		Args: func(c *cobra.Command, args []string) error { return o.validate(args) },
		RunE: verb(&o),
	}
	f := c.Flags()
	f.StringVar(&o.mix, "mix", "", "profile each command of `MIX`, a name or a file, once")
	f.StringVar(&o.stdin, "stdin", "", "`FILE` as the program's standard input")
	f.StringVar(&o.name, "name", "", "`TEXT` to call the program by; default: its base name")
	f.StringVarP(&o.out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	config.AddDevicesFlag(f)
	f.BoolVar(&o.untraced, "untraced", false, "one run only, without kernels and copies")
	f.BoolVar(&o.once, "once", false, "one run only, traced, which makes the host's part longer")
	f.Duration("timeout", 0, "stop a job that runs longer than `DURATION`; 0: never")
	f.String("context-reserve", harness.DefaultContext.String(), "`SIZE` that a process's CUDA context takes; caserun doctor measures it")
	config.AddSuiteFlag(f)
	config.AddDirectories(f)
	c.MarkFlagsMutuallyExclusive("untraced", "once")
	c.AddCommand(newProfileFit())
	return c
}

func (o *profileOptions) validate(args []string) error {
	switch {
	case (o.mix == "") == (len(args) == 0):
		return errors.New("profile: name one program behind --, or a mix with --mix")
	case o.mix != "" && (o.stdin != "" || o.name != ""):
		return errors.New("profile: --stdin and --name are for one program; a mix has its own")
	}
	return config.CheckName("--name", o.name)
}

// jobs are the distinct commands to profile, in the mix's order.
func (o *profileOptions) jobs(ctx context.Context, say harness.Say) ([]mixes.Job, error) {
	if o.mix == "" {
		j, err := suites.Command(o.settings.Suite, o.settings.Data, o.args)
		j.Name, j.Stdin = cmp.Or(input.Name(o.name), j.Name), cmp.Or(o.stdin, j.Stdin)
		return []mixes.Job{j}, err
	}
	mix, _, err := o.settings.ReadMix(ctx, o.mix, profiles.Set{}, say)
	return mix.Distinct(), err
}

// do keeps what was measured also if the rest failed or was stopped, by whatever signal.
func (o *profileOptions) do(c *cobra.Command) error {
	say := sayTo(c)
	jobs, err := o.jobs(c.Context(), say)
	if err != nil {
		return err
	}
	out, end, err := newRecords(c, o.out) // first, because measuring takes long
	if err != nil {
		return err
	}
	kept, err := live.Profiling{Options: o.settings.Options, Jobs: jobs, Untraced: o.untraced, Once: o.once, Say: say}.Run(c.Context(), profiles.NewWriter(out).Write)
	return errors.Join(err, end(kept > 0))
}
