package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/slurm"
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
		Example: `  caserun sweep --mixes W1..W8 --scheds sa,cg,case-alg2,case-alg3 \
      --node sim:4xV100 --jobs 8
  caserun sweep --mixes W7,my.yaml \
      --scheds cg:workers=8,case-alg3:queue=fifo,age-limit=8 --dry-run
  caserun sweep nightly.yaml --tag nightly-2026-11-21
  caserun sweep --resume latest --time-limit 25m`,
		Args: sweepFile,
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if o.resume != "" && len(args) == 0 {
				return fromStore(offerSweeps)(c, args, typed)
			}
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE:        verb(&o),
		Annotations: map[string]string{ownConfig: "with that of FILE"},
	}
	o.add(c.Flags())
	config.AddSweepNodeFlags(c.Flags())
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	o.log.addTo(c)
	completeNode(c)
	_ = c.RegisterFlagCompletionFunc("mixes", inList(orRange(completeMixes)))
	_ = c.RegisterFlagCompletionFunc("scheds", completeSchedulerList)
	_ = c.RegisterFlagCompletionFunc("probes", inList(completeProbes))
	_ = c.RegisterFlagCompletionFunc("resume", fromStore(offerSweeps))
	_ = c.RegisterFlagCompletionFunc("tag", fromStore(offerTags))
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

