package ballast

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/surroundings"
)

// Slowed is a running program that holds SMs of a GPU.
type Slowed struct {
	*child.Helper
	device string
	left   int
}

// offBy is how many SMs more or fewer than asked other processes may get.
const offBy = 1

// counted is what native/ballast/slow says: on how many of the GPU's SMs its kernel has been.
type counted struct{ SMs, Seen int }

// Slow runs bin, which holds SMs of the device (a UUID) so that `keep` are left of so many. It is a client of the MPS daemon to which
// the variables lead, as those must be that are to be slowed. A second client counts the SMs that it gets; if they are not those
// that were to be left, it is an error. The program ends when this process ends, even by SIGKILL, and then its kernel does. ctx
// limits only the start.
func Slow(ctx context.Context, bin, device string, sms, keep int, mps []string) (*Slowed, error) {
	s := &Slowed{device: device}
	err := s.start(ctx, bin, sms, keep, mps)
	if err != nil {
		return nil, fmt.Errorf("hold %d of the %d SMs of %s: %w", sms-keep, sms, device, why(err))
	}
	return s, nil
}

func (s *Slowed) start(ctx context.Context, bin string, sms, keep int, mps []string) (err error) {
	env, _ := surroundings.WithoutMPS(os.Environ())
	env = append(append(env, mps...), "CUDA_VISIBLE_DEVICES="+s.device)
	cmd := exec.Command(bin, "hold", strconv.Itoa(sms-keep))
	cmd.Env = env
	var held counted
	if s.Helper, err = run(ctx, cmd, &held); err != nil {
		return err
	}
	if s.left, err = count(ctx, bin, env); err == nil && (s.left < max(1, keep-offBy) || s.left > keep+offBy) {
		err = fmt.Errorf("other processes get %d SMs, and %d were to be left: another process uses the GPU, or this driver places kernels in another way", s.left, keep)
	}
	if err != nil {
		err = errors.Join(err, s.Helper.Close())
	}
	return err
}

// count counts the SMs that another process gets.
func count(ctx context.Context, bin string, env []string) (int, error) {
	cmd := exec.CommandContext(ctx, bin, "probe")
	cmd.Env = env
	c, err := child.Report[counted](cmd)
	if err != nil {
		return 0, fmt.Errorf("count the SMs that are left: %w", err)
	}
	return c.Seen, nil
}

// Left is how many SMs other processes get.
func (s *Slowed) Left() int { return s.left }

// Close ends the kernel and waits until the program has ended. It returns an error if the program had ended before, had to be killed,
// or failed.
func (s *Slowed) Close() error {
	if err := s.Helper.Close(); err != nil {
		return fmt.Errorf("give back the SMs of %s: %w", s.device, err)
	}
	return nil
}
