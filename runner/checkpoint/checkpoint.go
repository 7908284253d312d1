// Package checkpoint takes all that processes have on GPUs to the host, whatever runtime they use, and brings it back. It runs
// native/ballast/checkpoint, which calls the driver's cuCheckpointProcess*.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caserun/caserun/runner/surroundings"
	"github.com/caserun/caserun/schedulers"
)

// ErrUnavailable is wrapped where the driver has no such functions, which it has since CUDA 12.8.
var ErrUnavailable = errors.New("the driver cannot checkpoint processes")

// ErrBlocked is wrapped where processes may be left blocked.
var ErrBlocked = errors.New("calls of CUDA may be blocked")

// hold.h's statuses that say that nothing was done.
const (
	exitUsage    = 2
	exitNoDevice = 5
	exitNoCall   = 6
)

// Result is what was done. Seconds count only if the outcome is schedulers.Done.
type Result struct {
	// Outcome is Busy if it is not possible now, and Unable if it is never; then the processes run as before, or stay
	// where they are.
	Outcome schedulers.Outcome `json:"outcome"`
	Why     string             `json:"why"`
	LockS   float64            `json:"lock_s"` // until the GPUs had ended what the processes had submitted
	CopyS   float64            `json:"copy_s"`
	BackS   float64            `json:"back_s"` // of Try: to bring it back
	Whole   bool               `json:"whole"`  // of Try: the memory had its contents again
}

// Out stops the processes' calls of CUDA, and takes what they have on GPUs to the host. Their work may take until the limit to end (whole
// milliseconds; 0: for ever). The outcome is Busy if no process uses CUDA. An error says that processes may be left
// blocked (ErrBlocked); after any other nothing was done.
func Out(ctx context.Context, bin string, limit time.Duration, pids ...int) (Result, error) {
	return run(ctx, bin, append([]string{"out", strconv.FormatInt(limit.Milliseconds(), 10)}, texts(pids)...)...)
}

// In brings back what Out took, wherever Out ended, and lets the processes go on. The outcome is Busy if a GPU has not enough free memory: the
// next call continues.
func In(ctx context.Context, bin string, pids ...int) (Result, error) {
	return run(ctx, bin, append([]string{"in"}, texts(pids)...)...)
}

func texts(pids []int) (texts []string) {
	for _, pid := range pids {
		texts = append(texts, strconv.Itoa(pid))
	}
	return texts
}

// Try does both to a process of its own on a device, an ordinal in PCI bus order or a UUID. The process has 4 MiB there.
func Try(ctx context.Context, bin, device string) (Result, error) {
	return run(ctx, bin, "try", device)
}

func run(ctx context.Context, bin string, args ...string) (r Result, err error) {
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env, _ = surroundings.WithoutMPS(os.Environ())
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		err = json.Unmarshal(out, &r)
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM): // this machine lacks processes or memory
		return Result{Outcome: schedulers.Busy, Why: err.Error()}, nil
	case errors.As(err, &exit):
		err = failure(exit)
	}
	if err != nil {
		return Result{}, fmt.Errorf("checkpoint %s: %w", strings.Join(args, " "), err)
	}
	return r, nil
}

// failure is how the program failed.
func failure(exit *exec.ExitError) error {
	said := strings.TrimSpace(string(exit.Stderr))
	switch exit.ExitCode() {
	case exitUsage, exitNoDevice:
		return fmt.Errorf("%w: %s", exit, said)
	case exitNoCall:
		return fmt.Errorf("%w: %s", ErrUnavailable, said)
	}
	return fmt.Errorf("%w: %w: %s", ErrBlocked, exit, said)
}
