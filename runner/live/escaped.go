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
)

// A job is a session of its own, and this process inherits those of the job's
// descendants whose parents are gone (becomeSubreaper). Once the leader and its
// group have ended, the nearest of the rest are this process's children, and
// those of each become that when it is killed: none can hide. They are the job's
// by the session, or by the token in their environment. A child keeps its PID
// until this process has collected it, so nobody else can be meant.

// stat is what proc(5) says of a process in its file stat.
type stat struct {
	pid, parent, group, session int
	ended                       bool // nobody has collected it yet
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

// all lists the processes of the machine. It costs a file for each.
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

// inherited lists the children of this process's first thread, which is the one
// that orphans go to; jobs belong to the spawner's. It costs one file, because
// it is asked whenever a job ends. A kernel without CONFIG_PROC_CHILDREN, or one
// that passes over a child while another ends, leaves some to killEscaped.
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

// bears reports whether the process was started with the token in its
// environment. That of another user's process cannot be read.
func bears(pid int, token string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && strings.Contains("\x00"+string(env), "\x00"+token+"\x00")
}

// killRest kills and collects what is left of a job whose leader and group have
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
		n, more := collect(rest)
		if killed += n; !more {
			break
		}
	}
	x.noteEscaped(&job, killed)
}

// noteEscaped records that so many processes had left the group of a job, or of one
// that nothing tells, and were killed.
func (x *Executor) noteEscaped(job *int, killed int) {
	if killed == 0 {
		return
	}
	x.escaped.Add(int64(killed))
	x.note(results.Event{Kind: results.EventEscaped, Job: job,
		Detail: fmt.Sprintf("processes that had left their job's group and outlived it, and were killed: %d", killed)})
}

// noteGuard says that a guard has ended, which makes no difference to what is measured.
func (x *Executor) noteGuard(err error) {
	x.config.Warn("%v", err)
	x.note(results.Event{Kind: results.EventGuard, Detail: err.Error()})
}

// collect kills children and waits for them; more says that there was one, whose own
// children are this process's now. It leaves those that may not be killed: programs
// that run as another user.
func collect(children []stat) (killed int, more bool) {
	for _, s := range children {
		if unix.Kill(s.pid, unix.SIGKILL) != nil {
			continue
		}
		if !s.ended {
			killed++
		}
		_, err := unix.Wait4(s.pid, nil, 0, nil)
		for errors.Is(err, unix.EINTR) {
			_, err = unix.Wait4(s.pid, nil, 0, nil)
		}
		more = more || err == nil
	}
	return killed, more
}

// children lists this process's own children.
func children() []stat {
	self := os.Getpid()
	return slices.DeleteFunc(all(), func(s stat) bool { return s.parent != self })
}

// killEscaped collects, when every job has ended, the children that killRest did
// not know for a job's: those that were not there before the run (own), and are in
// another session, which what this process starts itself is not. The first process
// of a container gets everybody's orphans, and spares them all.
func (x *Executor) killEscaped() {
	session, err := unix.Getsid(0)
	if err != nil || os.Getpid() == 1 {
		return
	}
	killed := 0
	for {
		n, more := collect(slices.DeleteFunc(children(), func(s stat) bool { return s.session == session || slices.Contains(x.own, s.pid) }))
		if killed += n; !more {
			break
		}
	}
	x.noteEscaped(nil, killed)
}

// clientLimit bounds how long a job that has ended waits for the connections of
// its processes to close: a killed one may have gigabytes to give back first.
const clientLimit = 10 * time.Second

// awaitClients returns when the server has heard the last of the job's
// processes. Those that are connected yet are no descendants of the job, which
// had somebody else start them; they end with it all the same, but for one that
// cannot be told for the job's. The job's memory counts as given back, and that one
// may hold some: the run is no measurement.
func (x *Executor) awaitClients(job int, p *process) {
	x.server.Settle()
	for _, pid := range x.clientsOf(job) {
		if found, err := os.FindProcess(pid); err == nil { // that one, whoever has the PID when it is killed
			if bears(pid, p.token) {
				x.terminate(job, pid)
				_ = found.Kill()
			}
			_ = found.Release()
		}
	}
	if !x.clientsGo(job) {
		x.noteOutlived(job, "a process that it did not start itself")
	}
}

// clientsGo waits until the job has no clients any more; false: not within the limit.
func (x *Executor) clientsGo(job int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.hasClient(job) {
		return true
	}
	late := false
	timer := time.AfterFunc(x.limit, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		late = true
		x.changed.Broadcast()
	})
	defer timer.Stop()
	for x.hasClient(job) && !late {
		x.changed.Wait()
	}
	return !x.hasClient(job)
}

// noteOutlived has the run say that it is no measurement.
func (x *Executor) noteOutlived(job int, who string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outlived = append(x.outlived, fmt.Errorf("job %d: %s outlives it, and may hold memory that others are given", job, who))
}
