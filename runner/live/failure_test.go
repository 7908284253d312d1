package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store/disktest"
)

// What has run out is not the job's doing, and the message says what to do.
func TestLacks(t *testing.T) {
	for _, c := range []struct {
		errno unix.Errno
		says  string // "": it is the job's
	}{
		{unix.EMFILE, "ulimit -n"}, {unix.ENFILE, "fs.file-max"}, {unix.EAGAIN, "ulimit -u"}, {unix.ENOMEM, "memory"},
		{unix.ENOSPC, "inodes"}, {unix.EDQUOT, "quota"}, {unix.EIO, "dmesg"},
		{unix.ENOENT, ""}, {unix.EACCES, ""}, {unix.ENOEXEC, ""}, {unix.E2BIG, ""}, {unix.ETXTBSY, ""},
	} {
		err := fmt.Errorf("start: %w", &fs.PathError{Op: "fork/exec", Path: "/bin/x", Err: c.errno})
		got := lack(err)
		if notTheJobs(got) != (c.says != "") || !errors.Is(got, c.errno) || !strings.Contains(got.Error(), c.says) || !strings.Contains(got.Error(), "/bin/x") {
			t.Errorf("%v: %v, want it to say %q", c.errno, got, c.says)
		}
		if got := unwritable(err); !notTheJobs(got) || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%v of an output file: %v", c.errno, got)
		}
	}
}

// A program that vanishes, or cannot be run, is the job's: the run goes on.
func TestProgramThatCannotRun(t *testing.T) {
	r := newRig(t, "case-alg3").job("exit:0")
	script := func(text string) {
		path := filepath.Join(r.dir, fmt.Sprintf("script-%d", len(r.jobs)))
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		r.jobs = append(r.jobs, mixes.Job{Name: "script", Program: path})
	}
	says := []string{"", "no such file", "exec format error: let a script begin with a line such as #!/bin/sh",
		"its interpreter /nowhere/python, which its first line names, cannot be found", "its first line ends with a carriage return",
		"exit status 127: its first line ends with a carriage return"}
	for _, text := range []string{"", "no program", "#!/nowhere/python\n", "#!/bin/sh\r\n", "#!/usr/bin/env sh\r\n"} {
		script(text)
	}
	jobs, _ := r.mustRun()
	for i, j := range jobs {
		if j.Outcome.Crashed() != (i > 0) || !strings.Contains(j.Detail, says[i]) || i > 1 && strings.Contains(j.Detail, "no such file") {
			t.Errorf("job %d: %s (%s), want %q", i, *j.Outcome, j.Detail, says[i])
		}
	}
}

// noProcesses has every fork of this process fail as at the user's limit. Threads go on.
func noProcesses(t *testing.T) {
	t.Helper()
	const nr, firstArgument = 0, 16 // in struct seccomp_data
	load, equal, set, answer := uint16(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS), uint16(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K),
		uint16(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K), uint16(unix.BPF_RET|unix.BPF_K)
	filter := []unix.SockFilter{
		{Code: load, K: nr},
		{Code: equal, K: unix.SYS_CLONE3, Jt: 3}, // its flags are out of reach: callers fall back to clone
		{Code: equal, K: unix.SYS_CLONE, Jf: 4},
		{Code: load, K: firstArgument},
		{Code: set, K: unix.CLONE_THREAD, Jt: 2, Jf: 1},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAGAIN)},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Fatal(errno)
	}
}

// Jobs that run when the user may have no more processes are stopped, and those that
// cannot be started have not crashed.
func TestNoProcessesLeft(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	r := newRig(t, "sa").sh("exec cat pipe").sh("exec cat pipe").job("exit:0").job("exit:0")
	if err := unix.Mkfifo(filepath.Join(r.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.began = make(chan int, 4)
	go func() {
		<-r.began
		<-r.began
		noProcesses(t)
		if err := os.WriteFile(filepath.Join(r.dir, "pipe"), nil, 0); err != nil { // one of them ends at least
			t.Error(err)
		}
	}()
	jobs, _, err := r.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ulimit -u") {
		t.Errorf("error %v, want one that says what to do", err)
	}
	if n := slices.Index(outcomes(jobs), results.NotStarted); n < 2 {
		t.Errorf("outcomes %v, want a later job not started", outcomes(jobs))
	}
	for i, o := range outcomes(jobs) {
		if o.Crashed() {
			t.Errorf("job %d: %s (%s)", i, o, jobs[i].Detail)
		}
	}
}
