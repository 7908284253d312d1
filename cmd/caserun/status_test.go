package main

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/sweep"
)

// The type of an error decides the exit status, however the error is wrapped. What a command
// refuses before its work is wrong usage, whatever its type.
func TestStatusOfErrors(t *testing.T) {
	_, badMix := suites.Suite{}.Mix("W9", nil)
	_, badRun := selection.Run(t.Context(), nil, "twelve", store.Filter{})
	for _, c := range []struct {
		err    error
		status int
	}{
		{errors.New("the driver is gone"), exitInfrastructure},
		{fs.ErrNotExist, exitInfrastructure},
		{store.ErrFull, exitInfrastructure},
		{store.ErrBusy, exitInfrastructure},
		{badMix, exitUsage},
		{mixes.InputErrors{{File: "m.yaml", Msg: "bad"}}, exitUsage},
		{nodes.Check("cloud"), exitUsage},
		{harness.Refuse(errors.New("--mem-cap")), exitUsage},
		{sweep.Options{}.Validate(true), exitUsage},
		{sweep.Busy(store.HeldError{Sweep: 1}), exitUsage},
		{badRun, exitUsage},
		{store.ErrNoRun, exitUsage},
		{store.ErrNoSweep, exitUsage},
		{regress.ErrNotApart, exitUsage},
		{regress.ErrAmbiguous, exitUsage},
		{refuse("name another file"), exitUsage},
		{sweep.LimitError{}, exitNothing},
		{new(selection.NothingError), exitNothing},
		{nothingError{errors.New("none")}, exitNothing},
		{&live.PartError{}, exitNothing},
		{&live.PartError{Measured: 1}, exitJobsFailed},
		{jobsFailedError{errors.New("2 of 16")}, exitJobsFailed},
		{regressionError{errors.New("worse")}, exitRegression},
	} {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err), errors.Join(c.err, errors.New("close: too"))} {
			if got := statusOf(workError{err}); got != c.status {
				t.Errorf("%T %v: status %d, want %d", c.err, err, got, c.status)
			}
			if got := statusOf(err); got != exitUsage {
				t.Errorf("%T before the work: status %d, want %d", c.err, got, exitUsage)
			}
		}
	}
}
