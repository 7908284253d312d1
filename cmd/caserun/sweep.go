package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/pages"
	"github.com/caserun/caserun/runner/slurmsweep"
	"github.com/caserun/caserun/runner/sweep"
	"github.com/caserun/caserun/userfile"
)

// sweepOptions are what sweep is asked for.
type sweepOptions struct {
	asked
	sweep    sweep.Options
	given    []string // the keys of settings and options that a flag or the file has
	file     string
	resume   string // number of a sweep or latest; empty: a new one
	force    bool
	redo     bool // doubtful runs
	dryRun   bool
	planOnly bool
	show     bool // the configuration, and run nothing
	part     sweep.Part
	slurm    slurmOptions
	limit    sweep.TimeLimit
	log      logFlag
	page     *pages.Growing // nil: none
}

func newSweep() *cobra.Command {
	var o sweepOptions
	c := &cobra.Command{
		Use:   "sweep [FILE]",
		Short: "Run mixes under schedulers, many times, in a fair order",
		Long: `Run every mix under every scheduler, --reps times, in an order drawn from the
seed. The plan is stored before the first run, and --resume continues it, even
after kill -9; with more --reps it extends the sweep. An arm is a mix under a
scheduler with a probe. FILE is YAML with the flags' names as keys; flags
override it. Jobs that crash are results: the exit status is 0 when every run
was carried out, and 4 when --time-limit left some.`,
		Example: `  caserun sweep --mixes W1..W8 --scheds sa,case-alg3 --node sim:4xV100 --jobs 8
  caserun sweep --mixes W7,my.yaml \
      --scheds cg:workers=8,case-alg3:queue=fifo,age-limit=8 --dry-run
  caserun sweep nightly.yaml --tag nightly-2026-11-21 --html nightly.html
  caserun sweep --resume latest --time-limit 25m`,
		Args: sweepFile,
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if o.resume != "" && len(args) == 0 {
				return fromStore(selection.OfferSweeps)(c, args, typed)
			}
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE:        verb(&o),
		Annotations: map[string]string{ownConfig: "with that of FILE"},
	}
	o.add(c.Flags())
	config.AddSweepNodeFlags(c.Flags())
	config.AddStoreFlag(c.Flags())
	config.AddPageFlag(c.Flags())
	addFormatFlag(c)
	o.log.addTo(c)
	_ = c.RegisterFlagCompletionFunc("mixes", noSpace(config.OfferMixes, cobra.ShellCompDirectiveDefault))
	c.AddCommand(newSweepList(), newSweepShow(), newSweepStatus(), newSweepCancel(), newSweepTask())
	return c
}

// sweepFile takes one argument, the sweep's file, or none. With --resume it is a sweep.
func sweepFile(c *cobra.Command, args []string) error {
	if hint := ofList(c); hint != "" && len(args) > 0 && !c.Flags().Changed("resume") && userfile.Absent(args[len(args)-1]) {
		return fmt.Errorf("%q is not a file: %s", args[len(args)-1], hint)
	}
	return atMostOne(c, args)
}

func (o *sweepOptions) add(f *pflag.FlagSet) {
	config.AddSweepFlags(f, &o.sweep)
	config.AddJobsFlag(f, &o.sweep.Jobs)
	f.StringVar(&o.resume, "resume", "", "continue the sweep of `NUMBER`, or the latest")
	f.Lookup("resume").NoOptDefVal = selection.Latest
	f.BoolVar(&o.force, "force", false, "resume a sweep even if a process seems to work on it")
	f.BoolVar(&o.redo, "redo-doubted", false, "with --resume: make doubtful runs again; the new runs count")
	f.DurationVar(&o.limit.Total, "time-limit", 0, "start no run that may end later than `DURATION` from now")
	f.Var(&o.part, "part", "do part `K/N` of the plan; caserun store merge joins the parts")
	f.BoolVar(&o.planOnly, "plan-only", false, "store the plan and run nothing; --resume runs it")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the plan and an estimate of its time, and run nothing")
	o.slurm.add(f)
}