// settle settles the configuration and the options, from the flags and the file.
func (o *sweepOptions) settle(c *cobra.Command, args []string) error {
	o.limit.Began = time.Now()
	if c.Flags().Changed("time-limit") && o.limit.Total <= 0 {
		return fmt.Errorf("--time-limit %v: want more than 0", o.limit.Total)
	}
	if len(args) == 1 {
		_, notNumber := input.Int(args[0])
		if o.resume != "" && (notNumber == nil || args[0] == selection.Latest) {
			o.resume = args[0]
		} else {
			o.file = args[0]
		}
	}
	o.show, _ = c.Flags().GetBool("show-config")
	over, err := o.readFile(c.Context())
	if err != nil {
		return err
	}
	if err := config.CheckName("name", o.sweep.Name); err != nil {
		return err
	}
	o.sweep.Name = input.Name(o.sweep.Name)
	for key := range over {
		o.given = append(o.given, key)
	}
	c.Flags().Visit(func(f *pflag.Flag) { o.given = append(o.given, f.Name) })
	if o.settings, err = loadOver(c, over); err != nil {
		return err
	}
	o.sweep.NoiseGiven = o.settings.NoiseGiven
	if o.dryRun && o.log.path != "" {
		return errors.New("--log-json is for runs, and --dry-run makes none: leave one of them out")
	}
	switch {
	case o.planOnly && o.resume != "":
		return errors.New("--plan-only is for a new sweep, and --resume runs a plan: leave one of them out")
	case o.planOnly && o.dryRun:
		return errors.New("--plan-only stores the plan, and --dry-run stores nothing: leave one of them out")
	case o.planOnly && !o.part.Whole():
		return errors.New("--plan-only stores the whole plan: leave --part out, and give it with --resume")
	}
	if o.force && o.resume == "" && !o.show {
		return errors.New("--force goes with --resume")
	}
	switch {
	case o.redo && o.resume == "":
		return errors.New("--redo-doubted requires --resume")
	case o.redo && (o.dryRun || o.slurm.submit || o.show):
		return errors.New("--redo-doubted makes runs here: leave --dry-run, --slurm and --show-config out")
	}
	if err := o.slurm.check(c.Flags().Changed); err != nil {
		return err
	}
	return o.sweep.Validate(o.resume == "" && !o.show)
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

func (o *sweepOptions) do(c *cobra.Command) (err error) {
	if o.resume != "" {
		return o.goOn(c)
	}
	if o.show {
		return o.print(c, o.sweep, o.settings)
	}
	say := sayTo(c)
	p, err := sweep.New(c.Context(), o.settings.Options, o.sweep, say)
	if err != nil {
		return err
	}
	if err := o.part.FitNew(p); err != nil {
		return err
	}
	switch {
	case o.dryRun && o.slurm.submit:
		return o.proposeNew(c, p)
	case o.dryRun:
		return o.showPlan(c, p, nil)
	}
	if o.slurm.submit {
		id, err := o.store(c.Context(), p, say)
		if err != nil {
			return err
		}
		return o.spread(c, id)
	}
	if !o.part.Whole() {
		// The plan is the same everywhere, so also where a part of it was done before.
		id, err := o.stored(c.Context(), p)
		if err != nil {
			return err
		}
		if id > 0 {
			say("the store has this plan already: sweep %d goes on", id)
			o.resume = fmt.Sprint(id)
			return o.goOn(c)
		}
	}
	db, err := harness.OpenStore(o.settings.DB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, logged, err := o.log.open(c, o.settings.DB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logged()) }()
	id, err := p.Store(c.Context(), db, o.settings.AllowSimulated, say)
	if err != nil {
		return err
	}
	if o.planOnly {
		say("caserun sweep --resume %d%s runs it", id, o.settings.StoreFlag())
		return nil
	}
	return o.work(c, p, db, log, id, "")
}

// stored returns the number of the store's sweep with a plan; 0: none has it.
func (o *sweepOptions) stored(ctx context.Context, p *sweep.Plan) (id int64, err error) {
	db, err := harness.OpenStore(o.settings.DB)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return p.Stored(ctx, db)
}

// store stores a plan, and leaves the store closed.
func (o *sweepOptions) store(ctx context.Context, p *sweep.Plan, say harness.Say) (id int64, err error) {
	db, err := harness.OpenStore(o.settings.DB)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return p.Store(ctx, db, o.settings.AllowSimulated, say)
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

// open opens the store that has the sweep to resume.
func (o *sweepOptions) open(ctx context.Context) (db *store.Store, done func() error, err error) {
	if o.dryRun || o.show {
		return openForReading(ctx, o.settings.DB)
	}
	if userfile.Absent(o.settings.DB) { // opening would create it
		return nil, nil, noStore(o.settings.DB)
	}
	if db, err = harness.OpenStore(o.settings.DB); err != nil {
		return nil, nil, err
	}
	return db, db.Close, nil
}

// goOn resumes a sweep.
func (o *sweepOptions) goOn(c *cobra.Command) error {
	id, err := o.goOnHere(c)
	if err != nil || id == 0 {
		return err
	}
	if o.dryRun {
		db, done, err := openForReading(c.Context(), o.settings.DB)
		if err != nil {
			return err
		}
		return errors.Join(o.propose(c, db, id), done())
	}
	return o.spread(c, id)
}

// goOnHere resumes a sweep on this machine. If the sweep is to be spread instead, it extends the plan where that is
// asked, and returns the sweep's number.
func (o *sweepOptions) goOnHere(c *cobra.Command) (spread int64, err error) {
	ctx, say := c.Context(), sayTo(c)
	db, done, err := o.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, done()) }()
	w, err := selection.Sweep(ctx, db, o.resume)
	if err != nil {
		return 0, err
	}
	if o.settings.RequireLive && w.Mode == results.Simulated {
		return 0, refuse("resume sweep %d: it is SIMULATED, on %s, and --require-live asks for GPUs: leave one of both out", w.ID, w.Node)
	}
	spec, planned, err := sweep.Recorded(w)
	if err != nil {
		return 0, err
	}
	extend := o.sweep.Reps > spec.Reps && !o.show
	agree := func() error {
		asked := o.sweep
		if extend {
			asked.Reps = spec.Reps
		}
		return sweep.Agree(w.ID, spec, planned, asked, o.settings.Options, o.given)
	}
	switch {
	case o.show:
		if err := agree(); err != nil {
			return 0, err
		}
		asked := sweep.Options{Name: spec.Name, Mixes: spec.Args(), Scheds: spec.Scheds, Probes: spec.Probes, Reps: spec.Reps, Warmups: spec.Warmups}
		return 0, o.print(c, asked, config.Settings{DB: o.settings.DB, Format: o.settings.Format, Options: planned, NoiseGiven: true})
	case w.Status == results.Complete && !extend && !o.redo:
		if err := agree(); err != nil {
			return 0, err
		}
		say("sweep %d is complete", w.ID)
		return 0, showSweep(c, o.settings, db, w.ID)
	}
	taken := w.Status == results.Running && !o.dryRun
	if taken && !o.force {
		return 0, sweep.Busy(store.HeldError{Sweep: w.ID, Host: w.Host, PID: *w.PID})
	}
	if err := o.sweep.Fit(w.Mode, w.Node); err != nil {
		return 0, err
	}
	if o.slurm.submit && !extend { // which needs neither the node nor the mixes
		return w.ID, agree()
	}
	p, note, err := sweep.Resume(ctx, w)
	if err != nil {
		return 0, err
	}
	if err := agree(); err != nil {
		return 0, err
	}
	if err := p.SameSize(ctx, db, w.ID); err != nil {
		return 0, err
	}
	log, logged, err := o.log.open(c, o.settings.DB)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, logged()) }()
	var more []results.Cell
	if extend {
		if more, err = p.Extend(o.sweep.Reps, say); err != nil {
			return 0, err
		}
	}
	if err := o.part.Fit(p.Cells()); err != nil {
		return 0, err
	}
	if taken { // as late as this: a call that is refused takes nothing from anybody
		if err := harness.CloseSweep(db, w); err != nil {
			return 0, err
		}
	}
	if extend && !o.dryRun {
		if err := p.StoreExtended(ctx, db, w.ID, more); err != nil {
			return 0, err
		}
		say("sweep %d: %d repetitions of each arm instead of %d", w.ID, o.sweep.Reps, spec.Reps)
	}
	if o.redo {
		n, err := db.RedoDoubtful(context.WithoutCancel(ctx), w.ID)
		if err != nil {
			return 0, sweep.Busy(err)
		}
		say("sweep %d: doubtful runs, which are made again: %d", w.ID, n)
	}
	switch {
	case o.slurm.submit && o.dryRun:
		return 0, o.proposeExtended(c, db, p, w.ID, more)
	case o.slurm.submit:
		return w.ID, nil
	}
	left, finished, err := sweep.Remaining(ctx, db, w.ID, o.part)
	if err != nil {
		return 0, err
	}
	if o.dryRun {
		return 0, o.showPlan(c, p, append(left, more...))
	}
	what := fmt.Sprintf("sweep %d", w.ID)
	if !o.part.Whole() {
		what = fmt.Sprintf("part %s of %s", o.part, what)
	}
	say("%s: %d of %d runs are left", what, len(left), len(left)+finished)
	if gone := store.LeftOut(w.Note); gone != "" {
		say("sweep %d: %s, and are made again here: to make none twice, resume it where they are", w.ID, gone)
	}
	if note != "" {
		say("sweep %d is resumed %s: runs of the two builds may differ", w.ID, note)
		note = fmt.Sprintf("resumed at run %d of %d %s", finished+1, len(left)+finished, note)
	}
	return 0, o.work(c, p, db, log, w.ID, note)
}

