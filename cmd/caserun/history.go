package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/userfile"
)

// historyOptions are what history is asked for.
type historyOptions struct {
	asked
	mix    string // "": all that is known
	before int64
	except []string // mixes
	out    string
}

func newHistory() *cobra.Command {
	var o historyOptions
	c := &cobra.Command{
		Use:   "history [MIX]",
		Short: "Show what jobs are expected to do, from what they did before",
		Long: `Show what is known of each command on each GPU model: the time from a job's
start to its first request, the time in which it has a device, the time from its
last release to its end, its memory, the part of its time with a device in which
kernels run, and the part of the SMs that they fill. These are medians over the
jobs that ended ok in the complete runs of the store. A scheduler that plans is
told so.

With MIX, show what a run of the mix on --node would be told. A simulated node
also takes profiles, and in a sweep no earlier runs. A live node goes by other
GPU models for commands of which its own tell nothing. Of a job without figures
nothing is known.

With -o, write a file for --history of caserun mix and sweep.`,
		Example: `  caserun history
  caserun history W7 --node sim:4xV100
  caserun history --before 12 -o known.csv
  caserun history --profiles mine.csv -o measured.csv`,
		Args:              atMostOne,
		ValidArgsFunction: atMost(1, completeMix),
		RunE:              verb(&o),
	}
	f := c.Flags()
	f.String("node", "", "`NODE` of the run of MIX: local, or sim:COUNTxMODEL such as sim:4xV100")
	f.Int64Var(&o.before, "before", 0, "only runs before this `RUN`; 0: all")
	config.AddListFlag(f, &o.except, "except", "leave out the runs of each `MIX`; split at commas, and may be given again")
	f.StringVarP(&o.out, "out", "o", "", "write to `FILE`, which must not exist, instead of a table")
	f.String("profiles", "", "`FILE` of caserun profile: what it measured, in addition")
	config.AddHistoryFlag(f)
	config.AddStoreFlag(f)
	config.AddDevicesFlag(f)
	config.AddProbeFlag(f)
	config.AddSuiteFlag(f)
	config.AddDirectories(f)
	addFormatFlag(c)
	return c
}

func (o *historyOptions) settle(c *cobra.Command, args []string) error {
	o.mix = strings.Join(args, "") // at most one
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if err := refuseConflicts(c.Flags(), []conflict{{"out", "format", "it is a CSV file"}}); err != nil {
		return err
	}
	switch {
	case o.before < 0:
		return fmt.Errorf("--before %d: want the number of a run, or 0 for all", o.before)
	case o.mix == "" && (c.Flags().Changed("node") || c.Flags().Changed("devices")):
		return errors.New("--node and --devices are for a mix: name one, as in caserun history W7 --node sim:4xV100")
	case len(nodes.Split(o.settings.Node)) > 1:
		return fmt.Errorf("--node %s: want one node, with + between its devices", o.settings.Node)
	}
	return nil
}

func (o *historyOptions) do(c *cobra.Command) (err error) {
	if err := harness.SpareStore(o.settings.DB, o.out); err != nil {
		return err
	}
	file, err := o.settings.KnownHistory(c.Context())
	if err != nil {
		return err
	}
	db, done, err := o.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if db != nil {
		if err := db.Verify(c.Context(), store.Filter{Warmups: true}); err != nil {
			return err
		}
	}
	if err := o.sayUnknown(c, db); err != nil {
		return err
	}
	var found []results.Known
	title := "what is known of jobs"
	if o.mix == "" {
		found, err = o.all(c, db, file)
	} else {
		found, title, err = o.ofMix(c, db, file)
	}
	if err != nil {
		return err
	}
	if o.out == "" {
		return render(c, o.settings.Format, report.KnownTable(title, found))
	}
	found = slices.DeleteFunc(found, func(k results.Known) bool { return k.Source == "" })
	if len(found) == 0 {
		return nothingError{fmt.Errorf("history: nothing is known, so there is nothing to write to %s", o.out)}
	}
	return writeOutput(c, o.out, func(w io.Writer) error { return history.Write(w, found) })
}

// open opens the store. Profiles and files are of use without one: then db is nil.
func (o *historyOptions) open(c *cobra.Command) (db *store.Store, done func() error, err error) {
	others := o.mix != "" || o.settings.Profiles != "" || o.settings.History != ""
	if userfile.Absent(o.settings.DB) && others && !c.Flags().Changed("db") {
		sayTo(c)("there is no store %s, so nothing is known from runs", o.settings.DB)
		return nil, func() error { return nil }, nil
	}
	return openForReading(c.Context(), o.settings.DB)
}

// sayUnknown names the mixes to leave out that have no run, because a slip would leave out nothing.
func (o *historyOptions) sayUnknown(c *cobra.Command, db *store.Store) error {
	unknown, err := history.WithoutRuns(c.Context(), db, o.except)
	for _, mix := range unknown {
		sayTo(c)("--except %s leaves out nothing: %s has no run of a mix with that name", mix, o.settings.DB)
	}
	return err
}

// all is what the files say that are named, and what the store's runs show.
func (o *historyOptions) all(c *cobra.Command, db *store.Store, file history.File) ([]results.Known, error) {
	filter := store.Filter{Before: o.before, NotMixes: o.except}
	if c.Flags().Changed("suite") {
		filter.Suite = o.settings.Suite
	}
	if c.Flags().Changed("probe") {
		filter.Probe = &o.settings.Probe
	}
	found, err := history.All(c.Context(), db, file, filter)
	if o.settings.Profiles == "" || err != nil {
		return found, err
	}
	measured, err := profiles.Load(c.Context(), o.settings.Profiles)
	if err != nil {
		return nil, harness.Refuse(err)
	}
	return append(found, history.Measured(measured)...), nil
}

// ofMix is what a run of the mix would be told of each of its commands.
func (o *historyOptions) ofMix(c *cobra.Command, db *store.Store, file history.File) (found []results.Known, title string, err error) {
	found, mix, node, err := nodes.Expected(c.Context(), o.settings.Options, o.mix, db,
		history.Options{File: file, Runs: true, Probe: o.settings.Probe, Before: o.before, NotMixes: o.except}, sayTo(c))
	title = fmt.Sprintf("what is known of the jobs of %s", mix.Name)
	if !nodes.IsLive(node) {
		title = "SIMULATED " + title + " on " + node
	}
	return found, title, err
}