// sweepConflicts are flags of sweep that cannot be combined.
var sweepConflicts = []conflict{
	{"log-json", "dry-run", "a dry run makes no runs"},
	{"html", "dry-run", "a dry run makes no runs"},
	{"html", "plan-only", "give it with --resume, which makes the runs"},
	{"html", "slurm", "caserun report --sweep NUMBER --html FILE writes the page of the runs that are collected"},
	{"plan-only", "resume", "--plan-only stores a new plan, and --resume runs one"},
	{"plan-only", "dry-run", "a dry run stores nothing"},
	{"plan-only", "part", "the whole plan is stored: give --part with --resume"},
	{"redo-doubted", "dry-run", "it makes runs here"}, {"redo-doubted", "slurm", "it makes runs here"}, {"redo-doubted", "show-config", "it makes runs here"},
}

func (o *sweepOptions) settle(c *cobra.Command, args []string) error {
	o.limit.Began = time.Now()
	if c.Flags().Changed("time-limit") && o.limit.Total <= 0 {
		return fmt.Errorf("--time-limit %v: want more than 0", o.limit.Total)
	}
	if len(args) == 1 {
		o.setFile(args[0])
	}
	o.show, _ = c.Flags().GetBool("show-config")
	if err := o.load(c); err != nil {
		return err
	}
	if err := refuseConflicts(c.Flags(), sweepConflicts); err != nil {
		return err
	}
	for _, name := range []string{"force", "redo-doubted"} {
		if err := requireFlag(c.Flags(), name, "resume"); err != nil && !o.show {
			return err
		}
	}
	if err := o.slurm.check(c.Flags()); err != nil {
		return err
	}
	return o.sweep.Validate(o.resume == "" && !o.show)
}

// setFile takes the argument, which is the sweep's file or, with --resume, a sweep.
func (o *sweepOptions) setFile(arg string) {
	_, notNumber := input.Int(arg)
	if o.resume != "" && (notNumber == nil || arg == selection.Latest) {
		o.resume = arg
	} else {
		o.file = arg
	}
}

// load settles the configuration and the options, from the flags and the file.
func (o *sweepOptions) load(c *cobra.Command) error {
	over, err := o.readFile(c.Context())
	if err != nil {
		return err
	}
	if err := config.CheckName("name", o.sweep.Name); err != nil {
		return err
	}
	o.sweep.Name = input.Name(o.sweep.Name)
	o.given = slices.Collect(maps.Keys(over))
	c.Flags().Visit(func(f *pflag.Flag) { o.given = append(o.given, f.Name) })
	o.settings, err = loadOver(c, over)
	o.sweep.NoiseGiven = o.settings.NoiseGiven
	return err
}

// readFile takes the options from the file, if there is one, and returns its settings.
func (o *sweepOptions) readFile(ctx context.Context) (settings map[string]any, err error) {
	if o.file == "" {
		return nil, nil
	}
	f, err := config.LoadSweepFile(ctx, o.file)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && o.resume != "":
		return nil, fmt.Errorf("--resume %s: no such sweep: want a number from caserun sweep list, or latest", o.file)
	case missing:
		return nil, noSweepFile(o.file)
	case err != nil:
		return nil, err
	}
	f.Fill(&o.sweep)
	return f.Settings, nil
}

// noSweepFile is the error of a file that is missing and may have been meant as a command.
func noSweepFile(path string) error {
	commands := []string{"list", "show", "status", "cancel"}
	if hint := near.DidYouMean("caserun sweep ", path, commands); hint != "" {
		return fmt.Errorf("no such sweep file %q: %s", path, hint)
	}
	return fmt.Errorf("no such sweep file %q; the commands of sweep are %s", path, strings.Join(commands, ", "))
}

func (o *sweepOptions) do(c *cobra.Command) error {
	if o.resume != "" {
		return o.resumeStored(c)
	}
	if o.show {
		return o.print(c, o.sweep, o.settings)
	}
	p, err := sweep.New(c.Context(), o.settings.Options, o.sweep, sayTo(c))
	if err != nil {
		return err
	}
	if err := o.part.FitNew(p); err != nil {
		return err
	}
	if o.dryRun {
		return o.readIfThere(c, func(db *store.Store) error { return o.preview(c, db, p) })
	}
	var id int64
	err = o.write(c, func(db *store.Store) error { id, err = o.begin(c, db, p); return err })
	if err != nil || id == 0 {
		return err
	}
	return o.submit(c, id)
}

