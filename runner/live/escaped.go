package live

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/child"
)

// Each job is a session of its own. This process is a subreaper (becomeSubreaper): it inherits
// descendants of a job whose parents are gone. Once the job's leader and group have ended,
// every other process of the job is a child of this process, or descends from such a child.
// When a child is killed, its own children become children of this process, so no process of
// the job stays hidden. A child is the job's if it has the job's session, or the job's token
// in its environment. A child keeps its PID until this process has collected it, so a signal
// cannot reach another process.

// stat is what proc(5) says of a process in its file stat.
type stat struct {
	pid, parent, group, session int
	ended                       bool // its parent has not collected it yet
}

func statOf(pid int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false // it is gone
	}
	// pid (comm) state ppid pgrp session ...; comm may hold anything
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 4 {
		return stat{}, false
	}
	s := stat{pid: pid, ended: fields[0] == "Z" || fields[0] == "X"}
	for i, to := range []*int{&s.parent, &s.group, &s.session} {
		*to, _ = strconv.Atoi(fields[i+1])
	}
	return s, true
}

// all lists the processes of the machine. It reads a file for each process.
func all() []stat {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var out []stat
	for _, path := range entries {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if s, ok := statOf(pid); ok {
			out = append(out, s)
		}
	}
	return out
}

// inherited lists the children of this process's first thread, because that thread inherits
// orphans. Jobs are children of the spawner's thread. It is called whenever a job ends, so it
// reads only one file. It may miss children, which killEscaped finds: some kernels have no
// CONFIG_PROC_CHILDREN, and a kernel may pass over a child while another child ends.
func inherited() []int {
	self := os.Getpid()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", self, self))
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(field)
		pids = append(pids, pid)
	}
	return pids
}

// tokenOf is how a job's token shows in the environment of its processes.
func tokenOf(env []string) string { return "CASE_TOKEN=" + lookup(env, "CASE_TOKEN") }

// bears reports whether the process was started with the token in its environment. The
// environment of another user's process cannot be read.
func bears(pid int, token string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && strings.Contains("\x00"+string(env), "\x00"+token+"\x00")
}

// killRest kills and collects the remaining processes of a job whose leader and group have
// ended.
func (x *Executor) killRest(job int, p *process) {
	killed := 0
	for {
		var rest []stat
		var alive []int
		for _, pid := range inherited() {
			s, ok := statOf(pid)
			if !ok || s.session != p.pid && !bears(pid, p.token) {
				continue
			}
			rest = append(rest, s)
			if !s.ended {
				alive = append(alive, pid)
			}
		}
		x.terminate(job, alive...)
		n, more := x.collect(rest)
		if killed += n; !more {
			break
		}
	}
	x.noteEscaped(&job, killed)
}

// noteEscaped records how many processes had left their job's group and were killed. job is
// nil where the job is not known.
func (x *Executor) noteEscaped(job *int, killed int) {
	if killed == 0 {
		return
	}
	x.escaped.Add(int64(killed))
	x.note(results.Event{Kind: results.EventEscaped, Job: job,
		Detail: fmt.Sprintf("processes that had left their job's group and outlived it, and were killed: %d", killed)})
}

// noteGuard records that a guard has ended. That does not change what is measured.
func (x *Executor) noteGuard(err error) {
	x.config.Warn("%v", err)
	x.note(results.Event{Kind: results.EventGuard, Detail: err.Error()})
}

// collect kills children and waits for them. more reports whether it collected any, because
// their own children are children of this process now. It leaves programs that run as another
// user, because this process may not kill them, and those that SIGKILL does not end.
func (x *Executor) collect(children []stat) (killed int, more bool) {
	for _, s := range children {
		if x.abandoned(s.pid) || unix.Kill(s.pid, unix.SIGKILL) != nil {
			continue
		}
		if !s.ended {
			killed++
		}
		gone := make(chan struct{})
		go func() {
			child.AwaitEnd(s.pid)
			close(gone)
		}()
		select {
		case <-gone:
		case <-time.After(x.killed):
			x.abandon(s.pid)
			x.config.Warn("process %d of the run did not end within %v of SIGKILL, and is left: it is blocked in the kernel", s.pid, x.killed)
			continue
		}
		_, err := unix.Wait4(s.pid, nil, 0, nil)
		for errors.Is(err, unix.EINTR) {
			_, err = unix.Wait4(s.pid, nil, 0, nil)
		}
		more = more || err == nil
	}
	return killed, more
}

// abandon notes that a child cannot be collected.
func (x *Executor) abandon(pid int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.undead == nil {
		x.undead = map[int]bool{}
	}
	x.undead[pid] = true
}

func (x *Executor) abandoned(pid int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.undead[pid]
}

// children lists this process's own children.
func children() []stat {
	self := os.Getpid()
	return slices.DeleteFunc(all(), func(s stat) bool { return s.parent != self })
}

// killEscaped collects, when every job has ended, children that killRest could not assign to
// a job. It spares children from before the run (own), and children in this process's own
// session, because this process started those itself. Process 1 of a container inherits
// orphans of all other processes, so there killEscaped does nothing.
func (x *Executor) killEscaped() {
	session, err := unix.Getsid(0)
	if err != nil || os.Getpid() == 1 {
		return
	}
	killed := 0
	for {
		n, more := x.collect(slices.DeleteFunc(children(), func(s stat) bool {
			return s.session == session || slices.Contains(x.own, s.pid) || x.config.Layer.owns(s.pid)
		}))
		if killed += n; !more {
			break
		}
	}
	x.noteEscaped(nil, killed)
}

// clientLimit bounds how long a job that has ended waits until the connections of its
// processes close. A killed process may have to give back gigabytes first.
const clientLimit = 10 * time.Second

// awaitClients returns when the server has read everything that the job's processes sent. A
// process that is still connected does not descend from the job: the job had another program
// start it. It is killed if it has the job's token. Otherwise it may live on with memory that
// counts as given back, so the run is not a measurement.
func (x *Executor) awaitClients(job int, ranks []*process) {
	x.server.Settle()
	for _, pid := range x.server.PIDs(job) {
		if found, err := os.FindProcess(pid); err == nil { // a pidfd, because the PID may be reused before the kill
			if slices.ContainsFunc(ranks, func(p *process) bool { return bears(pid, p.token) }) {
				x.terminate(job, pid)
				_ = found.Kill()
			}
			_ = found.Release()
		}
	}
	if !x.server.AwaitGone(job, x.limit) {
		x.noteOutlived(job, "a process that it did not start itself")
	}
}

// noteOutlived has Run return an error that says why the run is not a measurement. On a lost device no job is given memory any more,
// and its processes may be blocked in the driver: then an event says so, and the results of the other jobs count.
func (x *Executor) noteOutlived(job int, who string) {
	x.mu.Lock()
	lost := x.lost
	if !lost {
		x.outlived = append(x.outlived, fmt.Errorf("job %d: %s outlives it, and may hold memory that other jobs are given", x.number(job), who))
	}
	x.mu.Unlock()
	if lost {
		e := results.Event{Kind: results.EventEscaped, Job: &job, Detail: who + " outlives it, after a GPU of the run was lost"}
		x.config.Warn("job %d: %s", x.number(job), e.Detail)
		x.note(e)
	}
}
