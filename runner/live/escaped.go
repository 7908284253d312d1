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
	for more := true; more; {
		more = false
		for _, pid := range inherited() {
			if slices.Contains(x.own, pid) {
				continue
			}
			s, ok := statOf(pid)
			if !ok || s.session != p.pid && !bears(pid, p.token) {
				continue
			}
			if !s.ended {
				x.terminate(job, pid)
			}
			more = x.collect(s) || more
		}
	}
}

// collect kills a child and waits for it. It leaves one that may not be killed: a
// program that runs as another user.
func (x *Executor) collect(s stat) bool {
	if unix.Kill(s.pid, unix.SIGKILL) != nil {
		return false
	}
	if !s.ended {
		x.escaped.Add(1)
	}
	for {
		if _, err := unix.Wait4(s.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// killEscaped collects, when every job has ended, the children that killRest did
// not know for a job's. What this process starts itself stays in its session.
func (x *Executor) killEscaped() {
	session, err := unix.Getsid(0)
	if err != nil {
		return
	}
	for more := true; more; {
		more = false
		for _, s := range all() {
			if s.parent == os.Getpid() && s.session != session {
				more = x.collect(s) || more
			}
		}
	}
}

// clientLimit bounds how long a job that has ended waits for the connections of
// its processes to close: a killed one may have gigabytes to give back first.
const clientLimit = 10 * time.Second

// awaitClients returns when the server has heard the last of the job's
// processes. Those that are connected yet are no descendants of the job, which
// had somebody else start them; they end with it all the same.
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
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.hasClient(job) {
		return
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
	if late {
		x.config.Warn("job %d: a process that it did not start itself outlives it", job)
	}
}
