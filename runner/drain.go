package runner

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// closure says how far a device is from being open to jobs.
type closure int

const (
	isOpen  closure = iota
	drains          // it is taken out of the batch: what is there moves away, or ends
	drained         // it is taken out, and was empty since
	isLost          // it has fallen off the bus
)

// DeviceState is how it stands with a device of a batch.
type DeviceState struct {
	Closed bool   `json:"closed"` // nothing new goes there
	Empty  bool   `json:"empty"`  // no task has memory there, or may launch there
	Left   []Left `json:"left"`   // what jobs have there, in their order
}

// Left is what a job has on a device.
type Left struct {
	Job      int    `json:"job"` // its number in the run
	Name     string `json:"name"`
	Tasks    int    `json:"tasks"`    // that have memory there, or may launch there
	Bytes    int64  `json:"bytes"`    // of these tasks, on the device
	Contexts int    `json:"contexts"` // processes with a context there, which stays until they end
	Why      string `json:"why"`      // why tasks stay until they end; "": they are asked to move
}

// Drain takes a device out of the batch, or puts it back, because a user asks for it. An error says why not.
func (l *Loop) Drain(at time.Duration, device int, undo bool) error {
	if undo {
		return l.postIf(at, DeviceAdded{device}, func(b *Batch) error { return b.mayReturn(device) })
	}
	return l.postIf(at, DeviceLost{Device: device, Why: "caserun drain", Planned: true}, func(b *Batch) error { return b.mayDrain(device) })
}

// Device is how it stands with a device.
func (l *Loop) Device(device int) (DeviceState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.batch.checkDevice(device); err != nil {
		return DeviceState{}, err
	}
	return l.batch.state(device), nil
}

func (b *Batch) mayDrain(device int) error {
	if err := b.checkDevice(device); err != nil {
		return err
	}
	number, of := Numbered(b.config.DeviceNumber, device), ""
	if b.config.DeviceNumber != nil {
		of = " of its node"
	}
	open := 0
	for _, c := range b.closed {
		if c == isOpen {
			open++
		}
	}
	switch {
	case b.closed[device] == isLost:
		return fmt.Errorf("device %d has fallen off the bus: nothing goes there", number)
	case b.closed[device] != isOpen:
		return fmt.Errorf("device %d is drained already: --undo puts it back", number)
	case b.config.Scheduler.ClientsDecide:
		return errors.New("the scheduler has arch=shared, where processes decide by themselves: use arch=server")
	case len(b.closed) == 1:
		return fmt.Errorf("device %d is the only one%s: stop the run, or let it end", number, of)
	case open == 1:
		return fmt.Errorf("device %d is the last one%s that jobs may use: put another back with --undo, or stop the run", number, of)
	}
	return nil
}

func (b *Batch) mayReturn(device int) error {
	if err := b.checkDevice(device); err != nil {
		return err
	}
	number := Numbered(b.config.DeviceNumber, device)
	switch b.closed[device] {
	case isLost:
		return fmt.Errorf("device %d has fallen off the bus, and cannot be put back", number)
	case isOpen:
		return fmt.Errorf("device %d is not drained", number)
	}
	return nil
}

// noteEmpty records of each device that is drained that it is empty now.
func (b *Batch) noteEmpty(now time.Duration) {
	for i, c := range b.closed {
		if c == drains && b.isEmpty(i) {
			b.closed[i] = drained
			b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventDeviceEmpty, Device: &b.indexes[i],
				Detail: fmt.Sprintf("no task is on %s any more", b.gpu(i))})
		}
	}
}

func (b *Batch) isEmpty(device int) bool {
	d := b.engine.View().Device(device)
	if !b.config.Scheduler.Revokes {
		return d.Tasks() == 0
	}
	for t := range d.TaskViews() {
		if isThere(t) {
			return false
		}
	}
	return true
}

// isThere reports whether a task has memory on its device, or may launch there.
func isThere(t schedulers.TaskView) bool { return t.Resident > 0 || t.Permit }

func (b *Batch) state(device int) DeviceState {
	s := DeviceState{Closed: b.closed[device] != isOpen, Empty: b.isEmpty(device), Left: []Left{}}
	views := map[schedulers.TaskID]schedulers.TaskView{}
	for v := range b.engine.View().Device(device).TaskViews() {
		views[v.Task.ID] = v
	}
	for i, j := range b.jobs {
		if j == nil || !j.isOn(device) {
			continue
		}
		left := Left{Job: Numbered(b.config.JobNumber, i), Name: j.record.Name}
		for _, r := range j.residencies {
			if r.Device == device && r.Open() {
				left.Contexts++
			}
		}
		if j.bound {
			left.Why = "it has the device to its end"
		}
		for _, t := range j.open {
			if t.granted && *t.record.Device == device {
				b.leaves(&left, t, views)
			}
		}
		s.Left = append(s.Left, left)
	}
	return s
}

// leaves adds a task to what its job has on its device.
func (b *Batch) leaves(left *Left, t *task, views map[schedulers.TaskID]schedulers.TaskView) {
	v, revocable := views[t.id]
	switch {
	case !revocable:
		v.Resident = t.holds
		left.Why = cmp.Or(left.Why, "tasks do not move under "+b.config.Scheduler.Name)
	case !isThere(v):
		return
	case v.Task.OnDevice != nil:
		left.Why = cmp.Or(left.Why, "a task must be on this device")
	case !v.Can.Has(schedulers.Move):
		left.Why = cmp.Or(left.Why, cmp.Or(t.unable, "its process cannot move"))
	}
	left.Bytes += v.Resident
	left.Tasks++
}
