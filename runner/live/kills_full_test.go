//go:build full

package live

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
)

// Whoever is killed beside a kernel without end, which is stopped for others: nothing is held, and the others compute what they should.
func TestKilledWhileKernelsStop(t *testing.T) {
	calls := []string{"cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyAsync", "cuMemUnmap", "cuMemMap", "cuMemRelease", "cuMemImportFromShareableHandle", "cuLaunchKernel"}
	kills := 0
	for seed := range chance.Seeds(t, 16, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(seed, 0))
			r := newSwapRig(t, []string{"mfit:wait=20ms", "amfit:wait=20ms"}[draw.IntN(2)], 3, "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_KERNEL_US=500", fmt.Sprint("STOPS_MIB=", jobMoves/mebibyte))
			r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
			r.device.CapacityBytes += 2 * (jobHeap + smallContext)
			r.jobs[0].Args, r.jobs[0].UntilOthersEnd = []string{"stops", "/nowhere"}, true
			r.jobs[1].Args, r.jobs[2].Args = []string{"stops", "rounds"}, []string{"stops", "rounds"}
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
