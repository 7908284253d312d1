//go:build full

package live

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// Beside pagedos, whose kernel has no end, each of PILOT's programs gives the result that it gives alone. pagedos ends with the run.
func TestProgramsBesideAKernelWithoutEnd(t *testing.T) {
	programs := []string{"backprop --size 1000 --rounds 3", "bfs --size 3000 --rounds 1", "hs3d --size 64 --rounds 9", "partfilter --size 128 --rounds 1",
		"lavamd --size 2 --rounds 2", "nn --size 40000 --rounds 3", "gaussian --size 200", "corr --size 60 --rounds 2", "gesummv --size 100 --rounds 4", "2dconvol --size 100 --rounds 5"}
	targets := []string{"build/pagedos"}
	for _, p := range programs {
		targets = append(targets, "build/"+strings.Fields(p)[0])
	}
	dir := nativetest.Build(t, "../benchmarks/pilot", targets...)
	run := func(t *testing.T, sched string, lines ...string) (*rig, []results.Job, *tape) {
		r := newSwapRig(t, sched, len(lines), "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_KERNEL_US=100")
		r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
		r.device.CapacityBytes = 2*(jobHeap+smallContext) + jobMoves // what pagedos has, and nothing for the other beside it
		for i, line := range lines {
			runsProgram(&r.jobs[i], dir, line)
		}
		jobs, rec := r.mustRun()
		return r, jobs, rec
	}
	stops := 0
	for _, program := range programs {
		alone, _, _ := run(t, "sa", program+" --verify")
		want := alone.output(0)
		for _, sched := range []string{"mfit:wait=20ms", "amfit:wait=20ms"} {
			t.Run(program+"/"+sched, func(t *testing.T) {
				r, jobs, rec := run(t, sched, fmt.Sprintf("pagedos --rounds 0 --size %dMiB", jobMoves/mebibyte), program+" --verify")
				for i, j := range jobs {
					if *j.Outcome != results.OK {
						t.Errorf("job %d: %s: %s\n%s", i, *j.Outcome, j.Detail, r.output(i))
					}
				}
				if got := r.output(1); got != want || !strings.Contains(got, "checksum") {
					t.Errorf("beside pagedos:\n%s\nalone:\n%s", got, want)
				}
				if slices.ContainsFunc(rec.swaps, func(s results.Swap) bool { return s.Action == schedulers.Stop.String() }) {
					stops++
				}
				r.wantWholeArea()
			})
		}
	}
	if stops == 0 {
		t.Error("pagedos was never stopped, so that little was checked")
	}
}

// runsProgram has a job run one of PILOT's programs, pagedos until the others end.
func runsProgram(j *mixes.Job, dir, line string) {
	words := strings.Fields(line)
	j.Program, j.Args = filepath.Join(dir, "build", words[0]), append(words[1:], "--threads", "32", "--blocks", "3")
	j.UntilOthersEnd = words[0] == "pagedos"
}

// Jobs go on beside one that is larger than the device: it may be asked for memory before what was granted to it is there, and while it
// waits for room on the host.
func TestBesideOneThatIsLargerThanTheDevice(t *testing.T) {
	dir := nativetest.Build(t, "../benchmarks/pilot", "build/pagedos", "build/vectoradd")
	for _, sched := range []string{"mfit:wait=20ms,estimate=allocated", "amfit:wait=20ms"} {
		for n := range 6 {
			t.Run(fmt.Sprint(sched, "/", n), func(t *testing.T) {
				r := newSwapRig(t, sched, 2, "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_KERNEL_US=3000")
				r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
				r.device.CapacityBytes = 2*(jobHeap+smallContext) + jobMoves
				runsProgram(&r.jobs[0], dir, fmt.Sprintf("vectoradd --size %dMiB --rounds 30 --verify", jobMoves/mebibyte/4))
				runsProgram(&r.jobs[1], dir, fmt.Sprintf("pagedos --burst 20 --size %dMiB", 2*jobMoves/mebibyte))
				r.jobs[1].MaxWait = ample
				jobs, _ := r.mustRun()
				for i, j := range jobs {
					if *j.Outcome != results.OK {
						t.Errorf("job %d: %s: %s\n%s", i, *j.Outcome, j.Detail, r.output(i))
					}
				}
				r.wantWholeArea()
			})
		}
	}
}
