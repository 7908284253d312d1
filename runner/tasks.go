package runner

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

type task struct {
	process schedulers.Process
	job     int
	record  results.Task
	granted bool
	asks    bool  // a begin or grow without an answer
	asked   int64 // bytes of the latest begin or grow
	holds   int64 // bytes granted and not given back
}

// TaskRequest is what a process asks for when a task begins.
type TaskRequest struct {
	Serial          int // of the process, as in schedulers.Process
	Bytes           int64
	HeapBytes       int64
	Blocks          uint64 // 0: its grid is not known yet, see TaskShape
	ThreadsPerBlock uint32
	BlocksPerSM     uint32 // 0: unknown
	Managed         bool
	OnDevice        *int           // the one device that will do; nil: any
	Wait            *time.Duration // as in schedulers.Task
}

// TaskBegin passes a task of a running job to who decides about it and tells its id
// through known, which is called with the batch locked and before the
// executor's Answer. What a job asks after its end is ignored: the frame of a killed
// process can arrive late.
func (b *Batch) TaskBegin(index int, r TaskRequest, now time.Duration, known func(schedulers.TaskID)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	if j.record.Outcome != nil {
		return
	}
	b.lastTask++
	id := b.lastTask
	t := &task{process: schedulers.Process{Job: schedulers.JobID(index), Serial: r.Serial}, job: index, asked: r.Bytes + r.HeapBytes, record: results.Task{Job: index, Seq: j.tasks, Bytes: r.Bytes, HeapBytes: r.HeapBytes,
		Managed: &r.Managed, PinnedDevice: r.OnDevice, SubmitS: seconds(now)}}
	t.setKernel(r.Blocks, r.ThreadsPerBlock, r.BlocksPerSM)
	j.tasks++
	b.tasks[id] = t
	b.ask(t, now)
	b.recorder.Task(t.record)
	known(id)
	st := schedulers.Task{ID: id, Job: schedulers.JobID(index), Serial: r.Serial, Bytes: r.Bytes + r.HeapBytes, Blocks: r.Blocks,
		ThreadsPerBlock: r.ThreadsPerBlock, BlocksPerSM: r.BlocksPerSM, GridUnknown: r.Blocks == 0,
		Managed: r.Managed, OnDevice: r.OnDevice, Priority: j.spec.Priority, Isolate: j.spec.Isolate, Wait: r.Wait}
	ds, err := b.decider(j).Submit(st, now)
	b.check(err)
	b.carryOut(ds, now)
}

// TaskGrow asks for bytes more for a task that has its device. wait is as in
// schedulers.Task.
func (b *Batch) TaskGrow(id schedulers.TaskID, bytes int64, wait *time.Duration, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[id]
	if t == nil {
		return
	}
	t.asked = bytes
	b.ask(t, now)
	ds, err := b.decider(b.jobs[t.job]).Grow(id, bytes, wait, now)
	b.check(err)
	b.carryOut(ds, now)
}

// TaskShrink says that a task that has its device gave back bytes of what it holds. More than
// that is an error, and changes nothing.
func (b *Batch) TaskShrink(id schedulers.TaskID, bytes int64, now time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[id]
	switch {
	case t == nil:
		return nil
	case bytes > t.holds:
		return fmt.Errorf("it gives back %d bytes of a task that holds %d", bytes, t.holds)
	}
	t.holds -= bytes
	b.stir(now)
	ds, err := b.decider(b.jobs[t.job]).Shrink(id, bytes)
	b.check(err)
	b.carryOut(ds, now)
	return nil
}

// TaskDecided says how a task's outstanding request ended, which its process decided by itself:
// granted on the device, or refused. A grant that the device has no room for, or that moves the
// task, is an error, and changes nothing.
func (b *Batch) TaskDecided(id schedulers.TaskID, device int, refusal *schedulers.Refusal, now time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[id]
	if t == nil {
		return nil
	}
	d := schedulers.Decision{Kind: schedulers.Granted, Task: schedulers.Task{ID: id, Job: t.process.Job}, Device: device, Reason: refusal}
	switch {
	case refusal != nil && t.granted:
		d.Kind = schedulers.GrowRefused
	case refusal != nil:
		d.Kind = schedulers.Refused
	case device >= len(b.config.Devices):
		return fmt.Errorf("device %d of a run with devices 0 to %d", device, len(b.config.Devices)-1)
	case t.asked > b.config.Devices[device].CapacityBytes-t.holds:
		return fmt.Errorf("%d bytes beside %d of its own on device %d, which has %d", t.asked, t.holds, device, b.config.Devices[device].CapacityBytes)
	case t.granted && device != *t.record.Device:
		return fmt.Errorf("growth on device %d of a task on device %d", device, *t.record.Device)
	case t.granted:
		d.Kind = schedulers.Grown
	}
	b.settle(d, now)
	return nil
}

// TaskFree gives a task back, also one that still waits.
func (b *Batch) TaskFree(id schedulers.TaskID, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[id]
	if t == nil {
		return // refused meanwhile, or its job ended
	}
	b.endTask(id, now)
	ds, err := b.decider(b.jobs[t.job]).Release(id)
	b.check(err)
	b.carryOut(ds, now)
}

