package main

import (
	"github.com/spf13/cobra"

	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/runlog"
)

// logFlag is --log-json of a command that makes runs.
type logFlag struct{ path string }

func (f *logFlag) addTo(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "log-json", "", "add what happens in the runs to `FILE` as it happens, one JSON object a line; docs/export.md has the fields")
}

// open opens the log, or gives none if the flag is not set. The store must exist, so that it can
// be spared. done must be called at the end of the runs.
func (f logFlag) open(db string) (log harness.Log, done func() error, err error) {
	if f.path == "" {
		return nil, func() error { return nil }, nil
	}
	if err := spareStore(db, f.path); err != nil {
		return nil, nil, err
	}
	l, err := runlog.Open(f.path)
	if err != nil {
		return nil, nil, refusal{err}
	}
	return l, l.Close, nil
}
