package live

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
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
		if left := reapGroup(group, kill, 20*time.Millisecond); left != forbidden {
			t.Errorf("forbidden %v: left %v", forbidden, left)
		}
		if err := unix.Kill(-group, 0); (err == nil) != forbidden {
			t.Errorf("forbidden %v: the group: %v", forbidden, err)
		}
		reapGroup(group, unix.Kill, forbiddenLimit)
	}
}

// No job's standard input keeps other jobs from being started, and a pipe that is open
// reads as any.
func TestStandardInputNeverWaitsToBeOpened(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	r := newRig(t, "zero").sh("exit 0").sh("cat").sh("head -c 1 | wc -c")
	r.jobs[0].Stdin, r.jobs[1].Stdin, r.jobs[2].Stdin = "fifo", fmt.Sprintf("/dev/fd/%d", reader.Fd()), "/dev/zero"
	_, writeErr := io.WriteString(writer, "through the pipe")
	if err := errors.Join(writeErr, writer.Close(), unix.Mkfifo(filepath.Join(r.dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	jobs, _ := r.mustRun()
	if got := outcomes(jobs); !slices.Equal(got[1:], []results.Outcome{results.OK, results.OK}) || got[0] == results.OK {
		t.Errorf("outcomes %v", got)
	}
	if want := filepath.Join(r.dir, "fifo") + ": it is a pipe or FIFO"; !strings.Contains(jobs[0].Detail, want) {
		t.Errorf("the first job: %q, want %q", jobs[0].Detail, want)
	}
	if got := r.output(1); got != "through the pipe" {
		t.Errorf("the second job read %q", got)
	}
	if got := r.output(2); got != "1\n" {
		t.Errorf("the third job read %q bytes", got)
	}
}

// A job's end is seen although it made its output file one that would have to be waited for.
func TestEndOfAJobThatMadeItsOutputAFIFO(t *testing.T) {
	jobs, _ := newRig(t, "zero").sh("rm out/job-0000.err && mkfifo out/job-0000.err").mustRun()
	if *jobs[0].Outcome != results.OK || jobs[0].StderrTail != "" {
		t.Errorf("outcome %s, tail %q", *jobs[0].Outcome, jobs[0].StderrTail)
	}
}
