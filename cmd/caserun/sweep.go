package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
)

// sweepCommand is one call of caserun sweep.
type sweepCommand struct {
	options sweepOptions
	file    string
	resume  string // number of a sweep or latest; empty: a new one
	force   bool
	dryRun  bool
	show    bool // the configuration, and run nothing
	limit   timeLimit
}

func newSweep() *cobra.Command {
	var s sweepCommand
	c := &cobra.Command{
		Use:   "sweep [FILE]",
		Short: "Run mixes under schedulers, many times, in an order that is fair to all",
		Long: `Run every mix under every scheduler, --reps times. The whole plan is in the
store before the first run. Each repetition runs all arms, a mix under a
scheduler each, in an order drawn from the seed. A sweep that was stopped, with
kill -9 too, goes on with --resume, which repeats nothing but what was under way.
On a machine that is lent for a time, --time-limit stops between two runs.

FILE is YAML with the flags' names as keys, and lists for mixes and scheds.
Flags override it. Jobs that crash are results: the exit status is 0 when every
run was carried out, and 4 when --time-limit left some for --resume.`,
		Example: `  caserun sweep --mixes W1..W8 --scheds sa,cg,case-alg2,case-alg3 --reps 7
  caserun sweep --mixes W7,my.yaml --scheds cg:workers=8,case-alg3:queue=fifo,age-limit=8 --dry-run
  caserun sweep --mixes W1..W8 --scheds sa,case-alg3 --node sim:4xV100 --sim-noise 0.01 --reps 7 --jobs 8
  caserun sweep nightly.yaml --tag nightly-2026-11-21
  caserun sweep --resume latest
  caserun sweep --resume latest --time-limit 25m`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if s.resume != "" && len(args) == 0 {
				return fromStore(offerSweeps)(c, args, typed)
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE:        func(c *cobra.Command, args []string) error { return s.start(c, args) },
		Annotations: map[string]string{ownConfig: "with that of FILE"},
	}
	s.add(c.Flags())
	addNodeFlags(c.Flags())
	addStoreFlags(c.Flags())
	addFormatFlag(c)
	completeNode(c)
	_ = c.RegisterFlagCompletionFunc("mixes", inList(completeMixes))
	_ = c.RegisterFlagCompletionFunc("scheds", inList(completeSchedulers))
	_ = c.RegisterFlagCompletionFunc("resume", fromStore(offerSweeps))
	_ = c.RegisterFlagCompletionFunc("tag", fromStore(offerTags))
	c.AddCommand(newSweepList(), newSweepShow())
	return c
}

func (s *sweepCommand) add(f *pflag.FlagSet) {
	s.options.addPlanned(f)
	s.options.Jobs = 1
	f.Var(atLeast{&s.options.Jobs, 1}, "jobs", "runs at once (simulated node)")
	f.StringVar(&s.resume, "resume", "", "go on with the sweep of this `NUMBER`, or the latest")
	f.Lookup("resume").NoOptDefVal = "latest"
	f.BoolVar(&s.force, "force", false, "resume a sweep although a process seems to work on it, such as one on a host that is gone")
	f.DurationVar(&s.limit.total, "time-limit", 0, "start no run that would, by its estimate, end later than `DURATION` after this call began; --resume goes on")
	f.BoolVar(&s.dryRun, "dry-run", false, "print the plan and an estimate of its time, and run nothing")
}

func (s *sweepCommand) start(c *cobra.Command, args []string) (err error) {
	s.limit.began = time.Now()
	if c.Flags().Changed("time-limit") && s.limit.total <= 0 {
		return usageError(fmt.Errorf("--time-limit %v: want more than 0", s.limit.total))
	}
	if len(args) == 1 {
		_, notNumber := strconv.Atoi(args[0])
		if s.resume != "" && (notNumber == nil || args[0] == "latest") {
			s.resume = args[0]
		} else {
			s.file = args[0]
		}
	}
	s.show, _ = c.Flags().GetBool("show-config")
	settings, given, err := s.settings(c)
	if err != nil {
		return err
	}
	if s.show && s.resume == "" {
		return errors.Join(s.options.print(c.OutOrStdout()), settings.printOf(c))
	}
	if _, err := report.ParseFormat(settings.Format); err != nil {
		return usageError(err)
	}
	if s.resume != "" {
		return s.goOn(c, settings, given)
	}
	if s.force {
		return usageError(errors.New("--force goes with --resume"))
	}
	m, err := newMatrix(c.Context(), settings, s.options, c.ErrOrStderr())
	if err != nil {
		return err
	}
	plan := m.plan()
	if s.dryRun {
		return showPlan(c, m, plan)
	}
	sweep, err := m.record()
	if err != nil {
		return err
	}
	db, err := openStore(settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, infrastructureError(db.Close())) }()
	if sweep.ID, err = db.CreateSweep(context.WithoutCancel(c.Context()), sweep, plan); err != nil {
		return infrastructureError(err)
	}
	fmt.Fprintf(c.ErrOrStderr(), "caserun: sweep %d: %s on %s\n", sweep.ID, runCount(len(plan)), sweep.Node)
	return s.work(c, m, db, sweep.ID, "")
}