// work runs what is left of a sweep and prints its arms.
func (o *sweepOptions) work(c *cobra.Command, p *sweep.Plan, db *store.Store, log harness.Log, id int64, note string) error {
	restarts, err := o.heedJob(c.Context(), sayTo(c))
	if err != nil {
		return err
	}
	call := sweep.Call{Part: o.part, Restart: restarts, Plan: p, ID: id, Store: db, Jobs: o.sweep.Jobs, Limit: o.limit, Now: time.Now, Say: sayTo(c), Log: log,
		Display: display.NewSweep(c.ErrOrStderr(), p.Mode, time.Now()), StoreFlag: o.settings.StoreFlag()}
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
	runs, err := db.Runs(c.Context(), store.Filter{Sweep: id, Status: results.Complete})
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Metrics.OK > 0 {
			return nil
		}
	}
	return nothingError{fmt.Errorf("nothing was measured: no job of the sweep's %d runs ended ok", len(runs))}
}

// heedJob limits the call to what is left of the time of Slurm's job, unless --time-limit does. It returns how
// often Slurm has started the job again.
func (o *sweepOptions) heedJob(ctx context.Context, say harness.Say) (restarts int, err error) {
	job, err := slurm.Current()
	if err != nil {
		return 0, refusal{err}
	}
	if job == nil {
		return 0, nil
	}
	if o.limit.Total > 0 {
		return job.Restarts, nil
	}
	switch end, err := job.End(ctx); {
	case err != nil:
		say("when job %s of Slurm ends is not known, so --time-limit has no default: %v", job.Job, err)
	case !end.IsZero():
		o.limit.Total = max(end.Add(-slurm.Warning).Sub(o.limit.Began), 1)
		say("job %s of Slurm ends at %s: the default of --time-limit is %s", job.Job, end.Format(time.DateTime), o.limit.Total.Round(time.Second))
	}
	return job.Restarts, nil
}

