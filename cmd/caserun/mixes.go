package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/userfile/output"
)

func newMixes() *cobra.Command {
	c := &cobra.Command{Use: "mixes", Short: "List, show, make and correct mixes, also from traces"}
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the mixes of the catalog",
		Example: "  caserun mixes list",
		Args:    noArguments,
		RunE: withSettings(func(c *cobra.Command, settings config.Settings) error {
			return render(c, settings.Format, report.MixList(mixes.Catalog()))
		}),
	}
	addFormatFlag(list)
	var shown shownMix
	show := &cobra.Command{
		Use:               "show MIX",
		Short:             "Show the jobs of a mix; --yaml writes it as a file to start from",
		Example:           "  caserun mixes show W7\n  caserun mixes show W7 --yaml >my.yaml",
		Args:              named("MIX"),
		ValidArgsFunction: atMost(1, completeMix),
		RunE:              verb(&shown),
	}
	addFormatFlag(show)
	config.AddSuiteFlag(show.Flags())
	show.Flags().BoolVar(&shown.yaml, "yaml", false, "print the mix in the form that caserun mix reads")
	c.AddCommand(list, show, newTemplate(), newGen(), newTrace(), newLearn())
	return c
}

// shownMix is what mixes show is asked for.
type shownMix struct {
	asked
	mix  string
	yaml bool
}

func (o *shownMix) settle(c *cobra.Command, args []string) error {
	o.mix = args[0]
	return errors.Join(o.asked.settle(c, args), config.NoRange(o.mix))
}

func (o *shownMix) do(c *cobra.Command) error {
	return harness.UnlessStopped(c.Context(), func() error {
		mix, _, err := o.settings.ReadMix(c.Context(), o.mix, profiles.Set{}, sayTo(c))
		if err != nil {
			return err
		}
		if o.yaml {
			return mixes.WriteYAML(c.OutOrStdout(), mix)
		}
		return render(c, o.settings.Format, report.MixJobs(mix))
	})
}

func newTemplate() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:     "new",
		Short:   "Write a commented mix of your own to start from",
		Example: "  caserun mixes new -o my.yaml",
		Args:    noArguments,
		RunE: withSettings(func(c *cobra.Command, _ config.Settings) error {
			return writeOutput(c, out, func(w io.Writer) error { _, err := io.WriteString(w, mixes.Template); return err })
		}),
	}
	c.Flags().StringVarP(&out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	return c
}

