package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/slurmsweep"
	"github.com/caserun/caserun/runner/sweep"
	"github.com/caserun/caserun/userfile"
)

// slurmList matches a list as sbatch takes it.
var slurmList = regexp.MustCompile(`^[^,:\s]+([,:][^,:\s]+)*$`)

// slurmOptions are how a sweep is spread over the nodes of a Slurm cluster.
type slurmOptions struct {
	submit, collect bool
	array           slurm.Array
	shared          string
	least           time.Duration // of a task
	publish, poll   time.Duration
	flags           []*pflag.Flag // that go with --slurm
}

func (o *slurmOptions) add(f *pflag.FlagSet) {
	f.BoolVar(&o.submit, "slurm", false, "submit the sweep to Slurm as an array job")
	f.BoolVar(&o.collect, "collect", false, "wait for the tasks, and bring their runs into the store as they come")
	with := pflag.NewFlagSet("slurm", pflag.ContinueOnError)
	with.StringVar(&o.array.Gres, "gres", "", "`GRES` of each task as sbatch takes it, such as gpu:4")
	with.DurationVar(&o.array.Time, "time", 0, "`DURATION` that Slurm gives each task, which resumes if it needs more; default: the partition's")
	with.IntVar(&o.array.Concurrent, "max-nodes", 0, "`NUMBER` of tasks, and so of nodes, at a time; 0: as many as Slurm starts")
	with.StringVar(&o.array.Partition, "partition", "", "`PARTITION` of the cluster")
	with.StringVar(&o.array.Account, "account", "", "`ACCOUNT` that the tasks are charged to")
	with.StringArrayVar(&o.array.Args, "sbatch-arg", nil, "further `ARGUMENT` of sbatch, such as --exclusive; may be given again")
	with.StringVar(&o.array.Container, "container", "", "Apptainer `IMAGE` in which each task runs")
	with.DurationVar(&o.least, "task-time", 10*time.Minute, "`DURATION` of a task on average, by its estimates: decides how many tasks there are")
	with.DurationVar(&o.publish, "publish", 5*time.Minute, "`DURATION` between a task's copies of its runs to the shared directory")
	with.VisitAll(func(flag *pflag.Flag) { o.flags = append(o.flags, flag) })
	f.AddFlagSet(with)
	o.addQuestions(f)
	with.VisitAll(func(flag *pflag.Flag) { _ = f.SetAnnotation(flag.Name, ofTopic, []string{topicSlurm}) })
	for _, name := range []string{"collect", "shared", "poll"} {
		_ = f.SetAnnotation(name, ofTopic, []string{topicSlurm})
	}
}

// addQuestions adds what is also for commands about a sweep that was submitted.
func (o *slurmOptions) addQuestions(f *pflag.FlagSet) {
	f.StringVar(&o.shared, "shared", "", "`DIR` of all nodes for what tasks publish; default: the store's name with .parts")
	f.DurationVar(&o.poll, "poll", 10*time.Second, "`DURATION` between questions to Slurm")
}

// dir is the shared directory.
func (o *slurmOptions) dir(db string) string {
	if o.shared != "" {
		return o.shared
	}
	return db + ".parts"
}

// check refuses flags that do not go together. changed says which were given.
func (o *slurmOptions) check(changed func(string) bool) error {
	if !o.submit {
		for _, f := range o.flags {
			if changed(f.Name) {
				return fmt.Errorf("--%s is for tasks of Slurm: add --slurm", f.Name)
			}
		}
		for _, name := range []string{"shared", "poll"} {
			if changed(name) {
				return fmt.Errorf("--%s is for a sweep that Slurm spreads: add --slurm", name)
			}
		}
		if o.collect {
			return errors.New("--collect is for a sweep that was submitted: add --slurm, which submits only what is not in the queue")
		}
		return nil
	}
	for name, remedy := range map[string]string{"part": "--slurm cuts the plan by itself", "plan-only": "leave one of both out",
		"time-limit": "--time limits each task", "log-json": "leave one of both out"} {
		if changed(name) {
			return fmt.Errorf("--%s does not go with --slurm: %s", name, remedy)
		}
	}
	for flag, text := range map[string]string{"gres": o.array.Gres, "partition": o.array.Partition, "account": o.array.Account} {
		if changed(flag) && !slurmList.MatchString(text) {
			return fmt.Errorf("--%s %q: want what sbatch takes, such as gpu:4 or a,b, without spaces and without an empty part", flag, text)
		}
	}
	switch {
	case o.collect && changed("dry-run"):
		return errors.New("--collect waits for tasks, and --dry-run submits none: leave one of both out")
	case changed("time") && o.array.Time <= slurm.Warning:
		return fmt.Errorf("--time %v: want more than %v, the time that a task has to end", o.array.Time, slurm.Warning)
	case o.array.Concurrent < 0:
		return fmt.Errorf("--max-nodes %d: want 1 or more, or 0 for no limit", o.array.Concurrent)
	case o.least <= 0:
		return fmt.Errorf("--task-time %v: want more than 0", o.least)
	case o.publish <= 0:
		return fmt.Errorf("--publish %v: want more than 0", o.publish)
	case o.poll <= 0:
		return fmt.Errorf("--poll %v: want more than 0", o.poll)
	}
	return nil
}

