package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// onHostS is how long kernels of the small node take for so many GiB on the host.
func onHostS(gibs float64) float64 { return gibs / (36.0 / 63) }

// advised are what a run has of advice, as time, job and GiB that go out.
func advised(rec *tape) (all []string) {
	for _, s := range rec.Swaps {
		if s.Action == schedulers.Advise.String() {
			all = append(all, fmt.Sprintf("%.1f:%d:%s:%d", s.StartS, s.Job, s.Outcome, s.Bytes/gib))
		}
	}
	return all
}

func wantAdvised(t *testing.T, rec *tape, want ...string) {
	t.Helper()
	if got := advised(rec); !slices.Equal(got, want) {
		t.Errorf("advised %q, want %q", got, want)
	}
}

// A burst starts at once beside a long kernel that keeps to its quota. What is beyond its own quota its kernels use on the host, and
// it comes with the burst after there is room.
func TestKernelsUseMemoryOnTheHost(t *testing.T) {
	a := allocate("a", "5GiB") + kernel(1, 20, "") + free("a")
	b := host(2) + allocate("b", "8GiB") + kernel(1, 4, "") + kernel(1, 4, "") + kernel(1, 4, "") + free("b")
	jobs, rec := stepping(t, small(t, 1), "madvise", a, b).must(t)
	wantOutcome(t, jobs[0], results.OK, 20)
	wantOutcome(t, jobs[1], results.OK, 2+2*(4+onHostS(3))+moving(3, 3)+4)
	wantAdvised(t, rec, "20.0:1:done:0")
}

// A process gives what it has beyond its quota once its kernel ends. Who has been left less than its quota starts anew with that.
func TestQuotasAreSettledAtTheEndsOfKernels(t *testing.T) {
	a := allocate("a", "8GiB") + kernel(1, 10, "") + kernel(1, 10, "") + free("a")
	b := host(2) + allocate("b", "8GiB") + kernel(1, 4, "") + kernel(1, 20, "") + free("b")
	jobs, rec := stepping(t, small(t, 1), "madvise", a, b).must(t)
	wantAdvised(t, rec, "2.0:0:busy:0", "2.2:0:done:3", "15.0:1:done:0", "18.1:0:done:0", "30.3:1:done:0")
	if *jobs[0].Outcome != results.OK || *jobs[1].Outcome != results.OK {
		t.Error(jobs)
	}
}

// What a process has touched of managed memory beyond its quota stays where it is. What it touches more is used on the host, without
// page faults, as long as all of it does not fit.
func TestManagedMemoryBeyondTheQuotaStaysOnTheHost(t *testing.T) {
	const sweep = `, "writes": ["a"], "access": {"a": "cyclic 4"}`
	job := func(start float64) string {
		return managed("a", "7GiB") + host(start) + kernel(400, 1, sweep) + kernel(400, 1, sweep) + free("a")
	}
	ends := map[string]float64{}
	for _, scheduler := range []string{"demand", "madvise"} {
		n := small(t, 1)
		n.Groups[0].LinkBytesPerS = 63e9
		jobs, rec := stepping(t, n, scheduler, job(0.1), job(0.2)).must(t)
		ends[scheduler] = *jobs[1].EndS
		if all := advised(rec); (scheduler == "madvise") != (len(all) > 1) {
			t.Errorf("%s: advised %q", scheduler, all)
		}
	}
	if ends["madvise"] > ends["demand"]/2 {
		t.Errorf("the jobs end at %v s", ends)
	}
}