// ProcessGone gives back all that a process of a job had, its contexts included, in
// one go: none of its tasks that waits gets what the others held. saidBye: it ended by
// itself, and not by a signal.
func (b *Batch) ProcessGone(index, serial int, saidBye bool, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	process := schedulers.Process{Job: schedulers.JobID(index), Serial: serial}
	b.endTasks(func(t *task) bool { return t.process == process }, now)
	j := b.jobs[index]
	work := j.work[serial]
	if own := j.staysOf(serial); !saidBye && len(own) > 0 && !work.none() && (j.binding == 0 || work.known) {
		j.deaths = append(j.deaths, trouble{job: index, process: serial, at: now, work: work})
		b.unwell(own, now) // before others are granted what it had
	}
	if j.binding != 0 {
		return
	}
	j.leave(func(s stay) bool { return s.process == serial }, now)
	if j.record.Outcome == nil {
		b.carryOut(b.engine.ProcessExit(process), now)
	}
}

// TaskShape says that a task that has its device has a kernel of this size. The
// task's record keeps its largest (schedulers.Task.WithKernel).
func (b *Batch) TaskShape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[id]
	if t == nil {
		return
	}
	if _, larger := t.kernel().WithKernel(blocks, threadsPerBlock, blocksPerSM); larger {
		t.setKernel(blocks, threadsPerBlock, blocksPerSM)
		b.recorder.Task(t.record)
	}
	ds, err := b.decider(b.jobs[t.job]).Shape(id, blocks, threadsPerBlock, blocksPerSM)
	b.check(err)
	b.carryOut(ds, now)
}

// kernel is the task's largest so far, as the schedulers compare them.
func (t *task) kernel() schedulers.Task {
	k := schedulers.Task{Blocks: t.record.Blocks, ThreadsPerBlock: t.record.ThreadsPerBlock, GridUnknown: t.record.Blocks == 0}
	if n := t.record.BlocksPerSM; n != nil {
		k.BlocksPerSM = *n
	}
	return k
}

func (t *task) setKernel(blocks uint64, threadsPerBlock, blocksPerSM uint32) {
	t.record.Blocks, t.record.ThreadsPerBlock, t.record.BlocksPerSM = blocks, threadsPerBlock, nil
	if blocksPerSM > 0 {
		t.record.BlocksPerSM = &blocksPerSM
	}
}

// answer records a decision on a process's own task and passes it on.
func (b *Batch) answer(d schedulers.Decision, now time.Duration) {
	b.settle(d, now)
	b.executor.Answer(d)
}

// settle records a decision on a process's own task.
func (b *Batch) settle(d schedulers.Decision, now time.Duration) {
	t := b.tasks[d.Task.ID]
	j := b.jobs[t.job]
	b.answered(t, now)
	switch d.Kind {
	case schedulers.Granted:
		t.granted, t.holds = true, t.asked
		t.record.Device = &d.Device
		t.record.GrantS = new(seconds(now))
		t.record.Passed = d.Passed
		if j.record.Device == nil {
			j.record.Device = &d.Device
			b.recorder.Job(j.record)
		}
		if j.binding == 0 {
			j.stay(t.process.Serial, d.Device, now)
		}
	case schedulers.Grown:
		t.holds = sum(t.holds, t.asked)
		t.record.GrownBytes = max(t.record.GrownBytes, t.holds-t.record.Bytes-t.record.HeapBytes)
	case schedulers.Refused, schedulers.GrowRefused:
		why := d.Reason.Error()
		t.record.Refusal = &why
		if j.refused == "" {
			j.refused = why
		}
		b.recorder.Event(results.Event{AtS: seconds(now), Kind: results.EventRefused, Job: &t.job, Detail: why})
	}
	if d.Kind == schedulers.Refused {
		delete(b.tasks, d.Task.ID)
	}
	b.recorder.Task(t.record)
}

// sum of sizes that are not negative; it stops at the largest integer.
func sum(a, b int64) int64 { return min(a, math.MaxInt64-b) + b }

// ask notes that the task waits for an answer, and so does a thread of its job.
func (b *Batch) ask(t *task, now time.Duration) {
	if t.asks {
		return
	}
	t.asks = true
	b.stir(now)
	b.watch(now)
	j := b.jobs[t.job]
	if j.blocked == 0 {
		j.blockedSince = now
	}
	j.blocked++
}

// answered notes that the task waits no longer, however that came. What several
// threads and processes of a job wait at the same time counts once.
func (b *Batch) answered(t *task, now time.Duration) {
	if !t.asks {
		return
	}
	t.asks = false
	b.stir(now)
	j := b.jobs[t.job]
	j.blocked--
	if j.blocked > 0 {
		return
	}
	j.waited += now - j.blockedSince
	if j.record.StartS != nil {
		j.record.WaitS = new(seconds(j.waited))
	}
}

// endTask settles the task's record. The engine is to hear of it.
func (b *Batch) endTask(id schedulers.TaskID, now time.Duration) {
	t := b.tasks[id]
	delete(b.tasks, id)
	b.stir(now)
	b.answered(t, now)
	if t.granted {
		t.record.ReleaseS = new(seconds(now))
	}
	b.recorder.Task(t.record)
}

// endTasks settles those that processes which are gone left behind, oldest first.
func (b *Batch) endTasks(of func(*task) bool, now time.Duration) {
	for _, id := range slices.Sorted(maps.Keys(b.tasks)) {
		if of(b.tasks[id]) {
			b.endTask(id, now)
		}
	}
}

// endTasksOf settles what a dead process left behind, oldest first. The engine
// hears of it through JobExit alone, so that none of the job's waiting tasks
// gets what its others give back.
func (b *Batch) endTasksOf(index int, now time.Duration) {
	b.endTasks(func(t *task) bool { return t.job == index }, now)
	b.jobs[index].leave(func(stay) bool { return true }, now)
}
