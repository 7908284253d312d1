package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Helper is a program that runs until the end of its input, such as one that holds memory.
type Helper struct {
	proc   *Process
	stdin  io.Closer
	stderr *bytes.Buffer // read only after the program's end

	closing sync.Once
	closed  error
}

// closeLimit is the longest time that Close gives the program to end. Freeing 140 GiB of device
// memory takes well under a second.
const closeLimit = 10 * time.Second

// StartHelper starts cmd, whose Stdin and Stderr it sets. The program ends when this process ends,
// even by SIGKILL. Close must follow a success.
func StartHelper(cmd *exec.Cmd) (*Helper, error) {
	h := &Helper{stderr: &bytes.Buffer{}}
	cmd.Stderr = h.stderr
	var err error
	if h.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if h.proc, err = Start(cmd, syscall.SIGTERM); err != nil {
		return nil, err
	}
	return h, nil
}

// Until returns the value that ready gives before ctx ends. If the program ends before, or ready is
// closed, the program is closed, and the error says why.
func Until[T any](ctx context.Context, h *Helper, ready <-chan T) (T, error) {
	var none T
	select {
	case v, ok := <-ready:
		if ok {
			return v, nil
		}
		if err := h.Close(); err != nil {
			return none, err
		}
		return none, h.early()
	case <-ctx.Done():
		return none, errors.Join(context.Cause(ctx), h.Close())
	}
}

// ExitError is how a program ended that was not told to, or that failed.
type ExitError struct {
	Status int    // -1: by a signal
	Said   string // on stderr
	err    error  // of exec.Cmd.Wait
}

func (e *ExitError) Error() string {
	if e.err == nil {
		return "it exited before it was told to: " + e.Said
	}
	return fmt.Sprintf("%v: %s", e.err, e.Said)
}

func (e *ExitError) Unwrap() error { return e.err }

// early is the error of a program that has ended.
func (h *Helper) early() error {
	e := &ExitError{Said: strings.TrimSpace(h.stderr.String()), err: h.proc.Err()}
	if e.Said == "" {
		e.Said = "it said nothing on stderr"
	}
	var exit *exec.ExitError
	if errors.As(e.err, &exit) {
		e.Status = exit.ExitCode()
	}
	return e
}

// PID returns the id of the program's process.
func (h *Helper) PID() int { return h.proc.PID() }

// Done is closed when the program has ended, whether or not it was told to. If it was not told to,
// Close returns the reason.
func (h *Helper) Done() <-chan struct{} { return h.proc.Done() }

// Close ends the program's input and waits for the program's end. It returns an error if the program
// had ended before (ExitError), had to be killed, or failed (ExitError).
func (h *Helper) Close() error {
	h.closing.Do(func() { h.closed = h.close() })
	return h.closed
}

func (h *Helper) close() error {
	select {
	case <-h.proc.Done():
		return h.early()
	default:
	}
	// An error here means that the program is gone, which Wait reports.
	_ = h.stdin.Close()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-h.proc.Done():
	case <-limit.C:
		return errors.Join(fmt.Errorf("it did not end within %v of the end of its input and was killed", closeLimit), h.proc.Kill())
	}
	if h.proc.Err() != nil {
		return h.early()
	}
	return nil
}
