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
	"syscall"

	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/live"
)

// Exit statuses. They name a kind, never a count.
const (
	exitOK             = 0
	exitJobsFailed     = 1
	exitUsage          = 2 // usage or configuration
	exitInfrastructure = 3
	exitNothing        = 4 // nothing or too little was measured
	exitRegression     = 99
	exitHangup         = 129
	exitInterrupted    = 130
	exitPipe           = 141 // nobody reads standard output any more
	exitTerminated     = 143
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole program; it returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == live.GuardCommand {
		if err := live.Guard(stdin); err != nil {
			fmt.Fprintln(stderr, "caserun:", err)
			return exitInfrastructure
		}
		return exitOK
	}
	stderr = messages{stderr}
	ctx, stop := withSignals(ctx, stderr)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if nobodyReads(err) {
		return exitPipe
	}
	fmt.Fprintln(stderr, "caserun:", err)
	status := statusOf(err)
	var stopped signalError
	// Whatever failed for it, such as a program that was to start, or a file to be read.
	if errors.As(err, &stopped) || status == exitInfrastructure && errors.As(context.Cause(ctx), &stopped) {
		return stopped.status()
	}
	return status
}

// messages is standard error: names of jobs and files, and what programs said, neither
// move a terminal's cursor nor turn its text around.
type messages struct{ w io.Writer }

func (m messages) Write(text []byte) (int, error) {
	if _, err := io.WriteString(m.w, report.Printable(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// nobodyReads reports whether a command failed for its reader's end, as in
// caserun report | head -1, which is no error to talk about.
func nobodyReads(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Path == os.Stdout.Name() && errors.Is(failed, syscall.EPIPE)
}

// statusOf is the exit status of a command's error.
func statusOf(err error) int {
	var known *statusError
	if errors.As(err, &known) {
		return known.status
	}
	return exitUsage // cobra's own errors: unknown command, flag or argument
}

// statusError is an error that ends the program with a status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }

func (e *statusError) Unwrap() error { return e.err }

func usageError(err error) error { return withStatus(exitUsage, err) }

func infrastructureError(err error) error { return withStatus(exitInfrastructure, err) }

// withStatus gives an error its exit status, unless it has one or is nil.
func withStatus(status int, err error) error {
	var has *statusError
	if err == nil || errors.As(err, &has) {
		return err
	}
	return &statusError{status, err}
}

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

// withSignals ends the context at the first SIGINT, SIGTERM or SIGHUP, so that a
// run stops its jobs and keeps its records. The second ends the program: jobs die
// with it by their parent-death signal and the guard. SIGHUP, of which a terminal
// that closes sends two, is no second one, and stays ignored under nohup. Of SIGPIPE
// the program does not die, as it would with jobs under way where tee, to which it
// talks, is gone first: such writes fail.
func withSignals(parent context.Context, stderr io.Writer) (context.Context, func()) {
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
					os.Exit(e.status())
				}
				first = false
				fmt.Fprintln(stderr, "caserun: stopping; once more ends at once")
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
