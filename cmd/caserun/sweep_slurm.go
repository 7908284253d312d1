package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/slurmsweep"
	"github.com/caserun/caserun/runner/sweep"
)

// slurmList matches a list as sbatch takes it.
var slurmList = regexp.MustCompile(`^[^,:\s]+([,:][^,:\s]+)*$`)

// slurmOptions are how a sweep is run on a Slurm cluster.
type slurmOptions struct {
	submit, collect bool
	array           slurm.Array
	shared          string
	least           time.Duration // of a task
	publish, poll   time.Duration
	names           []string // of flags for the tasks
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
	with.VisitAll(func(flag *pflag.Flag) { o.names = append(o.names, flag.Name) })
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

// slurmConflicts are flags that cannot be combined with --slurm, or because of it.
var slurmConflicts = []conflict{
	{"part", "slurm", "--slurm cuts the plan into parts itself"}, {"plan-only", "slurm", "omit --plan-only"},
	{"time-limit", "slurm", "--time limits each task"}, {"log-json", "slurm", "omit --log-json"},
	{"collect", "dry-run", "--collect waits for tasks, and --dry-run submits none"},
}

// check refuses flags that cannot be combined, and values that no flag of sbatch has.
func (o *slurmOptions) check(flags *pflag.FlagSet) error {
	for _, name := range append(o.names, "collect", "shared", "poll") {
		if err := requireFlag(flags, name, "slurm"); err != nil {
			return err
		}
	}
	if err := refuseConflicts(flags, slurmConflicts); err != nil || !o.submit {
		return err
	}
	for _, name := range []string{"gres", "partition", "account"} {
		if f := flags.Lookup(name); f.Changed && !slurmList.MatchString(f.Value.String()) {
			return fmt.Errorf("--%s %q: want what sbatch takes, such as gpu:4 or a,b, without spaces and without an empty part", name, f.Value)
		}
	}
	return o.checkValues(flags)
}

// checkValues refuses values that no task can have.
func (o *slurmOptions) checkValues(flags *pflag.FlagSet) error {
	if flags.Changed("time") && o.array.Time <= slurm.Warning {
		return fmt.Errorf("--time %v: want more than %v, the time that a task has to end", o.array.Time, slurm.Warning)
	}
	if o.array.Concurrent < 0 {
		return fmt.Errorf("--max-nodes %d: want 1 or more, or 0 for no limit", o.array.Concurrent)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"task-time", o.least}, {"publish", o.publish}, {"poll", o.poll}} {
		if f.value <= 0 {
			return fmt.Errorf("--%s %v: want more than 0", f.name, f.value)
		}
	}
	return nil
}

// submit submits what is left of a sweep, unless its tasks are in the queue already, and waits for it if the user
// wants that. The store must not be open.
func (o *sweepOptions) submit(c *cobra.Command, id int64) error {
	ctx, say, path := c.Context(), sayTo(c), o.settings.DB
	request, err := o.request()
	if err != nil {
		return err
	}
	s, err := slurmsweep.Start(ctx, path, id, request, say)
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
		return fmt.Errorf("sweep %d: %w; caserun sweep --resume %[1]d%[3]s --slurm --collect resumes it", id, err, o.settings.StoreFlag())
	}
	return o.read(c, func(db *store.Store) error { return showSweep(c, o.settings, db, id) })
}

// request is what the options ask of Slurm.
func (o *sweepOptions) request() (slurmsweep.Request, error) {
	program, err := os.Executable()
	return slurmsweep.Request{Array: o.slurm.array, Shared: o.slurm.dir(o.settings.DB), LeastS: o.slurm.least.Seconds(),
		Publish: o.slurm.publish, AtOnce: o.sweep.Jobs, Program: program}, err
}

// propose prints what --slurm would submit of a sweep in a store.
func (o *sweepOptions) propose(c *cobra.Command, db *store.Store, id int64) error {
	r, err := o.request()
	if err != nil {
		return err
	}
	p, err := slurmsweep.Propose(c.Context(), db, id, r, sayTo(c))
	if err != nil {
		return err
	}
	if err := render(c, o.settings.Format, p.Table()); err != nil {
		return err
	}
	if report.Format(o.settings.Format).Data() {
		return p.WriteCalls(c.ErrOrStderr()) // stdout has data
	}
	return p.WriteCalls(c.OutOrStdout())
}

// newSweepTask is what tasks of Slurm call.
func newSweepTask() *cobra.Command {
	return &cobra.Command{
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
published stays, and caserun sweep --resume NUMBER --slurm resumes from it.`,
		Example:           "  caserun sweep cancel",
		Args:              atMostOne,
		ValidArgsFunction: atMost(1, fromStore(selection.OfferSweeps)),
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
			sayTo(c)("sweep %d: cancelled %s", w.ID, size.Count(n, "task"))
		}
		return err
	})
}
