package live

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Members of a job's group that may not be killed, because they run as another user, do
// not keep the job from ending.
func TestReapGroupLeavesWhatItMayNotKill(t *testing.T) {
	if err := becomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []bool{false, true} {
		leader := exec.Command("sh", "-c", "sleep 600 & exit 0")
		leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := leader.Run(); err != nil {
			t.Fatal(err)
		}
		group := leader.Process.Pid
		kill := unix.Kill
		if forbidden {
			kill = func(int, syscall.Signal) error { return unix.EPERM }
		}
		if left := reapGroup(group, kill); left != forbidden {
			t.Errorf("forbidden %v: left %v", forbidden, left)
		}
		if err := unix.Kill(-group, 0); (err == nil) != forbidden {
			t.Errorf("forbidden %v: the group: %v", forbidden, err)
		}
		reapGroup(group, unix.Kill)
	}
}
