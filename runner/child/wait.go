package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// AwaitEnd returns when a child has ended. The child keeps its number until somebody
// collects it. The wait takes a descriptor, a pidfd in the runtime's poller, and no
// thread. Without a free descriptor it takes a thread instead.
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

// ended reports whether a child has ended, after waiting for it unless options has
// WNOHANG. One that somebody else has collected has ended too.
func ended(pid, options int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0 // waitid(2): 0 where no child has ended
		}
	}
}
