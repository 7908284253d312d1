package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// AwaitEnd returns when a child has ended. It does not collect the child, which keeps its PID. The
// wait takes a descriptor (a pidfd in the runtime's poller), or a thread if no descriptor is free.
func AwaitEnd(pid int) {
	if fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err == nil {
		end := os.NewFile(uintptr(fd), "pidfd")
		defer end.Close()
		if poller, err := end.SyscallConn(); err == nil && poller.Read(func(uintptr) bool { return ended(pid, unix.WNOHANG) }) == nil {
			return
		}
	}
	ended(pid, 0)
}

// ended waits for a child unless options has WNOHANG, and reports whether it has ended. A child
// that was already collected has ended.
func ended(pid, options int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0 // waitid(2): 0 if no child has ended
		}
	}
}
