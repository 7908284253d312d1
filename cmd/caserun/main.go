// Command caserun runs batches of GPU jobs under co-scheduling policies,
// measures them and reports.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/member"
	"github.com/caserun/caserun/runner/policytest"
	"github.com/caserun/caserun/runner/sweep"
	"github.com/caserun/caserun/userfile/output"
)

// Exit statuses. They name a kind, never a count.
const (
	exitOK             = 0
	exitJobsFailed     = 1 // or a policy broke a rule
	exitUsage          = 2 // usage or configuration
	exitInfrastructure = 3
	exitNothing        = 4 // nothing or too little was measured
	exitRegression     = 99
	exitHangup         = 129
	exitInterrupted    = 130
	exitPipe           = 141 // nobody reads standard output any more
	exitTerminated     = 143
)

// exitStatus is what one or several exit statuses mean.
type exitStatus struct {
	statuses []int
	meaning  string // as docs/reference/exit-statuses.md has it
}

func exitStatuses() []exitStatus {
	return []exitStatus{
		{[]int{exitOK}, "ok. Of `caserun sweep`: every run was carried out. Jobs that crash are results there, not failures of the sweep"},
		{[]int{exitJobsFailed}, "jobs failed, or a policy broke a rule"},
		{[]int{exitUsage}, "usage or configuration: correct the command, or a file that it names"},
		{[]int{exitInfrastructure}, "infrastructure: the machine, the store or caserun itself failed. A sweep can be resumed"},
		{[]int{exitNothing}, "nothing or too little was measured"},
		{[]int{exitRegression}, "a regression"},
		{[]int{exitHangup, exitInterrupted, exitTerminated}, "stopped by SIGHUP (the terminal is gone; ignored under `nohup`), SIGINT, SIGTERM. A second signal ends caserun at once, unless it is SIGHUP"},
		{[]int{exitPipe}, `nobody reads standard output any more, as in ` + "`caserun report \\| head -1`"},
	}
}

// numbers are the statuses in one text: 129, 130, 143.
func (s exitStatus) numbers() string {
	var numbers []string
	for _, n := range s.statuses {
		numbers = append(numbers, strconv.Itoa(n))
	}
	return strings.Join(numbers, ", ")
}

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole program; it returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if is, err := member.Main(ctx, args, stdin, stdout); is {
		if err != nil {
			fmt.Fprintln(stderr, "caserun:", err)
			return exitInfrastructure
		}
		return exitOK
	}
	said, out := display.NewMessages(stderr), display.NewOutput(stdout)
	ctx, stop := withSignals(ctx, said)
	defer stop()
	root := newRoot()
	fitHelp(root, display.Columns(stdout))
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		plainUsages(root)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(said)
	refused := refuseHelp(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = *refused
	}
	if lost := out.Err(); lost != nil && !as[workError](err) {
		err = workError{fmt.Errorf("what was to be printed is lost: %w", lost)}
	}
	if err == nil {
		return exitOK
	}
	return tell(ctx, err, said)
}

// tell says why the program fails, and returns its exit status.
func tell(ctx context.Context, err error, said io.Writer) int {
	if nobodyReads(err) {
		return exitPipe
	}
	status := statusOf(err)
	if _, gone := os.Getwd(); errors.Is(gone, fs.ErrNotExist) {
		err = fmt.Errorf("the working directory was deleted: change to one that is there: %w", err)
		status = exitInfrastructure
	}
	fmt.Fprintln(said, "caserun:", message(withAdvice(err)))
	var stopped signalError
	// A signal also ends what fails because of it, such as the start of a program.
	if errors.As(err, &stopped) || status == exitInfrastructure && errors.As(context.Cause(ctx), &stopped) {
		return stopped.status()
	}
	return status
}

