package sim

import (
	"slices"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// A checkpoint of a job copies through the driver's own buffers. Measured on H200s (driver 580.159) with 5.6 GiB: out in 2.4 to 3.6 s, back in
// 0.9 to 1.3 s. The fixed part is that of a context, because it goes and comes too.
const (
	checkpointOutBytesPerS = 2e9
	checkpointInBytesPerS  = 5e9
	checkpointSeconds      = contextSeconds
)

// roomEvery is how often a job tries to come back while its device has not enough free memory.
const roomEvery = time.Second

// whole is a job that gives way as a whole (runner.WholeJob).
type whole struct {
	x       *Executor
	job     int
	since   time.Duration        // since when it has its device, and runs
	ticket  *schedulers.Decision // a revocation without an answer
	asked   time.Duration        // when it came
	copying bool                 // out
	comes   bool                 // it comes back
	taken   int64                // bytes of the device for what comes back
	out     []absence            // what is on the host
	told    *schedulers.Activity // the latest; nil: the scheduler may know something else
}

// absence is what a process had on its device.
type absence struct {
	of       *process
	bytes    map[*object]int64
	contexts []*device
}

// watchWhole has a job give way as a whole, if the scheduler wants that.
func (x *Executor) watchWhole(job int) {
	if !x.config.Checkpoints {
		return
	}
	w := &whole{x: x, job: job, since: x.now + 1} // after its grant
	for p := range x.processesOf(job) {
		p.whole = w
	}
	x.wholes = append(x.wholes, w)
}

func (x *Executor) wholeOf(id schedulers.TaskID) *whole {
	job, is := runner.WholeJob(id)
	if i := slices.IndexFunc(x.wholes, func(w *whole) bool { return w.job == job }); is && i >= 0 {
		return x.wholes[i]
	}
	return nil
}

// over reports whether the job has ended.
func (w *whole) over() bool {
	for range w.x.processesOf(w.job) {
		return false
	}
	return true
}

func (w *whole) works() bool {
	for p := range w.x.processesOf(w.job) {
		if p.worksOnDevice() {
			return true
		}
	}
	return false
}

// revoke begins to take the job out. What works on the device goes on to its end.
func (w *whole) revoke(d schedulers.Decision) {
	w.ticket, w.asked, w.told = &d, w.x.now, nil
	used := false
	for p := range w.x.processesOf(w.job) {
		used = used || len(p.contexts) > 0
		if p.managed > 0 {
			w.answer(schedulers.Revoked{Outcome: schedulers.Unable, Why: "it has managed memory", Resident: d.Task.Bytes})
			return
		}
	}
	if !used {
		w.answer(schedulers.Revoked{Outcome: schedulers.Busy, Resident: d.Task.Bytes})
		return
	}
	for p := range w.x.processesOf(w.job) {
		p.swap.locked = true
	}
	w.x.at(w.x.now+d.Revocation.Deadline, func() {
		if w.ticket == &d && !w.copying && !w.over() {
			w.unlock()
			w.answer(schedulers.Revoked{Outcome: schedulers.Unable, Why: "work that it had given the GPU did not end within " + d.Revocation.Deadline.String(), Resident: d.Task.Bytes})
		}
	})
	w.takeOut()
}

func (w *whole) answer(a schedulers.Revoked) {
	a.Ticket = w.ticket.Ticket
	w.ticket, w.copying, w.told = nil, false, nil
	w.x.post(runner.TaskRevoked{ID: runner.TaskOf(w.job), Answer: a})
}

// unlock lets the processes go on.
func (w *whole) unlock() {
	for p := range w.x.processesOf(w.job) {
		held := p.swap.held
		p.swap.locked, p.swap.held = false, nil
		if held != nil {
			held()
		}
	}
}

// changed takes in that a process of the job has done a step, or has ended.
func (w *whole) changed() {
	if w == nil {
		return
	}
	if w.over() {
		if w.taken > 0 {
			w.x.devices[w.out[0].of.device].free += w.taken
		}
		w.x.wholes = slices.DeleteFunc(w.x.wholes, func(o *whole) bool { return o == w })
		return
	}
	w.takeOut()
}

// takeOut copies what the job has to the host, if it shall and nothing of it works any more.
func (w *whole) takeOut() {
	if w.ticket == nil || w.copying || w.works() {
		return
	}
	w.copying = true
	took := schedulers.Moved{Drain: w.x.now - w.asked}
	for p := range w.x.processesOf(w.job) {
		p.recordKernels()
		for _, o := range p.task.objects {
			took.Bytes += o.resident
		}
	}
	took.Copy = lasts(took.Bytes, checkpointOutBytesPerS)
	w.x.at(w.x.now+took.Copy, func() {
		if w.over() {
			return
		}
		for p := range w.x.processesOf(w.job) {
			w.out = append(w.out, p.absent())
		}
		id, bytes := runner.TaskOf(w.job), w.ticket.Task.Bytes
		w.answer(schedulers.Revoked{Outcome: schedulers.Done, Moved: took})
		w.x.post(runner.TaskResume{ID: id, Need: bytes, Referenced: bytes})
	})
}

func lasts(bytes int64, bytesPerS float64) time.Duration {
	return time.Duration((checkpointSeconds + float64(bytes)/bytesPerS) * float64(time.Second))
}

// absent takes all that the process has off its device.
func (p *process) absent() absence {
	a := absence{of: p, bytes: map[*object]int64{}, contexts: p.contexts}
	for _, o := range p.task.objects {
		a.bytes[o] = o.resident
		p.x.devices[p.device].give(o)
	}
	for _, d := range p.contexts {
		d.free += d.model.context()
	}
	p.contexts = nil
	return a
}

// answered brings the job back, or ends it.
func (w *whole) answered(d schedulers.Decision) {
	switch {
	case w.over():
	case d.Reason != nil: // it would wait for ever
		w.x.Stop(w.job)
	default:
		w.comes, w.told = true, nil
		w.bringBack()
	}
}

func (w *whole) bringBack() {
	if w.over() {
		return
	}
	var bytes, contexts int64
	on := w.x.devices[w.out[0].of.device]
	for _, a := range w.out {
		for _, n := range a.bytes {
			bytes += n
		}
		contexts += int64(len(a.contexts)) * on.model.context()
	}
	if bytes+contexts > on.free {
		w.x.at(w.x.now+roomEvery, w.bringBack)
		return
	}
	w.taken = bytes + contexts
	on.free -= w.taken
	took := schedulers.Moved{Bytes: bytes, Copy: lasts(bytes, checkpointInBytesPerS)}
	w.x.at(w.x.now+took.Copy, func() {
		if w.over() {
			return
		}
		for _, a := range w.out {
			for o, n := range a.bytes {
				o.resident = n
			}
			a.of.contexts = a.contexts
		}
		w.taken, w.out, w.comes, w.since, w.told = 0, nil, false, w.x.now, nil
		w.x.post(runner.TaskMoved{ID: runner.TaskOf(w.job), Direction: schedulers.In, Moved: took})
		w.unlock()
	})
}

// tellActivity posts since when the job has its device.
func (w *whole) tellActivity() {
	now := schedulers.Activity{Running: w.comes, Last: w.since}
	if w.told != nil && *w.told == now || w.over() {
		return
	}
	w.x.post(runner.TaskActive{ID: runner.TaskOf(w.job), Activity: now})
	w.told = &now
}
