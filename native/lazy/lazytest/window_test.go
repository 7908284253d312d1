package lazytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/schedulers"
)

// startWindowed starts the program in a run that says how much work may be submitted.
func startWindowed(t *testing.T, window time.Duration, version, program string, env ...string) (*lazyRun, *probe.Server) {
	t.Helper()
	s, r := startRevoking(t, probe.Config{Chunk: moving.Chunk, Window: window})
	return prepareLazyAt(t, s, r, version, "lazy_program", program, append([]string{movable}, env...)...).start(), s
}

// submissionsOf waits until the process has submitted so many kernels and copies.
func submissionsOf(t *testing.T, e event, n int64) {
	t.Helper()
	tick, timeout := time.NewTicker(time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		if a, known := e.server.Activity(e.Process); known && a.Submissions >= n {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("there are not %d submissions", n)
		}
	}
}

// A program that launches 1,000 kernels of 50 ms has about a window of them submitted when memory is
// taken from it. Without a window it has nearly all.
func TestLazyKeepsAWindowOfWorkSubmitted(t *testing.T) {
	for window, launches := range map[time.Duration]int64{500 * time.Millisecond: 30, 0: 900} {
		p, s := startWindowed(t, window, "13", "far_ahead", "FAKE_CUDA_KERNEL_US=50000")
		begin := p.r.next(t, "begin")
		grant(t, begin)
		submissionsOf(t, begin, launches)
		mustRevoke(t, s, begin.ID, 1, schedulers.Revocation{Action: schedulers.Evict, Bytes: 1 << 30, Deadline: patience})
		line := p.line()
		var ahead int
		if _, err := fmt.Sscanf(line, "%d ahead", &ahead); err != nil {
			t.Fatalf("the program said %q: %v", line, err)
		}
		// The window, the kernel that runs, and the next.
		if most := int(window/(50*time.Millisecond)) + 2; window > 0 && ahead > most || window == 0 && ahead < 500 {
			t.Errorf("a window of %v: %d kernels ahead, want at most %d", window, ahead, most)
		}
		_ = p.cmd.Process.Kill() // what is submitted would take a minute
	}
}

// A stream may wait for the thread that submits.
func TestLazyWindowLetsStreamsWaitForTheHost(t *testing.T) {
	for _, version := range cudaVersions {
		p, _ := startWindowed(t, 5*time.Millisecond, version, "behind_the_host", "FAKE_CUDA_KERNEL_US=100")
		p.finish(grant).mustSucceed()
		p.wantNative()
	}
}

// The window changes no result, no error and no capture, where each launch may wait and where none does.
func TestLazyWindowChangesNothing(t *testing.T) {
	for i, version := range cudaVersions {
		windows := []time.Duration{10 * time.Millisecond, time.Microsecond, 10 * time.Second}
		if i > 0 {
			windows = windows[:1]
		}
		for _, window := range windows {
			for _, env := range []string{"FAKE_CUDA_KERNEL_US=200", "FAKE_CUDA_KERNEL_US=0", "CASE_RECORD_LIMIT=0"} {
				p, _ := startWindowed(t, window, version, "windowed", env)
				p.finish(grant).mustSucceed()
				p.wantNative()
				p.wantNothingLeft()
			}
		}
	}
}
