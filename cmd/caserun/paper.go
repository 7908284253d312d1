package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/report"
)

// paperOptions are the flags of caserun paper that no other command has.
type paperOptions struct {
	sweeps []string
	system string
	out    string
	force  bool
	run    bool
	mixes  []string // of --run; none: all
	reps   int
}

// validate finds what contradicts itself before anything runs.
func (o paperOptions) validate(settings config) error {
	switch {
	case o.run && len(o.sweeps) > 0:
		return errors.New("--run does a sweep of its own: leave --sweep out")
	case len(o.sweeps) > 0 && settings.Tag != "":
		return errors.New("--sweep and --tag both select runs: give one of them")
	case o.system != "" && !slices.Contains(paper.Systems(), o.system):
		return fmt.Errorf("--as %s: want %s", o.system, strings.Join(paper.Systems(), " or "))
	case o.reps < 0:
		return fmt.Errorf("--reps %d: want 0 or more", o.reps)
	case o.reps > 0 && !o.run:
		return errors.New("--reps is for --run")
	case len(o.mixes) > 0 && !o.run:
		return errors.New("--mixes is for --run: --sweep or --tag chooses stored runs")
	case o.out == "-":
		return errors.New("--out -: it is a directory of files: name one")
	case o.force && o.out == "":
		return errors.New("--force is for --out")
	case o.run && settings.Trace:
		return errors.New("--run measures times, which tracing changes: run caserun sweep --mixes W1..W8 --scheds sa,case-alg2,case-alg3 --trace, and give both sweeps with --sweep")
	}
	_, err := report.ParseFormat(settings.Format)
	return err
}

// refuseForRuns refuses flags that only change runs where there are to be none.
// The settings of environment and file are for other commands too.
func refuseForRuns(given *pflag.FlagSet) (err error) {
	ofRuns := pflag.NewFlagSet("", pflag.ContinueOnError)
	addNodeFlags(ofRuns)
	given.Visit(func(f *pflag.Flag) {
		if f.Name != "node" && f.Name != "tag" && ofRuns.Lookup(f.Name) != nil {
			err = fmt.Errorf("--%s is for --run: add that, or leave --%[1]s out", f.Name)
		}
	})
	return err
}

// systemFor is the paper's system that a node is compared with.
func (o paperOptions) systemFor(node string, devices int) (string, error) {
	if o.system != "" {
		return o.system, nil
	}
	system, err := paper.SystemFor(node, devices)
	if err != nil {
		return "", usageError(fmt.Errorf("%w, with --as", err))
	}
	return system, nil
}

func newPaper() *cobra.Command {
	var o paperOptions
	c := &cobra.Command{
		Use:   "paper",
		Short: "Make the CASE paper's tables and figures, published beside measured",
		Long: `Make Tables 3, 4, 6, 7 and 8 and Figures 5 to 9 of the CASE paper (PPoPP 2022)
from stored runs, with the published value beside each number. Runs come from
sweeps (the latest, or --sweep), from a tag, or with --run from a sweep that is
done now. A number that no run gives is missing, and the output says which
command would measure it.

A node is compared with the paper's system of as many GPUs, 4xV100 or 2xP100;
--as chooses another. With --out the tables also go to a Markdown page, the data
behind each table and figure to CSV files, and figures to SVG, PNG and PDF.`,
		Example: `  caserun paper --run --node sim:4xV100,sim:2xP100 --out paper
  caserun paper --sweep 3,4 --format markdown
  caserun paper --tag evaluation --out paper --force`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runPaper(c, o) },
	}
	addNodeFlags(c.Flags())
	addStoreFlags(c.Flags())
	addFormatFlag(c)
	completeNode(c)
	c.Flags().Lookup("node").Usage = "`NODES`, with commas between: those of --run; without it, only runs on these"
	c.Flags().Lookup("tag").Usage = "`TEXT` that runs are found by; with --run, what its runs get"
	c.Flags().StringSliceVar(&o.sweeps, "sweep", nil, "runs of these `SWEEPS`: numbers, or latest (the default)")
	c.Flags().StringVar(&o.system, "as", "", "compare with the paper's `SYSTEM` 4xV100 or 2xP100, whatever the node")
	c.Flags().StringVar(&o.out, "out", "", "`DIR` for the page, CSV files and figures")
	c.Flags().BoolVar(&o.force, "force", false, "replace files that exist")
	c.Flags().BoolVar(&o.run, "run", false, "do the sweeps first: W1 to W8 and the Darknet mixes under every scheduler of the paper")
	addCatalogMixesFlag(c, &o.mixes, "`LIST` of the mixes of --run, as W1..W8 or D-*; default: all of the paper's for the node's system")
	c.Flags().IntVar(&o.reps, "reps", 0, "repetitions of --run; 0: 7, or 1 on a simulated node without --sim-noise, where all are the same")
	_ = c.RegisterFlagCompletionFunc("sweep", inList(fromStore(offerSweeps)))
	_ = c.RegisterFlagCompletionFunc("tag", fromStore(offerTags))
	_ = c.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(paper.Systems(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func runPaper(c *cobra.Command, o paperOptions) (err error) {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	if !o.run { // the settings of environment and file are for runs to be made, and select nothing
		for flag, setting := range map[string]*string{"node": &settings.Node, "tag": &settings.Tag} {
			if !c.Flags().Changed(flag) {
				*setting = ""
			}
		}
	}
	if err := o.validate(settings); err != nil {
		return usageError(err)
	}
	if !o.run {
		if err := refuseForRuns(c.Flags()); err != nil {
			return usageError(err)
		}
	}
	if err := refuseExisting(o); err != nil {
		return usageError(err)
	}
	if o.run {
		if o.sweeps, err = paperSweeps(c.Context(), settings, o, c.ErrOrStderr()); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "caserun: caserun paper --sweep %s%s makes these tables again\n", strings.Join(o.sweeps, ","), settings.storeFlag())
	}
	db, done, err := openForReading(c.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if o.run { // o.sweeps has its runs
		settings.Node = ""
	}
	nodes, err := paperNodes(c.Context(), db, settings, o, c.ErrOrStderr())
	if err != nil {
		return err
	}
	page, err := paper.Build(nodes)
	if err != nil {
		return usageError(err)
	}
	measured := page.Measured() > 0
	if o.out != "" && measured {
		if err := writePaper(c.Context(), page, o.out, o.force, figures.Formats()...); err != nil {
			return infrastructureError(err)
		}
		fmt.Fprintf(c.ErrOrStderr(), "caserun: wrote %s, %d CSV files and %d figures as SVG, PNG and PDF%s\n",
			filepath.Join(o.out, paperPage), len(page.Tables), len(page.Figures), simulatedPart(page))
	}
	if err := render(c, settings.Format, report.PaperTables(page)...); err != nil {
		return err
	}
	if !measured {
		err := errors.New("none of the paper's numbers has a counterpart in these runs; the notes say what would measure them")
		if o.out != "" {
			err = fmt.Errorf("%w; nothing was written to %s", err, o.out)
		}
		return withStatus(exitNothing, err)
	}
	return nil
}
