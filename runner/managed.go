package runner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// Managed memory beyond what a device has free can hang it. So processes ask before they have more of it (ManagedAsked), and
// are refused what does not fit:
//
//   - Where the scheduler decides about each task, the task was charged before. What it holds is the limit.
//   - A job whose device was settled by its footprint may have as much as that.
//   - Where the scheduler gives whole jobs a device and knows nothing of memory, the sum counts: of what processes say
//     that they have, of the footprints of the other jobs there, and of contexts. What the driver says is free counts too.

// managedMemory is what processes have said, and what was the most.
type managedMemory struct {
	has  map[use]managedUse
	most []managedMost // by device
}

type managedUse struct{ bytes, beside int64 }

func (u managedUse) all() int64 { return sum(u.bytes, u.beside) }

// managedMost is the most managed memory of a device at one time, and how much was free for it then.
type managedMost struct{ bytes, free int64 }

// rounding is by how much a process may exceed the tasks that it asked for itself (native/lazy/program/mode.h).
const rounding = 16 << 20

func (e ManagedAsked) apply(b *Batch, now time.Duration) error {
	i := int(e.Process.Job)
	if b.records[i].Outcome != nil {
		b.command(TellRoom{e.Process, 0})
		return nil
	}
	j := b.job(i)
	devices := []int{e.Device}
	if j.bound {
		devices = j.record.On()
	} else if err := b.checkDevice(e.Device); err != nil {
		return err
	}
	wants, most, tight := managedUse{e.Bytes, e.Beside}, int64(math.MaxInt64), 0
	rooms := make([]int64, len(devices))
	for n, d := range devices {
		rooms[n] = max(0, b.managedRoom(e, j, d))
		if rooms[n] < most {
			most, tight = rooms[n], d
		}
	}
	if !b.config.GuardsManaged || wants.all() <= b.managed.has[use{e.Process, devices[0]}].all() {
		most = math.MaxInt64
	}
	if wants.all() > most {
		b.refuseManaged(e, j, tight, most, now)
	} else {
		for n, d := range devices {
			b.managed.enter(use{e.Process, d}, wants, rooms[n])
		}
	}
	b.command(TellRoom{e.Process, most})
	return nil
}

// managedRoom is how much managed memory, with what it counts beside, the process may have on a device.
func (b *Batch) managedRoom(e ManagedAsked, j *job, device int) int64 {
	room := b.config.Devices[device].CapacityBytes - b.besideManaged(e.Process, device)
	switch {
	case !j.bound:
		holds := int64(0)
		for _, t := range j.open {
			if t.process == e.Process && t.granted && *t.record.Device == device {
				holds = sum(holds, t.holds)
			}
		}
		return min(room, sum(holds, rounding))
	case b.config.Scheduler.Binds == policies.BindsTask:
		room = sum(b.whole(j.spec).Bytes, rounding)
		for u, has := range b.managed.has {
			if u.device == device && u.process.Job == e.Process.Job && u.process != e.Process {
				room -= has.all()
			}
		}
	}
	if e.Free > 0 {
		room = min(room, sum(b.managed.has[use{e.Process, device}].all(), e.Free))
	}
	return room
}

// besideManaged is what others than the process have on a device, as far as it counts, and the contexts of all.
func (b *Batch) besideManaged(p schedulers.Process, device int) (bytes int64) {
	type part struct{ bytes, processes int64 }
	parts := map[schedulers.JobID]part{p.Job: {processes: 1}}
	for u, has := range b.managed.has {
		if u.device == device && u.process != p {
			of := parts[u.process.Job]
			parts[u.process.Job] = part{sum(of.bytes, has.all()), of.processes + 1}
		}
	}
	if b.config.Scheduler.Binds == policies.BindsJob {
		for i, j := range b.jobs {
			if id := schedulers.JobID(i); id != p.Job && j.has(device) {
				parts[id] = part{max(parts[id].bytes, b.whole(j.spec).Bytes), max(parts[id].processes, 1)}
			}
		}
	}
	for _, of := range parts {
		bytes = sum(bytes, sum(of.bytes, of.processes*b.config.Devices[device].ContextBytes))
	}
	return bytes
}

