package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/publication"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/sweep"
	"github.com/caserun/caserun/userfile/output"
)

// paperOptions are what paper is asked for.
type paperOptions struct {
	asked
	name   string // of the paper
	paper  *paper.Paper
	sweeps []string
	system string
	out    string
	force  bool
	run    bool
	mixes  []string // of --run; none: all
	reps   int
	log    logFlag
}

// paperConflicts are flags of paper that cannot be combined.
var paperConflicts = []conflict{{"run", "sweep", "it does a sweep of its own"}, {"sweep", "tag", "both select runs"}}

// validate finds what contradicts itself before anything runs.
func (o *paperOptions) validate(flags *pflag.FlagSet) error {
	if err := refuseConflicts(flags, paperConflicts); err != nil {
		return err
	}
	for _, name := range o.ofRuns() {
		if err := requireFlag(flags, name, "run"); err != nil {
			return err
		}
	}
	if err := o.paper.CheckSystem(o.system); err != nil {
		return fmt.Errorf("--as %s: %w", o.system, err)
	}
	switch {
	case o.run && len(o.paper.Sweeps) == 0:
		return fmt.Errorf("--run: no sweep measures what is in %s: leave it out. %s", o.name, o.paper.Remedy)
	case o.out == "-":
		return errors.New("--out -: it is a directory of files: name one")
	case o.run && o.settings.Trace:
		return errors.New("--run measures times, which tracing changes: run caserun sweep --mixes W1..W8 --scheds sa,case-alg2,case-alg3 --trace, and give both sweeps with --sweep")
	}
	return requireFlag(flags, "force", "out")
}

// ofRuns are the flags that only change runs. Settings of the environment and of a file may change
// them too, because they are for other commands as well.
func (o *paperOptions) ofRuns() []string {
	names := []string{"reps", "mixes", "log-json"}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddNodeFlags(flags)
	config.AddProbeFlag(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "node" && f.Name != "tag" {
			names = append(names, f.Name)
		}
	})
	return names
}

// selection says which runs the tables are made of.
func (o *paperOptions) selection(say harness.Say) selection.Paper {
	return selection.Paper{Of: o.paper, Sweeps: o.sweeps, Tag: o.settings.Tag, Nodes: nodes.Split(o.settings.Node), System: o.system,
		DB: o.settings.DB, StoreFlag: o.settings.StoreFlag(), Resume: storeHint(o.settings), Say: say}
}

// command is the command with the paper, unless that is the default.
func (o *paperOptions) command() string {
	if o.name == paper.Default {
		return "caserun paper"
	}
	return "caserun paper " + o.name
}

