package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/profiles"
)

// fitOptions are what profile fit is asked for.
type fitOptions struct {
	asked
	side, out string
}

func newProfileFit() *cobra.Command {
	var o fitOptions
	c := &cobra.Command{
		Use:   "fit SIDE",
		Short: "Fit profiles to the host of live runs, for simulated nodes",
		Long: `Write the profiles of the jobs of live runs, fitted to the host of these runs:
each job lasts as long as the median of its runs. Its host phases are longer or
shorter in proportion. Copies, kernels and memory stay those of its profile in
the catalog or in --profiles. So a simulated node, which does not know how fast
a host is for which program, can tell how other schedulers would do on it.

Of SIDE the complete runs under sa count, because there each job has a GPU to
itself, and at most as many jobs as GPUs share the host. Runs that were not
traced go before traced ones. SIDE is

` + selection.Help,
		Example: `  caserun sweep --mixes W1..W8 --scheds sa --reps 1 --mem-cap 16GiB
  caserun profile fit latest -o here.csv
  caserun mix W7 --sched plan --node sim:4xH200 --mem-cap 16GiB \
      --profiles here.csv`,
		Args:              named("SIDE"),
		ValidArgsFunction: atMost(1, fromStore(selection.OfferSides)),
		RunE:              verb(&o),
	}
	f := c.Flags()
	config.AddStoreFlag(f)
	f.String("profiles", "", "`FILE` of caserun profile: profiles to fit, in addition to the catalog's")
	f.StringVarP(&o.out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	return c
}

func (o *fitOptions) settle(c *cobra.Command, args []string) error {
	o.side = args[0]
	return o.asked.settle(c, args)
}

func (o *fitOptions) do(c *cobra.Command) (err error) {
	if err := spareStore(o.settings.DB, o.out); err != nil {
		return err
	}
	ctx := c.Context()
	known, err := o.settings.KnownProfiles(ctx)
	if err != nil {
		return err
	}
	db, done, err := openForReading(ctx, o.settings.DB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	side, err := selection.Select(ctx, db, o.side)
	if err != nil {
		return err
	}
	if len(side.Runs) == 0 {
		return refuse("profile fit: %s: %s; caserun report%s lists what there is", side.Label, selection.WhyEmpty(ctx, db, o.side, o.settings.DB), o.settings.StoreFlag())
	}
	runs := toFit(side.Runs)
	if len(runs) == 0 {
		return nothingError{fmt.Errorf("profile fit: %s has no complete live run under sa: caserun sweep --mixes MIXES --scheds sa makes some", side.Label)}
	}
	seconds, failed, err := durations(ctx, db, runs)
	if err != nil {
		return err
	}
	if len(seconds) == 0 {
		return nothingError{fmt.Errorf("profile fit: no job of %s ended ok: %s", side.Label, strings.Join(failed, ", "))}
	}
	fitted, missing, long := known.Fitted(gpuOf(runs[0]), seconds)
	all := fitted.All()
	if len(all) == 0 {
		return nothingError{fmt.Errorf("profile fit: no job of %s that ended ok has a profile to fit: measure them with caserun profile, and name its file with --profiles: %s", side.Label, strings.Join(missing, ", "))}
	}
	say := sayTo(c)
	if len(missing) > 0 {
		say("left out, because they have no profile to fit (caserun profile measures one, and --profiles names it): %s", strings.Join(missing, ", "))
	}
	if len(failed) > 0 {
		say("left out, because they never ended ok in these runs: %s", strings.Join(failed, ", "))
	}
	if len(long) > 0 {
		say("the fitted profiles of these jobs are too long, because the copies and kernels in their profiles last longer than the jobs did: %s", strings.Join(long, ", "))
	}
	if runs[0].Traced {
		say("all of these runs were traced, which makes jobs longer: caserun sweep without --trace makes better ones")
	}
	if n := len(regress.Machines(runs)); n > 1 {
		say("the runs are of %d machines, and the medians of all: fit each machine's runs alone to know its host", n)
	}
	if slices.ContainsFunc(runs, func(r regress.Observation) bool { return gpuOf(r) != gpuOf(runs[0]) }) {
		say("the runs are of several models of GPU, and the profiles name the first, %s: a simulated node of another model scales them by it", gpuOf(runs[0]))
	}
	return writeOutput(c, o.out, func(w io.Writer) error {
		out := profiles.NewWriter(w)
		for _, p := range all {
			if err := out.Write(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// toFit are the runs in which jobs last as long as they do alone. Tracing makes them longer.
func toFit(runs []regress.Observation) (out []regress.Observation) {
	for _, traced := range []bool{false, true} {
		for _, r := range runs {
			if r.Mode == results.Live && r.Status == results.Complete && r.Doubts == "" && r.Scheduler == "sa" && r.Traced == traced {
				out = append(out, r)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// gpuOf is the name of a run's first GPU, which is that of all its GPUs in nearly all machines.
func gpuOf(r regress.Observation) string {
	if len(r.Devices) == 0 {
		return ""
	}
	return r.Devices[0].Name
}

// durations are how long the jobs that ended ok lasted, in seconds, by command, and the commands of which none did.
func durations(ctx context.Context, db *store.Store, runs []regress.Observation) (seconds map[string][]float64, failed []string, err error) {
	all := map[string][]float64{}
	for _, r := range runs {
		jobs, err := db.Jobs(ctx, r.ID)
		if err != nil {
			return nil, nil, err
		}
		for _, j := range jobs {
			lasted := all[j.Command]
			if j.Outcome != nil && *j.Outcome == results.OK && j.StartS != nil && j.EndS != nil {
				lasted = append(lasted, *j.EndS-*j.StartS)
			}
			all[j.Command] = lasted
		}
	}
	for _, command := range slices.Sorted(maps.Keys(all)) {
		if len(all[command]) == 0 {
			failed = append(failed, command)
			delete(all, command)
		}
	}
	return all, failed, nil
}
