package runner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// task is an entry of the ledger.
type task struct {
	id      schedulers.TaskID
	process schedulers.Process
	record  results.Task
	granted bool
	asks    bool  // a begin or grow without an answer
	asked   int64 // bytes of the latest begin or grow
	holds   int64 // bytes granted and not given back

	revocation *results.Swap // what is known of the swap that a revocation asks for; nil: no ticket is outstanding
	to         int           // where it asks the task to move
	unanswered bool          // the time for its answer is over
	unable     string        // why it cannot move, as it answered; "": it did not
	told       string        // how it last answered a request to leave its device, as recorded; "": it was not asked
	starves    bool          // it waits, and an event has said that it starves
	given      time.Duration // when it was last granted its device, or resumed
}

// The engine decides about the tasks of a job, with two exceptions. The tasks of a job whose
// device was settled before it started are granted that device at once, because the job has
// it as a whole. Where clients decide for themselves, nothing follows until a client says how
// the request ended (TaskDecided).

func (b *Batch) engineDecides(j *job) bool { return !j.bound && !b.config.Scheduler.ClientsDecide }

func (e TaskBegin) apply(b *Batch, now time.Duration) error {
	t := e.Task
	if b.records[t.Job].Outcome != nil {
		return nil
	}
	j := b.job(int(t.Job))
	if _, live := b.tasks[t.ID]; live || t.ID >= wholeJob {
		b.check(fmt.Errorf("begin of task %d of job %d: the id is not free", t.ID, t.Job))
		return nil
	}
	t.GridUnknown, t.Priority, t.Isolate, t.Terms = t.Blocks == 0, j.spec.Priority, b.config.isolated(j.spec) || j.try.Alone, b.terms(int(t.Job), 0)
	entry := &task{id: t.ID, process: t.Process(), asked: t.Bytes, record: results.Task{Job: int(t.Job), Seq: j.tasks, Bytes: t.Bytes - e.HeapBytes, HeapBytes: e.HeapBytes,
		Managed: new(t.Managed), PinnedDevice: t.OnDevice, SubmitS: seconds(now)}}
	entry.setKernel(t)
	j.tasks++
	b.tasks[t.ID] = entry
	j.open = append(j.open, entry)
	if e.Early {
		b.keep(int(t.Job), &j.early, results.EventEarly, fmt.Sprintf("a process asks for its device before its first launch, with %s: CUDA shows a process one instance of MIG, and the process must know which", size.Text(t.Bytes)), now)
	}
	b.ask(entry, now)
	switch {
	case j.bound:
		d := schedulers.Decision{Kind: schedulers.Granted, Task: t, Device: j.deviceOf(t)}
		if j.client = j.client || !b.server.Recovering(); j.client {
			b.carryOut([]schedulers.Decision{d}, now)
		} else {
			b.held = append(b.held, d)
		}
	case b.engineDecides(j):
		ds, err := b.engine.Submit(t, now)
		b.check(err)
		b.carryOut(ds, now)
	}
	if entry.asks { // else settle has recorded the task
		b.recordTask(entry)
	}
	return nil
}

// deviceOf is where a task of a bound job is: on the job's device, or on the one of several that it names.
func (j *job) deviceOf(t schedulers.Task) int {
	if d := t.OnDevice; d != nil && j.record.Has(*d) {
		return *d
	}
	return *j.record.Device
}

func (e TaskGrow) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	if t == nil {
		return nil
	}
	t.asked = e.Bytes
	b.ask(t, now)
	j := b.job(t.record.Job)
	switch {
	case j.bound:
		b.carryOut([]schedulers.Decision{{Kind: schedulers.Grown, Task: schedulers.Task{ID: e.ID, Job: t.process.Job}, Device: j.deviceOf(schedulers.Task{OnDevice: t.record.Device})}}, now)
	case b.engineDecides(j):
		ds, err := b.engine.Grow(e.ID, e.Bytes, e.Wait, now)
		b.check(err)
		b.carryOut(ds, now)
	}
	return nil
}

func (e TaskShrink) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	switch {
	case t == nil:
		return nil
	case e.Bytes > t.holds:
		given, held := size.Apart(e.Bytes, t.holds)
		return fmt.Errorf("it gives back %s of a task that holds %s", given, held)
	}
	t.holds -= e.Bytes
	b.progress.made(now)
	if b.engineDecides(b.job(t.record.Job)) {
		ds, err := b.engine.Shrink(e.ID, e.Bytes)
		b.check(err)
		b.carryOut(ds, now)
	}
	return nil
}

func (e TaskShape) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	if t == nil {
		return nil
	}
	if k, larger := t.kernel().WithKernel(e.Blocks, e.ThreadsPerBlock, e.BlocksPerSM); larger {
		t.setKernel(k)
		b.recordTask(t)
	}
	if b.engineDecides(b.job(t.record.Job)) {
		ds, err := b.engine.Shape(e.ID, e.Blocks, e.ThreadsPerBlock, e.BlocksPerSM)
		b.check(err)
		b.carryOut(ds, now)
	}
	return nil
}

