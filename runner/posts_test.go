package runner_test

import (
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// batch posts events, each by a method, so that scripts read as what happens. It numbers the
// tasks from 1.
type batch struct {
	*runner.Loop
	lastTask schedulers.TaskID
}

func serialOf(job, serial int) schedulers.Process {
	return schedulers.Process{Job: schedulers.JobID(job), Serial: serial}
}

func (b *batch) JobStarted(job int, at time.Duration) { b.Post(at, runner.JobStarted{Job: job}) }
func (b *batch) JobExited(job int, at time.Duration)  { b.Post(at, runner.JobExited{Job: job}) }
func (b *batch) JobEnded(job int, e runner.Exit, at time.Duration) {
	b.Post(at, runner.JobEnded{Job: job, Exit: e})
}

// TaskBegin begins what t asks for as a task of the job.
func (b *batch) TaskBegin(job int, t schedulers.Task, at time.Duration) schedulers.TaskID {
	b.lastTask++
	t.ID, t.Job = b.lastTask, schedulers.JobID(job)
	b.Post(at, runner.TaskBegin{Task: t})
	return t.ID
}

func (b *batch) TaskGrow(id schedulers.TaskID, bytes int64, wait *time.Duration, at time.Duration) {
	b.Post(at, runner.TaskGrow{ID: id, Bytes: bytes, Wait: wait})
}

func (b *batch) TaskShrink(id schedulers.TaskID, bytes int64, at time.Duration) error {
	return b.TryPost(at, runner.TaskShrink{ID: id, Bytes: bytes})
}

func (b *batch) TaskDecided(id schedulers.TaskID, device int, refusal *schedulers.Refusal, at time.Duration) error {
	return b.TryPost(at, runner.TaskDecided{ID: id, Device: device, Refusal: refusal})
}

func (b *batch) TaskShape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32, at time.Duration) {
	b.Post(at, runner.TaskShape{ID: id, Blocks: blocks, ThreadsPerBlock: threadsPerBlock, BlocksPerSM: blocksPerSM})
}

func (b *batch) TaskFree(id schedulers.TaskID, at time.Duration) {
	b.Post(at, runner.TaskFree{ID: id})
}

func (b *batch) Working(job, serial int, since *time.Duration) {
	b.Post(0, runner.ProcessWork{Process: serialOf(job, serial), Since: since})
}

func (b *batch) Used(job, serial int, bytes int64) {
	b.Post(0, runner.ProcessUse{Process: serialOf(job, serial), Bytes: bytes})
}

func (b *batch) ProcessGone(job, serial int, saidBye bool, at time.Duration) {
	b.Post(at, runner.ProcessGone{Process: serialOf(job, serial), SaidBye: saidBye})
}

func (b *batch) ReportOOM(job, serial int, bytes uint64, where string, at time.Duration) {
	b.Post(at, runner.OutOfMemory{Process: serialOf(job, serial), Bytes: bytes, Where: where})
}

func (b *batch) ReportFault(job, serial, code int, where string, at time.Duration) {
	b.Post(at, runner.Fault{Process: serialOf(job, serial), Code: code, Where: where})
}

func (b *batch) Limited(job int, why string, at time.Duration) {
	b.Post(at, runner.Limited{Job: job, Why: why})
}

func (b *batch) Misbehaved(job int, why string, at time.Duration) {
	b.Post(at, runner.Misbehaved{Job: job, Why: why})
}

func (b *batch) Tick(at time.Duration)               { b.Post(at, runner.Tick{}) }
func (b *batch) Cancel(why string, at time.Duration) { b.Post(at, runner.Cancel{Why: why}) }
func (b *batch) Fail(err error, at time.Duration)    { b.Post(at, runner.Fail{Err: err}) }

func (b *batch) ServerFaulted(device int, at time.Duration) {
	b.Post(at, runner.ServerFaulted{Device: device})
}
func (b *batch) ServerBroken(why error, fault bool, at time.Duration) {
	b.Post(at, runner.ServerBroken{Why: why, Fault: fault})
}
func (b *batch) Recovered(err error, at time.Duration) { b.Post(at, runner.ServerRecovered{Err: err}) }
