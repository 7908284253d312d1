package live

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/results"
)

// newGrowingRig has a device of so much memory for jobs that grow, each by a seed, to no more than 32 MiB.
func newGrowingRig(t *testing.T, sched string, bytes int64, seeds ...int) *rig {
	t.Helper()
	r := newSwapRig(t, sched, len(seeds), "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_KERNEL_US=0")
	r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
	r.device.CapacityBytes = bytes
	if !strings.HasPrefix(sched, "vgpu") && !strings.HasPrefix(sched, "demand") {
		r.swap = nil
	}
	for i, seed := range seeds {
		j := &r.jobs[i]
		j.Name, j.Args, j.CheckStatus, j.Restartable = "grows", []string{"grows", fmt.Sprint(seed)}, 4, new(true)
	}
	return r
}

// Four jobs that grow step by step to 20 MiB all end ok. There are 28 MiB for all of them, and each has its first 4 before any
// grows. So none can go on by itself, and where memory does not move some are started again.
func TestGrowersLoseNoJob(t *testing.T) {
	for _, sched := range []string{"case-alg3", "vgpu:n=4", "demand"} {
		t.Run(sched, func(t *testing.T) {
			r := newGrowingRig(t, sched, 4*(jobHeap+smallContext)+28*mebibyte, 0, 0, 0, 0)
			r.meet()
			jobs, rec := r.mustRun()
			restarts := 0
			for i, j := range jobs {
				if *j.Outcome != results.OK || r.output(i) != "right\n" {
					t.Errorf("job %d: %s: %s\n%s", i, *j.Outcome, j.Detail, r.output(i))
				}
				if j.Restarts == nil {
					continue
				}
				restarts += *j.Restarts
				for n := range *j.Restarts {
					if text, err := os.ReadFile(filepath.Join(r.dir, "out", fmt.Sprintf("job-%04d-try-%d.out", i, n+1))); err != nil || len(text) > 0 {
						t.Errorf("output of try %d: %q, %v", n+1, text, err)
					}
				}
			}
			events := 0
			for _, e := range rec.events {
				switch e.Kind {
				case results.EventRestarted:
					events++
				case results.EventRefused, results.EventFiles:
					t.Errorf("%+v", e)
				}
			}
			if takes := sched != "case-alg3"; events != restarts || !takes && restarts == 0 {
				t.Errorf("%d restarts, %d events", restarts, events)
			}
		})
	}
}

// Programs whose memory grows at random compute what they should, under each scheduler, and none is refused that could have run alone.
func TestRandomGrowers(t *testing.T) {
	randomGrowers(t, 1+int(chance.Seed()<<12%(1<<20)), chance.Count(2, 100))
}

func randomGrowers(t *testing.T, first, count int) {
	t.Helper()
	const together = 5
	scheds := []string{"case-alg3", "vgpu:n=4", "demand", "schedgpu", "case-alg2"}
	for n := range count {
		seed := first + n
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			var seeds []int
			for i := range together {
				seeds = append(seeds, together*seed+i)
			}
			r := newGrowingRig(t, scheds[seed%len(scheds)], 64*mebibyte, seeds...)
			jobs, _, err := r.run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for i, j := range jobs {
				if *j.Outcome != results.OK || r.output(i) != "right\n" {
					t.Errorf("%s, job %d of seed %d: %s: %s\n%s", r.sched, i, seeds[i], *j.Outcome, j.Detail, r.output(i))
				}
			}
		})
	}
}
