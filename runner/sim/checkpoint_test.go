package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

// checkpointing is a trial with one slot, whose jobs have 6 GiB each.
func checkpointing(t *testing.T, steps ...string) trial {
	r := stepping(t, small(t, 1), "vgpu-preempt:n=1,via=checkpoint", steps...)
	for i := range r.jobs {
		r.jobs[i].Footprint.Bytes = 6 * gib
	}
	return r
}

const (
	checkpointOut = 0.1 + 6.0*gib/2e9
	checkpointIn  = 0.1 + 6.0*gib/5e9
)

// gives is a job that is taken out with its 6 GiB, and comes one that is brought back.
func gives(job int, start, drain float64) results.Swap {
	return results.Swap{Job: job, Direction: schedulers.Out, Action: "yield", Outcome: schedulers.Done, StartS: start, EndS: start + drain + checkpointOut, Bytes: 6 * gib,
		DrainS: drain, CopyS: checkpointOut, ResidentBytes: new(int64(0)), FixedBytes: new(int64(0)), LostS: new(0.0)}
}

func comes(job int, start float64) results.Swap {
	return results.Swap{Job: job, Direction: schedulers.In, Outcome: schedulers.Done, StartS: start, EndS: start + checkpointIn, Bytes: 6 * gib, CopyS: checkpointIn}
}

// A job that has had its slot for long enough while another waits is taken out as a whole, and waits for the slot again at once.
func TestWholeJobsTakeTurns(t *testing.T) {
	steps := allocate("x", "6GiB") + kernel(1, 1, "") + host(30) + kernel(1, 1, "")
	jobs, rec := checkpointing(t, steps, steps).must(t)
	first, second := 10+checkpointOut, 2*(10+checkpointOut) // when each is out
	want := []results.Swap{gives(0, 10, 0), gives(1, first+10, 0), comes(0, second), comes(1, 32)}
	if diff := cmp.Diff(want, rec.Swaps, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("swaps (-want +got):\n%s", diff)
	}
	wantOutcome(t, jobs[0], results.OK, 32)
	wantOutcome(t, jobs[1], results.OK, first+32)
}

// What a job has given the device ends before it goes out. If that takes too long, the job keeps its slot, and is not asked again.
func TestKernelsEndBeforeACheckpoint(t *testing.T) {
	steps := allocate("x", "6GiB") + host(5) + kernel(1, 8, "") + host(9)
	jobs, rec := checkpointing(t, steps, host(1)).must(t)
	if diff := cmp.Diff([]results.Swap{gives(0, 10, 3), comes(0, 13+checkpointOut+1)}, rec.Swaps, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("swaps (-want +got):\n%s", diff)
	}
	wantOutcome(t, jobs[0], results.OK, 22)
	long := allocate("x", "6GiB") + kernel(1, 50, "")
	jobs, rec = checkpointing(t, long, host(1)).must(t)
	if len(rec.Swaps) != 1 || rec.Swaps[0].Outcome != schedulers.Unable || rec.Swaps[0].Why != "work that it had given the GPU did not end within 10s" {
		t.Errorf("swaps %+v", rec.Swaps)
	}
	wantOutcome(t, jobs[1], results.OK, 51)
	_, rec = checkpointing(t, managed("x", "1GiB")+kernel(1, 20, ""), host(1)).must(t)
	if len(rec.Swaps) != 1 || rec.Swaps[0].Outcome != schedulers.Unable || rec.Swaps[0].Why != "it has managed memory" {
		t.Errorf("swaps %+v", rec.Swaps)
	}
}

// Jobs that are stopped while they are taken out, are out or come back leave nothing.
func TestACheckpointIsStopped(t *testing.T) {
	steps := allocate("x", "6GiB") + kernel(1, 1, "") + host(30) + kernel(1, 1, "")
	for ms := range 40 {
		r := checkpointing(t, steps, steps)
		r.timeout = 10*time.Second + time.Duration(ms*500+1)*time.Millisecond
		if _, _, err := r.clean(t.Context()); err != nil {
			t.Errorf("stopped after %v: %v", r.timeout, err)
		}
	}
}
