package live

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// usersPeriod is how long NVML must show a process on a device until the process counts as one that uses it: NVML shows a client of MPS
// on all GPUs of its server for 0.1 s after its first CUDA call, whichever it may use (H200, driver 580). A process that uses a device
// for less may not be seen.
const usersPeriod = 500 * time.Millisecond

// initialNamespace is the link of the PID namespace whose numbers NVML has (Linux, PROC_PID_INIT_INO).
const initialNamespace = "pid:[4026531836]"

// users is which processes looks have shown on the devices.
type users struct {
	seen map[[2]int]*sight // by device and PID
	open []user            // those of the run that have not asked yet
	ours bool              // NVML showed a process of the run
	had  map[int]bool      // PIDs of the run that had memory on a device at the last look
	sure bool              // a process had memory at two looks, so NVML should have shown it
	err  error             // the first, of NVML
}

// sight is when a process was first seen on a device.
type sight struct {
	first time.Duration
	over  bool // it counts as one that uses the device
}

// user is a process of the run that NVML shows on a device.
type user struct {
	pid, device int
	job         int // -1: not known
	name        string
}

// uses takes in that a look showed a process on a device. It reports true once, when the process has been seen there for long enough.
func (u *users) uses(device, pid int, now time.Duration) bool {
	key := [2]int{device, pid}
	s := u.seen[key]
	if s == nil {
		s = &sight{first: now}
		u.seen[key] = s
	}
	if s.over || now-s.first < usersPeriod {
		return false
	}
	s.over = true
	return true
}

// sees takes in a process that a look shows on a device.
func (x *Executor) sees(l *looks, pid, device int, now time.Duration) {
	u, of := &l.users, l.owners[pid]
	u.ours = u.ours || of.ours
	if !u.uses(device, pid, now) {
		return
	}
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if of.ours {
		x.notePreload(pid, device, of.job, oneWord(name))
		u.open = append(u.open, user{pid, device, of.job, oneWord(name)})
	} else if l.ours && u.seen[[2]int{device, pid}].first > l.began && isStranger(pid) {
		e := results.Event{Kind: results.EventDoubt, Device: &device,
			Detail: fmt.Sprintf("process %d (%.15s), which the run did not start, has begun to use GPU %d", pid, oneWord(name), x.gpu(device))}
		x.config.Warn("%s", e.Detail)
		x.note(e)
	}
}

// isStranger reports whether a process lives that does not descend from this one.
func isStranger(pid int) bool {
	self := os.Getpid()
	for pid > 0 {
		s, ok := statOf(pid)
		if !ok || pid == self {
			return false
		}
		pid = s.parent
	}
	return true
}

// settleUsers says which processes used a device unscheduled. That is not known before a process ends, or the batch does: NVML shows
// a client of MPS from its first CUDA call on, and with the lazy runtime it asks at its first launch, which can be much later.
func (x *Executor) settleUsers(u *users, ended bool) {
	u.open = slices.DeleteFunc(u.open, func(p user) bool {
		if p.job >= 0 && !x.isUnscheduled(p.job, p.pid, p.device) {
			return true
		}
		if _, lives := statOf(p.pid); lives && !ended {
			return false
		}
		x.noteUnscheduled(p)
		return true
	})
}

// noteUntold says that unscheduled use could not be seen: NVML did not tell, or its PIDs are not this namespace's.
func (x *Executor) noteUntold(u *users) {
	why := ""
	switch {
	case u.err != nil:
		why = u.err.Error()
	case u.ours:
		return
	case !inInitialNamespace():
		why = "NVML shows no process of this PID namespace: run caserun in that of the host"
	case u.sure:
		why = "NVML shows no process of the run, and some had memory on a GPU: it needs permission to list processes"
	default:
		return
	}
	e := results.Event{Kind: results.EventSampler, Detail: "unscheduled use of the GPUs could not be seen: " + why}
	if x.config.Compares {
		e.Detail = "unscheduled use of the GPUs, and memory that no call shows, could not be seen: " + why
	}
	x.config.Warn("%s", e.Detail)
	x.note(e)
}

// inInitialNamespace reports whether PIDs here are those that NVML has.
func inInitialNamespace() bool {
	space, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && space == initialNamespace
}

func (x *Executor) noteUnscheduled(p user) {
	e := results.Event{Kind: results.EventDoubt, Device: &p.device}
	who := "a job"
	if p.job >= 0 {
		e.Job, who = &p.job, fmt.Sprintf("job %d", x.number(p.job))
	}
	e.Detail = fmt.Sprintf("process %d (%.15s) of %s used GPU %d unscheduled: NVML showed it there, and it never asked the scheduler for that GPU", p.pid, p.name, who, x.gpu(p.device))
	x.config.Warn("%s", e.Detail)
	x.note(e)
}

// oneWord is a process's name without what a terminal must not get.
func oneWord(name []byte) string {
	out := []byte{}
	for _, c := range name {
		if c > ' ' && c < 0x7f {
			out = append(out, c)
		}
	}
	return string(out)
}

// isUnscheduled reports whether a process of the job may not use the device.
func (x *Executor) isUnscheduled(job, pid, device int) bool {
	x.mu.Lock()
	bound := x.bound[job]
	x.mu.Unlock()
	if len(bound) > 0 {
		return !slices.Contains(bound, device)
	}
	return x.job(job).spec.Binding != mixes.BindDeclared && !x.server.Asked(pid)
}

// jobOf is the job that a process belongs to; -1 if it descends from a job that is not known. ours: the run started it.
func (x *Executor) jobOf(pid int) (job int, ours bool) {
	session, err := unix.Getsid(0)
	if err != nil {
		return -1, false
	}
	x.mu.Lock()
	leaders := map[int]int{}
	tokens := map[string]int{}
	for i, ranks := range x.procs {
		for _, p := range ranks {
			if !p.over() {
				leaders[p.pid], tokens[p.token] = i, i
			}
		}
	}
	x.mu.Unlock()
	if job, known := x.server.JobOf(pid); known {
		return job, true
	}
	for token, i := range tokens {
		if bears(pid, token) {
			return i, true
		}
	}
	const deepest = 1000
	self := os.Getpid()
	for range deepest {
		s, ok := statOf(pid)
		if !ok || pid == self {
			return -1, false
		}
		if i, known := leaders[s.session]; known {
			return i, true
		}
		if s.parent == self {
			return -1, s.session != session && !slices.Contains(x.own, pid)
		}
		pid = s.parent
	}
	return -1, false
}