// begin stores a plan and does it. If it is to be submitted instead, the sweep's number is returned.
func (o *sweepOptions) begin(c *cobra.Command, db *store.Store, p *sweep.Plan) (submit int64, err error) {
	ctx, say := c.Context(), sayTo(c)
	if !o.part.Whole() { // the plan is the same everywhere, so also where a part of it was done before
		id, err := p.Stored(ctx, db)
		if err != nil {
			return 0, err
		}
		if id > 0 {
			say("the store has this plan already: sweep %d is resumed", id)
			o.resume = fmt.Sprint(id)
			return o.resumeIn(c, db)
		}
	}
	log, logged, err := o.open(c, db, p)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, logged()) }()
	id, err := p.Store(ctx, db, o.settings.AllowSimulated, say)
	switch {
	case err != nil:
		return 0, err
	case o.slurm.submit:
		return id, nil
	case o.planOnly:
		say("caserun sweep --resume %d%s runs it", id, o.settings.StoreFlag())
		return 0, nil
	}
	return 0, o.work(c, p, db, log, id, "")
}

// open opens the files that grow as the runs of a plan end. done must be called at the end of the runs.
func (o *sweepOptions) open(c *cobra.Command, db *store.Store, p *sweep.Plan) (log harness.Log, done func() error, err error) {
	if !o.slurm.submit && !o.planOnly { // which make no runs here
		cells := slices.DeleteFunc(p.Cells(), func(cell results.Cell) bool { return cell.Warmup })
		if o.page, err = o.log.openPage(c, o.settings, db, len(cells)); err != nil {
			return nil, nil, err
		}
	}
	return o.log.open(c, o.settings.DB)
}

// preview prints a new plan and what it would run. db is nil if the store does not exist yet.
func (o *sweepOptions) preview(c *cobra.Command, db *store.Store, p *sweep.Plan) error {
	ctx := c.Context()
	if o.slurm.submit {
		return slurmsweep.Rehearse(ctx, db, store.Filter{Warmups: true}, func(db *store.Store) error {
			id, err := p.Store(ctx, db, o.settings.AllowSimulated, func(string, ...any) {})
			if err != nil {
				return err
			}
			return o.propose(c, db, id)
		})
	}
	times, err := p.Estimates(ctx, db)
	if err != nil {
		return err
	}
	p.Foresee(times)
	return render(c, o.settings.Format, p.Table(o.part.Of(p.Spec, p.Cells()), times))
}

// print prints options of a sweep and settings as a sweep's file has them.
func (o *sweepOptions) print(c *cobra.Command, asked sweep.Options, settings config.Settings) error {
	text, err := config.ShowSweep(asked)
	if err != nil {
		return err
	}
	if _, err := c.OutOrStdout().Write(text); err != nil {
		return err
	}
	return printSettings(c, settings)
}

// resumeStored resumes a sweep of the store.
func (o *sweepOptions) resumeStored(c *cobra.Command) (err error) {
	open := func(look func(*store.Store) error) error { return o.write(c, look) }
	switch {
	case o.dryRun || o.show:
		open = func(look func(*store.Store) error) error { return o.read(c, look) }
	case userfile.Absent(o.settings.DB): // opening would create it
		return noStore(o.settings.DB)
	}
	var id int64
	err = open(func(db *store.Store) error { id, err = o.resumeIn(c, db); return err })
	if err != nil || id == 0 {
		return err
	}
	return o.submit(c, id)
}

// resumeIn resumes a sweep of a store. If what is left is to be submitted instead, the sweep's number is returned.
func (o *sweepOptions) resumeIn(c *cobra.Command, db *store.Store) (submit int64, err error) {
	ctx, say := c.Context(), sayTo(c)
	w, err := selection.Sweep(ctx, db, o.resume)
	if err != nil {
		return 0, err
	}
	if o.settings.RequireLive && w.Mode == results.Simulated {
		return 0, refuse("resume sweep %d: it is SIMULATED, on %s, which cannot be combined with --require-live", w.ID, w.Node)
	}
	r, err := sweep.Recall(w, o.sweep, o.settings.Options, o.given, !o.show)
	if err != nil {
		return 0, err
	}
	if o.show {
		return 0, o.print(c, r.Asked(), config.Settings{DB: o.settings.DB, Format: o.settings.Format, Configuration: harness.Configuration{Options: r.Options}, NoiseGiven: true})
	}
	done, err := r.Done(ctx, db)
	if err != nil {
		return 0, err
	}
	if done && !o.redo {
		say("sweep %d is complete", w.ID)
		return 0, errors.Join(o.showPage(c, db, w.ID), showSweep(c, o.settings, db, w.ID))
	}
	if err := o.sweep.Fit(w.Mode, w.Node); err != nil {
		return 0, err
	}
	if o.dryRun {
		return 0, o.previewResumed(c, db, r)
	}
	return o.continueIn(c, db, r)
}

