package harness

import (
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/policies"
)

// sayTooLarge says which jobs need more memory than a device of the node has, so that nobody waits for a run that cannot do
// them. A job whose memory is unknown is not among them.
func (b Batch) sayTooLarge(mode results.Mode, devices []results.Device) {
	const shown = 8
	if len(devices) == 0 {
		return
	}
	largest := devices[0]
	for _, d := range devices {
		if d.CapacityBytes-d.ContextBytes > largest.CapacityBytes-largest.ContextBytes {
			largest = d
		}
	}
	room := largest.CapacityBytes - largest.ContextBytes
	said := map[string]bool{}
	more := 0
	m := b.requested()
	for i, j := range m.Jobs {
		if j.Footprint.Bytes <= room {
			continue
		}
		command := j.Command()
		if said[command] {
			continue
		}
		said[command] = true
		if len(said) > shown {
			more++
			continue
		}
		var where, by string
		if at := m.Where(i); at != "" {
			where = at + ": "
		}
		if b.Profiles.IsEstimated(j) {
			by = " by an estimate"
		}
		needs, has := size.Apart(j.Footprint.Bytes, room)
		b.Say("%s%q needs %s of device memory%s, more than the %s that a device (%s) has for a job: %s",
			where, command, needs, by, has, largest.Name, b.ofTooLarge(mode, j))
	}
	if more > 0 {
		b.Say("commands that need more than a device has, beside these: %d", more)
	}
}

// ofTooLarge says what becomes of a job that needs more memory than a device has. On a simulated node managed memory comes and goes by
// page faults, if the scheduler lets the job begin.
func (b Batch) ofTooLarge(mode results.Mode, j mixes.Job) string {
	faults := mode == results.Simulated && b.Profiles.AllManaged(j)
	switch s := b.Scheduler; {
	case faults && (s.Swaps() || s.Oversubscribes || s.Binds == policies.BindsJob || s.ExceedsManaged()):
		return "its managed memory comes and goes by page faults, which takes long"
	case s.Swaps():
		return "it can run here only if each of its kernels needs less"
	case faults:
		return "it cannot run here, unless the scheduler has managed=exceed"
	}
	return "it cannot run here"
}
