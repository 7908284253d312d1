package ballast

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func childOf(t *testing.T, pid int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lists {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			child, err := strconv.Atoi(fields[0])
			if err != nil {
				t.Fatal(err)
			}
			return child
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

// pidfdOpen opens a process that is not our child, so that the test can wait for its end.
func pidfdOpen(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

func waitGone(t *testing.T, process *os.File) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(process.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Error("the process outlived its parent by 10 s")
	}
}
