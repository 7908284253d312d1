//go:build full

package live

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

var stoppers = []string{"mfit:wait=20ms", "amfit:wait=20ms"}

// twoBesideAKernelWithoutEnd has jobs for which the kernel of the first is stopped again and again.
func twoBesideAKernelWithoutEnd(t *testing.T, sched string) *rig {
	r := newSwapRig(t, sched, 3, "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_KERNEL_US=500", fmt.Sprint("STOPS_MIB=", jobMoves/mebibyte))
	r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
	r.device.CapacityBytes += 2 * (jobHeap + smallContext)
	r.jobs[0].Args, r.jobs[0].UntilOthersEnd = []string{"stops", "/nowhere"}, true
	r.jobs[1].Args, r.jobs[2].Args = []string{"stops", "rounds"}, []string{"stops", "rounds"}
	return r
}

// Whoever is killed beside a kernel without end, which is stopped for others: nothing is held, and the others compute what they should.
func TestKilledWhileKernelsStop(t *testing.T) {
	calls := []string{"cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyAsync", "cuMemUnmap", "cuMemMap", "cuMemRelease", "cuMemImportFromShareableHandle", "cuLaunchKernel"}
	kills := 0
	for seed := range chance.Seeds(t, 16, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(seed, 0))
			r := twoBesideAKernelWithoutEnd(t, stoppers[draw.IntN(2)])
			victim := draw.IntN(3)
			where := fmt.Sprintf("%s:%d", calls[draw.IntN(len(calls))], 1+draw.IntN(6))
			r.jobs[victim].Env = append(r.jobs[victim].Env, "FAKE_CUDA_KILL="+where)
			jobs, rec := r.mustRun()
			for i, j := range jobs {
				killed := j.Signal != nil && *j.Signal == "SIGKILL" && i == victim && *j.Outcome != results.OK
				if killed {
					kills++
				}
				if *j.Outcome != results.OK && !killed {
					t.Errorf("job %d: %s: %s, with job %d killed at %s", i, *j.Outcome, j.Detail, victim, where)
				}
				if out := r.output(i); i > 0 && !killed && strings.Count(out, "rounds: right") != 3 {
					t.Errorf("job %d, with job %d killed at %s:\n%s", i, victim, where, out)
				}
			}
			r.wantWholeArea()
			for key, task := range rec.tasks {
				if task.GrantS != nil && task.ReleaseS == nil {
					t.Errorf("task %v was granted and never released", key)
				}
			}
		})
	}
	if kills == 0 {
		t.Error("nobody was killed")
	}
}

// killAfter is set in a process that is a harness: it kills itself so many events after it has asked for its first stop.
const killAfter = "KILL_AFTER_A_STOP"

// A harness that is killed while a kernel is to stop, or comes back, leaves no process of its own or of a job, and these have what is held.
func TestHarnessIsKilledWhileKernelsStop(t *testing.T) {
	if left, err := strconv.Atoi(os.Getenv(killAfter)); err == nil {
		killAHarness(t, stoppers[left%2], left)
		return
	}
	for seed := range chance.Seeds(t, 8, 100) {
		after := rand.New(rand.NewPCG(seed, 1)).IntN(40)
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			held, holds, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			t.Setenv("TMPDIR", t.TempDir())
			c := exec.Command(os.Args[0], "-test.run=^TestHarnessIsKilledWhileKernelsStop$")
			c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", killAfter, after))
			c.ExtraFiles = []*os.File{holds} // which all its descendants have
			out, _ := c.CombinedOutput()
			holds.Close()
			if c.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%v: %s", c.ProcessState, out)
			}
			if _, err := io.ReadAll(held); err != nil { // ends with the last of them
				t.Fatal(err)
			}
		})
	}
}

func killAHarness(t *testing.T, sched string, left int) {
	r := twoBesideAKernelWithoutEnd(t, sched)
	stops := false
	r.observe = func(s runner.Step) {
		stops = stops || slices.ContainsFunc(s.Commands, func(c runner.Command) bool {
			r, ok := c.(runner.Revoke)
			return ok && r.Decision.Revocation.Action == schedulers.Stop
		})
		if !stops {
			return
		}
		if left--; left < 0 {
			for _, p := range r.x.running() {
				if _, err := os.Stat(fmt.Sprintf("/proc/%d/fd/3", p.pid)); err != nil {
					t.Error(err) // nobody would wait for its end
					return
				}
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	r.mustRun()
}