func (e TaskDecided) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	if t == nil {
		return nil
	}
	d := schedulers.Decision{Kind: schedulers.Granted, Task: schedulers.Task{ID: e.ID, Job: t.process.Job}, Device: e.Device, Reason: e.Refusal}
	switch {
	case e.Refusal != nil && t.granted:
		d.Kind = schedulers.GrowRefused
	case e.Refusal != nil:
		d.Kind = schedulers.Refused
	case e.Device >= len(b.config.Devices):
		return fmt.Errorf("device %d of a run with devices 0 to %d", e.Device, len(b.config.Devices)-1)
	case t.asked > b.config.Devices[e.Device].CapacityBytes-t.holds:
		return fmt.Errorf("%s beside %s of its own on device %d, which has %s", size.Text(t.asked), size.Text(t.holds), e.Device, size.Text(b.config.Devices[e.Device].CapacityBytes))
	case t.granted && e.Device != *t.record.Device:
		return fmt.Errorf("growth on device %d of a task on device %d", e.Device, *t.record.Device)
	case t.granted:
		d.Kind = schedulers.Grown
	}
	b.settle(d, now)
	return nil
}

func (e TaskFree) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	if t == nil {
		return nil
	}
	b.endTask(t, now)
	if b.engineDecides(b.job(t.record.Job)) {
		ds, err := b.engine.Release(e.ID)
		b.check(err)
		b.carryOut(ds, now)
	}
	return nil
}

func (e TaskResume) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	if t == nil {
		return nil
	}
	ds, err := b.engine.ResumePart(e.ID, e.Need, e.Stays, e.Referenced, now)
	if err != nil {
		return err
	}
	b.ask(t, now)
	b.carryOut(ds, now)
	return nil
}

func (e TaskYielded) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	if t == nil {
		return nil
	}
	ds, err := b.engine.Yielded(e.ID, now)
	if err != nil {
		return err
	}
	b.progress.made(now)
	b.carryOut(ds, now)
	return nil
}

func (e TaskActive) apply(b *Batch, now time.Duration) error {
	if b.tasks[e.ID] == nil {
		return nil
	}
	return b.engine.Active(e.ID, e.Activity, now)
}

func (e TaskRevoked) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	if t == nil {
		return nil
	}
	if err := check(e.Answer.Moved); err != nil {
		return err
	}
	ds, err := b.engine.Revoked(e.ID, e.Answer, now)
	if err != nil {
		return err
	}
	b.progress.made(now)
	b.recordRevoked(t, e.Answer, now)
	b.carryOut(ds, now)
	return nil
}

func (e TaskMoved) apply(b *Batch, now time.Duration) error {
	t := b.tasks[e.ID]
	if t == nil {
		return nil
	}
	if !t.granted {
		return fmt.Errorf("%s move onto or from the device of a task that has none", size.Text(e.Moved.Bytes))
	}
	if err := check(e.Moved); err != nil {
		return err
	}
	b.progress.made(now)
	s := results.Swap{Job: t.record.Job, Task: t.record.Seq, Device: *t.record.Device, Direction: e.Direction, Outcome: schedulers.Done,
		StartS: seconds(max(t.given, now-e.Moved.Copy-e.Moved.Bookkeeping))}
	if e.Direction == schedulers.Out { // for its own launch
		s.Action = schedulers.Evict.String()
		s.ForJob, s.ForTask = &t.record.Job, &t.record.Seq
	}
	b.recordSwap(s, e.Moved, now)
	return nil
}

func (e ProcessGone) apply(b *Batch, now time.Duration) error {
	j := b.job(int(e.Process.Job))
	b.endTasks(j, func(t *task) bool { return t.process == e.Process && t.id < wholeJob }, now)
	b.managed.leave(func(p schedulers.Process) bool { return p == e.Process })
	b.suspectDeath(j, e, now) // before others are granted what it had
	if j.bound {
		return nil
	}
	j.residencies.Leave(e.Process.Serial, now)
	if j.record.Outcome == nil {
		b.carryOut(b.engine.ProcessExit(e.Process), now)
	}
	return nil
}

func (b *Batch) recordTask(t *task) { b.command(RecordTask{t.record}) }

// kernel is the task's largest so far, as the schedulers compare them.
func (t *task) kernel() schedulers.Task {
	k := schedulers.Task{Blocks: t.record.Blocks, ThreadsPerBlock: t.record.ThreadsPerBlock, GridUnknown: t.record.Blocks == 0}
	if n := t.record.BlocksPerSM; n != nil {
		k.BlocksPerSM = *n
	}
	return k
}