// enter notes that a process has so much, where it might have had room.
func (m *managedMemory) enter(u use, has managedUse, room int64) {
	if m.has == nil {
		m.has = map[use]managedUse{}
	}
	m.has[u] = has
	if has == (managedUse{}) {
		delete(m.has, u)
	}
	total := m.on(u.device)
	for len(m.most) <= u.device {
		m.most = append(m.most, managedMost{})
	}
	if total > m.most[u.device].bytes {
		m.most[u.device] = managedMost{total, total + room - has.all()}
	}
}

// on is how much managed memory a device has.
func (m *managedMemory) on(device int) (bytes int64) {
	for u, has := range m.has {
		if u.device == device {
			bytes = sum(bytes, has.bytes)
		}
	}
	return bytes
}

// leave forgets processes that have ended.
func (m *managedMemory) leave(gone func(schedulers.Process) bool) {
	maps.DeleteFunc(m.has, func(u use, _ managedUse) bool { return gone(u.process) })
}

func (b *Batch) refuseManaged(e ManagedAsked, j *job, device int, room int64, now time.Duration) {
	asked, free := size.Apart(sum(e.Bytes, e.Beside), room)
	why := fmt.Sprintf("managed memory: a process needs %s in all on GPU %d, and %s are free there; more could hang the GPU%s", asked, Numbered(b.config.DeviceNumber, device), free, b.managedRemedy(j))
	j.each(e.Process.Serial, func(s *said) { s.refused = cmp.Or(s.refused, why) })
	b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventRefused, Job: &j.record.Index, Device: &b.indexes[device], Detail: why})
}

// managedRemedy says what to do about managed memory that was refused.
func (b *Batch) managedRemedy(j *job) string {
	switch {
	case b.config.Scheduler.Binds == policies.BindsJob:
		return ": give the job, or those beside it, less memory, or use a scheduler under which jobs wait for memory, such as case-alg3"
	case j.bound:
		return ": the mix has to state how much memory the job needs"
	}
	return ": the task was granted less"
}

// barsStart says why a job cannot start on devices that its scheduler, which knows nothing of memory, has given to it: its footprint
// does not fit there, and it or another job has managed memory, or is told to have some. nil: it can.
func (b *Batch) barsStart(i int, devices []int) *schedulers.Refusal {
	need := b.whole(b.spec(i)).Bytes
	if !b.config.GuardsManaged || b.config.Scheduler.Binds != policies.BindsJob || need == 0 {
		return nil
	}
	for _, d := range devices {
		beside, capacity := b.besideManaged(schedulers.Process{Job: schedulers.JobID(i)}, d), b.config.Devices[d].CapacityBytes
		if sum(beside, need) > capacity && (mixes.Managed(*b.spec(i)) || b.managed.on(d) > 0 || b.hasManagedJob(d)) {
			return &schedulers.Refusal{Cause: schedulers.DeviceFull, NeedBytes: need, CapacityBytes: max(0, capacity-beside),
				Why: "with it, managed memory would exceed what is free on the device, which could hang it"}
		}
	}
	return nil
}

// hasManagedJob reports whether a job on a device is told to have managed memory.
func (b *Batch) hasManagedJob(device int) bool {
	return slices.ContainsFunc(b.jobs, func(j *job) bool { return j.has(device) && mixes.Managed(*j.spec) })
}

// has reports whether the job has the device as a whole.
func (j *job) has(device int) bool {
	return j != nil && j.bound && j.started && j.record.Outcome == nil && j.record.Has(device)
}

// noteManaged records at the end how much managed memory devices had at most. It was never more than was free, unless the user
// allows that.
func (b *Batch) noteManaged(now time.Duration) {
	for d, most := range b.managed.most {
		if most.bytes == 0 {
			continue
		}
		had, free := size.Apart(most.bytes, most.free)
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventManaged, Device: &b.indexes[d],
			Detail: fmt.Sprintf("%d bytes of managed memory at most at one time: %s, where %s were free for it", most.bytes, had, free)})
		if most.bytes > most.free && b.config.GuardsManaged {
			b.check(fmt.Errorf("GPU %d had %s of managed memory, and %s were free for it", Numbered(b.config.DeviceNumber, d), had, free))
		}
	}
	b.managed.most = nil
}