// spread submits what is left of a sweep, unless its tasks are in the queue already, and waits for it if the user
// wants that. Nobody has the store open.
func (o *sweepOptions) spread(c *cobra.Command, id int64) error {
	ctx, say, path := c.Context(), sayTo(c), o.settings.DB
	s, err := o.submit(ctx, id, say)
	switch {
	case err != nil:
		return fmt.Errorf("%w; sweep %d is in the store: caserun sweep --resume %[2]d%[3]s --slurm tries again", err, id, o.settings.StoreFlag())
	case !o.slurm.collect:
		return nil
	}
	progress := display.NewTasks(c.ErrOrStderr())
	err = s.Collect(ctx, path, o.slurm.poll, say, progress.Show)
	progress.Stop()
	if errors.Is(err, context.Canceled) { // in the middle of a merge
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("sweep %d: %w; caserun sweep --resume %[1]d%[3]s --slurm --collect goes on", id, err, o.settings.StoreFlag())
	}
	db, done, err := openForReading(ctx, path)
	if err != nil {
		return err
	}
	return errors.Join(showSweep(c, o.settings, db, id), done())
}

// request is how the user wants a sweep to be spread.
func (o *sweepOptions) request() (slurmsweep.Request, error) {
	program, err := os.Executable()
	return slurmsweep.Request{Array: o.slurm.array, Shared: o.slurm.dir(o.settings.DB), LeastS: o.slurm.least.Seconds(),
		Publish: o.slurm.publish, AtOnce: o.sweep.Jobs, Program: program}, err
}

// propose prints what --slurm would submit of a sweep in a store.
func (o *sweepOptions) propose(c *cobra.Command, db *store.Store, id int64) error {
	ctx := c.Context()
	w, err := db.Sweep(ctx, id)
	if err != nil {
		return err
	}
	r, err := o.request()
	if err != nil {
		return err
	}
	before, err := slurmsweep.Latest(ctx, db, id, r.Shared)
	switch {
	case err == nil:
		sayTo(c)("sweep %d was submitted as %s: what its tasks have published, and nobody has collected, counts as left here", id, before.Name)
	case !errors.Is(err, slurmsweep.ErrNone):
		return err
	}
	p, err := slurmsweep.Propose(ctx, db, w, r)
	if err != nil {
		return err
	}
	title := "plan for Slurm"
	if w.Mode == results.Simulated {
		title = "SIMULATED plan for Slurm"
	}
	t := &report.Table{Title: title, Columns: []report.Column{{Name: "task"}, {Name: "part"}, {Name: "blocks"}, {Name: "runs"},
		{Name: "runs_done", Heading: "done"}, {Name: "left", Unit: report.Seconds}}}
	for i, s := range p.Standings {
		t.Add(i+1, s.Part.String(), s.Blocks, s.Runs, s.Done, s.LeftS)
	}
	t.Notes = append(t.Notes, report.Note{Text: fmt.Sprintf("tasks: %d; parts of the plan: %d; calls of sbatch: %d, with xxxxxx for what chance will give; nothing is submitted", len(p.Parts), p.Of, len(p.Calls))})
	if p.Note != "" {
		t.Notes = append(t.Notes, report.Note{Text: p.Note})
	}
	if err := render(c, o.settings.Format, t); err != nil {
		return err
	}
	to := c.OutOrStdout()
	if f := report.Format(o.settings.Format); f == report.CSV || f == report.JSON {
		to = c.ErrOrStderr() // the other has data
	}
	for _, call := range p.Calls {
		if call.Waits {
			call.Command = append(call.Command, slurm.After("JOB")) // of the call before
		}
		if _, err := fmt.Fprintf(to, "\n%s <<'END'\n%sEND\n", shellLine(call.Command), call.Script); err != nil {
			return err
		}
	}
	return nil
}

// proposeNew is propose for a plan that is in no store.
func (o *sweepOptions) proposeNew(c *cobra.Command, p *sweep.Plan) (err error) {
	var db *store.Store
	if !userfile.Absent(o.settings.DB) {
		var done func() error
		if db, done, err = openForReading(c.Context(), o.settings.DB); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
	}
	return slurmsweep.Rehearse(c.Context(), db, store.Filter{Warmups: true}, func(db *store.Store) error {
		id, err := p.Store(c.Context(), db, o.settings.AllowSimulated, func(string, ...any) {})
		if err != nil {
			return err
		}
		return o.propose(c, db, id)
	})
}

