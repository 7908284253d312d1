// Package ballast makes a GPU behave like a smaller one. It runs native/ballast/ballast, which allocates the memory except for a
// given number of bytes, and native/ballast/slow, which holds SMs.
package ballast

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/surroundings"
)

// errNoRoom is wrapped by Start if the device has less free memory than must stay free. The
// message has the numbers.
var errNoRoom = errors.New("not enough free device memory")

// errNoDevice is wrapped by Start if there is no CUDA driver or no such device.
var errNoDevice = errors.New("no such device")

// ballast.c's EXIT_NO_ROOM and EXIT_NO_DEVICE.
const (
	exitNoRoom   = 3
	exitNoDevice = 5
)

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
	*child.Helper
	held   Held
	device string
}

// Start runs bin for the device (a UUID, or an ordinal in PCI bus order) and returns when
// leaveFree bytes are free on it. Contexts that are created later, including an MPS server's,
// take their memory from leaveFree. The program ends when this process ends, even by SIGKILL. ctx
// limits only the start.
func Start(ctx context.Context, bin, device string, leaveFree uint64) (*Ballast, error) {
	b, err := hold(ctx, bin, device, leaveFree)
	if err != nil {
		return nil, fmt.Errorf("start ballast on %s leaving %s free: %w", device, size.Text(leaveFree), why(err))
	}
	return b, nil
}

func hold(ctx context.Context, bin, device string, leaveFree uint64) (*Ballast, error) {
	cmd := exec.Command(bin, device, strconv.FormatUint(leaveFree, 10))
	cmd.Env, _ = surroundings.WithoutMPS(os.Environ()) // another daemon would hold the memory
	b := &Ballast{device: device}
	var err error
	b.Helper, err = run(ctx, cmd, &b.held)
	return b, err
}

// run starts a program that holds a part of a device, and reads the line in which it says what it holds.
func run(ctx context.Context, cmd *exec.Cmd, held any) (*child.Helper, error) {
	// Not StdoutPipe: Wait would close it under the reader.
	stdout, stdoutChild, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = stdoutChild
	h, err := child.StartHelper(cmd)
	if closeErr := stdoutChild.Close(); err == nil && closeErr != nil {
		err = errors.Join(closeErr, h.Close())
	}
	if err != nil {
		stdout.Close()
		return nil, err
	}
	line := make(chan string, 1)
	go func() {
		defer close(line)
		defer stdout.Close()
		if s, err := bufio.NewReader(stdout).ReadString('\n'); err == nil {
			line <- s
		}
	}()
	s, err := child.Until(ctx, h, line)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(s), held); err != nil {
		return nil, errors.Join(fmt.Errorf("read its ready line %q: %w", strings.TrimSpace(s), err), h.Close())
	}
	return h, nil
}

// why adds what the program's exit status means.
func why(err error) error {
	var exit *child.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	switch exit.Status {
	case exitNoRoom:
		return fmt.Errorf("%w: %s", errNoRoom, exit.Said)
	case exitNoDevice:
		return fmt.Errorf("%w: %s", errNoDevice, exit.Said)
	}
	return err
}

// Held returns what the program reported.
func (b *Ballast) Held() Held { return b.held }

// Close frees the memory and waits until the program has ended. It returns an error if the program
// had ended before, had to be killed, or failed. Measurements beside a ballast that ended by itself are
// invalid.
func (b *Ballast) Close() error {
	if err := b.Helper.Close(); err != nil {
		return fmt.Errorf("close ballast on %s: %w", b.device, err)
	}
	return nil
}
