package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/checkpoint"
	"github.com/caserun/caserun/schedulers"
)

// Under a scheduler that checkpoints, the driver takes all that a job has on its device to the host, and brings it back. A job that is out waits
// for a slot again at once: its calls wait in the driver, so it cannot show that it has work.

// whole is what is known of a job that has been taken out.
type whole struct {
	bytes  int64         // that it had on its device
	comes  bool          // it is being brought back
	resume time.Duration // when it was back last
}

// findWorkingCheckpoint finds the program, and checks that the driver can do it.
func findWorkingCheckpoint(ctx context.Context) (string, error) {
	bin, err := FindCheckpoint()
	if err == nil {
		_, err = checkpoint.In(ctx, bin, os.Getpid()) // which does not use CUDA
	}
	if errors.Is(err, checkpoint.ErrUnavailable) {
		err = fmt.Errorf("%w: install a driver of CUDA 12.8 or later, or use via=swap", err)
	}
	if err != nil {
		return "", fmt.Errorf("via=checkpoint: %w", err)
	}
	return bin, nil
}

// pidsOf are the processes of a job.
func (x *Executor) pidsOf(job int) (pids []int) {
	for _, s := range all() {
		if s.ended {
			continue
		}
		if of, ours := x.jobOf(s.pid); ours && of == job {
			pids = append(pids, s.pid)
		}
	}
	return pids
}

// bytesOf is how much memory processes have on a device; otherwise, if NVML does not show them.
func (x *Executor) bytesOf(pids []int, device int, otherwise int64) (bytes int64) {
	if x.config.Users == nil {
		return otherwise
	}
	found, _, err := x.config.Users(device)
	if err != nil {
		return otherwise
	}
	of := map[int]bool{}
	for _, pid := range pids {
		of[pid] = true
	}
	for _, p := range found {
		if of[p.PID] && p.UsedBytes != nil {
			bytes += int64(*p.UsedBytes)
		}
	}
	if bytes == 0 {
		return otherwise
	}
	return bytes
}

// takeOut carries out a revocation of a whole job.
func (x *Executor) takeOut(job int, d schedulers.Decision) {
	began, pids := x.now(), x.pidsOf(job)
	w := &whole{bytes: x.bytesOf(pids, d.Device, d.Task.Bytes)}
	answer := schedulers.Revoked{Ticket: d.Ticket, Outcome: schedulers.Busy, Resident: d.Task.Bytes}
	if len(pids) > 0 {
		answer = x.checkpoint(job, d, pids, answer)
	}
	if answer.Outcome == schedulers.Done {
		x.mu.Lock()
		x.wholes[job] = w
		x.mu.Unlock()
		answer.Resident, answer.Moved.Bytes = 0, w.bytes
		answer.Moved.Bookkeeping = max(0, x.now()-began-answer.Moved.Drain-answer.Moved.Copy)
	}
	x.post(runner.TaskRevoked{ID: d.Task.ID, Answer: answer})
	if answer.Outcome == schedulers.Done {
		x.post(runner.TaskResume{ID: d.Task.ID, Need: d.Task.Bytes, Referenced: d.Task.Bytes})
	}
}

// checkpoint takes processes out, and completes the answer. After a failure it brings back what was taken.
func (x *Executor) checkpoint(job int, d schedulers.Decision, pids []int, answer schedulers.Revoked) schedulers.Revoked {
	r, err := checkpoint.Out(context.Background(), x.config.Checkpoint, d.Revocation.Deadline, pids...)
	if err != nil {
		r = checkpoint.Result{Outcome: schedulers.Unable, Why: err.Error()}
	}
	if errors.Is(err, checkpoint.ErrBlocked) {
		if _, err := checkpoint.In(context.Background(), x.config.Checkpoint, pids...); err != nil {
			x.endBlocked(job, err)
		}
	}
	answer.Outcome = r.Outcome
	if r.Outcome == schedulers.Unable {
		answer.Why = r.Why
	}
	answer.Moved = schedulers.Moved{Drain: seconds(r.LockS), Copy: seconds(r.CopyS)}
	return answer
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// answerJob carries out the answer to a job that waited for a slot.
func (x *Executor) answerJob(job int, d schedulers.Decision) {
	x.mu.Lock()
	w := x.wholes[job]
	w.comes = d.Reason == nil
	x.mu.Unlock()
	if d.Reason != nil { // it would wait for ever
		x.Stop(job)
		return
	}
	x.clean.Go(func() { x.bringBack(job, w) })
}

// roomEvery is how often it is tried to bring a job back while its device has not enough free memory: the memory of a process that has ended is
// free a little later.
const roomEvery = time.Second

func (x *Executor) bringBack(job int, w *whole) {
	began := x.now()
	for {
		pids := x.pidsOf(job)
		if len(pids) == 0 {
			return // it has ended
		}
		r, err := checkpoint.In(context.Background(), x.config.Checkpoint, pids...)
		if err != nil {
			x.endBlocked(job, err)
			return
		}
		if r.Outcome == schedulers.Done {
			x.mu.Lock()
			w.comes, w.resume = false, x.now()
			x.mu.Unlock()
			moved := schedulers.Moved{Bytes: w.bytes, Copy: seconds(r.CopyS)}
			moved.Bookkeeping = max(0, w.resume-began-moved.Copy)
			x.post(runner.TaskMoved{ID: runner.TaskOf(job), Direction: schedulers.In, Moved: moved})
			return
		}
		select {
		case <-x.after(roomEvery):
		case <-x.loop.Done():
			return
		}
	}
}

// endBlocked ends a job that the driver has left blocked.
func (x *Executor) endBlocked(job int, why error) {
	e := results.Event{Kind: results.EventDoubt, Job: &job, Detail: fmt.Sprintf("job %d was ended, because its calls of CUDA are blocked: %v", x.number(job), why)}
	x.config.Warn("%s", e.Detail)
	x.note(e)
	x.Stop(job)
}

// tellWhole posts since when jobs have had their devices. What they do is not seen, so they take turns by time.
func (x *Executor) tellWhole() {
	if x.config.Checkpoint == "" {
		return
	}
	now := map[int]schedulers.Activity{}
	x.mu.Lock()
	for job, ranks := range x.procs {
		if len(ranks) == 0 {
			continue
		}
		a := schedulers.Activity{Last: ranks[0].started}
		if w := x.wholes[job]; w != nil {
			a.Running, a.Last = w.comes, w.resume
		}
		now[job] = a
	}
	x.mu.Unlock()
	for job, a := range now {
		x.post(runner.TaskActive{ID: runner.TaskOf(job), Activity: a})
	}
}
