package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// findSweep is the sweep with a number, or the latest.
func findSweep(ctx context.Context, db *store.Store, arg string) (results.Sweep, error) {
	var w results.Sweep
	var err error
	if arg == "latest" {
		w, err = db.LatestSweep(ctx)
	} else {
		id, parseErr := strconv.ParseInt(arg, 10, 64)
		if parseErr != nil {
			return w, usageError(fmt.Errorf("sweep %q: want a sweep's number from caserun sweep list, or latest", arg))
		}
		w, err = db.Sweep(ctx, id)
	}
	if errors.Is(err, store.ErrNoSweep) {
		return w, usageError(err)
	}
	return w, infrastructureError(err)
}

// recordedMatrix is a sweep as it was planned, whatever the settings are now. The
// note is empty unless the program is another one: it says which.
func recordedMatrix(ctx context.Context, w results.Sweep, now config) (m *matrix, note string, err error) {
	m = &matrix{mode: w.Mode}
	if m.spec, err = readSpec(w); err != nil {
		return nil, "", err
	}
	recorded := m.spec
	c, err := recordedConfig(recorded.Settings)
	if err != nil {
		return nil, "", infrastructureError(fmt.Errorf("read the settings of sweep %d: %w", w.ID, err))
	}
	c.DB, c.Format = now.DB, now.Format
	m.spec.Mixes = nil
	var args []string
	for _, mix := range recorded.Mixes {
		args = append(args, mix.Arg)
	}
	if err := m.settle(ctx, c, args, io.Discard); err != nil {
		return nil, "", fmt.Errorf("resume sweep %d: %w", w.ID, err)
	}
	for i, mix := range recorded.Mixes {
		if now := m.spec.Mixes[i]; now.Name != mix.Name || now.SHA256 != mix.SHA256 {
			return nil, "", usageError(fmt.Errorf("resume sweep %d: mix %s, or a profile of its jobs, is not what it was when the sweep was planned: bring it back, or start a new sweep",
				w.ID, mix.Arg))
		}
	}
	program, err := thisProgram()
	if err != nil {
		return nil, "", err
	}
	if program != recorded.Program {
		note = fmt.Sprintf("by caserun %s (revision %s, sha256 %.12s), planned by %s (revision %s, sha256 %.12s)",
			program.Version, program.Revision, program.SHA256,
			recorded.Program.Version, recorded.Program.Revision, recorded.Program.SHA256)
	}
	return m, note, nil
}

// agree refuses to resume a sweep with other arguments than it was planned with.
// What was not given is as planned; given are the settings that were, by key.
func (m *matrix) agree(id int64, o sweepOptions, given []string, now config) error {
	differ := func(key string, asked, planned any) error {
		return usageError(fmt.Errorf("sweep %d was planned with %s, not %s: leave --%s out to resume it, or start a new sweep",
			id, asFlag(key, planned), asFlag(key, asked), key))
	}
	var args []string
	for _, mix := range m.spec.Mixes {
		args = append(args, mix.Arg)
	}
	switch {
	case len(o.Mixes) > 0 && !slices.Equal(o.Mixes, args):
		return differ("mixes", o.Mixes, args)
	case len(o.Scheds) > 0 && !slices.Equal(o.Scheds, m.spec.Scheds):
		return differ("scheds", o.Scheds, m.spec.Scheds)
	case o.Reps > 0 && o.Reps != m.spec.Reps:
		return differ("reps", o.Reps, m.spec.Reps)
	case o.Warmups >= 0 && o.Warmups != m.spec.Warmups:
		return differ("warmups", o.Warmups, m.spec.Warmups)
	case o.Name != "" && o.Name != m.spec.Name:
		return differ("name", o.Name, m.spec.Name)
	}
	asked, planned := now.sweepSettings(), m.config.sweepSettings()
	for _, key := range given {
		if _, shared := planned[key]; shared && !reflect.DeepEqual(asked[key], planned[key]) {
			return differ(key, asked[key], planned[key])
		}
	}
	return nil
}

// asFlag is a setting as the user would write it.
func asFlag(key string, value any) string {
	switch v := value.(type) {
	case []string:
		value = strings.Join(v, ",")
	case bool:
		return fmt.Sprintf("--%s=%t", key, v)
	}
	if value == "" {
		return "no --" + key
	}
	return fmt.Sprintf("--%s %v", key, value)
}

// recorded is what a sweep was planned from. It needs neither the node nor the
// mixes' files; an argument that asks for other runs is an error.
func (s *sweepCommand) recorded(sweep results.Sweep, settings config, given []string) (spec sweepSpec, planned config, err error) {
	if spec, err = readSpec(sweep); err != nil {
		return spec, planned, err
	}
	if planned, err = recordedConfig(spec.Settings); err != nil {
		return spec, planned, infrastructureError(fmt.Errorf("read the settings of sweep %d: %w", sweep.ID, err))
	}
	return spec, planned, (&matrix{config: planned, spec: spec}).agree(sweep.ID, s.options, given, settings)
}

// showRecorded prints the configuration that a sweep is resumed with.
func (s *sweepCommand) showRecorded(c *cobra.Command, sweep results.Sweep, settings config, given []string) error {
	spec, planned, err := s.recorded(sweep, settings, given)
	if err != nil {
		return err
	}
	planned.DB, planned.Format = settings.DB, settings.Format
	options := sweepOptions{Name: spec.Name, Scheds: spec.Scheds, Reps: spec.Reps, Warmups: spec.Warmups}
	for _, mix := range spec.Mixes {
		options.Mixes = append(options.Mixes, mix.Arg)
	}
	return errors.Join(options.print(c.OutOrStdout()), planned.printOf(c))
}

// showComplete prints the arms of a sweep that has nothing left.
func (s *sweepCommand) showComplete(c *cobra.Command, db *store.Store, sweep results.Sweep, settings config, given []string) error {
	if _, _, err := s.recorded(sweep, settings, given); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "caserun: sweep %d is complete\n", sweep.ID)
	return showSweep(c, settings.Format, db, sweep.ID)
}

// sameSize refuses a node with another number of devices than the sweep's runs
// had: an arm's repetitions would not be of the same thing.
func sameSize(ctx context.Context, db *store.Store, id int64, devices int) error {
	run, err := db.Latest(ctx, store.Filter{Sweep: id, Status: results.Complete, Warmups: true})
	if errors.Is(err, store.ErrNoRun) {
		return nil
	}
	if err != nil {
		return infrastructureError(err)
	}
	had, err := db.Devices(ctx, run.ID)
	if err == nil && len(had) != devices {
		return usageError(fmt.Errorf("resume sweep %d: its runs so far had %d GPUs, and here are %d: resume it where there are as many, or start a new sweep", id, len(had), devices))
	}
	return infrastructureError(err)
}
