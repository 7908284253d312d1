package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/sweep"
	"github.com/caserun/caserun/userfile"
)

// load settles a command's settings.
func load(c *cobra.Command) (config.Settings, error) { return loadOver(c, nil) }

// loadOver is load with settings that come before the configuration file's.
func loadOver(c *cobra.Command, over map[string]any) (config.Settings, error) {
	settings, err := config.Load(c.Context(), c.Flags(), over, sayTo(c))
	if err != nil {
		return settings, err
	}
	if c.Flags().Lookup("format") != nil {
		format, err := report.ParseFormat(settings.Format)
		settings.Format = string(format)
		return settings, err
	}
	return settings, nil
}

// asked is what all requests have.
type asked struct {
	settings config.Settings
	args     []string
}

func (a *asked) settle(c *cobra.Command, args []string) (err error) {
	a.args = args
	a.settings, err = load(c)
	return err
}

// simple is a request that has settings alone.
type simple struct {
	asked
	work func(c *cobra.Command, settings config.Settings) error
}

func (s *simple) do(c *cobra.Command) error { return s.work(c, s.settings) }

// withSettings is the RunE of a command that has settings alone.
func withSettings(work func(*cobra.Command, config.Settings) error) func(*cobra.Command, []string) error {
	return verb(&simple{work: work})
}

// read opens the store for reading.
func (a *asked) read(c *cobra.Command, look func(*store.Store) error) (err error) {
	db, done, err := openForReading(c.Context(), a.settings.DB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return look(db)
}

// readIfThere reads the store, or nil if there is none.
func (a *asked) readIfThere(c *cobra.Command, look func(*store.Store) error) error {
	if userfile.Absent(a.settings.DB) {
		return look(nil)
	}
	return a.read(c, look)
}

// write opens the store for new runs.
func (a *asked) write(c *cobra.Command, work func(*store.Store) error) (err error) {
	db, err := harness.OpenStoreTelling(a.settings.DB, sayTo(c))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return work(db)
}

// reader is a request that is about what a store has.
type reader interface {
	settle(c *cobra.Command, args []string) error
	read(c *cobra.Command, look func(*store.Store) error) error
	look(c *cobra.Command, db *store.Store) error
}

// onStore makes a request of a reader.
type onStore struct{ reader }

func (o onStore) do(c *cobra.Command) error {
	return o.read(c, func(db *store.Store) error { return o.look(c, db) })
}

// sayTo writes lines to a command's standard error.
func sayTo(c *cobra.Command) harness.Say { return display.Say(c.ErrOrStderr()) }

// printSettings prints the settings that a command has.
func printSettings(c *cobra.Command, settings config.Settings) error {
	text, err := settings.Show(c.Flags())
	if err != nil {
		return err
	}
	_, err = c.OutOrStdout().Write(text)
	return err
}

// openForReading opens a store's file, or a bundle of caserun export, for reading. The file's
// first bytes tell which it is. The caller must call done, which also removes what a bundle was
// unpacked to.
func openForReading(ctx context.Context, path string) (s *store.Store, done func() error, err error) {
	s, done, err = bundle.OpenStore(ctx, path)
	if err != nil && userfile.Absent(path) {
		err = noStore(path)
	}
	return s, done, err
}

// noStore is the error of a command whose store is missing.
func noStore(path string) error {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	return fmt.Errorf("store %s: no such file: caserun mix and caserun sweep make a store; --db names one in another place", path)
}

// selectSide finds the runs that a text names for a command, and refuses a text that matches none.
func (a *asked) selectSide(c *cobra.Command, db *store.Store, command, text string) (regress.Side, error) {
	side, err := selection.Select(c.Context(), db, text)
	if err == nil && len(side.Runs) == 0 {
		err = a.matchesNothing(c, db, command+": "+side.Label, text)
	}
	return side, err
}

// matchesNothing is the error of a text that matches no run, which is a slip of the user or a sweep that began no run.
func (a *asked) matchesNothing(c *cobra.Command, db *store.Store, what, text string) error {
	return refuse("%s: %s; caserun report%s lists what there is", what, selection.WhyEmpty(c.Context(), db, text, a.settings.DB), a.settings.StoreFlag())
}

// nothingMatches is the error of a command whose flags select no run.
func nothingMatches(ctx context.Context, db *store.Store, command string, settings config.Settings, f selection.Filter) error {
	return nothingError{fmt.Errorf("%s: no runs match in %s%s; caserun report%s lists what there is", command, settings.DB, f.Meant(ctx, db), settings.StoreFlag())}
}

// storeHint says how a command in a hint finds the store that a command read.
func storeHint(settings config.Settings) regress.StoreHint {
	if !bundle.Is(settings.DB) {
		return regress.StoreHint{Flag: settings.StoreFlag()}
	}
	return regress.StoreHint{Unpack: ", in the store of the bundle, which tar xzkf " + settings.DB + " caserun.db takes out"}
}

// extendHint is storeHint for commands that give sweeps more repetitions.
func extendHint(c *cobra.Command, db *store.Store, settings config.Settings) regress.StoreHint {
	in := storeHint(settings)
	in.Sweep = sweep.Hints(c.Context(), db, config.SweepDefault)
	return in
}