func newPaper() *cobra.Command {
	var o paperOptions
	c := &cobra.Command{
		Use:   "paper [PAPER]",
		Short: "Make a paper's tables and figures from your runs",
		Long: `Make a paper's tables and figures from stored runs, with the published value
beside each number. PAPER is case (the default): Tables 3, 4, 6, 7 and 8 and
Figures 5 to 9 of the CASE paper (PPoPP 2022); mig: two means of the paper on
CASE and MIG (GPGPU 2022); schedgpu: Tables 1 to 3 and Figure 9 of schedGPU's
(TPDS 2018); pilot: Table I and Figures 1, 2, 4 and 5 of PILOT's; node, cluster
or ivm: Figures 3-7 to 3-21, 4-2 to 4-5, or 5-5 and 5-6 of the dissertation on
CPU-GPU clusters. The numbers of their texts are there too. What pilot and the
dissertation say in words is answered by yes, no or not measured.

Runs come from sweeps (the latest, or --sweep), from a tag, or with --run from a
new sweep. Those of all papers but case and mig are all runs in the store that
their scripts in benchmarks made, and kernel times in table1.csv beside it.
A number without a run is missing, and the output says what would measure it.

A node is compared with the paper's system of as many GPUs or instances, 4xV100
or 2xP100 of case and 1xK20m of schedgpu; --as chooses another. Those of pilot
and the dissertation follow from the mix and the devices of each run. With --out
the tables also go to a Markdown page, the data behind each table and figure to
CSV files, and figures to SVG, PNG and PDF.`,
		Example: `  caserun paper --run --node sim:4xV100,sim:2xP100 -o paper
  caserun paper --sweep 3,4 --format markdown
  caserun paper --tag evaluation -o paper --force
  caserun paper mig --run --node sim:1xA30/2x2g.12gb
  caserun paper schedgpu --db runs.db
  caserun paper pilot --db pilot/pilot.db --node sim:1xH200 -o figures
  caserun paper node --db node/node.db`,
		Args:              atMostOne,
		ValidArgsFunction: atMost(1, fixed(paper.Names()...)),
		RunE:              verb(&o),
	}
	config.AddSweepNodeFlags(c.Flags())
	config.AddStoreFlag(c.Flags())
	config.AddProbeFlag(c.Flags())
	addFormatFlag(c)
	c.Flags().Lookup("node").Usage = "`NODES` of --run, with commas; without it, only runs on these"
	c.Flags().Lookup("tag").Usage = "`TEXT` to find runs by; with --run, what its runs get"
	config.AddListFlag(c.Flags(), &o.sweeps, "sweep", "runs of these `SWEEPS`: numbers, or latest (the default)")
	c.Flags().StringVar(&o.system, "as", "", "compare with the paper's `SYSTEM`, such as 4xV100")
	c.Flags().StringVarP(&o.out, "out", "o", "", "`DIR` for the page, CSV files and figures")
	c.Flags().BoolVar(&o.force, "force", false, "replace files that exist")
	c.Flags().BoolVar(&o.run, "run", false, "first do the sweeps, under every scheduler of the paper")
	config.AddCatalogMixesFlag(c.Flags(), &o.mixes, "`LIST` of the mixes of --run, as W1..W8 or D-*; default: the paper's")
	config.AddCountFlag(c.Flags(), &o.reps, "reps", "`NUMBER` of repetitions of --run; default: "+config.DefaultReps())
	o.log.addTo(c)
	_ = c.RegisterFlagCompletionFunc("sweep", inList(fromStore(selection.OfferSweeps)))
	_ = c.RegisterFlagCompletionFunc("as", func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		p, err := paper.Lookup(append(args, paper.Default)[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.SystemNames(), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

func (o *paperOptions) settle(c *cobra.Command, args []string) (err error) {
	o.name = append(args, paper.Default)[0]
	if o.paper, err = paper.Lookup(o.name); err != nil {
		if hint := ofList(c); hint != "" {
			err = fmt.Errorf("%w; %s", err, hint)
		}
		return err
	}
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if !o.run { // settings of the environment and of a file are for new runs, and select none
		for flag, setting := range map[string]*string{"node": &o.settings.Node, "tag": &o.settings.Tag} {
			if !c.Flags().Changed(flag) {
				*setting = ""
			}
		}
	}
	if err := o.validate(c.Flags()); err != nil || o.out == "" {
		return err
	}
	return o.checkOutput()
}

// checkOutput refuses files that could not be written, before a sweep whose tables they have.
func (o *paperOptions) checkOutput() error {
	for _, path := range publication.Paths(o.paper, o.out) {
		if err := harness.SpareStore(o.settings.DB, path); err != nil {
			return err
		}
		if o.log.path != "" && output.Same(path, o.log.path) {
			return fmt.Errorf("--log-json %s: --out writes that file: name another", o.log.path)
		}
	}
	return publication.Check(o.paper, o.out, o.force)
}

func (o *paperOptions) do(c *cobra.Command) (err error) {
	say := sayTo(c)
	if o.run {
		if o.sweeps, err = o.runSweeps(c); err != nil {
			return err
		}
		o.settings.Node, o.settings.Tag = "", "" // the sweeps have the runs
		again := fmt.Sprintf("%s --sweep %s%s makes these tables again", o.command(), strings.Join(o.sweeps, ","), o.settings.StoreFlag())
		say("%s", again)
		return orAgain(onStore{o}.do(c), "what was measured is stored", again)
	}
	if o.selection(say).OnlyTimes() {
		return o.look(c, nil)
	}
	return onStore{o}.do(c)
}

// look makes the tables of runs that are stored, or of kernel times alone.
func (o *paperOptions) look(c *cobra.Command, db *store.Store) error {
	ctx, say := c.Context(), sayTo(c)
	found, err := o.selection(say).Select(ctx, db)
	if err != nil {
		return err
	}
	page, err := o.paper.Build(found)
	if err != nil {
		return refusal{err}
	}
	measured := page.Measured() > 0
	if o.out != "" && measured {
		if err := publication.Write(ctx, page, o.out, o.force, figures.Formats()...); err != nil {
			return err
		}
		say("wrote %s, %d CSV files and %d figures as SVG, PNG and PDF%s",
			filepath.Join(o.out, publication.Page), len(page.Tables), len(page.Figures), simulatedPart(page))
	}
	if err := render(c, o.settings.Format, report.PaperTables(page)...); err != nil {
		return err
	}
	if !measured {
		err := errors.New("none of the paper's numbers has a counterpart in these runs; the notes say what would measure them")
		if o.out != "" {
			err = fmt.Errorf("%w; nothing was written to %s", err, o.out)
		}
		return nothingError{err}
	}
	return nil
}

func simulatedPart(page paper.Page) string {
	for _, n := range page.Nodes {
		if n.Mode == results.Simulated {
			return "; figures of sim: nodes are SIMULATED"
		}
	}
	return ""
}

// runSweeps does the sweeps of --run and returns their numbers. It checks all nodes and the
// directory of --out, and stores all plans, before the first run.
func (o *paperOptions) runSweeps(c *cobra.Command) (ids []string, err error) {
	ctx, say, settings := c.Context(), sayTo(c), o.settings
	planned, err := sweep.Evaluation{Paper: o.paper, Options: settings.Options, Nodes: nodes.Split(settings.Node), Probe: settings.Probe, Mixes: o.mixes, Reps: o.reps, NoiseGiven: settings.NoiseGiven,
		System: o.selection(say).SystemFor, Say: say}.Plan(ctx)
	if err != nil {
		return nil, err
	}
	if o.out != "" {
		if err := publication.MakeWritable(o.out); err != nil {
			return nil, err
		}
	}
	db, err := harness.OpenStore(settings.DB)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, logged, err := o.log.open(c, o.settings.DB)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, logged()) }()
	var calls []*sweep.Call
	for _, p := range planned {
		id, err := p.Store(ctx, db, settings.AllowSimulated, say)
		if err != nil {
			return nil, err
		}
		ids = append(ids, strconv.FormatInt(id, 10))
		calls = append(calls, &sweep.Call{Plan: p, ID: id, Store: db, Jobs: 1, Now: time.Now, Say: say, Log: log,
			Display: display.NewSweep(c.ErrOrStderr(), p.Mode, time.Now()), StoreFlag: settings.StoreFlag()})
	}
	if err := sweep.RunAll(ctx, calls); err != nil {
		return nil, fmt.Errorf("%w; %s --sweep %s%s makes the tables", err, o.command(), strings.Join(ids, ","), settings.StoreFlag())
	}
	return ids, nil
}
