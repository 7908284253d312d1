package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
)

// HolderLives reports whether the process of a run or a sweep that is recorded as running
// still lives. A process of another host counts as living, because this host cannot tell. A
// signal may not reach another user's process, which lives all the same. A record with this
// process's own number is of a dead process that had the number before, because a process
// opens the store before it begins anything.
func HolderLives(host string, pid int) bool {
	here, _ := os.Hostname() // empty where the system does not tell, as in a run's row
	if host != here {
		return true
	}
	err := unix.Kill(pid, 0)
	return pid != os.Getpid() && (err == nil || errors.Is(err, unix.EPERM))
}

// Standing is a sweep's status. A sweep whose process died without storing that is
// interrupted.
func Standing(w results.Sweep) results.Status {
	if w.Status == results.Running && !HolderLives(w.Host, *w.PID) {
		return results.Interrupted
	}
	return w.Status
}