func newGen() *cobra.Command {
	var jobs int
	var ratio, out string
	c := &cobra.Command{
		Use:   "gen",
		Short: "Draw a random mix by the paper's rule and write it as YAML",
		Long: `Draw a mix by the rule of CASE, section 5.2: jobs of Table 1 drawn uniformly
from the large (over 4 GiB) and the small ones in the given ratio, in random
order. The same arguments give the same mix.`,
		Example: "  caserun mixes gen --jobs 32 --ratio 3:1 --seed 7 -o my.yaml",
		Args:    noArguments,
		RunE: withSettings(func(c *cobra.Command, settings config.Settings) error {
			r, err := mixes.ParseRatio(ratio)
			if err != nil {
				return refusal{err}
			}
			mix, err := mixes.Generate(jobs, r, settings.Seed)
			if err != nil {
				return refusal{err}
			}
			return writeOutput(c, out, func(w io.Writer) error {
				return harness.UnlessStopped(c.Context(), func() error { return mixes.WriteYAML(w, mix) })
			})
		}),
	}
	c.Flags().IntVar(&jobs, "jobs", 16, "number of jobs")
	c.Flags().StringVar(&ratio, "ratio", "1:1", "large:small")
	c.Flags().Uint64("seed", 1, "seed of the draw")
	c.Flags().StringVarP(&out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	return c
}

// learnOptions are what mixes learn has beyond the shared settings.
type learnOptions struct {
	asked
	mix, run, out string
	inPlace       bool
	profiled      bool // the settings' profiles measured, and not a run
}

func newLearn() *cobra.Command {
	var o learnOptions
	c := &cobra.Command{
		Use:   "learn MIX",
		Short: "Write a mix with the footprints that a run or a profile measured",
		Long: `Write a mix with measured footprints in place of declared ones: memory, blocks
and threads_per_block. They come from the latest run of the mix on real GPUs or,
with --profiles, from a file of caserun profile. A value that was not measured
stays, and stderr names it. A YAML file keeps its comments and its layout.`,
		Example: `  caserun mixes learn my.yaml --in-place
  caserun mixes learn my.yaml --run 12 -o learned.yaml
  caserun mixes learn D-128 --profiles darknet.csv -o D-128.yaml`,
		Args:              named("MIX"),
		ValidArgsFunction: atMost(1, completeMix),
		RunE:              verb(&o),
	}
	f := c.Flags()
	f.StringVar(&o.run, "run", "latest", "the `RUN` that measured, a number of caserun report")
	f.String("profiles", "", "`FILE` of caserun profile that measured, instead of a run")
	f.StringVarP(&o.out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	f.BoolVar(&o.inPlace, "in-place", false, "replace the mix's own file")
	config.AddStoreFlag(f)
	config.AddSuiteFlag(f)
	c.MarkFlagsMutuallyExclusive("run", "profiles")
	c.MarkFlagsMutuallyExclusive("out", "in-place")
	_ = c.RegisterFlagCompletionFunc("run", fromStore(selection.OfferRuns))
	return c
}

func (o *learnOptions) settle(c *cobra.Command, args []string) error {
	o.mix, o.profiled = args[0], c.Flags().Changed("profiles")
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if o.inPlace && !mixes.IsYAML(o.mix) {
		return fmt.Errorf("--in-place: %s is not a YAML file: write one with -o FILE", o.mix)
	}
	return nil
}

func (o *learnOptions) do(c *cobra.Command) error {
	if err := harness.SpareStore(o.settings.DB, o.out); err != nil {
		return err
	}
	known, err := o.settings.KnownProfiles(c.Context())
	if err != nil {
		return err
	}
	mix, has, err := o.settings.ReadMix(c.Context(), o.mix, known, sayTo(c))
	if err != nil {
		return err
	}
	var measured map[string]mixes.Footprint
	if o.profiled {
		var set profiles.Set
		if set, err = profiles.Load(c.Context(), o.settings.Profiles); err != nil {
			return refusal{err}
		}
		measured = set.Footprints(mix.Jobs)
	} else if measured, err = o.used(c, mix); err != nil {
		return err
	}
	of := func(j mixes.Job) mixes.Footprint { return measured[j.Command()] }
	if !slices.ContainsFunc(mix.Jobs, func(j mixes.Job) bool { return of(j) != (mixes.Footprint{}) }) {
		return nothingError{fmt.Errorf("mixes learn: nothing is known of what the jobs of %s used, because the store has no live run that says it: run it on a GPU under a scheduler that binds tasks, such as case-alg3, or measure it with caserun profile --mix %s --out FILE and name that with --profiles", o.mix, o.mix)}
	}
	for _, says := range mixes.Unmeasured(mix, of) {
		sayTo(c)("%s", says)
	}
	if !suites.IsMixFile(o.mix) {
		mix.Name += "-learned" // it is not the one of the catalog
	}
	text, err := mixes.Learn(mix, of, has)
	if err != nil {
		return refusal{err}
	}
	write := func(w io.Writer) error { _, err := w.Write(text); return err }
	if o.inPlace {
		return output.Write(c.Context(), o.mix, output.Policy{Force: true}, write)
	}
	return writeOutput(c, o.out, write)
}

// used are the footprints that the jobs of a run had, by command.
func (o *learnOptions) used(c *cobra.Command, mix mixes.Mix) (out map[string]mixes.Footprint, err error) {
	err = o.read(c, func(db *store.Store) error { out, err = nodes.Used(c.Context(), db, mix, o.run, sayTo(c)); return err })
	return out, err
}