// continueIn does what is left of a sweep, with the repetitions that the user wants.
func (o *sweepOptions) continueIn(c *cobra.Command, db *store.Store, r *sweep.Resumption) (submit int64, err error) {
	ctx, say := c.Context(), sayTo(c)
	if err := r.CheckFree(); err != nil && !o.force {
		return 0, err
	}
	if o.slurm.submit && !r.Extends() { // which needs neither the node nor the mixes
		return r.Sweep.ID, nil
	}
	if err := r.Load(ctx, db, o.part, say); err != nil {
		return 0, err
	}
	log, logged, err := o.open(c, db, r.Plan)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, logged()) }()
	if err := r.Store(ctx, db, o.redo, say); err != nil {
		return 0, err
	}
	if o.slurm.submit {
		return r.Sweep.ID, nil
	}
	note, err := r.Announce(ctx, db, o.part, say)
	if err != nil {
		return 0, err
	}
	return 0, o.work(c, r.Plan, db, log, r.Sweep.ID, note)
}

// previewResumed prints what would be done of a sweep.
func (o *sweepOptions) previewResumed(c *cobra.Command, db *store.Store, r *sweep.Resumption) error {
	ctx, id := c.Context(), r.Sweep.ID
	if o.slurm.submit && !r.Extends() {
		return o.propose(c, db, id)
	}
	if err := r.Load(ctx, db, o.part, sayTo(c)); err != nil {
		return err
	}
	if o.slurm.submit {
		return slurmsweep.Rehearse(ctx, db, store.Filter{Sweep: id, Warmups: true, Duplicates: true, Excluded: true}, func(db *store.Store) error {
			if err := r.StoreExtension(ctx, db); err != nil {
				return err
			}
			return o.propose(c, db, id)
		})
	}
	left, err := r.Left(ctx, db, o.part)
	if err != nil {
		return err
	}
	times, err := r.Plan.Estimates(ctx, db)
	if err != nil {
		return err
	}
	return render(c, o.settings.Format, r.Plan.Table(left, times))
}

// work runs what is left of a sweep and prints its arms.
func (o *sweepOptions) work(c *cobra.Command, p *sweep.Plan, db *store.Store, log harness.Log, id int64, note string) error {
	restarts, err := slurmsweep.LimitToJob(c.Context(), &o.limit, sayTo(c))
	if err != nil {
		return err
	}
	call := sweep.Call{Part: o.part, Restart: restarts, Plan: p, ID: id, Store: db, Jobs: o.sweep.Jobs, Limit: o.limit, Now: time.Now, Say: sayTo(c), Log: log,
		Display: display.NewSweep(c.ErrOrStderr(), p.Mode, time.Now()), StoreFlag: o.settings.StoreFlag()}
	if o.page != nil {
		o.page.Watch(c.Context(), pages.Wanted{Filter: store.Filter{Sweep: id}}, p.Mode)
		call.Ended = o.page.Ended
		defer o.closePage(context.WithoutCancel(c.Context()), &call)
	}
	ended := call.Run(c.Context(), note)
	if ended != nil && !errors.As(ended, new(sweep.LimitError)) {
		return ended
	}
	remedy := continuing(o.settings, id, o.part)
	if ended == nil && !o.part.Whole() {
		call.Say("part %s of sweep %d is done", o.part, id)
		remedy = "its other parts are not in this store; caserun store merge brings parts in several stores together"
	}
	if err := errors.Join(showArms(c, o.settings, db, id, remedy), ended); err != nil {
		return err
	}
	return sweep.CheckMeasured(c.Context(), db, id)
}

