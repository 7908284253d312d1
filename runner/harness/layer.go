package harness

import (
	"errors"
	"fmt"

	"github.com/caserun/caserun/schedulers/policies"
)

// checkLayer refuses a layer that cannot be combined with the options, or with its scheduler.
func checkLayer(o Options, s policies.Scheduler) error {
	l := s.Layer
	if l == nil {
		return nil
	}
	var err error
	switch mps := l.MPS != nil && *l.MPS; {
	case s.Head != nil && l.Path != "":
		err = errors.New("a layer of a file is for one node: leave the policy of the cluster's head out")
	case mps && o.NoMPS:
		err = errors.New("--no-mps cannot be combined with a layer that has MPS: leave it out")
	case mps && s.Checkpoints:
		err = errors.New("the driver takes no checkpoints of processes under MPS: leave via=checkpoint out, or name another layer")
	case l.Percent > 0 && o.SMCap > 0:
		err = fmt.Errorf("--sm-cap %d cannot be combined with %s, which limits the threads of clients, too: leave one out", o.SMCap, l.Name)
	default:
		return nil
	}
	return fmt.Errorf("--sched %s: %w", s.Name, err)
}
