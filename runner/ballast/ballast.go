// Package ballast runs native/ballast/ballast, which allocates the memory of a GPU except for a
// given number of bytes.
package ballast

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caserun/caserun/runner/child"
)

// ErrNoRoom is wrapped by Start if the device has less free memory than must stay free. The
// message has the numbers.
var ErrNoRoom = errors.New("not enough free device memory")

// ErrNoDevice is wrapped by Start if there is no CUDA driver or no such device.
var ErrNoDevice = errors.New("no such device")

// ballast.c's EXIT_NO_ROOM and EXIT_NO_DEVICE.
const (
	exitNoRoom   = 3
	exitNoDevice = 5
)

// closeLimit is the longest time that Close gives the program to free its memory. Freeing 140 GiB
// takes well under a second.
const closeLimit = 10 * time.Second

// Held is what the program reported when it was ready. Sizes are in bytes.
type Held struct {
	Device    string `json:"device"` // UUID
	Total     uint64 `json:"total"`
	Free      uint64 `json:"free"` // at least LeaveFree, and less than 2 MiB more
	LeaveFree uint64 `json:"leave_free"`
	Bytes     uint64 `json:"held"` // without the program's CUDA context
	Pieces    int    `json:"pieces"`
}

// Ballast is a running program that holds device memory.
type Ballast struct {
	held   Held
	device string
	proc   *child.Process
	stdin  io.Closer
	stderr *bytes.Buffer // read only after the program's end

	closing sync.Once
	closed  error
}

// Start runs bin for the device (a UUID, or an ordinal in PCI bus order) and returns when
// leaveFree bytes are free on it. Contexts that are created later, including an MPS server's,
// take their memory from leaveFree. The program ends when this process ends, even by SIGKILL. ctx
// limits only the start.
func Start(ctx context.Context, bin, device string, leaveFree uint64) (*Ballast, error) {
	fail := func(err error) (*Ballast, error) {
		return nil, fmt.Errorf("start ballast on %s leaving %d bytes free: %w", device, leaveFree, err)
	}
	cmd := exec.Command(bin, device, strconv.FormatUint(leaveFree, 10))
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	// Not StdoutPipe: Wait would close it under the reader.
	stdout, stdoutChild, err := os.Pipe()
	if err != nil {
		return fail(errors.Join(err, stdin.Close()))
	}
	cmd.Stdout = stdoutChild
	proc, err := child.Start(cmd, syscall.SIGTERM)
	if closeErr := stdoutChild.Close(); err == nil && closeErr != nil {
		err = errors.Join(closeErr, proc.Kill())
	}
	if err != nil {
		stdout.Close()
		return fail(err)
	}
	b := &Ballast{device: device, proc: proc, stdin: stdin, stderr: stderr}
	line := make(chan string, 1)
	go func() {
		defer close(line)
		defer stdout.Close()
		if s, err := bufio.NewReader(stdout).ReadString('\n'); err == nil {
			line <- s
		}
	}()
	select {
	case s, ok := <-line:
		if !ok { // the program has ended or is about to end
			if err := b.close(); err != nil {
				return fail(err)
			}
			return fail(b.exitError())
		}
		if err := json.Unmarshal([]byte(s), &b.held); err != nil {
			return fail(errors.Join(fmt.Errorf("read its ready line %q: %w", strings.TrimSpace(s), err), b.Close()))
		}
		return b, nil
	case <-ctx.Done():
		return fail(errors.Join(context.Cause(ctx), b.Close()))
	}
}

func (b *Ballast) exitError() error {
	said := strings.TrimSpace(b.stderr.String())
	if said == "" {
		said = "it said nothing on stderr"
	}
	err := b.proc.Err()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return fmt.Errorf("it exited before it was told to: %s", said)
	case errors.As(err, &exit) && exit.ExitCode() == exitNoRoom:
		return fmt.Errorf("%w: %s", ErrNoRoom, said)
	case errors.As(err, &exit) && exit.ExitCode() == exitNoDevice:
		return fmt.Errorf("%w: %s", ErrNoDevice, said)
	}
	return fmt.Errorf("%w: %s", err, said)
}

// Held returns what the program reported.
func (b *Ballast) Held() Held { return b.held }

// Done is closed when the program has ended, whether or not it was told to. If it was not told to,
// measurements beside it are invalid, and Close returns the reason.
func (b *Ballast) Done() <-chan struct{} { return b.proc.Done() }

// Close frees the memory and waits until the program has ended. It returns an error if the program
// had ended before, had to be killed, or failed.
func (b *Ballast) Close() error {
	b.closing.Do(func() {
		if err := b.close(); err != nil {
			b.closed = fmt.Errorf("close ballast on %s: %w", b.device, err)
		}
	})
	return b.closed
}

func (b *Ballast) close() error {
	select {
	case <-b.proc.Done():
		return b.exitError()
	default:
	}
	// An error here means that the program is gone, which Wait reports.
	_ = b.stdin.Close()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-b.proc.Done():
	case <-limit.C:
		return errors.Join(fmt.Errorf("it did not end within %v of the end of its input and was killed", closeLimit), b.proc.Kill())
	}
	if b.proc.Err() != nil {
		return b.exitError()
	}
	return nil
}
