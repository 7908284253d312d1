package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/runner/ballast"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/policies"
)

// parseSlow reads --slow: the share of its SMs that a device keeps, by the device's number in the run.
func parseSlow(text string, devices int) (map[int]float64, error) {
	shares := map[int]float64{}
	if text == "" {
		return shares, nil
	}
	items, err := input.List(text)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		number, rest, _ := strings.Cut(item, "=")
		device, err := input.Int(number)
		share, shareErr := input.Float(rest)
		_, twice := shares[device]
		switch {
		case err != nil || shareErr != nil || !(share > 0 && share < 1):
			return nil, fmt.Errorf("%q: want DEVICE=SHARE with a share above 0 and below 1, such as 1=0.25", item)
		case device < 0 || device >= devices:
			return nil, fmt.Errorf("device %d: the run has devices 0 to %d", device, devices-1)
		case twice:
			return nil, fmt.Errorf("device %d has two shares: give it one", device)
		}
		shares[device] = share
	}
	return shares, nil
}

// checkSlow refuses a --slow that a run under a scheduler cannot have.
func (b *Backend) checkSlow(s policies.Scheduler) error {
	o := b.options
	if o.Slow == "" {
		return nil
	}
	_, err := parseSlow(o.Slow, b.gpus.Count())
	switch {
	case err != nil:
	case !harness.UsesMPS(o, s):
		err = errors.New("it requires MPS, because without MPS the jobs take turns with the program that holds the SMs: leave --no-mps out, and via=checkpoint")
	case o.SMCap > 0:
		err = errors.New("it cannot be combined with --sm-cap, which also limits the program that holds the SMs")
	default:
		_, err := findSlow()
		return err
	}
	return harness.Refuse(fmt.Errorf("--slow %s: %w", o.Slow, err))
}

// slowDown starts the programs that hold SMs of the devices that --slow names, as clients of MPS.
func (n *node) slowDown(ctx context.Context) error {
	if len(n.shares) == 0 {
		return nil
	}
	program, err := findSlow()
	if err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(n.shares)) {
		d, sms := n.found[i], *n.found[i].SMs
		keep := min(max(int(math.Round(n.shares[i]*float64(sms))), 1), sms-1)
		s, err := ballast.Slow(ctx, program, d.UUID, sms, keep, n.mps.Env(d.Index))
		if err != nil {
			return fmt.Errorf("--slow on GPU %s: %w", d.ID, err)
		}
		n.slows = append(n.slows, holder{i, s})
		n.devices[i].SMs = s.Left()
		n.Say("GPU %s (%s) computes with %d of its %d SMs (--slow)", d.ID, d.Name, s.Left(), sms)
	}
	return nil
}

// holder is a program that holds a part of a device, by its place in the node, until the batch has ended.
type holder struct {
	device  int
	program interface {
		Done() <-chan struct{}
		Close() error
	}
}

// release ends what holds parts of devices. On a lost device an error is said only.
func (n *node) release(holders []holder) (errs []error) {
	for _, h := range holders {
		err := h.program.Close()
		if err != nil && n.isLost(h.device) {
			n.Say("%v", err)
			err = nil
		}
		errs = append(errs, err)
	}
	return errs
}
