package runner

import (
	"maps"
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
	growing int64 // bytes asked for and not answered yet
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
	OnDevice        *int // the one device that will do; nil: any
}

// TaskBegin passes a task of a running job to the engine and tells its id
// through known, which is called with the batch locked and before the
// executor's Answer. Under a process-bound scheduler the job's own device is
// the answer at once, whatever the task asks for: it sees no other. What a job
// asks after its end is ignored: the frame of a killed process can arrive late.
func (b *Batch) TaskBegin(index int, r TaskRequest, now time.Duration, known func(schedulers.TaskID)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[index]
	if j.record.Outcome != nil {
		return
	}
	b.lastTask++
	id := b.lastTask
	t := &task{process: schedulers.Process{Job: schedulers.JobID(index), Serial: r.Serial}, job: index, record: results.Task{Job: index, Seq: j.tasks, Bytes: r.Bytes, HeapBytes: r.HeapBytes,
		Managed: &r.Managed, PinnedDevice: r.OnDevice, SubmitS: seconds(now)}}
	t.setKernel(r.Blocks, r.ThreadsPerBlock, r.BlocksPerSM)
	j.tasks++
	b.tasks[id] = t
	b.ask(t, now)
	b.recorder.Task(t.record)
	known(id)
	st := schedulers.Task{ID: id, Job: schedulers.JobID(index), Serial: r.Serial, Bytes: r.Bytes + r.HeapBytes, Blocks: r.Blocks,
		ThreadsPerBlock: r.ThreadsPerBlock, BlocksPerSM: r.BlocksPerSM, GridUnknown: r.Blocks == 0,
		Managed: r.Managed, OnDevice: r.OnDevice, Priority: j.spec.Priority, Isolate: j.spec.Isolate}
	if j.binding != 0 {
		b.answer(schedulers.Decision{Kind: schedulers.Granted, Task: st, Device: *j.record.Device}, now)
		return
	}
	ds, err := b.engine.Submit(st, now)
	b.check(err)
	b.carryOut(ds, now)
}

// TaskGrow asks for bytes more for a task that has its device.
func (b *Batch) TaskGrow(id schedulers.TaskID, bytes int64, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[id]
	if t == nil {
		return
	}
	t.growing = bytes
	b.ask(t, now)
	if b.jobs[t.job].binding != 0 {
		b.answer(schedulers.Decision{Kind: schedulers.Grown, Task: schedulers.Task{ID: id, Job: schedulers.JobID(t.job)}, Device: *t.record.Device}, now)
		return
	}
	ds, err := b.engine.Grow(id, bytes, now)
	b.check(err)
	b.carryOut(ds, now)
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
	if b.jobs[t.job].binding != 0 {
		return
	}
	ds, err := b.engine.Release(id, now)
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
		b.carryOut(b.engine.ProcessExit(process, now), now)
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
	if b.jobs[t.job].binding != 0 {
		return
	}
	ds, err := b.engine.Shape(id, blocks, threadsPerBlock, blocksPerSM, now)
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
	t := b.tasks[d.Task.ID]
	j := b.jobs[t.job]
	b.answered(t, now)
	switch d.Kind {
	case schedulers.Granted:
		t.granted = true
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
		t.record.GrownBytes += t.growing
	case schedulers.Refused, schedulers.GrowRefused:
		why := d.Reason.Error()
		t.record.Refusal = &why
		if j.refused == "" {
			j.refused = why
		}
		b.recorder.Event(results.Event{AtS: seconds(now), Kind: "refused", Job: &t.job, Detail: why})
	}
	if d.Kind == schedulers.Refused {
		delete(b.tasks, d.Task.ID)
	}
	b.recorder.Task(t.record)
	b.executor.Answer(d)
}

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
