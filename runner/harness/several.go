package harness

import (
	"fmt"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers/policies"
)

// CheckDevices refuses a job that asks for more devices at once than the node has, or for several where clients decide.
func CheckDevices(m mixes.Mix, s policies.Scheduler, devices int) error {
	for i, j := range m.Jobs {
		var why string
		switch {
		case j.GPUs <= 1:
			continue
		case j.GPUs > devices:
			why = fmt.Sprintf("the node has %d: write a smaller number, or choose a larger node", devices)
		case s.ClientsDecide:
			why = fmt.Sprintf("under %s:arch=shared clients share one device: use arch=server, or another scheduler", s.Name)
		default:
			continue
		}
		where := ""
		if at := m.Where(i); at != "" {
			where = at + ": "
		}
		return Refuse(fmt.Errorf("%sjob %s has gpus: %d, and %s", where, j.Name, j.GPUs, why))
	}
	return nil
}

// checkWhole refuses a job that cannot be bound as a whole where the scheduler checkpoints jobs.
func (b Batch) checkWhole() error {
	for i := 0; i < len(b.Mix.Jobs) && b.Scheduler.Checkpoints; i++ {
		if err := runner.CheckWhole(&b.Mix.Jobs[i]); err != nil {
			where := ""
			if at := b.Mix.Where(i); at != "" {
				where = at + ": "
			}
			return Refuse(fmt.Errorf("%sjob %s %w", where, b.Mix.Jobs[i].Name, err))
		}
	}
	return nil
}

// sayIgnoredShares says which jobs ask for a part of a device's time that the scheduler does not know.
func (b Batch) sayIgnoredShares() {
	first, more := "", 0
	for i, j := range b.requested().Jobs {
		switch {
		case j.Share == 0 || b.Scheduler.TakesShares():
		case first == "":
			first = fmt.Sprintf("job %d (%s): %s", i, j.Name, runner.ShareIgnored(&j, b.Scheduler))
		default:
			more++
		}
	}
	switch {
	case first == "":
	case more > 0:
		b.Say("%s; the same for %d more jobs", first, more)
	default:
		b.Say("%s", first)
	}
}