// proposeExtended is propose for a sweep of a store with more repetitions.
func (o *sweepOptions) proposeExtended(c *cobra.Command, db *store.Store, p *sweep.Plan, id int64, more []results.Cell) error {
	return slurmsweep.Rehearse(c.Context(), db, store.Filter{Sweep: id, Warmups: true, Duplicates: true}, func(db *store.Store) error {
		if err := p.StoreExtended(c.Context(), db, id, more); err != nil {
			return err
		}
		return o.propose(c, db, id)
	})
}

// shellLine is a command as a shell takes it.
func shellLine(command []string) string {
	var words []string
	for _, w := range command {
		if !plainWord.MatchString(w) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[\w./=:@%+,-]+$`)

// submit returns the submission whose tasks are in the queue, or a new one.
func (o *sweepOptions) submit(ctx context.Context, id int64, say harness.Say) (s slurmsweep.Submission, err error) {
	path, shared := o.settings.DB, o.slurm.dir(o.settings.DB)
	open := func(do func(*store.Store) error) error {
		db, done, err := openForReading(ctx, path)
		if err != nil {
			return err
		}
		return errors.Join(do(db), done())
	}
	var release func() error
	if err = open(func(db *store.Store) error { release, err = slurmsweep.Hold(ctx, db, id, shared); return err }); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, release()) }()
	err = open(func(db *store.Store) error { s, err = slurmsweep.Latest(ctx, db, id, shared); return err })
	switch {
	case err == nil:
		left, err := s.Left(ctx)
		if err != nil {
			return s, err
		}
		if left > 0 {
			say("sweep %d: %d of its tasks are in the queue already", id, left)
			return s, nil
		}
		if err := s.Gather(ctx, path, say); err != nil {
			return s, err
		}
	case !errors.Is(err, slurmsweep.ErrNone):
		return s, err
	}
	request, err := o.request()
	if err != nil {
		return s, err
	}
	err = open(func(db *store.Store) error {
		w, err := db.Sweep(ctx, id)
		if err != nil {
			return err
		}
		if w.Status == results.Complete {
			say("sweep %d is complete", id)
			return nil
		}
		s, err = slurmsweep.Submit(ctx, db, w, request)
		if err == nil {
			say("sweep %d: submitted as %s: a task for each of %d parts, of %d; logs are in %s", id, s.Name, len(s.Parts), s.Of, s.Logs())
		}
		return err
	})
	return s, err
}

// newSweepTask is what tasks of Slurm call.
func newSweepTask() *cobra.Command {
	c := &cobra.Command{
		Use:    "task DIR SUBMISSION TASK",
		Short:  "Do a task of an array job that caserun sweep --slurm submitted",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			submission, bad := strconv.Atoi(args[1])
			number, worse := strconv.Atoi(args[2])
			if err := errors.Join(bad, worse); err != nil {
				return refusal{err}
			}
			return slurmsweep.Task(c.Context(), args[0], submission, number, sayTo(c), func(mode results.Mode) sweep.Display {
				return display.NewSweep(c.ErrOrStderr(), mode, time.Now())
			})
		},
	}
	return c
}

// sweepCancel is what sweep cancel is asked for.
type sweepCancel struct {
	askedSweep
	slurm slurmOptions
}

func newSweepCancel() *cobra.Command {
	var o sweepCancel
	c := &cobra.Command{
		Use:   "cancel [NUMBER|latest]",
		Short: "Cancel the tasks of a sweep that was submitted to Slurm",
		Long: `Cancel the tasks of a sweep that was submitted with --slurm. What they have
published stays, and caserun sweep --resume NUMBER --slurm goes on from it.`,
		Example:           "  caserun sweep cancel",
		Args:              atMostOne,
		ValidArgsFunction: atMost(1, fromStore(offerSweeps)),
		RunE:              verb(&o),
	}
	f := c.Flags()
	f.StringVar(&o.slurm.shared, "shared", "", "the `DIR` that --slurm had; default: the store's name with .parts")
	config.AddStoreFlag(f)
	return c
}

func (o *sweepCancel) do(c *cobra.Command) error {
	return o.find(c, func(db *store.Store, w results.Sweep) error {
		s, err := slurmsweep.Latest(c.Context(), db, w.ID, o.slurm.dir(o.settings.DB))
		if errors.Is(err, slurmsweep.ErrNone) {
			return refusal{err}
		}
		if err != nil {
			return err
		}
		n, err := s.Cancel(c.Context())
		if err == nil {
			sayTo(c)("sweep %d: %s cancelled", w.ID, countTasks(n))
		}
		return err
	})
}

func countTasks(n int) string {
	if n == 1 {
		return "1 task is"
	}
	return fmt.Sprintf("%d tasks are", n)
}