// settings settles the configuration and the options, from the flags and the
// file; given are the keys that either has.
func (s *sweepCommand) settings(c *cobra.Command) (settings config, given []string, err error) {
	over := map[string]any{}
	o := &s.options
	if s.file != "" {
		f, err := loadSweepFile(c.Context(), s.file)
		switch missing := errors.Is(err, fs.ErrNotExist); {
		case missing && s.resume != "":
			return settings, nil, usageError(fmt.Errorf("--resume %s: no such sweep: want a number from caserun sweep list, or latest", s.file))
		case missing:
			return settings, nil, usageError(fmt.Errorf("no such sweep file %q; the commands of sweep are list and show", s.file))
		case err != nil:
			return settings, nil, err
		}
		over = f.settings
		f.fill(o)
	}
	for key := range over {
		given = append(given, key)
	}
	c.Flags().Visit(func(f *pflag.Flag) { given = append(given, f.Name) })
	if settings, err = loadConfigOver(c, over); err != nil {
		return settings, nil, err
	}
	return settings, given, o.Validate(s.resume == "" && !s.show)
}

// open opens the store that has the sweep to resume.
func (s *sweepCommand) open(ctx context.Context, c config) (db *store.Store, done func() error, err error) {
	if s.dryRun || s.show {
		return openForReading(ctx, c)
	}
	if _, err := os.Stat(c.DB); err != nil { // opening would create it
		return nil, nil, infrastructureError(fmt.Errorf("resume a sweep: store: %w", err))
	}
	if db, err = openStore(c); err != nil {
		return nil, nil, err
	}
	return db, func() error { return infrastructureError(db.Close()) }, nil
}

// goOn resumes a sweep.
func (s *sweepCommand) goOn(c *cobra.Command, settings config, given []string) (err error) {
	db, done, err := s.open(c.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	sweep, err := findSweep(c.Context(), db, s.resume)
	if err != nil {
		return err
	}
	switch {
	case s.show:
		return s.showRecorded(c, sweep, settings, given)
	case sweep.Status == results.Complete:
		return s.showComplete(c, db, sweep, settings, given)
	}
	taken := sweep.Status == results.Running && !s.dryRun
	if taken && !s.force {
		return busy(store.HeldError{Sweep: sweep.ID, Host: sweep.Host, PID: *sweep.PID})
	}
	if err := s.options.fit(sweep.Mode, sweep.Node); err != nil {
		return err
	}
	m, note, err := recordedMatrix(c.Context(), sweep, settings)
	if err != nil {
		return err
	}
	if err := m.agree(sweep.ID, s.options, given, settings); err != nil {
		return err
	}
	if err := sameSize(c.Context(), db, sweep.ID, m.devices); err != nil {
		return err
	}
	if taken { // as late as this: a call that is refused takes nothing from anybody
		if err := closeSweep(db, sweep); err != nil {
			return infrastructureError(err)
		}
	}
	left, finished, err := remaining(c.Context(), db, sweep.ID)
	if err != nil {
		return infrastructureError(err)
	}
	if s.dryRun {
		return showPlan(c, m, left)
	}
	fmt.Fprintf(c.ErrOrStderr(), "caserun: sweep %d: %d of %d runs are left\n", sweep.ID, len(left), len(left)+finished)
	if note != "" {
		fmt.Fprintf(c.ErrOrStderr(), "caserun: sweep %d is resumed %s: the runs of the two may differ for that\n", sweep.ID, note)
		note = fmt.Sprintf("resumed at run %d of %d %s", finished+1, len(left)+finished, note)
	}
	return s.work(c, m, db, sweep.ID, note)
}

// work runs what is left of a sweep and prints its arms.
func (s *sweepCommand) work(c *cobra.Command, m *matrix, db *store.Store, id int64, note string) error {
	r := sweepRun{matrix: m, id: id, store: db, jobs: s.options.Jobs, limit: s.limit, now: time.Now, stderr: c.ErrOrStderr()}
	ended := r.run(c.Context(), note)
	if ended != nil && !errors.As(ended, new(limitError)) {
		return ended
	}
	if err := errors.Join(showSweep(c, m.config.Format, db, id), ended); err != nil {
		return err
	}
	runs, err := db.Runs(c.Context(), store.Filter{Sweep: id, Status: results.Complete})
	if err != nil {
		return infrastructureError(err)
	}
	for _, r := range runs {
		if r.Metrics.OK > 0 {
			return nil
		}
	}
	return withStatus(exitNothing, fmt.Errorf("nothing was measured: no job of the sweep's %d runs ended ok", len(runs)))
}

func runCount(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

// showPlan prints runs that are to come.
func showPlan(c *cobra.Command, m *matrix, plan []results.Cell) (err error) {
	var db *store.Store
	if _, err := os.Stat(m.config.DB); !errors.Is(err, fs.ErrNotExist) {
		var done func() error
		if db, done, err = openForReading(c.Context(), m.config); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
	}
	times, err := m.estimates(c.Context(), db)
	if err != nil {
		return err
	}
	t := &report.Table{Title: "plan", Columns: []report.Column{{Name: "position"}, {Name: "mix"}, {Name: "scheduler"},
		{Name: "repetition"}, {Name: "warmup"}, {Name: "seed"}, {Name: "node"}, {Name: "mode"},
		{Name: "estimate", Unit: report.Seconds}, {Name: "ground"}}}
	if m.mode == results.Simulated {
		t.Title = "SIMULATED plan"
	}
	total := 0.0
	for _, cell := range plan {
		e := times[armOf(cell)]
		total += e.seconds
		t.Add(cell.Position, cell.Mix, cell.Scheduler, cell.Repetition, cell.Warmup, fmt.Sprint(cell.Seed), m.config.Node, m.mode, e.seconds, e.ground)
	}
	t.Notes = append(t.Notes, report.Note{Text: fmt.Sprintf("%s, about %s one after another, without the time to prepare and clear the node",
		runCount(len(plan)), report.Human(total, report.Seconds))})
	return render(c, m.config.Format, t)
}