// showPlan prints runs that are to come: those of the part that are left, or the part of a new plan.
func (o *sweepOptions) showPlan(c *cobra.Command, p *sweep.Plan, left []results.Cell) (err error) {
	var db *store.Store
	if !userfile.Absent(o.settings.DB) {
		var done func() error
		if db, done, err = openForReading(c.Context(), o.settings.DB); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
	}
	times, err := p.Estimates(c.Context(), db)
	if err != nil {
		return err
	}
	if o.resume == "" {
		p.Foresee(times)
	}
	cells := o.part.Of(p.Spec, p.Cells())
	if o.resume != "" {
		isLeft := map[int]bool{}
		for _, cell := range left {
			isLeft[cell.Position] = true
		}
		cells = slices.DeleteFunc(cells, func(cell results.Cell) bool { return !isLeft[cell.Position] })
	}
	t := &report.Table{Title: "plan", Columns: []report.Column{{Name: "position"}, {Name: "mix"},
		{Name: "scheduler", Place: report.DataOnly}, {Name: "scheduler_text", Heading: "scheduler", Place: report.TextOnly}, {Name: "repetition"}, {Name: "warmup"}, {Name: "seed", Drop: 1}, {Name: "node", Narrow: 1}, {Name: "mode", Narrow: 1},
		{Name: "estimate", Unit: report.Seconds}, {Name: "ground"}, {Name: "probe", Place: report.DataOnly}}}
	if p.Mode == results.Simulated {
		t.Title = "SIMULATED plan, " + p.Repeats()
	}
	total := 0.0
	for _, cell := range cells {
		e := times.Of(cell)
		total += e.Seconds
		t.Add(cell.Position, cell.Mix, cell.Scheduler, cell.Way(), cell.Repetition, cell.Warmup, fmt.Sprint(cell.Seed), p.Options.Node, p.Mode, e.Seconds, e.Ground, cell.Probe.String())
	}
	t.Notes = append(t.Notes, report.Note{Text: fmt.Sprintf("%s, about %s one after another, without the time to prepare and clear the node",
		sweep.CountRuns(len(cells)), report.Human(total, report.Seconds))})
	return render(c, o.settings.Format, t)
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
	sweeps, err := db.Sweeps(c.Context())
	if err != nil {
		return err
	}
	var progress []report.SweepProgress
	for _, w := range sweeps {
		left, finished, err := sweep.Remaining(c.Context(), db, w.ID, sweep.Part{})
		if err != nil {
			return err
		}
		progress = append(progress, report.SweepProgress{Sweep: w, Runs: len(left) + finished, Done: finished})
	}
	return render(c, o.settings.Format, report.SweepList(progress))
}

func newSweepShow() *cobra.Command {
	c := &cobra.Command{
		Use:   "show [NUMBER|latest]",
		Short: "Show the arms of a sweep: medians, and how many runs they are of",
		Long: `Show a row for each arm of a sweep: a mix under a scheduler, with a probe. The
numbers are medians over the arm's complete runs. Warm-ups do not count.

` + sweepColumns() + `
--format csv has more columns: the interval of each median, the parameters of
the scheduler, and the probe.`,
		Example:           "  caserun sweep show latest",
		Args:              atMostOne,
		ValidArgsFunction: atMost(1, fromStore(offerSweeps)),
		RunE:              verb(&shownSweep{}),
	}
	config.AddStoreFlag(c.Flags())
	addFormatFlag(c)
	return c
}

// sweepColumns says what each column of the table of a sweep is.
func sweepColumns() string {
	about := func(metric string) string {
		m, err := regress.LookupMetric(metric)
		if err != nil {
			panic(err) // it is in the table of metrics
		}
		return m.About
	}
	return pairs([][2]string{
		{"mix", "the mix"},
		{"scheduler", "the scheduler, with the parameters that the sweep gives it"},
		{"n", "complete runs, which the medians are of"},
		{"of", "planned runs"},
		{"jobs", "jobs of one run"},
		{"crashed", "jobs of one run that did not end ok and were not cancelled"},
		{"throughput", about("throughput")},
		{"low, high", "the 95 % confidence interval of the throughput, which takes 6 runs"},
		{"mean turnaround", about("turnaround")},
		{"makespan", about("makespan")},
		{"mean util", "utilization, mean over the devices and over the makespan"},
	}, 0)
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

// continuing says how a part of a sweep that was stopped goes on.
func continuing(settings config.Settings, id int64, part sweep.Part) string {
	in := storeHint(settings)
	return fmt.Sprintf("caserun sweep --resume %d%s%s continues it%s", id, part.Flag(), in.Flag, in.Unpack)
}

// redoing says how the doubtful runs of a sweep are made again.
func redoing(settings config.Settings, id int64) string {
	in := storeHint(settings)
	return fmt.Sprintf("caserun sweep --resume %d --redo-doubted%s makes them again%s", id, in.Flag, in.Unpack)
}

// showArms prints a sweep's arms, and how the sweep goes on if runs are left.
func showArms(c *cobra.Command, settings config.Settings, db *store.Store, id int64, remedy string) error {
	w, err := db.Sweep(c.Context(), id)
	if err != nil {
		return err
	}
	cells, err := db.Cells(c.Context(), id)
	if err != nil {
		return err
	}
	runs, err := db.Runs(c.Context(), store.Filter{Sweep: id})
	if err != nil {
		return err
	}
	devices, err := db.DevicesOf(c.Context(), store.Filter{Sweep: id})
	if err != nil {
		return err
	}
	spec, err := results.ReadSpec(w)
	if err != nil {
		return err
	}
	spec.Sort(cells)
	err = render(c, settings.Format, report.SweepArms(w, cells, runs, devices, db.Path(), remedy, redoing(settings, id)))
	return orAgain(err, "what was measured is stored", fmt.Sprintf("caserun sweep show %d%s prints it again", id, settings.StoreFlag()))
}
