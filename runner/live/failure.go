package live

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
)

// failure is an error that says nothing about a job, because the harness or its machine lacks
// a resource.
type failure struct {
	err    error
	remedy string
}

func (f *failure) Error() string { return f.err.Error() + ": " + f.remedy }

func (f *failure) Unwrap() error { return f.err }

// notTheJobs reports whether err is a failure.
func notTheJobs(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

// lacks says what to do about the errors of system calls that mean that the process or the
// machine has run out of a resource.
var lacks = map[unix.Errno]string{
	unix.EMFILE: "raise the limit of open files (ulimit -n), or run fewer jobs at once (--workers)",
	unix.ENFILE: "the machine has no open files left: raise fs.file-max (sysctl), or run fewer jobs at once (--workers)",
	unix.EAGAIN: "no process may be added: raise the limit of processes (ulimit -u, or pids.max of the control group), or end what other programs have started",
	unix.ENOMEM: "the machine has no memory left: end other programs, or run fewer jobs at once (--workers)",
	unix.ENOSPC: "no space or no inodes are left: free some, or name another directory with --runs",
	unix.EDQUOT: "the disk quota is used up: free some space or inodes, or name another directory with --runs",
	unix.EIO:    "the disk does not work: see dmesg, or name another directory with --runs",
}

// lack returns err as a failure if a resource has run out, and unchanged otherwise.
func lack(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) && lacks[errno] != "" {
		return &failure{err, lacks[errno]}
	}
	return err
}

// unwritable returns err, of a file in the run's directory, as a failure.
func unwritable(err error) error {
	if err = lack(err); notTheJobs(err) {
		return err
	}
	return &failure{err, "jobs must leave the run's directory alone; name another one with --runs"}
}

// fail ends the run, which is not a measurement, because no job caused err. Jobs that run are
// stopped, and no other job starts.
func (x *Executor) fail(err error) {
	x.mu.Lock()
	first := x.failed == nil
	if first {
		x.failed = err
	}
	x.mu.Unlock()
	if !first {
		return
	}
	x.cancelled.Store(true)
	x.post(runner.Fail{Err: err})
}

// whyFailed is the first error that fail was given, or nil.
func (x *Executor) whyFailed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed
}

// descriptorsPerProcess is how many descriptors a process of a job takes: one to wait for the
// process, one to see its end, two for its connection, and two of its output files.
const descriptorsPerProcess = 6

// checkDescriptors warns if the limit of open files may be too low for so many jobs at once, each of up to so many processes.
// Go's runtime has raised the soft limit to the hard limit. Jobs start with the soft limit
// that caserun was started with.
func checkDescriptors(jobs, processes int, warn func(format string, args ...any)) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return
	}
	const others = 2 * probe.Reserved // the store, the helpers, and what connections leave free
	if need := uint64(jobs*processes*descriptorsPerProcess + others); need > limit.Cur {
		warn("%d jobs at once may take %d file descriptors and the limit is %d: raise it (ulimit -n), or run fewer at once (--workers)", jobs, need, limit.Cur)
	}
}

// spent returns EMFILE if fd is one of the last descriptors, which the harness keeps so that
// it can clean up.
func spent(fd uintptr) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && uint64(fd)+probe.Reserved >= limit.Cur {
		return unix.EMFILE
	}
	return nil
}
