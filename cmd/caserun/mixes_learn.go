package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
)

// learnOptions are what mixes learn has beyond the shared settings.
type learnOptions struct {
	run, out string
	inPlace  bool
}

func newLearn() *cobra.Command {
	var o learnOptions
	c := &cobra.Command{
		Use:   "learn MIX",
		Short: "Write a mix with the footprints that a run or a profile measured",
		Long: `Write a mix with what its jobs were measured to use in place of what it declares:
memory, blocks and threads_per_block. By default the latest run of the mix on real
GPUs says it, or with --profiles a file of caserun profile. What was not measured of
a job stays, and is named on stderr. A YAML file keeps its comments and its layout.`,
		Example: `  caserun mixes learn my.yaml --in-place
  caserun mixes learn my.yaml --run 12 -o learned.yaml
  caserun mixes learn D-128 --profiles darknet.csv -o D-128.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMixes,
		RunE:              func(c *cobra.Command, args []string) error { return runLearn(c, args[0], o) },
	}
	f := c.Flags()
	f.StringVar(&o.run, "run", "latest", "the `RUN` that measured, a number of caserun report")
	f.String("profiles", "", "`FILE` of caserun profile that measured, instead of a run")
	f.StringVarP(&o.out, "output", "o", "", "write to `FILE`, which must not exist; default: standard output")
	f.BoolVar(&o.inPlace, "in-place", false, "replace the mix's own file")
	addStoreFlags(f)
	addSuiteFlag(f)
	c.MarkFlagsMutuallyExclusive("run", "profiles")
	c.MarkFlagsMutuallyExclusive("output", "in-place")
	_ = c.RegisterFlagCompletionFunc("run", fromStore(offerRuns))
	return c
}

func runLearn(c *cobra.Command, arg string, o learnOptions) error {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	if o.inPlace && !mixes.IsYAML(arg) {
		return usageError(fmt.Errorf("--in-place: %s is not a YAML file: write one with -o FILE", arg))
	}
	known, err := settings.knownProfiles(c.Context())
	if err != nil {
		return err
	}
	mix, has, err := readMix(arg, settings, known, c.ErrOrStderr())
	if err != nil {
		return err
	}
	var measured map[string]mixes.Footprint
	if c.Flags().Changed("profiles") {
		measured, err = profiledFootprints(c.Context(), settings.Profiles, mix)
	} else {
		measured, err = usedFootprints(c, settings, o.run, mix)
	}
	if err != nil {
		return err
	}
	of := func(j mixes.Job) mixes.Footprint { return measured[j.Command()] }
	if !slices.ContainsFunc(mix.Jobs, func(j mixes.Job) bool { return of(j) != (mixes.Footprint{}) }) {
		return withStatus(exitNothing, fmt.Errorf("mixes learn: nothing is known of what the jobs of %s used: run it on a GPU under a scheduler that binds tasks, such as case-alg3, or measure it with caserun profile --mix %s --out FILE and name that with --profiles", arg, arg))
	}
	sayUnmeasured(c.ErrOrStderr(), mix, of)
	if !isMixFile(arg) {
		mix.Name += "-learned" // it is not the one of the catalog
	}
	text, err := mixes.Learn(mix, of, has)
	if err != nil {
		return usageError(err)
	}
	write := func(w io.Writer) error { _, err := w.Write(text); return err }
	if o.inPlace {
		return infrastructureError(report.WriteFile(c.Context(), arg, true, write))
	}
	return writeOutput(c, o.out, write)
}

// profiledFootprints are those of a profile file, by command.
func profiledFootprints(ctx context.Context, path string, mix mixes.Mix) (map[string]mixes.Footprint, error) {
	set, err := profiles.Load(ctx, path)
	if err != nil {
		return nil, usageError(err)
	}
	out := map[string]mixes.Footprint{}
	for _, j := range mix.Jobs {
		if p, err := set.Lookup(j); err == nil && p.Footprint != (mixes.Footprint{}) {
			out[j.Command()] = p.Footprint
		}
	}
	return out, nil
}

// usedFootprints are what the jobs of a run used, by command.
func usedFootprints(c *cobra.Command, settings config, arg string, mix mixes.Mix) (out map[string]mixes.Footprint, err error) {
	db, done, err := openForReading(c.Context(), settings)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	selected := store.Filter{}
	if arg == "latest" {
		selected = store.Filter{Mix: mix.Name, Mode: results.Live}
	}
	run, err := findRun(c.Context(), db, arg, selected)
	if err != nil {
		return nil, err
	}
	if run.Mode != results.Live {
		return nil, usageError(fmt.Errorf("run %d is simulated, and measured nothing: name another", run.ID))
	}
	jobs, err := db.Jobs(c.Context(), run.ID)
	if err != nil {
		return nil, infrastructureError(err)
	}
	tasks, err := db.Tasks(c.Context(), run.ID)
	fmt.Fprintf(c.ErrOrStderr(), "caserun: footprints are those of run %d (%s)\n", run.ID, results.ArmOf(run))
	return used(jobs, tasks), infrastructureError(err)
}

// used has for each command the most memory that one of its jobs used, and the task with the
// most warps. Jobs that did not end ok may not have come to what they need.
func used(jobs []results.Job, tasks []results.Task) map[string]mixes.Footprint {
	out := map[string]mixes.Footprint{}
	commands := map[int]string{}
	for _, j := range jobs {
		if j.Outcome == nil || *j.Outcome != results.OK || j.UsedBytes == nil {
			continue
		}
		commands[j.Index] = j.Command
		f := out[j.Command]
		f.Bytes = max(f.Bytes, *j.UsedBytes)
		out[j.Command] = f
	}
	most := map[string]float64{} // warps
	for _, t := range tasks {
		command, ok := commands[t.Job]
		if warps := t.Warps(); ok && t.GrantS != nil && t.Blocks > 0 && warps > most[command] {
			most[command] = warps
			f := out[command]
			f.Blocks, f.ThreadsPerBlock = t.Blocks, t.ThreadsPerBlock
			out[command] = f
		}
	}
	return out
}

// sayUnmeasured names each command of the mix of which something stays as it is.
func sayUnmeasured(stderr io.Writer, mix mixes.Mix, measured func(mixes.Job) mixes.Footprint) {
	said := map[string]bool{}
	for _, j := range mix.Jobs {
		f := measured(j)
		what := "its blocks and threads stay as they are: they were not measured"
		switch {
		case f == (mixes.Footprint{}):
			what = "its footprint stays as it is: it was not measured"
		case f.Bytes == 0:
			what = "its memory stays as it is: it was not measured"
		case f.Blocks > 0 && f.ThreadsPerBlock > 0:
			continue
		}
		if !said[j.Command()] {
			fmt.Fprintf(stderr, "caserun: %s: %s\n", j.Command(), what)
		}
		said[j.Command()] = true
	}
}
