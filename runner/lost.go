package runner

import (
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/results"
)

// seenLate is how long after its jobs the loss of a device is seen at the latest: the time between two attempts of a failing call of
// NVML, and that of the call.
const seenLate = 2 * time.Second

func (e DeviceLost) apply(b *Batch, now time.Duration) error {
	if err := b.checkDevice(e.Device); err != nil {
		return err
	}
	if e.Planned {
		if b.closed[e.Device] != isOpen {
			return nil
		}
		b.closed[e.Device] = drains
		for _, t := range b.tasks {
			if t.granted && *t.record.Device == e.Device { // what it answers now is of this time
				t.told = ""
			}
		}
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventDeviceClosed, Device: &b.indexes[e.Device],
			Detail: fmt.Sprintf("%s is taken out of the run: %s", b.gpu(e.Device), e.Why)})
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventDoubt, Device: &b.indexes[e.Device],
			Detail: fmt.Sprintf("%s was taken out of the run at %.1f s: %s", b.gpu(e.Device), now.Seconds(), e.Why)})
		b.carryOut(b.engine.DeviceLost(e.Device, false, now), now)
		b.replan()
		return nil
	}
	b.closed[e.Device] = isLost
	why := fmt.Sprintf("%s was lost: %s", b.gpu(e.Device), e.Why)
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventLost, Device: &b.indexes[e.Device], Detail: why})
	for i, j := range b.jobs {
		switch {
		case b.records[i].Outcome != nil:
			b.wasLost(i, e.Device, why, now)
		case j == nil || !j.isOn(e.Device):
		case j.exited == nil:
			j.lost = why
			b.stopJob(i)
		case len(j.faults) > 0: // it has ended, by what its CUDA calls said
			j.lost = why
		}
	}
	b.carryOut(b.engine.DeviceLost(e.Device, true, now), now)
	b.replan()
	b.admit(now)
	return nil
}

// gpu is a device in texts.
func (b *Batch) gpu(device int) string {
	return fmt.Sprintf("GPU %d", Numbered(b.config.DeviceNumber, device))
}

func (e DeviceAdded) apply(b *Batch, now time.Duration) error {
	if err := b.checkDevice(e.Device); err != nil || b.closed[e.Device] == isOpen {
		return err
	}
	b.closed[e.Device] = isOpen
	b.progress.made(now)
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventDeviceOpened, Device: &b.indexes[e.Device],
		Detail: fmt.Sprintf("jobs may go to %s again", b.gpu(e.Device))})
	b.carryOut(b.engine.DeviceAdded(e.Device, now), now)
	b.replan()
	b.admit(now)
	return nil
}

func (b *Batch) checkDevice(i int) error {
	if i < 0 || i >= len(b.indexes) {
		return fmt.Errorf("device %d: the node has devices 0 to %d", i, len(b.indexes)-1)
	}
	return nil
}

// isOn reports whether a process of the job has the device.
func (j *job) isOn(device int) bool {
	for _, r := range j.residencies {
		if r.Device == device && r.Open() {
			return true
		}
	}
	return false
}

// wasLost gives a job that has just ended badly on the device the reason: its CUDA calls failed before NVML said so.
func (b *Batch) wasLost(i, device int, why string, now time.Duration) {
	r := &b.records[i]
	failed := []results.Outcome{results.Fault, results.FaultSuspect, results.Collateral, results.Crash}
	if !r.Has(device) || r.EndS == nil || *r.EndS < seconds(now-seenLate) || !slices.Contains(failed, *r.Outcome) {
		return
	}
	r.Outcome, r.Detail = shared(results.Lost), why+"; it ended with: "+r.Detail
	b.recordJob(r)
}