// closePage writes the last page of a call. If the store cannot be read, the page has the same error.
func (o *sweepOptions) closePage(ctx context.Context, call *sweep.Call) {
	left, done, _ := sweep.Remaining(ctx, call.Store, call.ID, call.Part)
	o.page.Close(done, done+len(left))
}

// showPage writes the page of a complete sweep.
func (o *sweepOptions) showPage(c *cobra.Command, db *store.Store, id int64) error {
	if o.dryRun || o.slurm.submit {
		return nil
	}
	page, err := o.log.openPage(c, o.settings, db, 0)
	if page != nil {
		page.Write(c.Context(), pages.Wanted{Filter: store.Filter{Sweep: id}}, nil)
	}
	return err
}

func newSweepList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the sweeps of the store",
		Example: "  caserun sweep list",
		Args:    noArguments,
		RunE:    verb(onStore{&sweepList{}}),
	}
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	return c
}

// sweepList is what sweep list is asked for.
type sweepList struct{ asked }

func (o *sweepList) look(c *cobra.Command, db *store.Store) error {
	sweeps, err := sweep.List(c.Context(), db)
	if err != nil {
		return err
	}
	return render(c, o.settings.Format, report.SweepList(sweeps))
}

func newSweepShow() *cobra.Command {
	c := &cobra.Command{
		Use:   "show [NUMBER|latest]",
		Short: "Show the arms of a sweep: medians, and how many runs they are of",
		Long: `Show a row for each arm of a sweep: a mix under a scheduler, with a probe. The
numbers are medians over the arm's complete runs. Warm-ups do not count.

` + report.SweepColumns() + `
--format csv has more columns: the interval of each median, the parameters of
the scheduler, and the probe.`,
		Example:           "  caserun sweep show latest",
		Args:              atMostOne,
		ValidArgsFunction: atMost(1, fromStore(selection.OfferSweeps)),
		RunE:              verb(&shownSweep{}),
	}
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	return c
}

// askedSweep is what requests about a sweep have.
type askedSweep struct {
	asked
	sweep string // number or latest
}

func (o *askedSweep) settle(c *cobra.Command, args []string) error {
	o.sweep = append(args, selection.Latest)[0]
	return o.asked.settle(c, args)
}

// find opens the store and finds the sweep.
func (o *askedSweep) find(c *cobra.Command, look func(*store.Store, results.Sweep) error) error {
	return o.read(c, func(db *store.Store) error {
		w, err := selection.Sweep(c.Context(), db, o.sweep)
		if err != nil {
			return err
		}
		return look(db, w)
	})
}

// shownSweep is what sweep show is asked for.
type shownSweep struct{ askedSweep }

func (o *shownSweep) do(c *cobra.Command) error {
	return o.find(c, func(db *store.Store, w results.Sweep) error { return showSweep(c, o.settings, db, w.ID) })
}

// showSweep prints a sweep's arms.
func showSweep(c *cobra.Command, settings config.Settings, db *store.Store, id int64) error {
	return showArms(c, settings, db, id, continuing(settings, id, sweep.Part{}))
}

// continuing says how to continue a part of a sweep that was stopped.
func continuing(settings config.Settings, id int64, part sweep.Part) string {
	in := storeHint(settings)
	return fmt.Sprintf("caserun sweep --resume %d%s%s continues it%s", id, part.Flag(), in.Flag, in.Unpack)
}

// redoing says how the doubtful runs of a sweep are made again.
func redoing(settings config.Settings, id int64) string {
	in := storeHint(settings)
	return fmt.Sprintf("caserun sweep --resume %d --redo-doubted%s makes them again%s", id, in.Flag, in.Unpack)
}

// showArms prints a sweep's arms and, if runs are left, the remedy.
func showArms(c *cobra.Command, settings config.Settings, db *store.Store, id int64, remedy string) error {
	t, err := report.StoredSweepArms(c.Context(), db, id, remedy, redoing(settings, id))
	if err != nil {
		return err
	}
	err = render(c, settings.Format, t)
	return orAgain(err, "what was measured is stored", fmt.Sprintf("caserun sweep show %d%s prints it again", id, settings.StoreFlag()))
}