func (t *task) setKernel(k schedulers.Task) {
	t.record.Blocks, t.record.ThreadsPerBlock, t.record.BlocksPerSM = k.Blocks, k.ThreadsPerBlock, nil
	if k.BlocksPerSM > 0 {
		t.record.BlocksPerSM = &k.BlocksPerSM
	}
}

// settle records a decision on a process's own task.
func (b *Batch) settle(d schedulers.Decision, now time.Duration) {
	t := b.tasks[d.Task.ID]
	j := b.job(t.record.Job)
	b.answered(t, now)
	if t.starves && d.Reason == nil && !j.timedOut && !j.stopped { // else others have been ended with it
		t.starves, j.starved = false, ""
	}
	switch d.Kind {
	case schedulers.Resumed:
		t.given = now
	case schedulers.Granted:
		t.granted, t.holds, t.given = true, t.asked, now
		t.record.Device = &b.indexes[d.Device]
		t.record.GrantS = new(seconds(now))
		t.record.Passed = d.Passed
		if j.record.Device == nil {
			j.record.Device = t.record.Device
			b.recordJob(j.record)
			if b.nice != nil {
				b.command(Prioritize{t.record.Job, 0})
			}
		}
		if !j.bound {
			j.residencies = j.residencies.Enter(t.process.Serial, d.Device, now)
		}
	case schedulers.Grown:
		t.holds = sum(t.holds, t.asked)
		t.record.GrownBytes = max(t.record.GrownBytes, t.holds-t.record.Bytes-t.record.HeapBytes)
	case schedulers.Refused, schedulers.GrowRefused, schedulers.ResumeRefused:
		why := d.Reason.Error() + b.restartRemedy(j, d.Reason)
		if d.Reason.Cause == schedulers.TimedOut {
			why = explained(why, j.starved)
		}
		t.record.Refusal = &why
		j.each(t.process.Serial, func(s *said) { s.refused = cmp.Or(s.refused, why) })
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventRefused, Job: &t.record.Job, Detail: why})
	}
	if d.Kind == schedulers.Refused {
		b.strike(t)
	}
	b.recordTask(t)
}

// sum of sizes that are not negative; it stops at the largest integer.
func sum(a, b int64) int64 { return min(a, math.MaxInt64-b) + b }

// ask notes that the task, and with it a thread of its job, waits for an answer.
func (b *Batch) ask(t *task, now time.Duration) {
	if t.asks {
		return
	}
	t.asks = true
	b.progress.made(now)
	b.lookForProgress(now)
	j := b.job(t.record.Job)
	if j.blocked == 0 {
		j.blockedSince = now
	}
	j.blocked++
}

// answered notes that the task waits no longer, whether or not it was answered. Time in which
// several threads or processes of a job wait counts once.
func (b *Batch) answered(t *task, now time.Duration) {
	if !t.asks {
		return
	}
	t.asks = false
	b.progress.made(now)
	j := b.job(t.record.Job)
	j.blocked--
	if j.blocked > 0 {
		return
	}
	j.waited += now - j.blockedSince
	if j.record.StartS != nil {
		j.record.WaitS = new(seconds(j.waited))
	}
}

// strike takes a task out of the ledger.
func (b *Batch) strike(t *task) {
	delete(b.tasks, t.id)
	j := b.job(t.record.Job)
	j.open = slices.DeleteFunc(j.open, func(o *task) bool { return o == t })
}

// endTask settles the task's record. The caller tells the engine.
func (b *Batch) endTask(t *task, now time.Duration) {
	b.strike(t)
	b.progress.made(now)
	b.answered(t, now)
	if t.granted {
		t.record.ReleaseS = new(seconds(now))
	}
	b.recordTask(t)
}

// endTasks settles the tasks that processes of a job left behind when they ended, in the order of the
// ids.
func (b *Batch) endTasks(j *job, of func(*task) bool, now time.Duration) {
	if len(j.open) == 0 {
		return
	}
	left := slices.SortedFunc(slices.Values(j.open), func(t, u *task) int { return cmp.Compare(t.id, u.id) })
	for _, t := range left {
		if of(t) {
			b.endTask(t, now)
		}
	}
}

// What others have asked for before is not counted: they wait, and what this process asks for next may be served first.
func (e RoomAsked) apply(b *Batch, _ time.Duration) error {
	if e.Device < 0 || e.Device >= len(b.config.Devices) {
		return fmt.Errorf("device %d of a run with devices 0 to %d", e.Device, len(b.config.Devices)-1)
	}
	d := b.engine.View().Device(e.Device)
	room := d.FreeBytes() - d.ContextBytes(schedulers.Task{Job: e.Process.Job, Serial: e.Process.Serial})
	b.command(TellRoom{e.Process, max(room, 0)})
	return nil
}