// withAdvice adds to an error which command shows what there is.
func withAdvice(err error) error {
	switch {
	case errors.Is(err, store.ErrNoSweep):
		return fmt.Errorf("%w: caserun sweep list shows the sweeps of a store, and caserun sweep makes one", err)
	case errors.Is(err, store.ErrNoRun):
		return fmt.Errorf("%w: caserun report lists the runs of a store", err)
	}
	return err
}

// message is an error in one line. Of a file with several mistakes each has its line, which begins with its place.
func message(err error) string {
	if errors.As(err, new(mixes.InputErrors)) {
		return err.Error()
	}
	var parts []string
	for line := range strings.Lines(err.Error()) { // of errors that are joined, and of what other programs say
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// nobodyReads reports whether a command failed because nobody reads its output any more, as in
// caserun report | head -1. That is not worth a message.
func nobodyReads(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Path == os.Stdout.Name() && errors.Is(failed, syscall.EPIPE)
}

// statusOf is the exit status of a command's error. What a command refuses before its work is
// wrong usage. An error of its work is the harness's or the machine's, unless its type says
// otherwise.
func statusOf(err error) int {
	var part *live.PartError
	switch {
	case !as[workError](err):
		return exitUsage
	case as[regressionError](err):
		return exitRegression
	case as[jobsFailedError](err), as[policytest.BrokenError](err):
		return exitJobsFailed
	case as[nothingError](err), as[*selection.NothingError](err), as[sweep.LimitError](err):
		return exitNothing
	case errors.As(err, &part) && part.Measured == 0:
		return exitNothing
	case part != nil:
		return exitJobsFailed
	case slices.ContainsFunc(wrongUsage, func(matches func(error) bool) bool { return matches(err) }):
		return exitUsage
	}
	return exitInfrastructure
}

// as matches errors of a type, and is matches a value.
func as[E error](err error) bool { return errors.As(err, new(E)) }

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// wrongUsage matches errors after which the user has to ask for something else.
var wrongUsage = []func(error) bool{
	as[refusal], as[mixes.InputErrors], as[*suites.MixError], as[*harness.RequestError], as[*sweep.PlanError], as[*selection.NameError],
	as[*output.Refusal], as[*regress.BaseError], is(store.ErrNoRun), is(store.ErrNoSweep), is(store.ErrOtherPlan), is(store.ErrDiffer),
	is(regress.ErrNotApart), is(regress.ErrAmbiguous), is(regress.ErrModes),
}

// workError is an error of a command's work.
type workError struct{ error }

func (e workError) Unwrap() error { return e.error }

// Ends of a command whose work was done.
type (
	nothingError    struct{ error } // nothing, or too little, was measured
	jobsFailedError struct{ error } // jobs did not end ok
	regressionError struct{ error }
)

// refusal is wrong usage that a command's work finds out.
type refusal struct{ error }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "stopped by " + e.signal.String() }

func (e signalError) status() int {
	switch e.signal {
	case syscall.SIGHUP:
		return exitHangup
	case syscall.SIGTERM:
		return exitTerminated
	}
	return exitInterrupted
}

// withSignals ends the context at the first SIGINT, SIGTERM or SIGHUP, so that a run stops its
// jobs and keeps its records. The second signal ends the program. Jobs die with it by their
// parent-death signal and the guard. A closing terminal sends SIGHUP twice; the second is
// ignored. Under nohup every SIGHUP is ignored. SIGPIPE does not end the program: if tee, to
// which it writes, ends first, jobs may still run. Such writes fail.
func withSignals(parent context.Context, said *display.Messages) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE) // and not Ignore, which the jobs would inherit
	done := make(chan struct{})
	go func() {
		first := true
		for {
			select {
			case s := <-signals:
				e := signalError{s}
				switch {
				case first:
				case s == syscall.SIGHUP:
					continue
				default:
					said.End()
					os.Exit(e.status())
				}
				first = false
				fmt.Fprintln(said, "caserun: stopping; once more ends at once")
				cancel(e)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(unread)
		close(done)
		cancel(nil)
	}
}
